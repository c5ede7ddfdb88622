"""The performance model: its arithmetic, not its accuracy."""

from dataclasses import replace
from pathlib import Path

import pytest
from tables import data, table_of_cases

from evoflash.launch import LaunchConfig, occupancy
from evoflash.operation import Loop
from evoflash.operations.attention.loop import kv_tiles, steps_of
from evoflash.operations.attention.loop import work as dense_work
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.operations.linear.operation import work as linear_work
from evoflash.operations.linear.workload import LinearWorkload
from evoflash.operations.paged.operation import work as paged_work
from evoflash.perf_model import (
    Counts,
    Estimate,
    Profile,
    constants,
    estimate,
    fit_counts,
    mean_counts,
    model_version,
)
from evoflash.perf_model.slowest_path import exposed_copies
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.records import read_record

LAUNCH = LaunchConfig("f", (8, 8, 1), (128, 1, 1), 40960)
MISSION = parse_workload("mission")
H200 = load_gpu("h200")
FIXED = {"smem_wavefronts": 64.0, "global_read_sectors": 256.0, "barrier": 4.0, "critical_barrier": 1.0}
PER_STEP = data(__file__, "PER_STEP")
PROFILE = Profile(launches=(Counts(FIXED, PER_STEP),), rows=64, keys=64, stages=2, splits=1, uncounted=200.0)


def _with(*, once: dict[str, float] | None = None, **per_step: float) -> Profile:
    """The profile with other counts; a quarter of what all four warps do is on the slowest path."""
    path = {f"critical_{n}": v / 4 for n, v in per_step.items() if "@" not in n and "critical" not in n}
    counts = Counts({**FIXED, **(once or {})}, {**PER_STEP, **path, **per_step})
    return replace(PROFILE, launches=(counts,))


def _waiting(ahead: float) -> Profile:
    """Every warp waits once a step, for copies that were started `ahead` steps before."""
    return _with(**{"wait@7": 4.0, "age@7": 4 * 1000.0 * ahead})


def _latency_us(profile: Profile = PROFILE, launch: LaunchConfig = LAUNCH) -> float:
    return estimate(profile, (launch,), MISSION, H200, registers=128).terms["latency"]


def _total_us(profile: Profile = PROFILE, launch: LaunchConfig = LAUNCH, **ptxas: int) -> float:
    work, launch = replace(MISSION, batch=16), replace(launch, grid=(8, 8, 16))
    return estimate(profile, (launch,), work, H200, **{"registers": 128, **ptxas}).total_us


# ---- counts


def test_a_full_mask_visits_every_tile():
    assert kv_tiles(AttentionWorkload(1, 1, 1, 100, 129, 64), 64, 64) == (3, 3)


def test_a_causal_mask_visits_only_the_tiles_it_sees_last_block_first():
    assert kv_tiles(AttentionWorkload(1, 1, 1, 128, 128, 64, causal=True), 64, 64) == (2, 1)
    assert kv_tiles(AttentionWorkload(1, 1, 1, 128, 64, 64, causal=True), 64, 64) == (1, 0)


def test_splits_share_the_steps_of_a_query_block():
    work = AttentionWorkload(1, 1, 1, 128, 7 * 64, 64)

    assert steps_of(work, PROFILE) == (7, 7)
    assert steps_of(work, replace(PROFILE, splits=3)) == (3, 3, 1, 3, 3, 1)


def test_the_ctas_of_a_cluster_take_the_steps_of_the_one_that_sees_most():
    four = replace(PROFILE, cluster=4)
    causal = AttentionWorkload(1, 1, 1, 5 * 64, 5 * 64, 64, causal=True)

    assert steps_of(AttentionWorkload(1, 1, 1, 65, 128, 64), four) == (2, 2, 2, 2)
    assert steps_of(causal, PROFILE) == (5, 4, 3, 2, 1)
    assert steps_of(causal, four) == (5, 5, 5, 5, 4, 4, 4, 4)


def test_two_runs_give_the_line_through_them():
    runs = (({"mma": 2 * 10 + 9 * 100}, 2, 9), ({"mma": 1 * 10 + 1 * 100}, 1, 1))

    counts = fit_counts(runs)

    assert counts.fixed["mma"] == pytest.approx(10)
    assert counts.per_step["mma"] == pytest.approx(100)


def test_a_launch_without_a_loop_has_the_mean_of_its_ctas():
    assert mean_counts({"ldg": 12, "ctas": 4}).fixed["ldg"] == 3


# ---- scheduling


def test_occupancy_is_the_scarcest_resource():
    gpu = load_gpu("l4")

    assert occupancy(LAUNCH, 96, 0, gpu) == 2  # shared memory: 102400 // 41984
    assert occupancy(LAUNCH, 96, 20480, gpu) == 1  # static shared memory counts too
    assert occupancy(LaunchConfig("f", (1, 1, 1), (128, 1, 1), 1024), 255, 0, gpu) == 2  # registers
    assert occupancy(LaunchConfig("f", (1, 1, 1), (1024, 1, 1), 1024), 32, 0, gpu) == 1  # threads


def test_twice_the_keys_take_longer_and_no_less_than_the_floor():
    gpu = load_gpu("l4")
    short, long = (parse_workload(f"b=4,h=16,s={s},d=64") for s in (1024, 2048))
    times = [
        estimate(PROFILE, (replace(LAUNCH, grid=(w.seq_q // 64, 16, 4)),), w, gpu, registers=128).total_us
        for w in (short, long)
    ]

    assert times[1] > 1.5 * times[0]
    assert times[0] > gpu.floor_us(short.flops, short.bytes_moved)


def test_more_sms_are_never_slower():
    times = [
        estimate(PROFILE, (LAUNCH,), MISSION, replace(H200, sm_count=n), registers=128).total_us
        for n in (16, 32, 64, 132)
    ]

    assert times == sorted(times, reverse=True)
    assert times[0] > 2 * times[-1]


def test_fewer_registers_that_let_more_ctas_in_help_a_latency_bound_kernel():
    slow = _waiting(0.1)

    assert _total_us(slow, replace(LAUNCH, smem_bytes=1024), registers=64) < _total_us(
        slow, replace(LAUNCH, smem_bytes=1024), registers=255
    )


def test_room_for_more_ctas_than_there_are_changes_nothing():
    # 64 CTAs for 132 SMs.
    roomy, tight = (estimate(PROFILE, (LAUNCH,), MISSION, H200, registers=n).total_us for n in (64, 255))

    assert roomy == tight


def test_one_cta_too_many_costs_another_wave():
    full, over = (
        estimate(
            PROFILE,
            (replace(LAUNCH, grid=(1, n, 1)),),
            AttentionWorkload(1, n, n, 64, 4096, 64),
            H200,
            registers=255,
        ).terms["latency"]
        for n in (2 * H200.sm_count, 2 * H200.sm_count + 1)
    )

    assert over > 1.8 * full


def test_clusters_leave_sms_idle_that_are_too_few_for_one_more():
    # A CTA on each SM: 31 clusters of four lie on an H200, so that the last of 32 waits for another.
    def latency_us(cluster: int, *, heads: int = 128, smem_bytes: int = 200_000, **gpu: int) -> float:
        work = AttentionWorkload(1, heads, heads, 64, 4096, 64)
        clustered = replace(LAUNCH, grid=(1, heads, 1), cluster=(cluster, 1, 1), smem_bytes=smem_bytes)
        found = estimate(PROFILE, (clustered,), work, replace(H200, **gpu), registers=128)
        return found.terms["latency"]

    assert latency_us(4) > 1.8 * latency_us(2)
    assert latency_us(4, sm_count=144) < 1.1 * latency_us(2, sm_count=144)  # how it is divided is not known
    # Three take two pairs of SMs, or lie closer where an SM has room for two of them.
    assert latency_us(3, heads=120) > 1.8 * latency_us(3, heads=120, smem_bytes=100_000)


def test_a_persistent_grid_takes_as_long_as_the_pieces_that_one_cta_gets():
    # 64 pieces for as many CTAs, or for half of them.
    whole, half = (_latency_us(launch=replace(LAUNCH, grid=(n, 1, 1))) for n in (64, 32))

    assert half == pytest.approx(2 * whole)


def test_splitting_the_keys_helps_where_sms_are_idle_and_costs_where_they_are_not():
    few, many = replace(MISSION, heads=1, kv_heads=1, seq_kv=8192), replace(MISSION, batch=64)

    def total_us(work: AttentionWorkload, splits: int) -> float:
        launch = replace(LAUNCH, grid=(8 * splits, work.heads, work.batch))
        return estimate(replace(PROFILE, splits=splits), (launch,), work, H200, registers=128).total_us

    assert total_us(few, 8) < 0.5 * total_us(few, 1)
    assert total_us(many, 8) > total_us(many, 1)


# ---- launches


def test_a_second_launch_costs_its_own_start_and_its_own_work():
    combine = LaunchConfig("combine", (64, 1, 1), (128, 1, 1), 0)

    def total_us(loads: float) -> float:
        counts = Counts({"ldg": 4 * loads, "load_sectors": 16 * loads, "critical_ldg": loads}, {})
        both = replace(PROFILE, launches=(*PROFILE.launches, counts))
        return estimate(both, (LAUNCH, combine), MISSION, H200, registers=128).total_us

    alone = estimate(PROFILE, (LAUNCH,), MISSION, H200, registers=128).total_us
    assert total_us(0) > alone + 0.5
    assert total_us(1000) > total_us(0) + 0.5


def test_a_launch_that_begins_before_the_last_one_has_ended_costs_less():
    assert _total_us(launch=replace(LAUNCH, dependent=True)) < _total_us() - 0.5


def test_a_launch_that_begins_early_and_finds_room_to_choose_lies_unevenly():
    busy = _with(smem_wavefronts=4000.0)

    def us(smem_bytes: int, *, dependent: bool) -> float:
        launch = replace(LAUNCH, grid=(8, 8, 2), smem_bytes=smem_bytes, dependent=dependent)
        return estimate(busy, (launch,), replace(MISSION, batch=2), H200, registers=128).total_us

    room, tight = 60_000, 200_000  # for three CTAs on an SM, or for the one that each of 128 SMs gets
    assert us(room, dependent=True) > 1.5 * us(tight, dependent=True)
    assert us(room, dependent=False) == us(tight, dependent=False)


# ---- memory


def test_what_ctas_of_an_sm_load_alike_comes_from_l2_once():
    # A step of 64 KB of W and 16 KB of x, which has 128 KB in all; 1024 CTAs, some eight to an SM.
    (work,) = parse_problem("linear:m=8,n=8192,k=8192,dtype=bf16").workloads
    counts = Counts({}, {"ldg": 160.0, "load_sectors": 2560.0, "l1_misses": 2560.0})
    profile = Profile(launches=(counts,), rows=8, keys=1024, stages=1, splits=1, once_bytes=2048 * 32)

    def l2_us(smem_bytes: int) -> float:
        launch = replace(LAUNCH, grid=(1024, 1, 1), smem_bytes=smem_bytes)
        return estimate(profile, (launch,), work, H200, registers=64).terms["l2"]

    assert l2_us(1000) == pytest.approx((2048 + 512 / 7.76) / 2560 * l2_us(220_000), rel=0.001)


def test_what_is_copied_before_the_loop_delays_it_the_more_the_less_streams_beside_it():
    (work,) = parse_problem("linear:m=8,n=2048,k=8192,dtype=bf16").workloads
    launch = replace(LAUNCH, grid=(128, 1, 1), smem_bytes=200_000)

    def us(first_steps: int, stages: int) -> float:
        profile = Profile(
            launches=(Counts({}, PER_STEP),),
            rows=16,
            keys=1024,
            stages=stages,
            splits=1,
            first_steps=first_steps,
        )
        return estimate(profile, (launch,), work, H200, registers=64).total_us

    # 16 KB of x for each of four steps, through a port of 64 bytes a cycle at most.
    late = us(4, 2) - us(0, 2)
    assert late > 4 * 16384 / 64 / H200.clock_mhz
    assert us(4, 3) - us(0, 3) == pytest.approx(late / 2)
    assert us(9, 2) == us(8, 2)  # there are eight steps


def test_what_only_dram_has_is_longer_on_its_way_than_what_l2_has():
    # The same CTAs: each asks for keys of its own, or all of a few heads.
    one, eight = (replace(MISSION, kv_heads=n, seq_kv=4096) for n in (1, 8))

    assert _copying_us(eight) > _copying_us(one)
    # What L2 has queues behind what DRAM sends: the more, the less of all comes from there.
    queued = [_copying_us(work, queue_cycles=900) - _copying_us(work) for work in (one, eight)]
    assert queued[0] > queued[1] >= 0


def _copying_us(work: AttentionWorkload, **changes: int) -> float:
    copying = replace(_waiting(0.5), rows=64, **changes)
    launch = replace(LAUNCH, grid=(1, 8, 1))
    return estimate(copying, (launch,), replace(work, seq_q=64), H200, registers=128).terms["latency"]


(LINEAR,) = parse_problem("linear:m=1,n=16384,k=8192,dtype=bf16").workloads


def test_no_memory_that_is_busy_hides_what_a_cta_does_before_and_after_its_loop():
    def found(barriers: float) -> Estimate:
        counts = Counts({"critical_barrier": barriers}, {"issue": 1.0})
        profile = Profile(launches=(counts,), rows=128, keys=4096, stages=2, splits=1)
        return estimate(profile, (replace(LAUNCH, grid=(128, 1, 1)),), LINEAR, H200, registers=128)

    short, long = found(1.0), found(1001.0)

    assert short.terms["dram"] > 10 * short.terms["latency"]
    more = 1000 * (constants()["barrier_cycles"] + constants()["lone_cpi"])  # to wait, and to issue it
    assert long.total_us - short.total_us == pytest.approx(more / H200.clock_mhz)


def test_each_cta_that_shares_its_rows_waits_for_the_counter(monkeypatch):
    profile = Profile(launches=(Counts({}, {}),), rows=16, keys=4096, stages=2, splits=2)
    launch = replace(LAUNCH, grid=(1024, 2, 1), smem_bytes=200_000)

    def latency_us() -> float:
        return estimate(profile, (launch,), LINEAR, H200, registers=128).terms["latency"]

    waiting = latency_us()
    monkeypatch.setitem(constants(), "counter_cycles", 0.0)

    assert waiting - latency_us() == pytest.approx(16 * 1000 / H200.clock_mhz)  # one after the other on an SM


def test_copies_that_are_many_steps_ahead_wait_for_their_data_once_together():
    # Of three steps that are on their way one waits, and the data of the others have come meanwhile.
    copies, k = {"wait@1": 4.0, "critical_clock": 100.0}, {**constants(), "copy_latency": 700.0}
    ahead = [exposed_copies({**copies, "age@1": 4.0 * 100 * n}, 100.0, 4, k) for n in (0, 1, 3, 7)]

    assert ahead == pytest.approx([700.0, 600.0, 400.0 / 3, 0.0])


(PAGED,) = parse_problem("b=1,h=8,hkv=1,sq=1,skv=16384,d=128,page=16,dtype=bf16").workloads


@pytest.mark.parametrize(
    ("changes", "steps", "parts"),
    [
        ({}, (1,) * 128, 128),  # a CTA for each 128 keys
        ({"grain": 4}, (4,) * 32, 32),
        ({"cluster": 4}, (1,) * 128, 32),  # which divide each 512 keys, and merge what they have
        ({"most_ctas": 50}, (3,) * 28 + (2,) * 22, 50),  # shares begin in the midst of others
        ({"keys": 16384}, (1,), 1),
    ],
)
def test_ctas_that_share_a_sequence_leave_parts_of_it(changes, steps, parts):
    loop = Loop(**{"rows": 8, "keys": 128, "stages": 2, "splits": 1, "most_ctas": 132, **changes})
    found = paged_work(PAGED, loop)

    assert found.steps == steps
    assert found.parts == parts
    assert found.part_bytes == 4 * 8 * (128 + 2)
    dense = AttentionWorkload(1, 8, 1, 1, 16384, 128)
    assert dense_work(dense, replace(loop, pack=8, shares=1)) == found
    assert sum(dense_work(replace(dense, seq_q=3), replace(loop, pack=8, shares=1)).steps) == 3 * sum(steps)
    # Each batch element has as many CTAs of its own as an even share of those that the GPU holds.
    of_four = dense_work(replace(dense, batch=4), replace(loop, pack=8, shares=1))
    of_one = dense_work(dense, replace(loop, pack=8, shares=1, most_ctas=loop.most_ctas // 4))
    assert of_four == replace(of_one, copies=4)


def test_a_grid_of_whole_clusters_has_ctas_without_rows_that_do_the_same():
    loop = Loop(rows=64, keys=128, stages=2, splits=2, row_cluster=4)

    assert linear_work(LinearWorkload(4, 65, 512), loop).steps == (2,) * 2 * 4


def test_a_launch_that_the_loop_waits_for_costs_more_than_one_after_it():
    counts = (*PROFILE.launches, Counts(FIXED, {}))

    def total_us(before: int) -> float:
        profile = replace(PROFILE, before=before, launches=counts)
        return estimate(profile, (LAUNCH, LAUNCH), MISSION, H200, registers=128).total_us

    assert total_us(1) - total_us(0) == pytest.approx(constants()["before_us"])


def test_the_last_cta_merges_what_all_others_left():
    launch = replace(LAUNCH, grid=(128, 1, 1))

    def total_us(**loop: int) -> float:
        profile = replace(PROFILE, rows=8, keys=128, most_ctas=132, **loop)
        return estimate(profile, (launch,), PAGED, H200, registers=128).total_us

    assert total_us(merge_batch=2) > total_us(merge_batch=8) + 1
    assert total_us(merge_bytes=4) > total_us() + 1  # a number at a time


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        ({"fetchers": 1}, {"fetchers": 4}),  # one lane asks for all bulk copies of a step, or four do
        ({"load_lines": 2048, "fetchers": 64}, {"fetchers": 64}),
        ({"loop_instructions": 2000, "fetchers": 64}, {"fetchers": 64}),
        ({"uncounted_once": 100_000, "fetchers": 64}, {"fetchers": 64}),
    ],
)
def test_a_step_takes_as_long_as_it_is_asked_for(slow, fast):
    counts = _with(tma=64, ldg=64, load_sectors=256)
    slower, faster = (_total_us(replace(counts, **changes)) for changes in (slow, fast))

    assert slower > 1.2 * faster


def test_a_deeper_ring_of_boxes_hides_more_of_their_latency():
    counts = _with(tma=2, tma_bytes=4096)
    two, six = (_latency_us(replace(counts, lead=2 * slots - 1)) for slots in (2, 6))

    assert two > six


# ---- a CTA


def test_spills_and_a_slower_clock_cost_time():
    base = estimate(PROFILE, (LAUNCH,), MISSION, H200, registers=128).total_us
    slow = replace(H200, clock_mhz=1000)

    assert estimate(PROFILE, (LAUNCH,), MISSION, H200, registers=128, spill_bytes=400).total_us > base
    assert estimate(PROFILE, (LAUNCH,), MISSION, slow, registers=128).total_us > base


def test_the_bound_is_the_largest_term():
    found = estimate(PROFILE, (LAUNCH,), parse_workload("s2k_d64"), load_gpu("l4"), registers=128)

    assert found.terms[found.bound] == max(found.terms.values())


def test_a_kernel_without_mma_uses_no_tensor_cores():
    scalar = _with(mma=0, fma=8192)
    found = estimate(scalar, (LAUNCH,), MISSION, H200, registers=128)

    assert found.terms["tensor"] == 0
    assert found.total_us > estimate(PROFILE, (LAUNCH,), MISSION, H200, registers=128).total_us


def test_copies_started_earlier_expose_less_of_their_latency():
    at_once, half, one, eight = (_latency_us(_waiting(ahead)) for ahead in (0.0, 0.25, 1.0, 8.0))

    assert at_once > half > eight
    assert one == eight == _latency_us()  # nothing is left to hide


def test_a_wait_that_only_some_warps_come_to_counts_for_those():
    every, one = (_with(**{"wait@7": n, "age@7": 0.0}) for n in (4.0, 1.0))

    assert _latency_us() < _latency_us(one) < _latency_us(every)


def test_plain_loads_wait_for_their_data_and_less_where_the_cache_has_it():
    far = _with(load_rounds=4, ldg=16, load_sectors=64, l1_misses=64)
    near = _with(load_rounds=4, ldg=16, load_sectors=64, l1_misses=0)

    assert _latency_us(far) > _latency_us(near) > _latency_us()
    # The same loads in one round instead of four: their latencies overlap.
    assert _latency_us(_with(load_rounds=1, ldg=16, load_sectors=64, l1_misses=64)) < _latency_us(far)


def test_products_that_share_an_accumulator_wait_for_each_other():
    free, third, last = (
        _with(**{f"critical_mma_after{d}": 64.0 for d in distances}) for distances in ((), (3,), (1,))
    )

    assert _latency_us(last) > _latency_us(third) > _latency_us(free)


def test_work_of_one_warp_alone_counts_in_full_although_the_others_idle():
    shared_out, serial = _with(fmax=4096), _with(fmax=4096, critical_fmax=4096)

    assert _latency_us(serial) > 1.5 * _latency_us(shared_out)


def test_warps_that_share_a_scheduler_wait_for_each_other():
    wide, twice = replace(LAUNCH, block=(256, 1, 1)), _with(mma=2 * 4096, critical_mma=1024)

    assert _latency_us(twice, wide) > 1.7 * _latency_us(_with(mma=4096))


def test_cold_inputs_take_at_least_as_long_as_dram_needs():
    work = replace(MISSION, batch=64)
    found = estimate(PROFILE, (replace(LAUNCH, grid=(8, 8, 64)),), work, load_gpu("l4"), registers=128)

    assert found.terms["dram"] == pytest.approx(work.bytes_moved / (300e3 * constants()["dram_share"]))
    assert found.total_us > found.terms["dram"]


def test_every_unit_that_is_busier_makes_the_kernel_slower():
    base = _total_us()

    for counter in ("mma", "ex2", "ldmatrix", "smem_wavefronts", "global_read_sectors", "barrier"):
        assert _total_us(_with(**{counter: 4 * PER_STEP[counter]})) > base, counter


def test_packed_heads_share_ctas():
    decode = AttentionWorkload(4, 32, 8, 1, 8192, 64)

    def total_us(pack: int) -> float:
        launch = replace(LAUNCH, grid=(1, 32 // pack, 4))
        return estimate(replace(PROFILE, pack=pack), (launch,), decode, H200, registers=128).total_us

    assert steps_of(decode, replace(PROFILE, pack=4)) == (128,)
    assert steps_of(replace(decode, seq_q=32), replace(PROFILE, pack=4)) == (128, 128)
    assert total_us(4) <= total_us(1)


# ---- versions


def recorded(name: str) -> Estimate:
    """The estimate for a genome whose counts were recorded when the model got its version."""
    row = read_record(Path(__file__).parent / "recorded-profiles.json")["profiles"][name]
    counts = tuple(Counts(**each) for each in row["profile"]["launches"])
    launches = (
        LaunchConfig(**{name: tuple(x) if isinstance(x, list) else x for name, x in each.items()})
        for each in row["launches"]
    )
    resources = {name: row[name] for name in ("registers", "spill_bytes", "smem_static_bytes")}
    profile = Profile(**{**row["profile"], "launches": counts})
    return estimate(profile, tuple(launches), parse_workload(row["problem"]), load_gpu("h200"), **resources)


@table_of_cases(tuples=True)
def test_a_version_keeps_its_estimates(family, total_us, bound):
    # Rows of a database stand beside each other by version: an estimate that changes raises it.
    found = [recorded(f"{family}-{problem}") for problem in ("mission", "s2k_d128")]

    assert model_version() == "8"
    assert [each.total_us for each in found] == pytest.approx(total_us, rel=1e-6)
    assert tuple(each.bound for each in found) == bound
