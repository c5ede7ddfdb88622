"""The form of a call of the linear layer: its tensors, its arguments, and what exports say of both.

One description for the emulator, the GPU, exported launchers in C++ and launch.json. Launches nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evoflash.errors import UsageError
from evoflash.launch import TensorMapSpec
from evoflash.operation import LaunchForm
from evoflash.operations.call_form import (
    CallError,
    CallStruct,
    Parameter,
    StructField,
    map_in_words,
    parameters_of,
    scalars,
)
from evoflash.operations.linear import doors
from evoflash.operations.linear.workload import BLOCK, ROW_CLASSES, X_SCALE_STEP, LinearWorkload
from evoflash.paths import TEMPLATES
from evoflash.runtime.description import stride_name
from evoflash.runtime.linear_rows import ROW_SIZES, ROWS
from evoflash.workload import TensorSpec

INTERFACE = TEMPLATES / "lib" / "interface_linear.h.j2"
LAUNCHER = TEMPLATES / "lib" / "launcher_linear.cu.j2"
_LONG_AXES = ("rows", "columns")
_GAP = 16  # elements behind each row of a caller's strided tensors, and more: no two tensors have the same


# In launch order, after the tensor maps. A tensor that a workload lacks is a null pointer; but kernels of x
# in bf16 have no parameters of x's scales, and one without global scratch has no workspace.
PARAMETERS = (
    Parameter("X", np.uint64, "Codes{args.x}"),
    Parameter("W", np.uint64, "Codes{args.w}"),
    Parameter("SW", np.uint64, "args.w_scale", "w_scale"),
    Parameter("SX", np.uint64, "args.x_scale", "x_scale"),
    Parameter("B", np.uint64, "elements(args.bias)", "bias"),
    Parameter("R", np.uint64, "elements(args.residual)", "residual"),
    Parameter("Y", np.uint64, "elements(args.y)"),
    *(Parameter(name, np.int32, f"args.{name}") for name in ("m", "n", "k")),
    Parameter("x_row", np.int64, "rows.x", stride_name("x", "row")),
    Parameter("w_row", np.int64, "rows.w", stride_name("w", "row")),
    Parameter("sw_row", np.int64, "rows.w_scale", stride_name("w_scale", "row")),
    Parameter("sx_row", np.int64, "rows.x_scale", stride_name("x_scale", "row")),
    Parameter("r_row", np.int64, "rows.residual", stride_name("residual", "row")),
    Parameter("y_row", np.int64, "rows.y", stride_name("y", "row")),
    Parameter("workspace", np.uint64, "Scratch{args.workspace}"),
)
_OF_X_SCALES = ("SX", "sx_row")


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

    def value(of: Parameter) -> int:
        if of.name.endswith("_row"):
            name = of.name.removesuffix("_row").upper()
            return strides[name][0] if name in strides else 0
        return sizes[of.name] if of.name in sizes else addresses.get(of.name, 0)

    asked = parameters(workload.x)
    return scalars(asked, [value(each) for each in asked[:-1]], workspace=workspace)


def parameters(x: str) -> tuple[Parameter, ...]:
    """Those of a kernel for that type of x."""
    return tuple(each for each in PARAMETERS if x == "e4m3" or each.name not in _OF_X_SCALES)


FIELDS = (
    StructField("size", "uint32_t", "sizeof(evoflash_linear_args) of the caller"),
    StructField("version", "uint32_t", "EVOFLASH_LINEAR_VERSION of the caller"),
    StructField("x", "const void*", "(m, k) bf16 or, as compiled, e4m3; on the device as all tensors"),
    StructField("w", "const void*", "(n, k) in the compiled type"),
    StructField(
        "w_scale", "const float*", "what multiplies W: (n / 128, k / 128), rounded up, or one number"
    ),
    StructField(
        "x_scale", "const float*", "what multiplies x of e4m3: (k / 128, m), those of one block side by side"
    ),
    StructField("bias", "const void*", "(n) bf16"),
    StructField("residual", "const void*", "(m, n) bf16"),
    StructField("y", "void*", "the output, (m, n) bf16"),
    *(
        StructField(f"{name}_row", "int64_t", f"elements from one row to the next; 0: {dense}")
        for name, dense in (
            ("x", "dense"),
            ("w", "dense"),
            ("w_scale", "dense"),
            ("x_scale", "m rounded up to 4"),
            ("residual", "dense"),
            ("y", "dense"),
        )
    ),
    StructField("m", "int32_t", "rows of x and y; 0 is a call that does nothing"),
    StructField("n", "int32_t", "rows of W, columns of y"),
    StructField("k", "int32_t", "columns of x and W, a multiple of 16"),
    StructField("flags", "uint32_t", "0"),
    StructField("workspace", "void*", "on the device; zero its bytes once, before the first call"),
    StructField("workspace_bytes", "uint64_t", "how large it is"),
)
ERRORS = (
    CallError(-1, "BAD_VERSION", "size or version is not what evoflash_linear_args_init() sets"),
    CallError(-2, "RESERVED", "flags or a byte beyond this version's struct is not 0"),
    CallError(-3, "BAD_ROWS", "m is negative or above what the kernel is compiled for", "rows"),
    CallError(-4, "BAD_SHAPE", "n or k is below 1 or above 2^24, or k no multiple of 16"),
    CallError(-5, "NULL_POINTER", "x, w, y, or what this kernel scales by or adds, is null"),
    CallError(-6, "MISALIGNED", "x, w or workspace is no multiple of 16 bytes, or a scale of 4"),
    CallError(-7, "BAD_STRIDES", "rows overlap, or rows of x or W do not begin at multiples of 16 bytes"),
    CallError(-8, "BAD_WORKSPACE", "workspace is null or smaller than the kernel needs"),
    CallError(-9, "BAD_GRID", "more blocks than a grid can have"),
    CallError(-10, "NO_TENSOR_MAP", "the driver makes no tensor map of x or W"),
)
STRUCT = CallStruct("evoflash_linear", "EVOFLASH_LINEAR", FIELDS, ERRORS)


def further_scratch(workload: LinearWorkload) -> int:
    """Bytes of a workspace beside parts of y: counters; x made ready for all CTAs, as large as in fp32; parts
    of rows that y has not, up to eight, which is what tensor cores compute.
    """
    rows = max(8, next(known for known in ROW_CLASSES if known >= workload.m))
    return (1 << 16) + 4 * rows * (workload.k + BLOCK) + 4 * max(0, 8 - workload.m) * 8 * workload.n


def launcher_names(maps: Iterable[TensorMapSpec]) -> dict[str, Any]:
    """The tensor maps and the kernel's parameters in the launcher's words."""
    return {
        **STRUCT.names(),
        "maps": [_map_in_words(given) for given in maps],
        "of_x": parameters,
        "block": BLOCK,
        "x_scale_step": X_SCALE_STEP,
    }


def _map_in_words(given: TensorMapSpec) -> dict[str, Any]:
    rows, columns = given.box
    return {**map_in_words(given), "rows": {"W": "n", "X": "m"}[given.of], "box": f"{columns}, {rows}"}


def launch_arguments(*, has_workspace: bool) -> list[str]:
    """Kind and name of each argument, in the words of launch.json."""
    return [each.in_launch for each in parameters_of(parameters("bf16"), has_workspace=has_workspace)]


def contract(workload: LinearWorkload) -> dict[str, Any]:
    """What launch.json says of the workloads that its kernel computes. UsageError for x in e4m3."""
    if workload.x != "bf16":
        raise UsageError("a kernel of x in e4m3 leaves as --kind cu alone: no other form has x's scales.")
    rows = next(known for known in ROW_CLASSES if known >= workload.m)
    return {
        "dtype": workload.weights,
        "most_rows": rows,
        "block": BLOCK,
        "bias": workload.bias,
        "residual": workload.residual,
    }


LAUNCH_FORM = LaunchForm(
    ROWS.name,
    ROW_SIZES,
    launch_arguments,
    contract,
    doors.computes,
    function="linear",
    doors=doors.DOORS,
    solution=doors.SOLUTION,
    no_door=doors.NO_DOOR,
)
