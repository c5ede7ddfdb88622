"""Trials of wgmma, for every N, type, major, swizzle and source of its first operand. Runs none.

The images of operands in shared memory, and the product that NumPy expects, are made here from the PTX ISA's
layouts, independently of the emulator; every byte that the product must not read is NaN.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from evoflash.launch import LaunchConfig
from evoflash.trust.conformance.cases import (
    UNWRITTEN,
    Array,
    Case,
    Label,
    Module,
    Pointer,
    Primitive,
    Trial,
    primitives,
)
from evoflash.trust.conformance.tma import to_bits

SOURCE = Path(__file__).with_name("kernels") / "wgmma.cu"
THREADS, ROWS, K = 128, 64, 16
_B_START = 8192
_TASK_WORDS = 16
_ENCODED = {0: 0, 128: 1, 64: 2, 32: 3}  # ef::wgmma_swizzle
_ALL_ONES = {"f16": 0x7FFF, "bf16": 0x7FFF}  # a NaN in either
_LINE = 16  # bytes that a swizzle moves together


def modules(arch: str) -> Iterator[Module]:
    """One text for each N."""
    here = [entry for entry in primitives() if entry.name in ("wgmma_ss", "wgmma_rs") and entry.runs_on(arch)]
    for n in here[0].axes["n"] if here else ():
        yield _module(int(n), here)


@dataclass(frozen=True, slots=True)
class WgmmaModule:
    """The cases that one compiled kernel serves: they differ in swizzles and scale_d."""

    n: int
    dtype: str
    a_major: str  # "" where A is in registers
    b_major: str
    entry: Primitive
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        return f"{self.entry.name}_{self.dtype}_{self.a_major or 'r'}_{self.b_major}"

    @property
    def text(self) -> str:
        trans = [str(int(major == "mn")) for major in (self.a_major, self.b_major) if major]
        place = "from_shared" if self.a_major else "from_registers"
        values = ", ".join((*trans, str(self.n // 2), f"ef::{self.dtype}"))
        return f"""
extern "C" __global__ void __launch_bounds__(128)
{self.name}(const u32* tasks, const u32x4* images, u32x4* out) {{
  {place}<{values}>(tasks, images, out);
}}
EF_EXPORT_KERNEL({self.name})
"""


def kernels(n: int, entries: list[Primitive]) -> list[WgmmaModule]:
    """Those for a tile of n columns."""

    def shape(case: Case) -> tuple[str, str, str]:
        return str(case.modes["dtype"]), str(case.modes.get("a_major", "")), str(case.modes["b_major"])

    found = []
    for entry in entries:
        cases = sorted((case for case in entry.cases() if case.modes["n"] == n), key=shape)
        found += [WgmmaModule(n, *key, entry, tuple(group)) for key, group in groupby(cases, key=shape)]
    return found


def _module(n: int, entries: list[Primitive]) -> Module:
    here = kernels(n, entries)
    text = SOURCE.read_text(encoding="utf-8") + "".join(kernel.text for kernel in here)
    labels = tuple(Label.of(kernel.entry, case) for kernel in here for case in kernel.cases)
    return Module(f"wgmma_n{n}", text, labels, lambda: (_trial(kernel) for kernel in here))


# ---- operands


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """One operand as it lies in shared memory: its bytes, and the descriptor's fields in bytes."""

    image: Array  # uint16
    start: int
    leading: int
    stride: int
    swizzle: int


def operand(values: Array, dtype: str, major: str, swizzle: int, *, base: int, step: int) -> Operand:
    """An operand of shape (mn, 16), K or MN running along memory. `base`: where the image will lie, `step`:
    which of the 16-wide steps of a swizzle's span the operand is, where K runs along memory.
    """
    mn, k = (grid.reshape(-1) for grid in np.indices(values.shape))
    span = swizzle or _LINE
    across = span // 2  # elements of a span
    step = step % (span // (2 * K)) if swizzle and major == "k" else 0
    if major == "k" and not swizzle:
        leading, stride = len(values) * 16 + 128, 128
        address = mn % 8 * 16 + mn // 8 * stride + k // 8 * leading + k % 8 * 2
    elif major == "k":
        leading, stride = 16, 8 * span
        address = mn % 8 * span + mn // 8 * stride + (k + K * step) * 2
    elif not swizzle:
        leading, stride = 128, 256 + 128
        address = mn % 8 * 2 + mn // 8 * stride + k % 8 * 16 + k // 8 * leading
    else:
        leading, stride = 16 * span, 8 * span
        address = mn % across * 2 + mn // across * leading + k % 8 * span + k // 8 * stride
    if swizzle:
        address = address ^ (base + address >> 7 & swizzle // _LINE - 1) * _LINE
    image = np.full(-(-(int(address.max()) + 2) // 1024) * 512, _ALL_ONES[dtype], np.uint16)
    image[address // 2] = to_bits(values, dtype).reshape(-1)
    return Operand(image, 2 * K * step, leading, stride, swizzle)


def registers(values: Array, dtype: str) -> Operand:
    """Operand A, (64, 16), as 128 threads hold it: four registers each, of mma.m16n8k16's A in each warp."""
    thread = np.arange(THREADS)
    row, column = thread // 32 * 16 + thread % 32 // 4, thread % 4 * 2
    halves = np.arange(2)
    image = np.empty((THREADS, 4, 2), np.uint16)
    for register in range(4):
        rows, columns = row + 8 * (register % 2), column + 8 * (register // 2)
        image[:, register] = to_bits(values, dtype)[rows[:, None], columns[:, None] + halves]
    return Operand(image.reshape(-1), 0, 0, 0, 0)


def accumulators(matrix: Array) -> Array:
    """A (64, n) matrix as 128 threads hold it: (thread, n / 2)."""
    thread, i = np.indices((THREADS, matrix.shape[1] // 2))
    row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
    result: Array = matrix[row, i // 4 * 8 + thread % 4 * 2 + i % 2]
    return result


def initial_accumulators(n: int) -> Array:
    """What accumulators hold before the product: see begin() in wgmma.cu."""
    thread, i = np.indices((THREADS, n // 2))
    return ((thread * 7 + i * 3) % 17 - 8).astype(np.float32)


# ---- trials


def _trial(kernel: WgmmaModule) -> Trial:
    rng = np.random.default_rng(kernel.n)
    a, b = rng.integers(-4, 5, (ROWS, K)), rng.integers(-4, 5, (kernel.n, K))
    product = accumulators((a @ b.T).astype(np.float32))
    images = _Images()
    tasks = np.zeros((len(kernel.cases), _TASK_WORDS), np.uint32)
    expected = np.empty((len(kernel.cases), THREADS, kernel.n // 2), np.float32)
    for number, case in enumerate(kernel.cases):
        modes = case.modes
        if kernel.a_major:
            first = operand(a, kernel.dtype, kernel.a_major, int(modes["a_swizzle"]), base=0, step=number)
        else:
            first = registers(a, kernel.dtype)
        second = operand(
            b, kernel.dtype, kernel.b_major, int(modes["b_swizzle"]), base=_B_START, step=number // 3
        )
        tasks[number, :13] = (*images.add(first), *images.add(second), modes["scale_d"])
        expected[number] = product + initial_accumulators(kernel.n) * int(modes["scale_d"])
    return Trial(
        cases=tuple(Label.of(kernel.entry, case) for case in kernel.cases),
        launches=(LaunchConfig(kernel.name, (len(tasks), 1, 1), (THREADS, 1, 1), _B_START + images.largest),),
        arguments=(Pointer("tasks"), Pointer("images"), Pointer("out")),
        inputs={"tasks": tasks, "images": images.all()},
        results={"out": np.full(expected.shape, UNWRITTEN, np.uint32)},
        expected={"out": expected.view(np.uint32)},
    )


class _Images:
    """The images of a trial one behind another; equal ones are kept once."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self._images: list[Array] = []
        self._size = 0  # in units of 16 bytes
        self.largest = 0  # in bytes

    def add(self, operand: Operand) -> tuple[int, ...]:
        """The image's place and size in units of 16 bytes, and the descriptor's fields."""
        size = operand.image.nbytes // 16
        key = operand.image.tobytes()
        if key not in self._places:
            self._places[key] = self._size
            self._images.append(operand.image)
            self._size += size
            self.largest = max(self.largest, operand.image.nbytes)
        fields = (operand.start, operand.leading, operand.stride, _ENCODED[operand.swizzle])
        return (self._places[key], size, *fields)

    def all(self) -> Array:
        return np.concatenate(self._images)
