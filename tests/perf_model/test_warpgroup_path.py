"""The performance model's Hopper terms: their arithmetic. How near an H200 they come is not tested here."""

import math
from dataclasses import replace

import pytest

from evoflash.kernels.family import load_family
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.perf_model import (
    Counts,
    Estimate,
    Profile,
    at_work,
    constants,
    estimate,
    makespan,
)
from evoflash.perf_model.slowest_path import chain_cycles, exposed_boxes
from evoflash.specs import load_gpu

H200 = load_gpu("h200")
WORK = AttentionWorkload(16, 16, 16, 2048, 2048, 64)
STEPS = 16 * 16 * 16 * 16  # of WORK by CTAs of 128 rows: query blocks, steps of 128 keys, heads, batch


def _counts(groups: int, keys: int, head_dim: int = 64) -> dict[str, float]:
    """What a CTA of so many consumer warpgroups counts in a step of so many keys."""
    warps, box_bytes = 4 * groups, 2 * 2 * keys * head_dim
    return {
        "wgmma": groups * (head_dim / 16 + keys / 16),
        "wgmma_macs": groups * 64 * keys * 2 * head_dim,
        "ex2": warps * keys / 2,
        "fma": warps * keys / 2,
        "fmax": warps * keys / 2,
        "pack": warps * keys / 4,
        "shfl": warps * 4,
        "mbarrier": warps * 4,
        "tma": 2,
        "tma_bytes": box_bytes,
        "global_read_sectors": box_bytes / 32,
    }


def _profile(groups: int = 2, keys: int = 128, *, stages: int = 2, **changes: float) -> Profile:
    return Profile(
        launches=(Counts({"stg": 8.0, "mbarrier": 8.0}, {**_counts(groups, keys), **changes}),),
        rows=64 * groups,
        keys=keys,
        stages=stages,
        lead=2 * stages - 1,
        warpgroups=groups,
        splits=1,
        uncounted=4 * groups * keys,
    )


def _launch(
    groups: int = 2, *, producer_warps: int = 4, cluster: int = 1, smem_bytes: int = 150_000
) -> LaunchConfig:
    blocks = -(-WORK.seq_q // (64 * groups))
    threads = 128 * groups + 32 * producer_warps
    return LaunchConfig("f", (blocks, 16, 16), (threads, 1, 1), smem_bytes, cluster=(cluster, 1, 1))


def _estimate(
    profile: Profile, launch: LaunchConfig, work: AttentionWorkload = WORK, registers: int = 128
) -> Estimate:
    return estimate(profile, (launch,), work, H200, registers=registers)


def _chain(groups: int, keys: int, *, overlaps: bool = False) -> float:
    return chain_cycles(_counts(groups, keys), 1600 * groups, groups, H200, constants(), overlaps=overlaps)


# ---- one warpgroup


def test_a_warpgroup_alone_adds_products_and_exponentials():
    counts = _counts(1, 128)
    products, exponentials = 2 * counts["wgmma_macs"] / 4096, counts["ex2"] * 2

    assert _chain(1, 128) > products + exponentials


def test_products_in_flight_hide_at_most_p_v_behind_the_exponentials():
    p_v = _counts(1, 128)["wgmma_macs"] / (4096 * constants()["tensor_share"])

    assert _chain(1, 128) - _chain(1, 128, overlaps=True) == pytest.approx(p_v)


def test_products_in_flight_are_still_made():
    products = {"wgmma_macs": 4096.0 * 500}

    cycles = 1000 / constants()["tensor_share"]
    assert chain_cycles(products, 4, 1, H200, constants(), overlaps=True) == pytest.approx(cycles)


def test_equal_warpgroups_have_equal_chains():
    assert _chain(3, 128) == pytest.approx(_chain(1, 128))


def test_two_warpgroups_on_an_sm_overlap_where_one_adds():
    # As many CTAs, twice the rows in each: less than twice the time, since one computes while one waits.
    one = _estimate(_profile(1), replace(_launch(1), grid=(8, 16, 16)), replace(WORK, seq_q=512))
    two = _estimate(_profile(2), replace(_launch(2), grid=(8, 16, 16)), replace(WORK, seq_q=1024))

    assert one.total_us < two.total_us < 1.9 * one.total_us


def test_a_profile_says_whether_its_products_overlap():
    with_it, without = (_estimate(replace(_profile(), overlaps=x), _launch()) for x in (True, False))

    assert with_it.total_us < without.total_us
    assert with_it.terms["tensor"] == without.terms["tensor"]


# ---- units


def test_the_tensor_cores_do_two_operations_for_each_multiplication():
    found = _estimate(_profile(), _launch())

    macs = STEPS * _counts(2, 128)["wgmma_macs"]
    rate = 4096 * constants()["tensor_share"]
    assert found.terms["tensor"] == pytest.approx(2 * macs / (132 * rate * 1980))


def test_boxes_come_through_l2_once_and_through_no_register():
    base, more = (
        _estimate(_profile(tma_bytes=n, global_read_sectors=n / 32), _launch()) for n in (32e3, 64e3)
    )

    assert more.terms["l2"] - base.terms["l2"] == pytest.approx(STEPS * 32e3 / (132 * 64 * 1980))
    assert more.terms["shared"] > base.terms["shared"]
    assert more.terms["issue"] == base.terms["issue"]


def test_operands_in_shared_memory_cost_its_bandwidth():
    lean, full = (_estimate(replace(_profile(), operand_bytes=n), _launch()) for n in (0.0, 32768.0))

    assert full.terms["shared"] - lean.terms["shared"] == pytest.approx(STEPS * 32768 / (132 * 128 * 1980))
    assert full.total_us > lean.total_us


def test_each_warp_of_a_warpgroup_issues_its_products():
    products = _counts(2, 128)["wgmma"]
    few, many = (_estimate(_profile(wgmma=n), _launch()) for n in (products, products + 2))

    assert many.terms["issue"] - few.terms["issue"] == pytest.approx(STEPS * 2 * 4 / (4 * 132 * 1980))


# ---- waits


def test_a_deeper_ring_waits_less_for_its_tiles():
    tiles, chain = {"tma_bytes": 32768.0}, 1000.0
    exposed = [exposed_boxes(tiles, chain, n, 38.8, constants()) for n in (0.5, 1.5, 2.5)]

    assert exposed[0] > exposed[1] == exposed[2] == 0
    assert exposed[0] == pytest.approx(constants()["memory_latency"] + 32768 / 38.8 - 500)


def test_one_stage_is_slower_where_tiles_are_large_and_steps_short():
    one, two = (_estimate(_profile(1, stages=n, tma_bytes=1e5), _launch(1)) for n in (1, 2))

    assert one.total_us > two.total_us


def test_blocks_that_fetch_together_wait_for_one_another():
    apart, together = (_estimate(replace(_profile(), cluster=n), _launch(cluster=n)) for n in (1, 2))

    assert together.total_us > apart.total_us
    assert together.terms["tensor"] == apart.terms["tensor"]


def test_every_mbarrier_on_the_way_costs():
    few, many = (_estimate(_profile(mbarrier=n), _launch()).terms["latency"] for n in (32.0, 64.0))

    assert many > few


# ---- the GPU


def test_ctas_that_share_an_sm_hide_each_others_start(monkeypatch):
    table, start_cycles = {**constants(), "warpgroup_start": 0.0}, constants()["warpgroup_start"]
    alone, paired = _launch(1), _launch(1, smem_bytes=100_000)
    with_start = [_estimate(_profile(1), launch).terms["latency"] for launch in (alone, paired)]
    monkeypatch.setattr("evoflash.perf_model.constants", lambda: table)
    without = [_estimate(_profile(1), launch).terms["latency"] for launch in (alone, paired)]

    waves, start_us = (math.ceil(32 * 256 / n) for n in (132, 264)), start_cycles / 1980
    expected = [next(waves) * start_us, next(waves) * start_us / 2]
    assert [a - b for a, b in zip(with_start, without, strict=True)] == pytest.approx(expected)


def test_registers_at_launch_decide_how_many_ctas_share_an_sm():
    # 256 threads: 128 registers let two in, 136 one. Alone, nothing hides the warpgroup's chain.
    two, one = (_estimate(_profile(1), _launch(1, smem_bytes=100_000), registers=n) for n in (128, 136))

    assert two.total_us < 0.8 * one.total_us


def test_a_causal_mask_spares_the_tiles_that_it_hides():
    full, causal = (_estimate(_profile(), _launch(), replace(WORK, causal=x)) for x in (False, True))

    assert 0.5 * full.terms["tensor"] < causal.terms["tensor"] < 0.55 * full.terms["tensor"]
    assert 0.5 * full.total_us < causal.total_us < 0.65 * full.total_us


def test_a_persistent_grid_takes_its_pieces_in_as_many_waves():
    work = AttentionWorkload(1, 1, 1, 132 * 128, 2048, 64)
    full, over = work, replace(work, seq_q=133 * 128)

    def latency(each: AttentionWorkload) -> float:
        return _estimate(_profile(), replace(_launch(), grid=(132, 1, 1)), each).terms["latency"]

    assert latency(over) == pytest.approx(2 * latency(full))


def test_ctas_beyond_the_slots_of_a_persistent_grid_cost_nothing():
    # For 16 batch elements 132 or 264 slots are filled up to 144 or 272 CTAs; each SM could hold three.
    def total_us(*grid: int) -> float:
        launch = replace(_launch(1, smem_bytes=70_000), grid=grid)
        return _estimate(_profile(1), launch, registers=80).total_us

    assert WORK.batch == 16
    assert total_us(9, 1, 16) == total_us(132, 1, 1) != total_us(264, 1, 1)
    assert total_us(17, 1, 16) == total_us(264, 1, 1) != total_us(396, 1, 1)


def test_a_grid_counts_whole_where_nothing_says_that_it_was_filled_up():
    def counted(grid: tuple[int, int, int], pieces: int, batch: int) -> int:
        return at_work(replace(_launch(), grid=grid), pieces, batch, 132)

    assert counted((9, 1, 16), 1000, 16) == 132
    assert counted((9, 1, 16), 144, 16) == 144  # each has a piece of its own
    assert counted((16, 1, 16), 1000, 16) == 256  # as many whole batches as 264 slots hold
    assert counted((8, 1, 16), 1000, 16) == 128
    assert counted((2, 1, 128), 1000, 128) == 256  # 132 slots filled up, or 264 not


@pytest.mark.parametrize("order", ["natural", "heads_first", "sections"])
def test_the_order_of_hopper_pieces_and_who_hands_them_out_leave_the_estimate_alone(order):
    # What they bring is L2's and the order's own: the model knows neither.
    family, work = load_family("flash_wgmma"), replace(WORK, causal=True)
    space = family.space((work.compile_key("sm_90a"),), H200)

    def total_us(**genes: str | int) -> float:
        tile = {"consumers": 2, "block_n": 128, "k_stages": 2, "v_stages": 2}
        launches = family.launches(space.genome({**tile, **genes}), work, H200)
        return estimate(_profile(2), launches, work, H200, registers=168).total_us

    for schedule in ("grid", "persistent", "dynamic"):
        assert total_us(schedule=schedule, tile_order=order) == total_us(tile_order="reversed")


def test_blocks_of_a_cluster_that_divide_the_keys_read_what_the_others_have():
    gpu = replace(H200, sm_count=128)  # on which no SM is left over

    def latency_us(splits: int, cluster: int) -> float:
        profile, launch = replace(_profile(), splits=splits), _launch(cluster=cluster)
        return estimate(profile, (launch,), WORK, gpu, registers=128).terms["latency"]

    alone, pairs, fours = latency_us(4, 1), latency_us(2, 2), latency_us(4, 4)
    part_us = 4 * 128 * 64 / constants()["cluster_bytes_per_clk"] / 1980

    assert fours == pytest.approx(alone + 3 * part_us)
    assert pairs > part_us


def test_a_combining_launch_costs_what_it_costs_behind_any_kernel():
    combine, counts = (
        LaunchConfig("combine", (64, 1, 1), (128, 1, 1), 0),
        Counts({"ldg": 400.0, "critical_ldg": 400.0}, {}),
    )

    def cost(main: Profile) -> float:
        both = replace(main, launches=(*main.launches, counts))
        pair = estimate(both, (_launch(), combine), WORK, H200, registers=128)
        return pair.total_us - _estimate(main, _launch()).total_us

    on_mma_sync = replace(_profile(), launches=(Counts({}, {"mma": 512.0, "critical_mma": 64.0}),))
    assert cost(_profile()) == pytest.approx(cost(on_mma_sync))


# ---- makespan


def test_equal_ctas_run_in_waves():
    assert makespan([2.0, 2.0, 2.0], 3, 4) == 3 * 2.0


def test_the_next_cta_takes_the_first_free_slot():
    assert makespan([3.0, 1.0, 1.0, 1.0], 1, 2) == 3.0
    assert makespan([1.0, 1.0, 1.0, 3.0], 1, 2) == 4.0
