"""What conformance is made of, as records: kernels, their launches, and what became of each. Runs nothing."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evoflash.conformance.primitives import Case, Primitive
from evoflash.emulator.tensor_map import Swizzle
from evoflash.evaluation import Launch

Array: TypeAlias = NDArray[Any]
Kind = Literal["bits", "f32", "f16", "bf16"]  # what a result's words are: of floats, every NaN is one NaN

UNWRITTEN = 0xA5A5A5A5  # what results hold before the launch


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """An argument: the address of a buffer of the trial."""

    buffer: str


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """An argument: a tensor map over a buffer. Extents in elements, innermost first; strides in bytes."""

    buffer: str
    dtype: str  # "f16", "bf16" or "float"
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: Swizzle

    @property
    def element_bytes(self) -> int:
        return 4 if self.dtype == "float" else 2


Argument: TypeAlias = Pointer | Map | np.generic


@dataclass(frozen=True, slots=True)
class Label:
    """A case of the table: the entry's name and the case as text."""

    primitive: str
    case: str

    @staticmethod
    def of(primitive: Primitive, case: Case) -> "Label":
        return Label(primitive.name, str(case))


@dataclass(frozen=True, slots=True)
class Bound:
    """Approximations: how far results may be from the exact values, correctly rounded to floats, in units in
    the last place. With `flat`: from the exact values themselves, in units of 2^-23, absolute for inputs
    between the two, relative for others.
    """

    exact: Callable[[Array], Array]  # inputs as float64 -> results as float64, with what .ftz does
    ulp: int
    flat: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Launches of one kernel text on the same buffers, and the cases that their results are about.

    With several cases the leading axis of each result is theirs. `expected`: what NumPy says that results
    are, where it says anything.
    """

    cases: tuple[Label, ...]
    launches: tuple[Launch, ...]
    arguments: tuple[Argument, ...]
    inputs: Mapping[str, Array]
    results: Mapping[str, Array]  # written by the kernel: as they are before the launch
    kind: Kind = "bits"
    expected: Mapping[str, Array] = field(default_factory=dict)
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """One text for both compilers, and its trials, made when they are needed: their arrays are large."""

    name: str
    source: str
    labels: tuple[Label, ...]  # of all its trials' cases
    make: Callable[[], Iterator[Trial]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case: equal, or in `detail` what differs; of approximations the largest errors."""

    label: Label
    ok: bool
    detail: str = ""
    ulp: Mapping[str, float] = field(default_factory=dict)  # by where: "gpu", "emulator"
    end: Literal["compared", "crashed", "not run"] = "compared"  # crashed: or hung
