"""What the emulator counts along a block's slowest path: the performance model's idea of latency."""

import numpy as np
import pytest
from places import KERNELS

from evoflash.emulator.launch import Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

TEXT = (KERNELS / "paths.cu").read_text()


def counters(entry: str, *, warps: int = 4, blocks: int = 1, schedule: str = "fifo") -> dict[str, int]:
    with Memory() as memory:
        out = memory.array("out", (blocks * warps * 32,), np.float32, writable=True)
        launch = LaunchConfig(entry, (blocks, 1, 1), (warps * 32, 1, 1), 16384)
        arguments = [np.uint64(out.ctypes.data)]
        done = run_launch(build(TEXT, name="paths"), launch, arguments, delivery="lazy", schedule=schedule)
    assert done.reports == ()
    return done.counters


@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_between_barriers_the_slowest_warp_counts(schedule):
    found = counters("uneven", schedule=schedule)

    assert found["fma"] == 3 * 10 + 100 + 50
    assert found["critical_fma"] == 100 + 50
    assert (found["critical_barrier"], found["critical_stg"]) == (2, 1)


def test_blocks_add_up():
    assert counters("uneven", blocks=3)["critical_fma"] == 3 * (100 + 50)


def test_a_single_lane_takes_its_whole_warps_time():
    found = counters("one_lane")

    assert found["fma"] == 4 * 64 / 32
    assert found["critical_fma"] == 64


def test_a_warp_that_waits_for_another_goes_on_from_there():
    assert counters("handover", warps=2)["critical_fma"] == 70 + 30


def test_products_are_told_apart_by_how_soon_they_need_their_accumulator_again():
    found = counters("products", warps=1)

    assert found["mma"] == 12 + 12 + 16
    assert found["mma_after1"] == 11
    assert found["mma_after2"] == 10
    # The eight in turns are further apart than the six that are told apart; some met the two before them.
    assert sum(found[f"mma_after{n}"] for n in range(3, 7)) <= 3
    assert found["critical_mma_after1"] == found["mma_after1"]


def test_loads_that_nothing_separates_are_one_round():
    found = counters("rounds", warps=1)

    assert (found["ldg"], found["load_rounds"]) == (4, 3)
    assert found["critical_load_rounds"] == 3


def test_the_first_level_cache_holds_what_was_read_before():
    found = counters("rounds", warps=1)

    assert found["load_sectors"] == 4 * 4
    assert found["l1_misses"] == 4


def test_waits_say_how_long_before_them_their_copies_were_started():
    found = counters("waits")
    lines = [n for n, line in enumerate(TEXT.splitlines(), 1) if "cp_async_wait<0>" in line]
    soon, late = (found[f"age@{line}"] / found[f"wait@{line}"] for line in lines[:2])

    assert [found[f"wait@{line}"] for line in lines[:2]] == [4, 4]
    assert f"wait@{lines[2]}" not in found  # it had nothing to wait for
    assert late - soon == pytest.approx(2 * 90)
    assert 0 < soon < late < found["critical_clock"]
