"""The performance model: its arithmetic, not its accuracy (that is measured on a GPU, docs/measurements)."""

from dataclasses import replace

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
MISSION = parse_workload("mission")


def _with(*, once: dict[str, float] | None = None, **per_tile: float) -> Profile:
    fixed = {**PROFILE.fixed, **(once or {})}
    return replace(PROFILE, fixed=fixed, per_tile={**PROFILE.per_tile, **per_tile})


def _latency_us(profile: Profile = PROFILE, launch: Launch = LAUNCH) -> float:
    return estimate(profile, launch, MISSION, load_gpu("h200"), registers=128).terms["latency"]


def _total_us(profile: Profile) -> float:
    work = replace(MISSION, batch=16)
    return estimate(profile, LAUNCH, work, load_gpu("h200"), registers=128, hot=True).total_us


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
    gpu, work = load_gpu("l4"), parse_workload("mission")
    base = estimate(PROFILE, LAUNCH, work, gpu, registers=128).total_us

    assert estimate(PROFILE, LAUNCH, work, gpu, registers=128, spill_bytes=400).total_us > base
    assert estimate(PROFILE, LAUNCH, work, replace(gpu, clock_mhz=1000), registers=128).total_us > base


def test_the_bound_is_the_largest_term():
    found = estimate(PROFILE, LAUNCH, parse_workload("s2k_d64"), load_gpu("l4"), registers=128)

    assert found.terms[found.bound] == max(found.terms.values())


def test_a_deeper_ring_hides_more_of_the_copies_latency():
    # Rows of 128 bytes: Q's 64, then tiles of 64 for K and V in one ring of one, two, four or eight slots.
    joint = _with(cp_async=8, commit=4, wait=4)
    one, two, four, eight = (
        _latency_us(joint, replace(LAUNCH, smem_bytes=128 * 64 * (1 + 2 * n))) for n in (1, 2, 4, 8)
    )

    assert one > two >= four == eight  # nothing is left to hide


def test_separate_rings_are_told_apart_by_their_commit_groups():
    ring = replace(LAUNCH, smem_bytes=128 * 64 * (1 + 4))
    evenly, k_only = (_with(once={"commit": 8 * n}, cp_async=8, commit=8, wait=8) for n in (2, 4))

    assert _latency_us(k_only, ring) > _latency_us(evenly, ring)  # four slots for K leave V none


def test_few_mmas_take_no_less_than_the_chain_that_they_form():
    few, fewer, many = (_latency_us(_with(mma=n)) for n in (8, 4, 4096))

    assert many > few
    # Four issue slots less in a lone warp, and nothing else.
    assert few - fewer < 0.02 * few


def test_one_warp_leaves_three_schedulers_idle():
    lone = replace(LAUNCH, block=(32, 1, 1))

    assert _latency_us(launch=lone) > 2 * _latency_us()


def test_warps_that_share_a_scheduler_wait_for_each_other():
    wide, twice = replace(LAUNCH, block=(256, 1, 1)), _with(mma=2 * 4096, barrier=16)

    assert _latency_us(twice, wide) > 1.7 * _latency_us(_with(mma=4096))


def test_room_for_more_ctas_than_there_are_changes_nothing():
    gpu, small = load_gpu("h200"), parse_workload("mission")  # 64 CTAs for 132 SMs
    roomy, tight = (estimate(PROFILE, LAUNCH, small, gpu, registers=n).total_us for n in (64, 255))

    assert roomy == tight


def test_one_cta_too_many_costs_another_wave():
    gpu = load_gpu("l4")
    full, over = (
        estimate(PROFILE, LAUNCH, Workload(1, n, n, 64, 4096, 64), gpu, registers=255, hot=True).total_us
        for n in (2 * gpu.sm_count, 2 * gpu.sm_count + 1)
    )

    assert over > 1.8 * full


def test_hot_inputs_cost_no_dram_time():
    work = replace(MISSION, batch=64)
    cold, hot = (estimate(PROFILE, LAUNCH, work, load_gpu("l4"), registers=128, hot=h) for h in (False, True))

    assert cold.terms["dram"] == pytest.approx(work.bytes_moved / 300e3)
    assert hot.terms["dram"] == 0


def test_every_unit_that_is_busier_makes_the_kernel_slower():
    base = _total_us(PROFILE)

    for counter in ("mma", "ex2", "ldmatrix", "smem_wavefronts", "global_read_sectors", "barrier"):
        assert _total_us(_with(**{counter: 4 * PROFILE.per_tile[counter]})) > base, counter
