"""Shuffles, votes, election and reductions, ldmatrix and stmatrix, and setmaxnreg's pool, in the emulator."""

from typing import Any

import numpy as np
import pytest
from places import KERNELS
from tables import table_of_cases

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

TEXT = (KERNELS / "warp.cu").read_text()
Array = np.ndarray[Any, Any]


def exchanged(values: Array, distance: int, *, threads: int = 64, **choices: Any) -> Array:
    """threads x 16 results, see the kernel."""
    with Memory() as memory:
        given = memory.array("values", (64,), np.uint32, fill=values)
        out = memory.array("out", (64, 16), np.uint32, writable=True)
        pointers = [np.uint64(array.ctypes.data) for array in (given, out)]
        launch = LaunchConfig("exchange", (1, 1, 1), (threads, 1, 1), 0)
        emulation = run_launch(build(TEXT, name="warp"), launch, [*pointers, np.int32(distance)], **choices)
        assert emulation.reports == ()
        return out[:threads].copy()


VALUES = np.random.default_rng(3).integers(0, 1 << 32, 64).astype(np.uint32)
LANE = np.arange(64) % 32


@pytest.mark.parametrize("distance", [0, 1, 5, 16, 31])
def test_shuffles_move_within_a_warp_and_stop_at_its_ends(distance: int) -> None:
    out, at = exchanged(VALUES, distance), np.arange(64)
    np.testing.assert_array_equal(out[:, 0], VALUES[np.where(distance <= LANE, at - distance, at)])
    np.testing.assert_array_equal(out[:, 1], VALUES[np.where(LANE + distance < 32, at + distance, at)])
    np.testing.assert_array_equal(out[:, 2], VALUES[at ^ distance])


@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_votes_and_reductions_combine_a_warp(schedule: Any) -> None:
    out = exchanged(VALUES, 1, schedule=schedule).reshape(2, 32, 16)
    for warp, values in zip(out, VALUES.reshape(2, 32), strict=True):
        signed = values.view(np.int32)
        ballot = int("".join(str(bit) for bit in (values & 1)[::-1]), 2)
        wanted = [ballot, values.sum(dtype=np.uint32), values.min(), values.max()]
        wanted += [signed.min().view(np.uint32), signed.max().view(np.uint32)]
        np.testing.assert_array_equal(warp[:, 3:9], np.broadcast_to(np.array(wanted, np.uint32), (32, 6)))


@pytest.mark.parametrize(("parity", "votes"), [(0, 0), (1, 3), (2, 1)], ids=["none", "all", "some"])
def test_any_and_all(parity: int, votes: int) -> None:
    values = np.arange(64) if parity == 2 else np.full(64, parity)
    assert (exchanged(values, 0)[:, 11] == votes).all()


def leader(seed: int, threads: int = 64) -> int:
    elected = exchanged(VALUES, 0, seed=seed, threads=threads)[:, 9:11]
    first, again = elected[:32].T
    np.testing.assert_array_equal(first, again)
    assert first.sum() == 1
    return int(first.argmax())


def test_one_lane_is_elected_and_a_kernel_cannot_know_which() -> None:
    assert leader(4) == leader(4)
    assert len({leader(seed) for seed in range(12)}) > 4


def test_only_a_lane_that_exists_is_elected() -> None:
    assert {leader(seed, threads=2) for seed in range(12)} == {0, 1}


def matrices(head: str = "") -> tuple[Emulation, Array, Array]:
    """The registers given to each lane, and for x1, x2, x4 and these transposed what the kernel found."""
    registers = np.random.default_rng(4).integers(0, 1 << 32, (32, 4)).astype(np.uint32)
    with Memory() as memory:
        given = memory.array("registers", (32, 4), np.uint32, fill=registers)
        out = memory.array("out", (2, 3, 2, 128), np.uint32, writable=True)
        pointers = [np.uint64(array.ctypes.data) for array in (given, out)]
        library = build(f"{head}\n#line 1\n{TEXT}", name="warp")
        emulation = run_launch(library, LaunchConfig("matrices", (1, 1, 1), (32, 1, 1), 512), pointers)
        return emulation, registers, out.copy()


def test_what_stmatrix_stored_ldmatrix_loads_again() -> None:
    emulation, registers, out = matrices()
    assert emulation.reports == ()
    for transposed in (0, 1):
        for index, count in enumerate((1, 2, 4)):
            back = out[transposed, index, 0].reshape(32, 4)
            np.testing.assert_array_equal(back[:, :count], registers[:, :count])


def test_stmatrix_stores_rows_or_columns_of_8x8_matrices() -> None:
    _, registers, out = matrices()
    elements = registers.view(np.uint16).reshape(8, 4, 4, 2)  # row, lane of the row, matrix, half
    tiles = elements.transpose(2, 0, 1, 3).reshape(4, 8, 8)
    for index, count in enumerate((1, 2, 4)):
        stored = out[:, index, 1].reshape(2, -1).view(np.uint16)[:, : count * 64].reshape(2, count, 8, 8)
        np.testing.assert_array_equal(stored[0], tiles[:count])
        np.testing.assert_array_equal(stored[1], tiles[:count].transpose(0, 2, 1))


def test_matrices_and_their_wavefronts_are_counted() -> None:
    emulation = matrices()[0]
    assert emulation.counters["stmatrix"] == emulation.counters["ldmatrix"] == 14 // 4 + 1
    stored = [site for site in emulation.sites if site.op == "stmatrix"]
    assert [site.requests for site in stored] == [1] * 6
    assert sum(site.actual for site in stored) == sum(site.ideal for site in stored) == 14


def test_stmatrix_orders_no_memory() -> None:
    reports = matrices("#define NO_SYNC")[0].reports
    assert {report.kind for report in reports} == {"race-RAW"}
    assert "stmatrix" in TEXT.splitlines()[reports[0].line2 - 1]


# ---- setmaxnreg


def registers(number: int, **choices: Any) -> Emulation:
    with Memory() as memory:
        out = memory.array("out", (384,), np.uint32, writable=True)
        library = build(f"#define FAULT {number}\n#line 1\n{TEXT}", name="warp")
        launch = LaunchConfig("registers", (1, 1, 1), (384, 1, 1), 0)
        return run_launch(library, launch, [np.uint64(out.ctypes.data)], **choices)


def line_of(wanted: str, after: str) -> int:
    lines = TEXT.splitlines()
    first = next(i for i, line in enumerate(lines) if after in line)
    return next(i for i in range(first, len(lines)) if wanted in lines[i]) + 1


@pytest.mark.parametrize("schedule", ["fifo", "random"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_one_warpgroup_gives_back_others_may_have(schedule: Any, seed: int) -> None:
    assert registers(0, schedule=schedule, seed=seed).reports == ()
    assert registers(8, schedule=schedule, seed=seed).reports == ()


def test_whoever_asks_for_more_than_there_is_waits_for_ever() -> None:
    report = registers(1, schedule="fifo").reports[-1]
    assert (report.kind, report.line) == ("DEADLOCK", line_of("reg_inc", "FAULT == 1"))
    pool = "the block's register pool: warp 11 wants 240 for each thread and has 168, which takes 2304 more"
    assert pool in report.message
    assert "256 of 64512 are free" in report.message


def test_the_pool_holds_what_the_compiler_gave_the_block() -> None:
    assert registers(0, registers=168).reports == ()
    report = registers(0, registers=128).reports[-1]
    assert report.kind == "DEADLOCK"
    assert "of 49152 are free" in report.message


@table_of_cases()
@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_a_misuse_of_setmaxnreg_is_reported(number: int, kind: str, wanted: str, schedule: Any) -> None:
    reports = registers(number, schedule=schedule).reports
    assert {report.kind for report in reports} == {kind}
    first = line_of("", f"FAULT == {number}")
    lines = range(first, line_of("#e", f"FAULT == {number + 1}"))
    assert all(report.line in lines for report in reports)
    assert any(wanted in TEXT.splitlines()[report.line - 1] for report in reports)


def test_nothing_is_free_at_launch() -> None:
    report = registers(9).reports[-1]
    assert report.kind == "DEADLOCK"
    assert "0 of 64512 are free" in report.message
