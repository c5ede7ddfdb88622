"""wgmma in the emulator: every descriptor against an oracle, every rule broken, a pipeline that is right."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_faults import told
from places import KERNELS

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.kernels import gxx
from evoflash.launch import LaunchConfig

TEXT = (KERNELS / "wgmma.cu").read_text()
Array = np.ndarray[Any, Any]

SMEM_BASE = 1024  # of the emulator's shared memory
SMEM_BYTES = 81920
ROWS, DEPTH = 64, 16
FILLER = 0x7E00  # f16's NaN: whatever reads a byte that belongs to no tile shows


# ---- an oracle for descriptors: shapes and strides in units of 16 bytes, then a swizzle of the byte address


@dataclass(frozen=True)
class Operand:
    """A tile of `extent` rows (of A) or columns (of B), DEPTH deep, in shared memory."""

    extent: int
    width: int  # 16-byte units in a row of the swizzle's pattern, 1: none
    mn_major: bool
    leading: int  # units
    stride: int  # units
    start: int  # bytes, of the whole tile's beginning
    step: int = 0  # which 16 columns of a K-major swizzled row

    @property
    def layout(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """(shape, stride) pairs of the two indices, innermost first, in the units in which each runs."""
        width = self.width
        if not self.mn_major:  # rows by units along k
            along = ((2, self.leading),) if width == 1 else ((width, 1),)
            return ((8, width), (self.extent, self.stride)), along
        if width == 1:  # units along mn by k
            return ((1, 0), (self.extent, self.stride)), ((8, 1), (DEPTH, self.leading))
        return ((width, 1), (self.extent, self.leading)), ((8, width), (DEPTH, self.stride))

    def place(self, mn: Array, k: Array) -> Array:
        """The byte offsets of elements in shared memory."""
        rows, columns = self.layout
        k = k + DEPTH * self.step
        inner = mn if self.mn_major else k
        units = index(rows, mn // 8 if self.mn_major else mn) + index(columns, k if self.mn_major else k // 8)
        return swizzled(self.start + 16 * units, self.width) + inner % 8 * 2

    @property
    def descriptor(self) -> int:
        mode = {1: 0, 8: 1, 4: 2, 2: 3}[self.width]
        start = SMEM_BASE + self.start + 32 * self.step
        return start >> 4 | self.leading << 16 | self.stride << 32 | mode << 62


def index(layout: tuple[tuple[int, int], ...], coordinate: Array) -> Array:
    total = np.zeros_like(coordinate)
    for shape, stride in layout:
        total += coordinate % shape * stride
        coordinate = coordinate // shape
    return total


def swizzled(address: Array, width: int) -> Array:
    """Swizzle<log2(width), 4, 3>: the bits above the pattern's 128-byte rows go into the unit's number."""
    bits = width.bit_length() - 1
    rows = address >> 7 & (1 << bits) - 1
    return address ^ rows << 4


def operand(extent: int, width: int, mn_major: bool, start: int, variant: int) -> Operand:
    """One of two packings of a tile, tight or with gaps, of which k or mn runs faster."""
    gap = 1 + variant
    blocks = -(-extent // 8)
    if width == 1:
        close, far = 8 * gap, 8 * gap * (2 if mn_major != bool(variant) else blocks)
        near_k = mn_major != bool(variant)  # the two halves of k are neighbours
        leading, stride = (close, far) if near_k else (far, close)
        return Operand(extent, width, mn_major, leading, stride, start)
    pattern = 8 * width
    if not mn_major:
        return Operand(extent, width, False, 1, pattern * gap, start, step=variant * (width // 2 - 1))
    atoms = -(-extent // (8 * width))
    leading, stride = (2 * pattern, pattern) if variant else (pattern, atoms * pattern)
    return Operand(extent, width, True, leading, stride, start)


@cache
def library(columns: int, element: str) -> Path:
    head = f"#define COLUMNS {columns}\n#define ELEMENT ef::{element}\n#line 1\n"
    return gxx.build(head + TEXT, name="products")


def bits_of(values: Array, element: str) -> Array:
    if element == "f16":
        return values.astype(np.float16).view(np.uint16)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def lay_out(image: Array, tile: Operand, bits: Array) -> None:
    mn, k = np.indices((tile.extent, DEPTH))
    image[tile.place(mn, k) // 2] = bits[mn, k]


def fragments(bits: Array) -> Array:
    """A's registers, 128 x 4: of each warp's 16 rows the m16n8k16 fragment."""
    lane = np.arange(128)
    row, column = lane // 32 * 16 + lane % 32 // 4, lane % 4 * 2
    parts = [(0, 0), (8, 0), (0, 8), (8, 8)]
    low, high = (np.stack([bits[row + r, column + c + e] for r, c in parts], 1) for e in (0, 1))
    return low.astype(np.uint32) | high.astype(np.uint32) << 16


def multiplied(
    a: Operand | None, b: Operand, *, element: str = "f16", adds: bool = True, **choices: Any
) -> tuple[Emulation, Array, Array]:
    """What a launch did, its 64 x N result and the right one, for small integers."""
    rng = np.random.default_rng([b.extent, b.width, b.leading, b.stride])
    matrix_a, matrix_b = rng.integers(-8, 9, (ROWS, DEPTH)), rng.integers(-8, 9, (b.extent, DEPTH))
    before = rng.integers(-99, 99, (ROWS, b.extent))
    image = np.full(SMEM_BYTES // 2, FILLER, np.uint16)
    if a:
        lay_out(image, a, bits_of(matrix_a, element))
    lay_out(image, b, bits_of(matrix_b, element))
    with Memory() as memory:
        given = memory.array("image", image.shape, image.dtype, fill=image)
        registers = memory.array("registers", (128, 4), np.uint32, fill=fragments(bits_of(matrix_a, element)))
        d = memory.array("d", before.shape, np.float32, writable=True, fill=before)
        arguments: list[np.generic] = [
            *(np.uint64(array.ctypes.data) for array in (given, registers, d)),
            np.int32(image.size // 8),
            np.uint64(a.descriptor if a else 0),
            np.uint64(b.descriptor),
            *(np.int32(flag) for flag in (a is None, a is not None and a.mn_major, b.mn_major, adds)),
        ]
        launch = LaunchConfig("products", (1, 1, 1), (128, 1, 1), SMEM_BYTES)
        emulation = run_launch(library(b.extent, element), launch, arguments, **choices)
        return emulation, d.copy(), matrix_a @ matrix_b.T + adds * before


WIDTHS = (1, 2, 4, 8)
COLUMNS = (8, 16, 24, 64, 128, 192, 256)
B_START = 16384


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("width_a", "width_b"), list(product(WIDTHS, WIDTHS)))
@pytest.mark.sample(40)
def test_every_descriptor_reads_what_the_oracle_placed(columns: int, width_a: int, width_b: int) -> None:
    for number, (a_major, b_major) in enumerate(product((False, True), repeat=2)):
        variant = (number + columns // 8 + width_a) % 2
        a = operand(ROWS, width_a, a_major, 0, variant)
        b = operand(columns, width_b, b_major, B_START, 1 - variant)
        emulation, found, expected = multiplied(a, b, delivery="eager" if variant else "lazy")
        assert emulation.reports == ()
        np.testing.assert_array_equal(found, expected, err_msg=f"{a} {b}")


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.sample(7)
def test_a_may_come_from_registers(columns: int, element: str) -> None:
    for width, mn_major, adds in product(WIDTHS, (False, True), (False, True)):
        b = operand(columns, width, mn_major, B_START, 0)
        emulation, found, expected = multiplied(None, b, element=element, adds=adds)
        assert emulation.reports == ()
        np.testing.assert_array_equal(found, expected, err_msg=f"{b}")


def test_bf16_operands_from_shared_memory() -> None:
    tiles = operand(ROWS, 8, False, 0, 0), operand(64, 4, True, B_START, 0)
    emulation, found, expected = multiplied(*tiles, element="bf16", adds=False)
    assert emulation.reports == ()
    np.testing.assert_array_equal(found, expected)


def test_products_are_counted_for_each_warpgroup() -> None:
    tiles = operand(ROWS, 8, False, 0, 0), operand(128, 8, True, B_START, 0)
    counters = multiplied(*tiles)[0].counters
    assert counters["wgmma"] == counters["critical_wgmma"] == 1
    assert counters["wgmma_macs"] == counters["critical_wgmma_macs"] == 64 * 128 * 16


# ---- a pipeline


def pipeline(*, bug: int = 0, steps: int = 7, **choices: Any) -> tuple[Emulation, Array, Array]:
    """What a launch did, the sums that it gives out, and the right ones."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((ROWS, DEPTH), (steps, ROWS, DEPTH)))
    library = gxx.build(f"#define BUG {bug}\n#line 1\n{TEXT}", name="pipeline")
    with Memory() as memory:
        given = [memory.array(name, x.shape, x.dtype, fill=x) for name, x in (("a", a), ("b", b))]
        out = memory.array("out", (2, 2, ROWS, ROWS), np.float32, writable=True)
        arguments: list[np.generic] = [
            *(np.uint64(array.ctypes.data) for array in (*given, out)),
            np.int32(steps),
        ]
        emulation = run_launch(
            library, LaunchConfig("pipeline", (1, 1, 1), (256, 1, 1), 8192), arguments, **choices
        )
        sums = np.einsum("mk,snk->smn", a, b, dtype=np.float64)
        last = sums[(steps - 2) % 2 : steps - 1 : 2].sum(0)
        expected = np.stack([[sums.sum(0)] * 2, [last] * 2])
        return emulation, out.copy(), expected


@pytest.mark.parametrize("delivery", ["eager", "lazy", "random"])
@pytest.mark.parametrize("schedule", ["fifo", "random"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_pipeline_with_two_accumulators_is_right(delivery: Any, schedule: Any, seed: int) -> None:
    emulation, found, expected = pipeline(delivery=delivery, schedule=schedule, seed=seed)
    assert emulation.reports == ()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("delivery", ["eager", "lazy", "random"])
@pytest.mark.parametrize(("bug", "kinds"), [(1, {"race-WAR"}), (2, {"race-WAR", "wgmma-acc-not-waited"})])
def test_a_pipeline_that_is_a_step_too_deep_is_reported(bug: int, kinds: set[str], delivery: Any) -> None:
    emulation, _, _ = pipeline(bug=bug, delivery=delivery)
    assert {report.kind for report in emulation.reports} == kinds


# ---- rules, each broken


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory() as held:
        yield held


def fault(memory: Memory, number: int, *, threads: int = 128, **choices: Any) -> tuple[Emulation, Array]:
    built = gxx.build(f"#define FAULT {number}\n#line 1\n{TEXT}", name="faults")
    out = memory.array("out", (128,), np.float32, writable=True)
    launch = LaunchConfig("faults", (1, 1, 1), (threads, 1, 1), 6144)
    return run_launch(built, launch, [np.uint64(out.ctypes.data)], **choices), out


def section(number: int) -> list[tuple[int, str]]:
    """The numbered lines of one FAULT's part of the kernel."""
    lines = list(enumerate(TEXT.splitlines(), 1))
    tests = [i for i, (_, line) in enumerate(lines) if re.match(r"#(el)?if FAULT|#endif", line)]
    first = max(i for i in tests if re.search(rf"FAULT == {number}\b", lines[i][1]))
    return lines[first : next(i for i in tests if i > first)]


def line_in(number: int, wanted: str) -> int:
    return next(n for n, line in section(number) if wanted in line)


POLICIES = list(product(("eager", "lazy", "random"), ("fifo", "random")))


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
def test_what_is_allowed_is_not_reported(memory: Memory, delivery: Any, schedule: Any) -> None:
    for number, expected in ((0, 64.0), (24, 32.0)):
        emulation, out = fault(memory, number, delivery=delivery, schedule=schedule)
        assert emulation.reports == ()
        np.testing.assert_array_equal(out, np.full(128, expected, np.float32))


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize(("number", "kind", "line"), told("wgmma"))
@pytest.mark.sample(69)
def test_a_broken_rule_is_reported_with_its_line(
    memory: Memory, number: int, kind: str, line: str, delivery: Any, schedule: Any
) -> None:
    emulation, _ = fault(memory, number, delivery=delivery, schedule=schedule)
    assert kind in {report.kind for report in emulation.reports}
    report = next(report for report in emulation.reports if report.kind == kind)
    assert report.line in [n for n, text in section(number) if line in text]
    if kind in ("wgmma-acc-not-waited", "wgmma-a-in-flight"):
        wgmmas = [n for n, text in section(number) if "wgmma_ss" in text or "wgmma_rs" in text]
        assert report.line2 == wgmmas[-1]


@pytest.mark.parametrize("delivery", ["eager", "lazy", "random"])
def test_a_stage_released_before_the_wait_is_a_race_with_the_warpgroup(memory: Memory, delivery: Any) -> None:
    reports = fault(memory, 7, delivery=delivery)[0].reports
    fill = next(n for n, line in enumerate(TEXT.splitlines(), 1) if "ef::sts(tile +" in line)
    assert [(report.kind, report.line, report.line2) for report in reports] == [
        ("race-WAR", fill, line_in(7, "wgmma_ss"))
    ]
    assert "wgmma of warps 0 to 3" in reports[0].message


def test_a_change_of_operand_a_in_flight_changes_late_results(memory: Memory) -> None:
    # In order, so that warp 0 changes its rows before any warp waits.
    assert fault(memory, 5, delivery="lazy", schedule="fifo")[1][0] == 0
    assert fault(memory, 5, delivery="eager", schedule="fifo")[1][0] == 32


def test_results_in_flight_are_no_numbers(memory: Memory) -> None:
    assert np.isnan(fault(memory, 4)[1]).all()


def test_an_operand_outside_of_the_allocation_gives_no_numbers(memory: Memory) -> None:
    assert np.isnan(fault(memory, 16)[1]).all()


def test_a_block_of_three_warps_has_no_warpgroup(memory: Memory) -> None:
    report = fault(memory, 0, threads=96)[0].reports[-1]
    assert report.kind == "divergence"
    assert "the block has 96 threads" in report.message


def test_a_deadlock_tells_which_warp_the_warpgroup_misses(memory: Memory) -> None:
    report = fault(memory, 23)[0].reports[-1]
    assert report.kind == "DEADLOCK"
    assert "warpgroup of warps 0 to 3; warp 3: lanes ffffffff have not come" in report.message
