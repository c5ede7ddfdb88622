"""The records that the form of a call is made of, whatever the operation: kernel parameters and the C struct.

A form says in these words what its kernels take, in which struct an exported launcher is given it, and why it
refuses a call; templates/lib/interface.h.j2 and launcher.cu.j2 are written of them. Knows no tensor by name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evoflash.launch import TensorMapSpec

_KINDS = {
    np.uint64: "pointer",
    np.int32: "int32",
    np.int64: "int64",
    np.float32: "float32",
    np.void: "struct",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel, and what an exported launcher, in C++, passes for it."""

    name: str  # as kernels call it
    type: type[np.generic]
    source: str  # of the caller's struct, `args`, or of what was read from it
    launch_name: str = ""  # in launch.json; empty: the kernel's name in small letters

    @property
    def in_launch(self) -> str:
        """Kind and name in the words of launch.json."""
        return f"{_KINDS[self.type]} {self.launch_name or self.name.lower()}"


@dataclass(frozen=True, slots=True)
class StructField:
    """One field of the C struct that an exported launcher takes, or an array of `count`."""

    name: str
    type: str  # of C
    about: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a launcher refuses a call: a negative number; a positive one is a cudaError_t."""

    code: int
    name: str
    says: str
    compiled: str = ""  # what of the compile key it was compared with, by name


@dataclass(frozen=True, slots=True)
class CallStruct:
    """The C struct NAME_args of a form, as a version of evoflash has it."""

    name: str  # "evoflash_attention"; its version is the macro NAME_VERSION
    errors_begin: str  # each error is a constant of C, errors_begin_ERROR
    fields: tuple[StructField, ...]  # where their alignment wants them, so that there is no padding
    errors: tuple[CallError, ...]
    version: int = 1

    def names(self) -> dict[str, Any]:
        """What a form's C declarations and host part are made of."""
        return {
            "struct": f"{self.name}_args",
            "macro": self.name.upper(),
            "errors_begin": self.errors_begin,
            "version": self.version,
            "fields": self.fields,
            "errors": self.errors,
        }


def map_in_words(given: TensorMapSpec) -> dict[str, str]:
    """A tensor map in the launcher's words, but for its box and the axes of its tensor."""
    swizzle = f"{given.swizzle}B" if given.swizzle else "NONE"
    promotion = f"L2_{given.l2_promotion}B" if given.l2_promotion else "NONE"
    return {
        "tensor": given.of.lower(),
        "swizzle": f"CU_TENSOR_MAP_SWIZZLE_{swizzle}",
        "promotion": f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}",
    }


def parameters_of(parameters: Sequence[Parameter], *, has_workspace: bool) -> Sequence[Parameter]:
    """Those that a kernel takes: the last, the workspace, is missing where it has no global scratch."""
    return parameters if has_workspace else parameters[:-1]


def scalars(
    parameters: Sequence[Parameter], values: Iterable[float], *, workspace: int
) -> tuple[np.generic, ...]:
    """NumPy scalars in launch order of the values of all parameters but the workspace, an address or 0."""
    given = (*values, *([workspace] if workspace else []))
    kept = parameters_of(parameters, has_workspace=bool(workspace))
    return tuple(each.type(value) for each, value in zip(kept, given, strict=True))
