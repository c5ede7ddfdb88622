"""Pairs and sequential tests on made-up clocks: what cancels, when it ends."""

import math
import time
from types import SimpleNamespace

import numpy as np
import pytest

from evoflash.gpu.timing import paired as sequential_test
from evoflash.gpu.timing.paired import (
    ALPHA,
    LOOKS,
    QuadTimes,
    estimate,
    interval,
    is_over,
    quads,
    quads_of,
    run_sequential_test,
    turn_rounds,
)
from evoflash.gpu.timing.protocols import protocols_of
from evoflash.operations.attention.workload import NAMED
from evoflash.specs import load_gpu

COLD = protocols_of(NAMED["mission"], load_gpu("h200"))[0]


class MadeUp:
    """A pair whose blocks come from a generator instead of a GPU."""

    def __init__(self, ratio, *, spread=2e-3, block_s=0.0):
        self._ratio, self._spread, self._block_s = ratio, spread, block_s
        self._rng = np.random.default_rng(7)

    def __call__(self, *_, **__):
        return self

    def block(self):
        time.sleep(self._block_s)
        noise = np.exp(self._rng.normal(0, self._spread, 4))
        first, second = 5.0 * self._ratio * noise[:2], 5.0 * noise[2:]
        return QuadTimes(tuple(first), tuple(second), (1980, ""))


def fought(monkeypatch, made_up, **options):
    monkeypatch.setattr(sequential_test, "ContenderPair", made_up)
    names = (SimpleNamespace(name="a"), SimpleNamespace(name="b"))
    bench = SimpleNamespace(workload=NAMED["mission"])
    return run_sequential_test(*names, bench, COLD, rng=np.random.default_rng(0), **options)


def test_a_quad_gives_both_the_same_number_of_turns_and_the_same_mean_place():
    turns = np.array(quads(50, rng=np.random.default_rng(0))).reshape(50, 4)
    assert {tuple(quad) for quad in turns} == {(0, 1, 1, 0), (1, 0, 0, 1)}


def test_an_even_drift_cancels_in_the_ratio_of_a_block():
    turns = quads(6, rng=np.random.default_rng(1))
    drifting = [(1.05 if which == 0 else 1.0) * (1 + 0.01 * at) for at, which in enumerate(turns)]
    first, second = (tuple(us for us, w in zip(drifting, turns, strict=True) if w == each) for each in (0, 1))
    assert QuadTimes(first, second, (None, "")).log_ratio == pytest.approx(math.log(1.05), abs=2e-4)


@pytest.mark.parametrize(("round_us", "rounds"), [(0.2, 400), (100.0, 4), (420.0, 1), (5000.0, 1)])
def test_a_turn_is_whole_rounds_of_at_least_four_tenths_of_a_millisecond(round_us, rounds):
    assert turn_rounds(round_us) == rounds


@pytest.mark.parametrize(("turn_us", "count"), [(420.0, 6), (720.0, 3), (3000.0, 1), (90_000.0, 1)])
def test_a_block_is_quads_for_about_ten_milliseconds_and_at_least_one(turn_us, count):
    assert quads_of(turn_us) == count


def test_a_clear_difference_ends_at_the_first_look(monkeypatch):
    found = fought(monkeypatch, MadeUp(1.015, spread=3e-4))
    assert (found.comparison.answer, found.comparison.n) == ("slower", LOOKS[0])
    assert found.comparison.protocol == "pairs-cold"
    assert found.timings[0].median_us == pytest.approx(5.075, rel=2e-3)
    assert found.timings[1].n == 2 * LOOKS[0]


def test_equal_contenders_end_as_soon_as_the_interval_is_narrow(monkeypatch):
    found = fought(monkeypatch, MadeUp(1.0))
    assert found.comparison.answer == "unclear"
    assert LOOKS[0] < found.comparison.n < LOOKS[-1]
    assert found.comparison.high - found.comparison.low < 2 * found.comparison.noise


def test_what_stays_unclear_ends_with_the_time(monkeypatch):
    found = fought(monkeypatch, MadeUp(1.003, spread=0.05, block_s=0.01), limit_s=0.2)
    assert found.comparison.answer == "unclear"
    assert LOOKS[0] <= found.comparison.n < LOOKS[-1]


def test_even_without_time_there_are_enough_blocks_for_one_look(monkeypatch):
    assert fought(monkeypatch, MadeUp(1.0, spread=0.05), limit_s=0.0).comparison.n == LOOKS[0]


def test_each_look_takes_its_share_of_the_false_alarms():
    rng = np.random.default_rng(3)
    blocks = [QuadTimes((float(us),), (5.0,), (None, "")) for us in rng.normal(5.0, 0.01, 20)]
    found, alone = estimate(blocks), interval([block.log_ratio for block in blocks])
    share = interval([block.log_ratio for block in blocks], alpha=ALPHA / len(LOOKS))
    assert found == share
    assert found.low < alone.low < alone.high < found.high


def test_between_the_scheduled_looks_nobody_looks():
    clear = [QuadTimes((6.0, 6.0), (5.0, 5.0), (None, ""))] * (LOOKS[1] - 1)
    assert not is_over(clear, noise=0.003, left_s=1.0)
    assert is_over([*clear, clear[0]], noise=0.003, left_s=1.0)
