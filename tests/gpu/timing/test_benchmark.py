"""What benchmark.py and comparison.py decide from numbers; tests/on_gpu has the clock itself."""

import gc
import math
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tables import data

from evoflash.errors import UsageError
from evoflash.evaluation import Timing, score
from evoflash.gpu.launcher import KernelHungError
from evoflash.gpu.timing.benchmark import (
    Bench,
    KernelContender,
    can_be_timed,
    clock_state,
    combined_state,
    replay_limit_s,
    throttle_words,
    time_interleaved,
)
from evoflash.gpu.timing.paired import beats_physics, compare, unfinished_work
from evoflash.gpu.timing.protocols import (
    CALL,
    FULL,
    LONG_FLOOR_US,
    Pace,
    StoppingRule,
    enough,
    finals_of,
    launches_of,
    median_error,
    protocols_of,
    rounds_synced,
    sets_of,
)
from evoflash.operations.attention.workload import NAMED
from evoflash.specs import GpuSpec

SPEC = GpuSpec(**data(__file__, "SPEC", tuples=True))


def timing(median_us):
    return Timing("w", "cold", median_us, median_us, median_us, 10)


def compared(a, b, *, noise=0.0):
    return compare({"a": a, "b": b}, "a", "b", workload="w", protocol="final-cold", noise=noise)


def test_input_sets_together_hold_at_least_twice_the_l2_and_no_more_than_needed():
    mission = NAMED["mission"]
    bytes_of_a_set = 3 * 2 * 8 * 512 * 64
    sets = sets_of(mission, 50_000_000)
    assert sets * bytes_of_a_set >= 100_000_000 > (sets - 1) * bytes_of_a_set


def test_inputs_beyond_twice_the_l2_need_one_set():
    assert sets_of(NAMED["s4k_d128"], 50_000_000) == 1


def test_a_short_workload_is_timed_cold_and_hot_a_long_one_in_two_power_states():
    assert [protocol.name for protocol in protocols_of(NAMED["mission"], SPEC)] == ["cold", "hot"]
    long = NAMED["s4k_d128"]
    assert SPEC.floor_us(long.flops, long.bytes_moved) > LONG_FLOOR_US
    assert [protocol.name for protocol in protocols_of(long, SPEC)] == ["cold-boost", "cold-sustained"]


def test_candidates_are_ranked_by_a_way_that_rotates_its_inputs():
    for name in NAMED:
        assert protocols_of(NAMED[name], SPEC)[0].rotate


@pytest.mark.parametrize("sets", [1, 7, 20, 60])
def test_a_short_replay_holds_at_least_twenty_launches_in_whole_rounds(sets):
    cold, _ = protocols_of(NAMED["mission"], SPEC)
    launches = launches_of(cold, sets=sets, one_us=6.0)
    assert launches >= 20
    assert launches % sets == 0


@pytest.mark.parametrize(("one_us", "launches"), [(500.0, 20), (3000.0, 3), (40_000.0, 1)])
def test_a_long_replay_lasts_about_ten_milliseconds(one_us, launches):
    boost, _ = protocols_of(NAMED["s4k_d128"], SPEC)
    assert boost.pace is Pace.BOOST
    assert launches_of(boost, sets=1, one_us=one_us) == launches


def test_the_medians_error_matches_what_repeated_experiments_show():
    rng = np.random.default_rng(1)
    runs = rng.normal(100.0, 2.0, (4000, 25))
    seen = np.median(runs, axis=1).std() / 100
    assert np.mean([median_error(run) for run in runs[:500]]) == pytest.approx(seen, rel=0.15)


def test_a_few_outliers_do_not_keep_the_sampling_going():
    steady = list(np.random.default_rng(2).normal(100, 0.3, 40))
    assert enough([*steady, 900.0, 1000.0], replace(FULL, max_samples=1000), elapsed_s=0)


def test_sampling_goes_on_while_the_spread_is_wide_and_ends_at_the_cap():
    rule = StoppingRule(min_samples=5, max_samples=50, rel_error=1e-3, max_s=60)
    wide = list(np.random.default_rng(3).normal(100, 10, 49))
    assert not enough(wide[:4], rule, elapsed_s=0)
    assert not enough(wide, rule, elapsed_s=0)
    assert enough([*wide, 100.0], rule, elapsed_s=0)
    assert enough(wide, rule, elapsed_s=61)


def test_a_difference_well_above_the_spread_is_faster_and_its_mirror_slower():
    rng = np.random.default_rng(4)
    quick, slow = rng.normal(97, 1, 40), rng.normal(100, 1, 40)
    assert compared(quick, slow).answer == "faster"
    assert compared(slow, quick).answer == "slower"
    assert compared(quick, slow).ratio == pytest.approx(0.97, abs=0.01)


def test_equal_contenders_are_unclear_but_for_one_comparison_in_some_hundred():
    rng = np.random.default_rng(5)
    answers = [compared(*rng.normal(100, 1, (2, 30))).answer for _ in range(2000)]
    assert 1980 <= answers.count("unclear") < 2000  # 0.2 % are wrong by design


def test_a_difference_within_the_machines_noise_is_unclear():
    rng = np.random.default_rng(6)
    quick, slow = rng.normal(99.5, 0.1, 40), rng.normal(100, 0.1, 40)
    assert compared(quick, slow).answer == "faster"
    assert compared(quick, slow, noise=0.01).answer == "unclear"


def test_a_drift_that_both_contenders_share_does_not_blur_the_ratio():
    rng = np.random.default_rng(7)
    drift = np.linspace(100, 130, 40)
    a, b = drift * 0.97 * rng.normal(1, 1e-3, 40), drift * rng.normal(1, 1e-3, 40)
    found = compared(a, b)
    assert found.low < 0.97 < found.high
    assert found.high - found.low < 0.03


def test_samples_of_different_length_cannot_be_compared():
    with pytest.raises(UsageError, match="in turns"):
        compared([1.0, 2.0], [1.0])


def test_the_score_is_the_geometric_mean():
    assert score([2.0, 8.0]) == pytest.approx(4.0)


def test_a_time_below_the_physics_floor_is_an_error_that_names_it():
    mission = NAMED["mission"]
    floor_us = mission.flops / 1e9
    assert beats_physics(timing(floor_us * 1.01), mission, SPEC) == ""
    assert "physics" in beats_physics(timing(floor_us * 0.99), mission, SPEC)


def test_a_causal_time_is_held_against_visible_pairs_only():
    causal = replace(NAMED["mission"], causal=True)
    assert beats_physics(timing(0.6 * NAMED["mission"].flops / 1e9), causal, SPEC) == ""


def test_without_nvml_the_clock_is_unknown_not_an_error():
    assert clock_state("0000:ff:ff.0") == (None, "")


@pytest.mark.parametrize(("took_us", "limit_s"), [(200.0, 5.0), (1e5, 10.0), (1e7, 30.0), (math.inf, 30.0)])
def test_a_replay_whose_time_is_known_hangs_far_earlier_than_the_first_one(took_us, limit_s):
    assert replay_limit_s(took_us) == limit_s


def test_a_contender_that_hangs_is_named_and_what_it_has_on_the_gpu_is_not_freed():
    class Memory:
        pass

    class Hanging:
        name = "b"

        def graph(self, bench, order):
            memory = Memory()
            freed.append(weakref.ref(memory))
            raise KernelHungError("did not end within 5 s")

    freed, bench = [], SimpleNamespace(order=lambda protocol, launches: [0], arenas=[None])
    cold = protocols_of(NAMED["mission"], SPEC)[0]
    with pytest.raises(KernelHungError) as hung:
        time_interleaved([Hanging()], bench, cold, rule=FULL, rng=np.random.default_rng(0))
    assert (hung.value.contender, str(hung.value)) == ("b", "did not end within 5 s")
    del hung
    gc.collect()
    assert freed[0]() is not None


def test_throttle_reasons_are_words_and_idling_is_none():
    assert throttle_words(0x001) == ""
    assert throttle_words(0x004 | 0x040) == "power cap, hardware thermal"
    assert throttle_words(0x800 | 0x008) == "hardware slowdown, 0x800"


def test_of_several_clock_readings_the_range_is_kept_with_every_reason():
    states = [(1980, ""), (1755, "power cap"), (1890, "power cap, thermal"), (None, "")]
    assert combined_state(states) == (1890, "power cap, thermal, clock 1755-1980 MHz")
    assert combined_state([(1980, ""), (1980, "")]) == (1980, "")
    assert combined_state([(None, "")]) == (None, "")


def test_work_that_goes_on_after_the_timed_end_is_an_error_that_says_so():
    assert unfinished_work(timing(5.0), 6.2) == ""
    assert "after the end" in unfinished_work(timing(5.0), 8.0)


@pytest.mark.parametrize("one_us", [1.5, 9.2, 80.0])
def test_a_library_of_short_launches_is_not_held_to_leave_work_by_the_hosts_latency(one_us):
    """torch's replay and the wait take 0.12 ms, which are half of what 24 launches of 9 us are timed at."""
    latency_us, launches = 120.0, 24
    made = launches * rounds_synced(launches * one_us)

    assert made % launches == 0
    assert unfinished_work(timing(one_us), one_us + latency_us / made) == ""
    assert unfinished_work(timing(one_us), 1.6 * one_us + latency_us / made) != ""


def test_finals_time_short_workloads_call_by_call_too_and_long_ones_not():
    short, long = (protocols_of(NAMED[name], SPEC) for name in ("mission", "s4k_d128"))
    assert [protocol.name for protocol, _ in finals_of(short)] == ["cold", "hot", "call"]
    assert [protocol.name for protocol, _ in finals_of(long)] == ["cold-boost", "cold-sustained"]


def test_only_a_contender_that_can_be_called_is_timed_call_by_call():
    class Captured:
        name = "captured"

        def graph(self, bench, order):
            raise AssertionError

    assert can_be_timed(KernelContender("kernel", kernel=None), CALL)
    assert not can_be_timed(Captured(), CALL)
    assert can_be_timed(Captured(), protocols_of(NAMED["mission"], SPEC)[0])


def test_a_kernel_is_captured_once_for_each_bench_and_order():
    class Stream:
        def __init__(self):
            self.captured, self.replayed = [], []

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def begin_capture(self):
            self.captured.append([])

        def end_capture(self):
            number = len(self.captured) - 1
            return SimpleNamespace(upload=lambda _: None, launch=lambda _: self.replayed.append(number))

    class OnHost:
        graph_of = Bench.graph_of

        def __init__(self):
            self.stream = Stream()
            self.arenas = [SimpleNamespace(packed_arguments=self.arguments(name)) for name in ("q1", "q2")]

        def arguments(self, name):
            return lambda kernel: (self.stream, name)

    one, other = OnHost(), OnHost()
    kernel = SimpleNamespace(enqueue_packed=lambda given: given[0].captured[-1].append(given[1]))
    contender = KernelContender("known", kernel)

    replay = contender.graph(one, [0, 1])
    assert contender.graph(one, (0, 1)) is replay
    contender.graph(one, [1, 0])
    contender.graph(other, [0, 1])
    replay()

    assert (one.stream.captured, one.stream.replayed) == ([["q1", "q2"], ["q2", "q1"]], [0])
    assert (other.stream.captured, other.stream.replayed) == ([["q1", "q2"]], [])
    assert contender.orders(one) == [(0, 1), (1, 0)]  # what is judged after timing
