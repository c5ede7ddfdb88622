"""TMA and bulk copies in the emulator: where bytes go, against NumPy, and every way to misuse a copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_faults import told
from places import KERNELS
from tables import data, table_of_cases

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.emulator.tensor_map import tensor_map
from evoflash.errors import UsageError
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

BOXES = (KERNELS / "boxes.cu").read_text()
TILES = (KERNELS / "tma.cu").read_text()
PAIR = (KERNELS / "tma_cluster.cu").read_text()
POLICIES = tuple(product(("eager", "lazy", "random"), ("fifo", "random")))
DATA = 2048  # the kernels' first data byte, as an absolute address: 1024 is where shared memory begins
ALL_BYTES = 24 << 10
POISON = 0x55


# ---- where a box's bytes go


@dataclass(frozen=True)
class Case:
    """A box of a tensor; all sizes innermost first, in elements."""

    dims: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    swizzle: int = 0
    element_bytes: int = 2
    offset: int = 0  # of the box in shared memory
    fill_nan: bool = False
    broadcast: bool = False  # the outermost stride is 0

    @property
    def dtype(self) -> str:
        return {2: "u2", 4: "u4"}[self.element_bytes]

    @property
    def box_bytes(self) -> int:
        return int(np.prod(self.box)) * self.element_bytes

    def tensor(self, memory: Memory, name: str, *, writable: bool) -> np.ndarray[Any, Any]:
        """Rows padded to a multiple of 16 bytes: the tensor is its first dims[0] columns."""
        row = -(-self.dims[0] * self.element_bytes // 16) * 16 // self.element_bytes
        shape = (*reversed(self.dims[1:]), row)
        if self.broadcast:
            shape = (1, *shape[1:])
        values = np.random.default_rng(0).integers(1, 1 << 15, shape)
        return memory.array(name, shape, self.dtype, writable=writable, fill=values)

    def map(self, tensor: np.ndarray[Any, Any]) -> np.void:
        strides = list(reversed(tensor.strides[:-1]))
        if self.broadcast:
            strides[-1] = 0
        return tensor_map(
            tensor.ctypes.data,
            self.dims,
            strides,
            self.box,
            element_bytes=self.element_bytes,
            swizzle=self.swizzle,  # type: ignore[arg-type]
            fill_nan=self.fill_nan,
        )

    def elements(self, *, writes: bool = False) -> list[tuple[tuple[int, ...] | None, int]]:
        """For each element of the box: its index in the tensor's array, None outside; its shared offset.
        Writes know only 16-byte pieces: the padding of a row's last one is inside.
        """
        unit = 16 // self.element_bytes if writes else 1
        dims = (-(-self.dims[0] // unit) * unit, *self.dims[1:])
        places = []
        for linear, reversed_index in enumerate(np.ndindex(*reversed(self.box))):
            coords = [a + i for a, i in zip(self.at, reversed(reversed_index), strict=True)]
            inside = all(0 <= c < n for c, n in zip(coords, dims, strict=True))
            if self.broadcast:
                coords[-1] = 0
            place = swizzled(DATA + self.offset + linear * self.element_bytes, self.swizzle) - DATA
            places.append((tuple(reversed(coords)) if inside else None, place))
        return places


def swizzled(address: int, span: int) -> int:
    """By the PTX ISA's figures: in lines of 128 bytes, chunks of 16 change places within a span."""
    if span == 0:
        return address
    chunks = span // 16
    line, chunk, byte = address // 128, address % 128 // 16, address % 16
    moved = chunk // chunks * chunks + (chunk % chunks ^ line % chunks)
    return line * 128 + moved * 16 + byte


BOX_CASES = [
    pytest.param(Case(**{key: value for key, value in row.items() if key != "id"}), id=row["id"])
    for row in data(__file__, "BOX_CASES", tuples=True)
]


def boxes(entry: str, case: Case, *, add: int = 0, element: str = "ef::f16") -> Path:
    head = f"#define RANK {len(case.dims)}\n#define ADD {add}\n#define ELEMENT {element}\n#line 1\n"
    return build(head + BOXES, name=entry)


def coordinates(case: Case) -> list[np.int32]:
    return [np.int32(x) for x in (*case.at, 0, 0, 0, 0)[:5]]


@pytest.mark.parametrize("case", BOX_CASES)
def test_a_load_puts_every_byte_where_numpy_says(case: Case) -> None:
    with Memory() as memory:
        tensor = case.tensor(memory, "tensor", writable=False)
        out = memory.array("out", (ALL_BYTES,), np.uint8, writable=True)
        expected = np.full(ALL_BYTES, POISON, np.uint8)
        nan = {2: 0x7FFF, 4: 0x7FFF7FFF}[case.element_bytes]
        for index, place in case.elements():
            value = tensor[index] if index else np.array(nan if case.fill_nan else 0, case.dtype)
            expected[place : place + case.element_bytes] = np.frombuffer(value.tobytes(), np.uint8)
        sizes = [np.int32(ALL_BYTES), np.int32(case.offset), np.int32(case.box_bytes)]
        arguments = [case.map(tensor), np.uint64(out.ctypes.data), *sizes, *coordinates(case)]
        launch = LaunchConfig("box_load", (1, 1, 1), (32, 1, 1), 1024 + ALL_BYTES)
        emulation = run_launch(boxes("box_load", case), launch, arguments)
        assert emulation.reports == ()
        assert np.array_equal(out, expected)
        assert emulation.counters["tma"] == 1
        assert emulation.counters["tma_bytes"] == case.box_bytes


def store(case: Case, *, add: int = 0, element: str = "ef::f16", **choices: Any) -> tuple[Any, Any, Any]:
    """The tensor before, the values in shared memory, the tensor after."""
    with Memory() as memory:
        tensor = case.tensor(memory, "tensor", writable=True)
        rng = np.random.default_rng(1)
        shared = rng.integers(1, 1 << 14, ALL_BYTES // case.element_bytes).astype(case.dtype)
        if add:
            tensor[...] = encoded(rng.integers(-50, 50, tensor.shape), element)
            shared = encoded(rng.integers(-50, 50, shared.shape), element)
        before = tensor.copy()
        given = memory.array("in", shared.shape, case.dtype, fill=shared)
        pointers = [case.map(tensor), np.uint64(given.ctypes.data)]
        # 1024 bytes into shared memory: DATA as well.
        arguments = [*pointers, np.int32(ALL_BYTES), np.int32(1024), *coordinates(case)]
        launch = LaunchConfig("box_store", (1, 1, 1), (32, 1, 1), 1024 + ALL_BYTES)
        emulation = run_launch(
            boxes("box_store", case, add=add, element=element), launch, arguments, **choices
        )
        assert emulation.reports == ()
        return before, shared, tensor.copy()


def encoded(values: np.ndarray[Any, Any], element: str) -> np.ndarray[Any, Any]:
    if element == "ef::bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return (
        values.astype(np.float16).view(np.uint16) if element == "ef::f16" else values.astype("f4").view("u4")
    )


def decoded(values: np.ndarray[Any, Any], element: str) -> np.ndarray[Any, Any]:
    if element == "ef::bf16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.view(np.float16 if element == "ef::f16" else np.float32)


STORE_CASES = [
    case
    for case in (
        *BOX_CASES,
        pytest.param(Case((51,), (24,), (32,)), id="1d, half a piece"),
        pytest.param(Case((35, 6), (8, 4), (32, 3), 32, 4), id="2d, f32, 32B, half a piece"),
    )
    for chosen in case.values
    if isinstance(chosen, Case)
    if not chosen.broadcast and chosen.offset == 0 and min(chosen.at) >= 0
]


@pytest.mark.parametrize("case", STORE_CASES)
def test_a_store_takes_every_byte_from_where_numpy_says(case: Case) -> None:
    before, shared, after = store(case)
    expected = before.copy()
    for index, place in case.elements(writes=True):
        if index:
            expected[index] = shared[place // case.element_bytes]
    assert np.array_equal(after, expected)


@pytest.mark.parametrize("element", ["ef::f16", "ef::bf16", "float"])
def test_a_reduction_adds_element_by_element(element: str) -> None:
    case = Case((27, 10), (24, 8), (8, 5), element_bytes=4 if element == "float" else 2)
    before, shared, after = store(case, add=1, element=element)
    expected = decoded(before, element).copy()
    for index, place in case.elements(writes=True):
        if index:
            expected[index] += decoded(shared, element)[place // case.element_bytes]
    assert np.array_equal(decoded(after, element), expected)


@pytest.mark.parametrize("add", [0, 1])
def test_a_piece_that_leaves_the_buffer_is_reported(add: int) -> None:
    case = Case((51,), (24,), (32,))
    with Memory() as memory:
        tensor = memory.array("tensor", (51,), np.uint16, writable=True, fill=0)
        given = memory.array("in", (ALL_BYTES,), np.uint8, fill=1)
        arguments = [case.map(tensor), np.uint64(given.ctypes.data), np.int32(ALL_BYTES), np.int32(1024)]
        launch = LaunchConfig("box_store", (1, 1, 1), (32, 1, 1), 1024 + ALL_BYTES)
        emulation = run_launch(boxes("box_store", case, add=add), launch, [*arguments, *coordinates(case)])
    (report,) = emulation.reports
    assert report.kind == "OOB-global"
    assert report.line == line_of("tma_reduce_add" if add else "tma_store", source=BOXES)
    assert "48 bytes at offset 64 of buffer 'tensor' (102 bytes)" in report.message


def test_sectors_are_counted_as_far_as_the_box_lies_in_the_tensor() -> None:
    case = Case((64, 40), (64, 16), (0, 30), 128)
    with Memory() as memory:
        tensor = case.tensor(memory, "tensor", writable=False)
        out = memory.array("out", (ALL_BYTES,), np.uint8, writable=True)
        sizes = [np.int32(0), np.int32(0), np.int32(case.box_bytes)]
        arguments = [case.map(tensor), np.uint64(out.ctypes.data), *sizes, *coordinates(case)]
        launch = LaunchConfig("box_load", (1, 1, 1), (32, 1, 1), 1024 + ALL_BYTES)
        counters = run_launch(boxes("box_load", case), launch, arguments).counters
    assert counters["global_read_sectors"] == 10 * 128 // 32


# ---- tensor maps


@table_of_cases(tuples=True)
def test_what_a_driver_would_refuse_is_refused(change: dict[str, Any], reason: str) -> None:
    right: dict[str, Any] = {"address": 256, "dims": (64, 40), "strides": (128,), "box": (64, 8)}
    tensor_map(**right)
    with pytest.raises(UsageError, match=reason):
        tensor_map(**right | change)


# ---- protocols


def tiles(
    number: int, *, rows: int = 128, **choices: Any
) -> tuple[Emulation, dict[str, np.ndarray[Any, Any]]]:
    """`rows` is what the maps say of both tensors of 128."""
    library = build(f"#define FAULT {number}\n#line 1\n{TILES}", name="tiles")
    with Memory() as memory:
        given = np.arange(128 * 64).reshape(128, 64) % 251
        arrays = {
            "from": memory.array("from", (128, 64), np.uint16, fill=given),
            "to": memory.array("to", (128, 64), np.uint16, writable=True),
            "plain": memory.array("plain", (4096,), np.uint16, fill=np.arange(4096)),
            "floats": memory.array("floats", (64,), np.float32, writable=True, fill=1),
            "out": memory.array("out", (64,), np.int32, writable=True),
        }
        maps = [
            tensor_map(arrays[name].ctypes.data, (64, rows), (128,), (64, 16), swizzle=128)
            for name in ("from", "to")
        ]
        pointers = [np.uint64(arrays[name].ctypes.data) for name in ("plain", "to", "floats", "out")]
        launch = LaunchConfig("tiles", (1, 1, 1), (64, 1, 1), 16 << 10)
        emulation = run_launch(library, launch, [*maps, *pointers], **choices)
        return emulation, {name: array.copy() for name, array in arrays.items()}


def line_of(wanted: str, *, after: str = "", source: str = TILES) -> int:
    """The first line with `wanted` at or behind the first with `after`."""
    lines = source.splitlines()
    first = next(number for number, line in enumerate(lines) if after in line)
    return next(number for number, line in enumerate(lines, 1) if number > first and wanted in line)


def kinds_at(emulation: Emulation) -> set[tuple[str, int]]:
    return {(report.kind, report.line) for report in emulation.reports}


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_ring_of_loads_is_not_reported(delivery: str, schedule: str, seed: int) -> None:
    emulation, arrays = tiles(0, delivery=delivery, schedule=schedule, seed=seed)
    assert emulation.reports == ()
    sums = arrays["from"].astype(int).sum(1)
    assert arrays["out"][32:].tolist() == [sums[lane % 16 :: 16].sum() for lane in range(32)]


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize("number", [9, 17, 33])
def test_a_right_store_is_not_reported(number: int, delivery: str, schedule: str) -> None:
    emulation, arrays = tiles(number, delivery=delivery, schedule=schedule)
    assert emulation.reports == ()
    expected = np.array([[column // 16 * 16 + row for column in range(64)] for row in range(16)])
    assert np.array_equal(arrays["to"][32:48], expected)


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize("number", [35, 38])
def test_what_was_written_and_fenced_can_be_loaded(number: int, delivery: str, schedule: str) -> None:
    emulation, arrays = tiles(number, delivery=delivery, schedule=schedule)
    assert emulation.reports == ()
    rows = np.arange(16 * 64).reshape(16, 64) % 251
    expected = [rows[row % 16].sum() for row in range(64)] if number == 35 else [0] * 64
    assert arrays["out"].tolist() == expected


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
def test_bytes_may_come_before_they_are_expected(delivery: str, schedule: str) -> None:
    emulation, arrays = tiles(28, delivery=delivery, schedule=schedule)
    assert emulation.reports == ()
    assert arrays["out"].tolist() == [arrays["from"][row % 16].sum() for row in range(64)]


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
def test_a_stage_filled_without_waiting_is_reported(delivery: str, schedule: str) -> None:
    found = kinds_at(tiles(1, delivery=delivery, schedule=schedule)[0])
    arrives, fills = line_of("mbar_arrive_expect_tx"), line_of("// fills")
    assert found & {("mbarrier-overarrive", arrives), ("async-overwrite", fills), ("race-WAR", fills)}


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
def test_plain_rows_go_there_and_back_and_add_up(delivery: str, schedule: str) -> None:
    emulation, arrays = tiles(18, delivery=delivery, schedule=schedule)
    assert emulation.reports == ()
    assert np.array_equal(arrays["to"].ravel()[:256], np.arange(256))
    assert np.array_equal(arrays["floats"], 1 + 2 * np.arange(64))


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize(("number", "kind", "at"), told("tma"))
@pytest.mark.sample(24)
def test_misuse_is_reported_with_its_line(
    number: int, kind: str, at: str, delivery: str, schedule: str
) -> None:
    emulation, _ = tiles(number, delivery=delivery, schedule=schedule)
    assert (kind, line_of(at)) in kinds_at(emulation)


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
def test_bytes_that_never_come_are_a_hang_that_tells_how_many(delivery: str, schedule: str) -> None:
    (report,) = tiles(6, delivery=delivery, schedule=schedule)[0].reports
    assert report.kind == "DEADLOCK"
    assert "phase 0 has parity 0, 0 of 1 arrivals missing, tx-count 2048" in report.message


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
def test_bytes_that_nobody_expects_are_reported(delivery: str, schedule: str) -> None:
    (report,) = tiles(29, delivery=delivery, schedule=schedule)[0].reports
    # They come before the arrival, or too late.
    if report.kind == "mbarrier-tx":
        assert report.line == line_of("// without bytes")
        assert "2048 bytes more than the phase expects" in report.message
    else:
        assert (report.kind, report.line) == ("async-at-exit", line_of("tma_load", after="// never expected"))


def test_a_tensor_larger_than_its_buffer_is_reported_by_name() -> None:
    emulation, _ = tiles(8, rows=129)
    report = next(report for report in emulation.reports if report.kind == "OOB-global")
    assert report.line == line_of("// the load")
    assert "16512 bytes at offset 0 of buffer 'from' (16384 bytes)" in report.message


def test_a_missing_init_fence_is_named() -> None:
    report = next(r for r in tiles(3)[0].reports if r.kind == "missing-proxy-fence")
    assert "fence_mbar_init" in report.message
    assert report.line2 == line_of("ef::mbar_init(full")


def test_what_was_expected_is_named_beside_what_came() -> None:
    report = next(r for r in tiles(5)[0].reports if r.kind == "mbarrier-tx")
    assert "1024 bytes more than the phase expects" in report.message
    assert report.line2 == line_of("// too few bytes")


def test_a_stride_of_zero_is_found_when_it_is_stored_through() -> None:
    case = Case((64, 4, 3), (64, 4, 2), (0, 0, 0), broadcast=True)
    with pytest.raises(AssertionError, match=r"race-global|double-write-global"):
        store(case)


# ---- between the blocks of a cluster


def pair(number: int, **choices: Any) -> tuple[Emulation, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    library = build(f"#define FAULT {number}\n#line 1\n{PAIR}", name="pair")
    with Memory() as memory:
        given = memory.array("from", (64, 64), np.uint16, fill=np.arange(64 * 64).reshape(64, 64) % 251)
        out = memory.array("out", (2, 64), np.int32, writable=True)
        arguments = [tensor_map(given.ctypes.data, (64, 64), (128,), (64, 16)), np.uint64(out.ctypes.data)]
        launch = LaunchConfig("pair", (2, 1, 1), (64, 1, 1), 8 << 10, cluster=(2, 1, 1))
        emulation = run_launch(library, launch, arguments, **choices)
        return emulation, given.copy(), out.copy()


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("number", [0, 11], ids=["arrivals", "relaxed arrivals that nobody waits for"])
def test_a_ring_filled_by_multicast_is_not_reported(
    number: int, delivery: str, schedule: str, seed: int
) -> None:
    emulation, given, out = pair(number, delivery=delivery, schedule=schedule, seed=seed)
    assert emulation.reports == ()
    sums = given.astype(int).sum(1)
    expected = [sums[lane % 16 :: 16].sum() for lane in range(32)]
    assert out[:, 32:].tolist() == [expected, expected]


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
def test_a_copy_to_another_block_is_not_reported(delivery: str, schedule: str) -> None:
    emulation, _, out = pair(6, delivery=delivery, schedule=schedule)
    assert emulation.reports == ()
    assert out[1].tolist() == list(range(64))


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@table_of_cases()
def test_misuse_between_blocks_is_reported_with_its_line(
    number: int, kind: str, at: str, delivery: str, schedule: str
) -> None:
    emulation, *_ = pair(number, delivery=delivery, schedule=schedule)
    assert (kind, line_of(at, source=PAIR)) in kinds_at(emulation)


def places_of(values: Sequence[int]) -> list[int]:
    return [swizzled(value, 128) for value in values]


def test_the_oracles_swizzle_is_that_of_the_isa() -> None:
    # Of 128 bytes: chunks 0 to 7 of line 1 stand at 1 0 3 2 5 4 7 6, of line 2 at 2 3 0 1 6 7 4 5.
    assert [place % 128 // 16 for place in places_of(range(128, 256, 16))] == [1, 0, 3, 2, 5, 4, 7, 6]
    assert [place % 128 // 16 for place in places_of(range(256, 384, 16))] == [2, 3, 0, 1, 6, 7, 4, 5]
