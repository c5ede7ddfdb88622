"""Atomics, flags and fences in the emulator: their values, and what they do and do not order."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from emulator_faults import WAYS, found, told
from places import KERNELS

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

SOURCE = (KERNELS / "atomics.cu").read_text()
THREADS = np.arange(64)
Array = np.ndarray[Any, Any]


def launched(
    entry: str,
    fault: int,
    *scalars: np.generic,
    blocks: int = 1,
    resident: bool = False,
    scratch: Array | None = None,
    shape: tuple[int, ...] = (64,),
    dtype: Any = np.int32,
    launches: int = 1,
    **way: Any,
) -> tuple[list[Emulation], Array, Array]:
    """The emulations, and what they left in the workspace (a copy of `scratch`, if any) and in the output."""
    library = build(f"#define FAULT {fault}\n#line 1\n{SOURCE}", name="atomics")
    launch = LaunchConfig(entry, (blocks, 1, 1), (64, 1, 1), 1024, resident=resident)
    with Memory() as memory:
        out = memory.array("out", shape, dtype, writable=True)
        arrays = [out]
        if scratch is not None:
            given = memory.array("workspace", scratch.shape, scratch.dtype, writable=True, fill=scratch)
            arrays.insert(0, given)
        pointers = [np.uint64(array.ctypes.data) for array in arrays]
        emulations = [run_launch(library, launch, [*pointers, *scalars], **way) for _ in range(launches)]
        return emulations, arrays[0].copy(), out.copy()


def combine(fault: int, **choices: Any) -> tuple[list[Emulation], Array, Array]:
    return launched("combine", fault, blocks=4, scratch=np.zeros(65 * 4, np.int32), **choices)


def turns(fault: int, *, resident: bool = True, **choices: Any) -> tuple[list[Emulation], Array, Array]:
    scratch = np.zeros(65, np.int32)
    return launched("turns", fault, blocks=3, resident=resident, scratch=scratch, **choices)


# ---- right kernels


@pytest.mark.slow
@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("fault", [0, 5, 6], ids=["fences", "acq_rel", "the last block resets"])
def test_the_last_block_combines_what_all_have_left(fault: int, resident: bool) -> None:
    for way in WAYS:
        emulations, scratch, out = combine(fault, resident=resident, launches=2, **way)
        assert [emulation.reports for emulation in emulations] == [(), ()]
        np.testing.assert_array_equal(out, 600 + 4 * THREADS)
        assert scratch[4 * 64] == 0  # ready for the next launch


@pytest.mark.parametrize("resident", [False, True])
def test_blocks_draw_tiles_from_a_counter_that_resets_itself(resident: bool) -> None:
    for way in WAYS:
        emulations, scratch, out = launched(
            "draw",
            0,
            np.int32(7),
            blocks=3,
            resident=resident,
            scratch=np.zeros(2, np.uint32),
            shape=(7, 64),
            launches=2,
            **way,
        )
        assert [emulation.reports for emulation in emulations] == [(), ()]
        np.testing.assert_array_equal(out, 1000 * np.arange(7)[:, None] + THREADS)
        assert not scratch.any()


@pytest.mark.parametrize("fault", [10, 12, 14], ids=["acquire and release", "relaxed with fences", "a lock"])
def test_resident_blocks_take_turns(fault: int) -> None:
    for way in WAYS:
        (emulation,), _, out = turns(fault, **way)
        assert emulation.reports == ()
        np.testing.assert_array_equal(out, 3 + 3 * THREADS)


def test_atomics_do_not_race_with_one_another_nor_count_as_written_twice() -> None:
    for resident, way in product((False, True), WAYS):
        (emulation,), _, out = launched("pile", 0, blocks=3, resident=resident, dtype=np.float32, **way)
        assert emulation.reports == ()
        np.testing.assert_array_equal(out, np.full(64, 6, np.float32))


def test_shared_atomics_make_a_histogram() -> None:
    for way in WAYS:
        (emulation,), _, out = launched("count", 30, **way)
        assert emulation.reports == ()
        np.testing.assert_array_equal(out[:8], np.full(8, 8))


def test_a_shared_counter_with_fences_orders_a_block() -> None:
    for way in WAYS:
        (emulation,), _, out = launched("last", 40, **way)
        assert emulation.reports == ()
        assert out[0] == THREADS.sum()


def test_each_atomic_returns_the_old_value_and_leaves_the_new_one() -> None:
    scratch = np.full(12, 5, np.int32)
    scratch[8:] = np.float32(2.0).view(np.int32), 9, 8, 0
    library = build(f"#define FAULT 0\n#line 1\n{SOURCE}", name="atomics")
    with Memory() as memory:
        given = memory.array("workspace", scratch.shape, np.int32, writable=True, fill=scratch)
        out = memory.array("out", (33,), np.int32, writable=True)
        pointers = [np.uint64(array.ctypes.data) for array in (given, out)]
        emulation = run_launch(library, LaunchConfig("values", (1, 1, 1), (1, 1, 1), 1024), pointers)
        result = out.copy()
    two, three_and_half, tiny = np.array([2.0, 3.5, 1e-40], np.float32).view(np.int32)
    assert emulation.reports == ()
    np.testing.assert_array_equal(result[:10], [5, 5, two, 5, 5, 5, 5, 5, 9, 8])
    np.testing.assert_array_equal(result[10:21], [-2, 12, 5, -3, 5, 5, -3, 0, three_and_half, 90, 8])
    np.testing.assert_array_equal(result[21:26], [5] * 5)
    np.testing.assert_array_equal(result[26:31], [-2, -3, 5, 5, -3])
    np.testing.assert_array_equal(result[31:], [0, tiny])


# ---- what is wrong, in every schedule


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize(("fault", "kind", "line"), told("combining"))
@pytest.mark.sample(6)
def test_a_wrong_way_to_combine_is_named(fault: int, kind: str, line: str, resident: bool) -> None:
    for way in WAYS:
        (emulation,), _, _ = combine(fault, resident=resident, **way)
        assert (kind, line) in found(emulation, SOURCE), way


@pytest.mark.parametrize(("fault", "lines"), told("turns", sets=("lines",)))
@pytest.mark.sample(3)
def test_a_wrong_way_to_take_turns_is_a_race(fault: int, lines: set[str]) -> None:
    for way in WAYS:
        (emulation,), _, _ = turns(fault, **way)
        reports = found(emulation, SOURCE)
        assert reports
        assert {kind for kind, _ in reports} == {"race-global"}
        assert {line for _, line in reports} <= lines


def test_blocks_that_wait_for_one_that_is_not_there_are_told_so() -> None:
    for way in WAYS:
        (emulation,), _, _ = turns(10, resident=False, **way)
        if way["schedule"] == "random" and not emulation.reports:
            continue  # those that wait for one another happened to be there at the same time
        (report,) = [each for each in emulation.reports if each.kind == "LIVELOCK"]
        said = r"only [12] of 3 blocks were resident: blocks that wait for one another need `resident`"
        assert re.search(said, report.message)


@pytest.mark.parametrize(("entry", "fault", "kinds", "lines"), told("beside_atomics", sets=("kinds",)))
@pytest.mark.sample(4)
def test_plain_accesses_race_with_atomics(entry: str, fault: int, kinds: set[str], lines: list[str]) -> None:
    dtype = np.float32 if entry == "pile" else np.int32
    seen = set()
    for way in WAYS:
        (emulation,), _, _ = launched(entry, fault, blocks=3 if entry == "pile" else 1, dtype=dtype, **way)
        reports = found(emulation, SOURCE)
        assert reports, way
        assert {kind for kind, _ in reports} <= kinds
        seen |= {text for _, text in reports}
    assert set(lines) == seen  # whichever of two accesses comes second, some schedule has it
