"""A time by its ratio to a known one: what samples make of it; the pairs themselves are made up here."""

import numpy as np
import pytest

from evoflash.gpu.timing import relative
from evoflash.gpu.timing.paired import QuadTimes
from evoflash.gpu.timing.protocols import Effort
from evoflash.gpu.timing.relative import Beside, relative_time

EFFORT = Effort(block_us=2e3, looks=(5, 10, 20), max_s=60.0, alpha=0.02)
DRIFT = 1.2  # both are slower by this at times: the clock


class Bench:
    workload, walk = "w", (0,)


class MadeUp:
    """In place of a Pair: the candidate takes `first`, the known kernel 2 us, both slower now and then."""

    made = 0

    def __init__(self, first, second, bench, protocol, *, rng, block_us, order):
        MadeUp.made += 1
        self.first_us, self.rng, self.rough_ratio = first, np.random.default_rng(3), first / 2.0
        assert (protocol.name, block_us, order) == ("screen", EFFORT.block_us, bench.walk)

    def block(self):
        clock = DRIFT if self.rng.random() < 0.5 else 1.0
        noise = self.rng.normal(1, 0.002, (2, 4))
        first, second = clock * noise * np.array([[self.first_us], [2.0]])
        return QuadTimes(tuple(first), tuple(second), (1980, ""))


@pytest.fixture(autouse=True)
def pairs(monkeypatch):
    monkeypatch.setattr(relative, "ContenderPair", MadeUp)


def timed(*first_us, known_us=20.0, is_clear=lambda _: False, **named):
    sides = [Beside(us, 2.0, known_us, Bench()) for us in first_us]
    return relative_time(sides, effort=EFFORT, is_clear=is_clear, rng=np.random.default_rng(0), **named)


def test_the_time_is_the_ratio_times_the_known_time_whatever_the_clock_did():
    found = timed(3.0)
    assert found.score_us.ratio == pytest.approx(30.0, rel=0.003)
    assert found.score_us.low < 30.0 < found.score_us.high
    assert found.score_us.high / found.score_us.low < 1.01
    (timing,) = found.timings
    assert (timing.protocol, timing.n) == ("screen", 4 * EFFORT.looks[-1])
    assert timing.median_us == pytest.approx(30.0, rel=0.003)
    assert timing.p90_us / timing.p10_us < 1.05 < DRIFT


def test_the_score_over_two_workloads_is_their_geometric_mean():
    found = timed(3.0, 12.0)
    assert found.score_us.ratio == pytest.approx(60.0, rel=0.003)
    assert [timing.median_us for timing in found.timings] == pytest.approx([30.0, 120.0], rel=0.003)


def test_it_ends_at_the_first_look_that_is_clear():
    assert timed(3.0, is_clear=lambda found: found.low > 25).timings[0].n == 4 * EFFORT.looks[0]
    assert timed(3.0, is_clear=lambda found: found.low > 35).timings[0].n == 4 * EFFORT.looks[-1]


def test_a_single_replay_decides_what_is_far_behind():
    far = timed(30.0, is_far=lambda us: us > 200)
    assert (far.score_us.ratio, far.score_us.low, far.score_us.high) == (pytest.approx(300.0), 0.0, np.inf)
    assert [(timing.median_us, timing.n) for timing in far.timings] == [(pytest.approx(300.0), 1)]
    assert timed(10.0, is_far=lambda us: us > 200).timings[0].n > 1


def test_the_known_ones_own_time_is_what_it_took_then_and_there():
    found = timed(3.0, 12.0, known_us=20.0)
    assert 2.0 * 0.99 < found.known_us < 2.0 * DRIFT * 1.01
    assert np.isnan(timed(30.0, is_far=lambda us: us > 200).known_us)
