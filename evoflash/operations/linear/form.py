"""The form of a call of the linear layer: its tensors, its arguments, and what exports say of both.

One description for the emulator, the GPU and exported launchers in C++. Launches nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.launch import TensorMapSpec
from evoflash.operation import TensorSpec
from evoflash.operations.linear.workload import BLOCK, X_SCALE_STEP, LinearWorkload

_FOLDER = Path(__file__).parent
INTERFACE = _FOLDER / "interface.h.j2"
LAUNCHER = _FOLDER / "launcher.cu.j2"
_LONG_AXES = ("rows", "columns")
_GAP = 16  # elements behind each row of a caller's strided tensors, and more: no two tensors have the same


@dataclass(frozen=True, slots=True)
class LinearParameter:
    """One parameter of a kernel, and what an exported launcher, in C++, passes for it."""

    name: str  # as kernels call it
    type: type[np.generic]
    source: str  # of the caller's struct
    stride_of: str = ""  # a tensor, whose rows lie so far apart


# In launch order, after the tensor maps. A tensor that a workload lacks is a null pointer; but kernels of x
# in bf16 have no parameters of x's scales, and one without global scratch has no workspace.
PARAMETERS = (
    LinearParameter("X", np.uint64, "Codes{args.x}"),
    LinearParameter("W", np.uint64, "Codes{args.w}"),
    LinearParameter("SW", np.uint64, "args.w_scale"),
    LinearParameter("SX", np.uint64, "args.x_scale"),
    LinearParameter("B", np.uint64, "elements(args.bias)"),
    LinearParameter("R", np.uint64, "elements(args.residual)"),
    LinearParameter("Y", np.uint64, "elements(args.y)"),
    *(LinearParameter(name, np.int32, f"args.{name}") for name in ("m", "n", "k")),
    LinearParameter("x_row", np.int64, "rows.x", "X"),
    LinearParameter("w_row", np.int64, "rows.w", "W"),
    LinearParameter("sw_row", np.int64, "rows.w_scale", "SW"),
    LinearParameter("sx_row", np.int64, "rows.x_scale", "SX"),
    LinearParameter("r_row", np.int64, "rows.residual", "R"),
    LinearParameter("y_row", np.int64, "rows.y", "Y"),
    LinearParameter("workspace", np.uint64, "Scratch{args.workspace}"),
)


def tensors(workload: LinearWorkload) -> tuple[TensorSpec, ...]:
    """X, W, the scales of W and of X where they have some, what is added where something is, and Y."""
    w = workload
    kind = "bf16" if w.weights == "bf16" else "e4m3"
    found = [
        _matrix("X", (w.m, w.k), ("row", "k"), _GAP, w.x),
        _matrix("W", (w.n, w.k), ("col", "k"), 2 * _GAP, kind),
    ]
    if w.weights == "fp8b128":
        found.append(_matrix("SW", w.scale_shape, ("block", "k block"), 1, "fp32"))
    elif w.weights == "fp8t":
        found.append(TensorSpec("SW", "input", (1, 1), ("row", "col"), _LONG_AXES, "fp32", is_constant=True))
    if w.x == "e4m3":
        found.append(_matrix("SX", w.x_scale_shape, ("k block", "row"), X_SCALE_STEP, "fp32"))
    if w.bias:
        found.append(TensorSpec("B", "input", (1, w.n), ("row", "col"), _LONG_AXES, "bf16"))
    if w.residual:
        found.append(_matrix("R", (w.m, w.n), ("row", "col"), 3 * _GAP))
    shape, axes = (w.m, w.n), ("row", "col")
    y = TensorSpec("Y", "rows", shape, axes, _LONG_AXES, "bf16", spread=(0, 1), gap=4 * _GAP)
    return (*found, y)


def _matrix(
    name: str, shape: tuple[int, int], axes: tuple[str, str], gap: int, dtype: str = "bf16"
) -> TensorSpec:
    is_constant, spread = name in ("W", "SW"), (0, 1)
    return TensorSpec(
        name, "input", shape, axes, _LONG_AXES, dtype, spread=spread, gap=gap, is_constant=is_constant
    )


def arguments(
    workload: LinearWorkload,
    addresses: Mapping[str, int],
    strides: Mapping[str, Sequence[int]],
    *,
    workspace: int = 0,
) -> tuple[np.generic, ...]:
    """NumPy scalars in launch order. `workspace` points at global scratch; 0: the kernel takes none."""
    sizes = workload.names()

    def value(given: LinearParameter) -> int:
        if given.stride_of:
            return strides[given.stride_of][0] if given.stride_of in strides else 0
        return sizes[given.name] if given.name in sizes else addresses.get(given.name, 0)

    taken = parameters(workload.x, has_workspace=workspace != 0)
    return tuple(given.type(workspace if given.name == "workspace" else value(given)) for given in taken)


def parameters(x: str, *, has_workspace: bool) -> tuple[LinearParameter, ...]:
    """Those of a kernel for that type of x."""
    absent = {"workspace"} if not has_workspace else set()
    absent |= {"SX", "sx_row"} if x == "bf16" else set()
    return tuple(given for given in PARAMETERS if given.name not in absent)


@dataclass(frozen=True, slots=True)
class LinearField:
    """One field of the C struct that an exported launcher takes."""

    name: str
    type: str  # of C
    about: str


# Fields stand where their alignment wants them, so that there is no padding.
VERSION = 1
FIELDS = (
    LinearField("size", "uint32_t", "sizeof(evoflash_linear_args) of the caller"),
    LinearField("version", "uint32_t", "EVOFLASH_LINEAR_VERSION of the caller"),
    LinearField("x", "const void*", "(m, k) bf16 or, as compiled, e4m3; on the device as all tensors"),
    LinearField("w", "const void*", "(n, k) in the compiled type"),
    LinearField(
        "w_scale", "const float*", "what multiplies W: (n / 128, k / 128), rounded up, or one number"
    ),
    LinearField(
        "x_scale", "const float*", "what multiplies x of e4m3: (k / 128, m), those of one block side by side"
    ),
    LinearField("bias", "const void*", "(n) bf16"),
    LinearField("residual", "const void*", "(m, n) bf16"),
    LinearField("y", "void*", "the output, (m, n) bf16"),
    *(
        LinearField(f"{name}_row", "int64_t", f"elements from one row to the next; 0: {dense}")
        for name, dense in (
            ("x", "dense"),
            ("w", "dense"),
            ("w_scale", "dense"),
            ("x_scale", "m rounded up to 4"),
            ("residual", "dense"),
            ("y", "dense"),
        )
    ),
    LinearField("m", "int32_t", "rows of x and y; 0 is a call that does nothing"),
    LinearField("n", "int32_t", "rows of W, columns of y"),
    LinearField("k", "int32_t", "columns of x and W, a multiple of 16"),
    LinearField("flags", "uint32_t", "0"),
    LinearField("workspace", "void*", "on the device; zero its bytes once, before the first call"),
    LinearField("workspace_bytes", "uint64_t", "how large it is"),
)


@dataclass(frozen=True, slots=True)
class LinearError:
    """Why a launcher refuses a call: a negative number; a positive one is a cudaError_t."""

    code: int
    name: str
    says: str


ERRORS = (
    LinearError(-1, "BAD_VERSION", "size or version is not what evoflash_linear_args_init() sets"),
    LinearError(-2, "RESERVED", "flags or a byte beyond this version's struct is not 0"),
    LinearError(-3, "BAD_ROWS", "m is negative or above what the kernel is compiled for"),
    LinearError(-4, "BAD_SHAPE", "n or k is below 1 or above 2^24, or k no multiple of 16"),
    LinearError(-5, "NULL_POINTER", "x, w, y, or what this kernel scales by or adds, is null"),
    LinearError(-6, "MISALIGNED", "x, w or workspace is no multiple of 16 bytes, or a scale of 4"),
    LinearError(-7, "BAD_STRIDES", "rows overlap, or rows of x or W do not begin at multiples of 16 bytes"),
    LinearError(-8, "BAD_WORKSPACE", "workspace is null or smaller than the kernel needs"),
    LinearError(-9, "BAD_GRID", "more blocks than a grid can have"),
)


def interface_names() -> dict[str, Any]:
    """What the C declarations are made of."""
    return {"version": VERSION, "fields": FIELDS, "errors": ERRORS}


def launcher_names(maps: Iterable[TensorMapSpec]) -> dict[str, Any]:
    """The kernel's parameters in the launcher's words. No kernel here takes tensor maps yet."""
    assert not tuple(maps), "the launcher encodes no tensor maps"
    return {**interface_names(), "parameters": parameters, "block": BLOCK, "x_scale_step": X_SCALE_STEP}
