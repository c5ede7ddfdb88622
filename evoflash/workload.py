"""A shape of an operation, its tensors, inputs and right outputs, as records. Computes nothing.

What must hold between outputs of changed inputs, and a kernel that computes right answers, are records here,
too: an operation (operation.py) makes them, validator and emulator ask a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from evoflash.launch import LaunchConfig

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ELEMENT_BYTES: Mapping[str, int] = {"e4m3": 1, "fp16": 2, "bf16": 2, "fp32": 4, "int32": 4}


class CompileKey(Protocol):
    """The part of a workload that a kernel is compiled for. A frozen dataclass; str() names it for people."""

    @property
    def operation(self) -> str:
        """The name of the operation."""

    @property
    def arch(self) -> str:
        """The GPU's architecture, "sm_89" or "sm_90a"."""

    def __hash__(self) -> int: ...

    def names(self) -> dict[str, Any]:
        """What templates and the expressions of their headers see of it, by name."""


class Workload(Protocol):
    """One shape of an operation. A frozen dataclass; str() is its canonical text, which the database and
    --problem have.
    """

    @property
    def operation(self) -> str:
        """The name of the operation."""

    @property
    def dtype(self) -> str:
        """The type of its 16-bit tensors: "fp16" or "bf16"."""

    @property
    def precision(self) -> str:
        """What the validator's thresholds go by."""

    @property
    def flops(self) -> int:
        """Floating-point operations that cannot be avoided; a multiply-add counts two."""

    @property
    def reported_flops(self) -> int:
        """Operations as the field counts them where it reports TFLOPS."""

    @property
    def bytes_moved(self) -> int:
        """Each input read once and each output written once, in bytes."""

    @property
    def extents(self) -> tuple[int, ...]:
        """Its size in a few numbers, as recordings of searches state it."""

    def __hash__(self) -> int: ...

    def compile_key(self, arch: str) -> CompileKey:
        """What a kernel for it is compiled for on a GPU of that architecture."""

    def names(self) -> dict[str, int]:
        """Its run-time sizes, by the names that launch expressions and exported launchers use."""


Role = Literal["input", "rows", "numbers"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor of a call.

    `role`: an input; or an output of rows in 16 bits, judged row by row; or an output of one float32 number
    for each of those rows. All outputs of an operation have the same rows: their axes before the columns.
    On a GPU an output of rows must be a multiple of 16 bytes.
    """

    name: str
    role: Role
    shape: tuple[int, ...]
    axes: tuple[str, ...]  # a mark for each axis, in reports of places: "b", "h", "row", "col"
    long_axes: tuple[str, ...]  # their names in full: "batch", "heads", "rows", "columns"
    dtype: str  # "fp16", "bf16" or "fp32"; of inputs also "e4m3", 8-bit floats, and "int32"
    is_optional: bool = False  # an output whose pointer may be null: the kernel then does not write it
    # An input that no kernel before a call writes, weights say: a launch that begins before the one before it
    # has ended may read it at once, and no other input.
    is_constant: bool = False
    # Another order of its axes in memory that kernels must take, with so many elements behind each row (a
    # multiple of 8: rows begin at multiples of 16 bytes); empty: dense only. Of rows the columns stay last.
    spread: tuple[int, ...] = ()
    gap: int = 16

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * ELEMENT_BYTES[self.dtype]

    @property
    def group_shape(self) -> tuple[int, ...]:
        """Of an output, its axes before the rows."""
        return self.shape[: -2 if self.role == "rows" else -1]

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the dense tensor, in elements."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))


class TestInput(Protocol):
    """The inputs of one call, all of one kind: "normal", "large_logits" and the like."""

    @property
    def name(self) -> str:
        """The kind."""

    @property
    def tensors(self) -> Mapping[str, NDArray[Any]]:
        """By name, in the order of the operation's tensors; 16-bit floats as bit patterns."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The compared part of the outputs: the product of some groups and some rows, both ascending.

    A group is one place of all axes before the rows, counted through.
    """

    groups: NDArray[np.intp]
    rows: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class ErrorScale:
    """What errors are measured by; made once, because a test input is held against hundreds of outputs."""

    rms: NDArray[np.float64]  # of each row of the right answer: (groups, rows, 1)
    squared: float  # sum over the right answer
    honest_squared: float  # sum of squared errors of honest arithmetic, of the worst of its kinds
    honest_max_over_rms: float  # its worst element, over the RMS of its row, again of the worst


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedRows:
    """The right answer for an output of rows: (groups, rows, columns), and what honest arithmetic gives."""

    right: NDArray[np.float64]
    honest: NDArray[np.float32]  # in the workload's own precision
    scale: ErrorScale


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedNumbers:
    """The right answer for an output of one number for each row: (groups, rows)."""

    right: NDArray[np.float64]
    honest: NDArray[np.float32]
    excused: float = 0.0  # the worst error of honest arithmetic, where a kernel may go by that


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedOutputs:
    """The right outputs at a sample, by tensor name."""

    sample: Sample
    rows: Mapping[str, ExpectedRows]
    numbers: Mapping[str, ExpectedNumbers]


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """What a kernel wrote: whole tensors by name, as 16-bit patterns and float32, but for those left out."""

    tensors: Mapping[str, NDArray[Any]]


# A function of a test input: a launch, a run in the emulator, NumPy in a test.
KernelCall = Callable[[Any], Output]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The validator's thresholds of one precision. What is measured against each: validation/validator.py."""

    rel_l2: float
    max_over_rms: float
    honest_floor: float  # as rel_l2
    lse_absolute: float  # of outputs of one number for each row
    lse_relative: float  # of the number's size
    honest_factor: float


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One side of a relation: the sum of some runs' outputs, at some rows in some order."""

    runs: tuple[Any, ...]  # test inputs
    rows: NDArray[np.intp] | None = None  # counted through all groups; None: all of them in order


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """Two sides that must agree but for rounding. `before` may be known: numbers by tensor name, (rows,
    columns). `is_exact`: one run on either side, which agree in every bit, of a kernel that repeats itself;
    of those before, the rows are those after in whole groups, and of those after they are all.
    """

    change: str  # what was changed, in words
    before: Rows | Mapping[str, NDArray[np.float64]]
    after: Rows
    is_exact: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """Which rows a change of the inputs reaches: in no group a row before `first_row`, not by one bit; and
    each row from there on in at least one group.
    """

    mask: str  # what keeps the change from the rows before, in words
    change: str  # what the rows see of it, in words
    before: Any  # test inputs
    after: Any
    first_row: int


@dataclass(frozen=True, slots=True, eq=False)
class DeviceReference:
    """A kernel that computes what is right: one output of rows in fp32, perhaps one of numbers in fp64, and
    of each row the sum of squares, and of two kinds of honest arithmetic the squared errors' sum and the
    largest one. Where no block of threads has whole rows, a second kernel with the same parameters tells of
    each row.
    """

    text: str  # on the ef:: layer
    entry: str
    threads: int  # of a block
    output: str  # the names of the tensors
    numbers: str  # empty: the operation has none
    applies: Callable[[Any], bool]  # to a workload
    blocks: Callable[[Any], NDArray[np.int32]]  # a line for each block, which the kernel reads
    rows: Callable[[Any], NDArray[np.intp]]  # that it stores, counted through all groups: all, or a sample
    # (workload, addresses: of the inputs, and of blocks, right, numbers, per_row, honest) -> arguments of a
    # launch
    arguments: Callable[[Any, Mapping[str, int]], tuple[np.generic, ...]]
    # The second kernel, a block for each row, which finds in `honest` what the first one left, as in `right`
    entry_of_rows: str = ""

    def launches(self, workload: Workload) -> tuple[LaunchConfig, ...]:
        block, first = (self.threads, 1, 1), len(self.blocks(workload))
        launch = LaunchConfig(self.entry, (first, 1, 1), block, 0)
        if not self.entry_of_rows:
            return (launch,)
        return launch, LaunchConfig(self.entry_of_rows, (len(self.rows(workload)), 1, 1), block, 0)
