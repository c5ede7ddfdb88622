"""The performance model: its arithmetic, not its accuracy (that is measured on a GPU, docs/measurements)."""

import pytest

from evoflash.evaluation import Launch
from evoflash.gpu import load_gpu
from evoflash.model import Profile, estimate, fit_profile, kv_tiles, occupancy
from evoflash.problem import Workload, parse_workload

LAUNCH = Launch("f", (8, 8, 1), (128, 1, 1), 40960)
PROFILE = Profile(
    {"mma": 0, "ex2": 0, "smem_wavefronts": 64, "global_read_sectors": 256, "barrier": 4},
    {
        "mma": 256,
        "ex2": 128,
        "ldmatrix": 128,
        "smem_wavefronts": 640,
        "global_read_sectors": 512,
        "barrier": 8,
    },
    64,
    64,
    200.0,
)


def test_a_full_mask_visits_every_tile():
    assert kv_tiles(Workload(1, 1, 1, 100, 129, 64), 64, 64) == (3, 3)


def test_a_causal_mask_visits_only_the_tiles_it_sees_last_block_first():
    assert kv_tiles(Workload(1, 1, 1, 128, 128, 64, causal=True), 64, 64) == (2, 1)
    assert kv_tiles(Workload(1, 1, 1, 128, 64, 64, causal=True), 64, 64) == (1, 0)


def test_two_runs_give_the_line_through_them():
    runs = (({"mma": 2 * 10 + 9 * 100}, 2, 9), ({"mma": 1 * 10 + 1 * 100}, 1, 1))

    profile = fit_profile(runs, block_m=64, block_n=64, uncounted=0)

    assert profile.fixed["mma"] == pytest.approx(10)
    assert profile.per_tile["mma"] == pytest.approx(100)


def test_occupancy_is_the_scarcest_resource():
    gpu = load_gpu("l4")

    assert occupancy(LAUNCH, 96, 0, gpu) == 2  # shared memory: 102400 // 41984
    assert occupancy(Launch("f", (1, 1, 1), (128, 1, 1), 1024), 255, 0, gpu) == 2  # registers
    assert occupancy(Launch("f", (1, 1, 1), (1024, 1, 1), 1024), 32, 0, gpu) == 1  # threads


def test_twice_the_keys_take_longer_and_no_less_than_the_floor():
    gpu = load_gpu("l4")
    short, long = (parse_workload(f"b=4,h=16,s={s},d=64") for s in (1024, 2048))
    times = [estimate(PROFILE, LAUNCH, w, gpu, registers=128).total_us for w in (short, long)]

    assert times[1] > 1.5 * times[0]
    assert times[0] > gpu.floor_us(short.flops, short.bytes_moved)


def test_spills_and_a_slower_clock_cost_time():
    from dataclasses import replace

    gpu, work = load_gpu("l4"), parse_workload("mission")
    base = estimate(PROFILE, LAUNCH, work, gpu, registers=128).total_us

    assert estimate(PROFILE, LAUNCH, work, gpu, registers=128, spill_bytes=400).total_us > base
    assert estimate(PROFILE, LAUNCH, work, replace(gpu, clock_mhz=1000), registers=128).total_us > base


def test_the_bound_is_the_largest_term():
    found = estimate(PROFILE, LAUNCH, parse_workload("s2k_d64"), load_gpu("l4"), registers=128)

    assert found.terms[found.bound] == max(found.terms.values())
