"""Compares outputs and memory on the device, many at once. Sums come back, never the data; judges nothing.

Places and flags come back too. A table of comparisons is made once, for addresses that stay, and asked for
every candidate; the kernels are in comparisons.cu. Sums are in fp64, of the terms that
validation/validator.py adds up.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash import operation as registry
from evoflash.errors import DeviceError
from evoflash.evaluation import Candidate
from evoflash.gpu.launcher import LoadedKernel, new_stream, present_gpu, wait
from evoflash.gpu.memory import allocate, on_device
from evoflash.kernels.ef_layer import device_headers_sha
from evoflash.kernels.nvrtc import compile_candidate, first_error
from evoflash.launch import LaunchConfig
from evoflash.space import Genome

SOURCE = Path(__file__).with_name("comparisons.cu")
THREADS = 256
COLUMNS = 8  # of which rows of 16-bit numbers have a multiple
FIELDS = 9  # of an answer about rows
_WORD, _GROUP, _HALF = 4, 16, 2  # bytes
_MOST_BLOCKS = 512  # of one comparison
_WORDS_A_THREAD = 32
_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class MemoryPair:
    """Two parts of memory that should be alike; `second` 0: that should be zero. Addresses and bytes.

    Of each `period_bytes`, if there is one, the first `ignored_bytes` may differ. All are multiples of 4.
    """

    first: int
    second: int
    size_bytes: int
    period_bytes: int = 0
    ignored_bytes: int = 0

    entry = "differing_words"
    answers = 1  # u32: words that differ

    @property
    def line(self) -> tuple[int, ...]:
        sizes = (self.size_bytes, self.period_bytes, self.ignored_bytes)
        return self.first, self.second, *(size // _WORD for size in sizes)

    @property
    def threads(self) -> int:
        return self.size_bytes // (_WORD * _WORDS_A_THREAD)


@dataclass(frozen=True, slots=True)
class FiniteMemory:
    """A part of memory whose 16-bit floats ("fp16" or "bf16") should all be finite. Address and bytes, a
    multiple of 4.
    """

    address: int
    size_bytes: int
    dtype: str

    entry = "non_finite"
    answers = 1  # u32: 0 where all are

    @property
    def line(self) -> tuple[int, ...]:
        exponent = 0x7C007C00 if self.dtype == "fp16" else 0x7F807F80  # in both halves of a word
        return self.address, self.size_bytes // _WORD, exponent

    @property
    def threads(self) -> int:
        return self.size_bytes // (_WORD * _WORDS_A_THREAD)


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of one run's output, or of two runs' added up: addresses; `offsets`: of int64 numbers, where each
    row begins, in elements, 0 where rows are dense and in order.
    """

    first: int = 0
    second: int = 0
    offsets: int = 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """One fp32 number for each row, and what it should be in fp64: addresses. What error is allowed:
    absolute + relative * |right|, and `least` at least. `places`: of int64 numbers, which one of `got` is
    each row's; 0 where they are in order.
    """

    got: int
    right: int
    absolute: float
    relative: float
    least: float
    places: int = 0


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Rows of 16-bit numbers against those that they should be: of a run, or known (`right`, an address of
    dense fp64 numbers, or fp32 ones). Columns are a multiple of 8.
    """

    rows: int
    columns: int
    dtype: str
    new: Side
    old: Side = Side()
    right: int = 0
    is_single: bool = False
    numbers: Numbers | None = None

    entry = "measured_rows"

    @property
    def line(self) -> tuple[int, ...]:
        numbers = self.numbers or Numbers(0, 0, 0.0, 0.0, 0.0)
        limits = (numbers.absolute, numbers.relative, numbers.least)
        return (
            *(self.right, int(self.is_single)),
            *(self.old.first, self.old.second, self.old.offsets),
            *(self.new.first, self.new.second, self.new.offsets),
            *(self.rows, self.columns, int(self.dtype == "bf16"), numbers.right),
            *(_bits(limit) for limit in limits),
            *(numbers.got, numbers.places),
        )

    @property
    def threads(self) -> int:
        return self.rows


@dataclass(frozen=True, slots=True)
class UntouchedRows:
    """Two dense outputs, (groups, rows, row_bytes): addresses. No row before `first_row` may differ, in any
    group, and each from there on must, in one of them.
    """

    before: int
    after: int
    groups: int
    rows: int
    row_bytes: int
    first_row: int

    entry = "reached_rows"
    answers = 2  # u32: rows that differ and must not, and the other way round

    @property
    def line(self) -> tuple[int, ...]:
        return self.before, self.after, self.groups, self.rows, self.row_bytes // _GROUP, self.first_row

    @property
    def threads(self) -> int:
        return self.rows


Comparison = MemoryPair | FiniteMemory | RowComparison | UntouchedRows


def _bits(number: float) -> int:
    """The bits of an fp64 number as a signed integer."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def lines(comparisons: Sequence[Comparison]) -> NDArray[np.int64]:
    """The table of comparisons of one kind, a line of a fixed length for each."""
    width = 24 if comparisons and isinstance(comparisons[0], RowComparison) else 8
    table = np.zeros((max(1, len(comparisons)), width), np.int64)
    for row, comparison in zip(table, comparisons, strict=False):
        row[: len(comparison.line)] = comparison.line
    return table


@dataclass(frozen=True, slots=True)
class ErrorStats:
    """What Measured found, over all rows; a place is a row, counted through, and a column."""

    squared: float
    before_squared: float
    max_over_rms: float
    worst: tuple[int, int]
    number: float  # the largest error of a number over what is allowed
    number_error: float
    number_row: int
    broken: int  # elements that are no finite distance away


def read_results(answers: NDArray[np.float64]) -> list[ErrorStats]:
    """What each comparison found, of the answers of its blocks: (comparisons, blocks, FIELDS)."""
    if not len(answers):
        return []
    each = np.arange(len(answers))
    worst = answers[each, answers[:, :, 2].argmax(axis=1)]
    number = answers[each, answers[:, :, 5].argmax(axis=1)]
    sums = answers[:, :, [0, 1, 8]].sum(axis=1)
    whole = zip(sums.tolist(), np.sqrt(worst[:, 2]).tolist(), worst.tolist(), number.tolist(), strict=True)
    return [
        ErrorStats(
            squared,
            before,
            over,
            (int(place[3]), int(place[4])),
            far[5],
            far[6],
            int(far[7]),
            int(broken),
        )
        for (squared, before, broken), over, place, far in whole
    ]


class ComparisonBatch:
    """Comparisons of one kind on the device, and room for their answers."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        """NoRoomError when the device's memory is used up."""
        self.count = len(comparisons)
        if not comparisons:
            return
        first = comparisons[0]
        blocks = -(-max(each.threads for each in comparisons) // THREADS)
        self._blocks = min(max(1, blocks), _MOST_BLOCKS)
        is_measured = isinstance(first, RowComparison)
        answer = (self._blocks, FIELDS) if isinstance(first, RowComparison) else (first.answers,)
        self._dtype = np.dtype(np.float64 if is_measured else np.uint32)
        self._shape, self._entry = (self.count, *answer), first.entry
        self._lines = on_device(lines(comparisons))
        self._answers = allocate(math.prod(self._shape) * self._dtype.itemsize)

    def reset(self, stream: Any) -> None:
        """Forget what was found, in stream order."""
        if self.count:
            self._answers.data.memset_async(0, self._answers.nbytes, stream)

    def ask(self) -> None:
        """Enqueue the comparisons on the current stream: what they count is added to what was counted."""
        if not self.count:
            return
        kernel = _kernel(self._entry, (self._blocks, self.count, 1))
        kernel.enqueue((np.uint64(self._lines.data.ptr), np.uint64(self._answers.data.ptr)))

    def ask_now(self) -> NDArray[Any]:
        """The answers, on a stream of their own: whoever asks has waited for what is inspected."""
        stream = new_stream()
        with stream:
            self.reset(stream)
            self.ask()
        wait(stream, limit_s=_LIMIT_S)
        return self.read()

    def read(self) -> NDArray[Any]:
        """The answers, when the stream has been waited for: (comparisons, ...)."""
        if not self.count:
            return np.zeros((0, 1))
        answers: NDArray[Any] = self._answers.get().view(self._dtype).reshape(self._shape)
        return answers


def differ(first: Any, second: Any) -> bool:
    """Whether two CuPy arrays of equal size differ in any bit."""
    pair = MemoryPair(int(first.data.ptr), int(second.data.ptr), _whole_words(first, second))
    return bool(ComparisonBatch([pair]).ask_now().any())


def holds_non_finite(values: Any, *, dtype: str) -> bool:
    """Whether a CuPy array of 16-bit floats ("fp16" or "bf16"), in any type, holds a NaN or an infinity."""
    memory = FiniteMemory(int(values.data.ptr), _whole_words(values), dtype)
    return bool(ComparisonBatch([memory]).ask_now().any())


def _whole_words(*arrays: Any) -> int:
    """The bytes of each of the arrays. ValueError where some would be left out."""
    sizes = {array.nbytes for array in arrays}
    if len(sizes) > 1 or any(x % _WORD for array in arrays for x in (array.nbytes, array.data.ptr)):
        places = ", ".join(f"{array.nbytes} bytes at {array.data.ptr:#x}" for array in arrays)
        raise ValueError(f"not equal numbers of whole words of {_WORD} bytes: {places}")
    return int(sizes.pop())


def cubin_path(arch: str, path: Path = SOURCE) -> str:
    """The compiled kernels of a .cu of ours, from the cache if they are there; needs no GPU."""
    return cubin_of(arch, path.stem, path.read_text(encoding="utf-8"))


def cubin_of(arch: str, name: str, source: str) -> str:
    """As cubin_path(), of a text of that name."""
    # A kernel without genes; of the compile key only the arch plays a part.
    candidate = Candidate(
        genome=Genome(name, 1, ()),
        compile_key=registry.default().probe.compile_key(arch),
        source=source,
        source_sha=hashlib.sha256((source + device_headers_sha()).encode()).hexdigest(),
    )
    build = compile_candidate(candidate)
    if not build.ok:
        raise DeviceError(f"{name} does not compile for {arch}: {first_error(build.log)}")
    return build.cubin_path


@cache
def _kernel(entry: str, grid: tuple[int, int, int]) -> LoadedKernel:
    path = cubin_path(f"sm_{present_gpu().compute_capability}")
    return LoadedKernel(path, (LaunchConfig(entry, grid, (THREADS, 1, 1), 0),))
