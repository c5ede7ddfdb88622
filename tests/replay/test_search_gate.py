"""The default strategy does not get worse: replayed on two recorded spaces and held against its record.

Replay is deterministic, so the test is too: it fails or passes by what the strategy proposes. The record has
the default's P over 40 seeds. 20 seeds may lie two standard errors of such a sample below its mean, which a
change that neither helps nor harms does once in 44 times. Fewer would not do: the first 8 seeds of an
unchanged `surrogate` lie that far below. Where a change is meant to cost something, or has made the default
better, make the record anew:

    evoflash benchmark-search evoflash/replay/spaces/convolution_milo-a4000.json.gz \\
        scripts/searches/records/spaces/short-h200.json.gz \\
        --strategies uniform,evolution,surrogate --seeds 40 --budget 80 \\
        -o scripts/searches/records/regression-gate
"""

import math

import numpy as np
import pytest
from places import ROOT

from evoflash.replay.comparison import curves, draws_us, random_expectation, scores_of
from evoflash.replay.kernel_tuner import read_recording
from evoflash.settings import DEFAULT_STRATEGY
from scripts.records import read_record

SEEDS = 20
ERRORS = 2.0  # standard errors of the mean of SEEDS seeds
RECORD = read_record(ROOT / "scripts/searches/records/regression-gate.json")
FILES = {
    "convolution_milo-a4000.json.gz": ROOT / "evoflash/replay/spaces",
    "short-h200.json.gz": ROOT / "scripts/searches/records/spaces",
}


def recorded(strategy: str) -> dict[str, list[float]]:
    """P of each seed by space, from the record."""
    return {
        space["file"]: row["scores"]
        for space in RECORD["spaces"]
        for row in space["rows"]
        if row["standing"]["strategy"] == strategy
    }


def least(strategy: str) -> float:
    """What the mean over the spaces of the mean P of SEEDS seeds has to reach."""
    scores = recorded(strategy).values()
    variance = sum(float(np.var(each, ddof=1)) / SEEDS for each in scores) / len(scores) ** 2
    return float(np.mean([np.mean(each) for each in scores])) - ERRORS * math.sqrt(variance)


def mean_p(strategy: str) -> float:
    """The mean over the spaces of the mean P of the first SEEDS seeds, replayed now."""
    means = []
    for space in RECORD["spaces"]:
        recording, budget = read_recording(FILES[space["file"]] / space["file"]), space["budget"]
        best_us = curves(recording, strategy, budget, SEEDS)
        expected_us = random_expectation(draws_us(recording), budget)
        means.append(float(scores_of(best_us, expected_us, recording.scores_us[0]).mean()))
    return sum(means) / len(means)


@pytest.mark.full
def test_the_default_strategy_is_not_worse_than_its_record() -> None:
    assert recorded(DEFAULT_STRATEGY), (
        f"the record has no {DEFAULT_STRATEGY}, the default: make it anew, see above"
    )

    found, wanted = mean_p(DEFAULT_STRATEGY), least(DEFAULT_STRATEGY)

    assert found >= wanted, (
        f"mean P of {DEFAULT_STRATEGY} fell to {found:.2f}, below {wanted:.2f}, "
        f"on {' and '.join(FILES)}: see above"
    )


@pytest.mark.full
def test_the_gate_would_notice_a_default_that_searches_at_random() -> None:
    assert mean_p("uniform") < least(DEFAULT_STRATEGY)


def test_the_record_is_of_whole_spaces_and_many_seeds() -> None:
    assert {space["file"] for space in RECORD["spaces"]} == set(FILES)
    assert all(len(scores) >= 2 * SEEDS for scores in recorded(DEFAULT_STRATEGY).values())
