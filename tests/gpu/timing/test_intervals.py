"""The interval of a ratio and the answer read from it: against tables, made-up samples and the H200's own."""

import math

import numpy as np
import pytest
from places import ROOT

from evoflash.gpu.timing.paired import (
    ALPHA,
    FEWEST,
    LOOKS,
    MINIMAL_EFFECT,
    RatioInterval,
    answer_of,
    interval,
    is_settled,
    student,
)
from scripts.records import read_record

RECORD = ROOT / "scripts" / "noise" / "records" / "aa-h200.json"


@pytest.mark.parametrize(
    ("alpha", "freedom", "table"),
    [(0.05, 1, 12.706), (0.05, 4, 2.776), (0.05, 5, 2.571), (0.01, 30, 2.750), (0.001, 10, 4.587)],
)
def test_students_quantiles_are_those_of_the_tables(alpha, freedom, table):
    assert student(alpha, freedom) == pytest.approx(table, abs=6e-4)


@pytest.mark.parametrize("count", [5, 10, 40])
def test_the_interval_misses_the_ratio_as_often_as_it_says(count):
    rng = np.random.default_rng(count)
    found = [interval(rng.normal(0.02, 0.01, count), alpha=0.05) for _ in range(4000)]
    missed = sum(not each.low < math.exp(0.02) < each.high for each in found)
    assert missed / 4000 == pytest.approx(0.05, abs=0.012)


def test_one_interruption_neither_moves_the_ratio_nor_widens_the_interval_much():
    rng = np.random.default_rng(1)
    calm = rng.normal(0.015, 0.001, 16)
    disturbed = calm.copy()
    disturbed[3] = 0.9
    assert interval(disturbed).ratio == pytest.approx(interval(calm).ratio, abs=1e-3)
    width = [each.high - each.low for each in (interval(disturbed), interval(calm))]
    assert width[0] < 1.6 * width[1]


def test_too_few_samples_say_nothing():
    few = interval([0.5] * (FEWEST - 1))
    assert answer_of(few.low, few.high, noise=0.003) == "unclear"
    assert not is_settled(few, noise=0.003)


def test_an_answer_needs_the_whole_interval_beyond_the_noise():
    assert answer_of(0.98, 0.996, noise=0.003) == "faster"
    assert answer_of(0.98, 0.998, noise=0.003) == "unclear"
    assert answer_of(1.004, 1.02, noise=0.003) == "slower"
    assert answer_of(0.98, 1.02, noise=0.003) == "unclear"


def test_a_narrow_interval_about_one_is_settled_and_a_wide_one_is_not():
    assert is_settled(RatioInterval(1.0, 0.998, 1.002), noise=0.003)
    assert not is_settled(RatioInterval(1.001, 0.998, 1.004), noise=0.003)


def looked_at(rng, effect, noise):
    """The answer of a sequential test on made-up blocks: looks as they are scheduled."""
    blocks = rng.standard_t(3, LOOKS[-1]) * 0.01 + effect  # heavier tails than the H200's blocks, and wider
    for count in LOOKS:
        found = interval(blocks[:count], alpha=ALPHA / len(LOOKS))
        if is_settled(found, noise=noise):
            break
    return answer_of(found.low, found.high, noise=noise)


def test_looking_again_and_again_keeps_false_alarms_within_what_alpha_promises():
    rng = np.random.default_rng(2)
    answers = [looked_at(rng, 0.0, noise=0.0) for _ in range(3000)]
    wrong = 3000 - answers.count("unclear")
    assert wrong <= 12  # 0.2 % of 3000 is 6; Poisson exceeds 12 once in 100


def test_a_slowdown_of_one_and_a_half_percent_is_found_in_noise_of_one_percent_a_block():
    rng = np.random.default_rng(3)
    answers = [looked_at(rng, 0.015, noise=MINIMAL_EFFECT) for _ in range(200)]
    assert answers.count("slower") >= 190


def test_what_was_recorded_on_the_h200_gives_the_recorded_answers():
    record = read_record(RECORD)
    for part, wanted in (("aa", "unclear"), ("planted", "slower")):
        rows = [each for row in record[part] for each in row["each"]]
        assert len(rows) == (400 if part == "aa" else 200)
        assert {answer_of(low, high, noise=record["minimal_effect"]) for _, low, high, _ in rows} == {wanted}
