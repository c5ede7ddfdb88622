"""Seconds by rung travel in a candidate's environment, and the validator's share is read from there."""

from dataclasses import replace

from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.gpu.process.outcome import charge_rungs, describe, seconds_by_rung, together, validator_seconds
from evoflash.space import Genome


def evaluation(**seconds):
    environment = charge_rungs({"gpu": "H200"}, {Rung(rung): spent for rung, spent in seconds.items()})
    return Evaluation(
        Genome("flash_mma", 1, ()),
        "mission",
        "h200",
        Basis.MEASURED,
        Status.CORRECT,
        Rung.DONE,
        environment=environment,
    )


def test_seconds_of_one_rung_add_up_and_nothing_else_is_lost():
    environment = charge_rungs(charge_rungs({"gpu": "H200"}, {Rung.SMOKE: 0.25}), {Rung.SMOKE: 0.5})
    assert environment == {"gpu": "H200", "smoke_s": "0.7500"}


def test_the_validator_is_smoke_and_correctness():
    one = evaluation(smoke=0.1, correctness=0.2, timing=0.7)
    assert seconds_by_rung(one) == {"smoke": 0.1, "correctness": 0.2, "timing": 0.7}
    assert round(validator_seconds(one), 6) == 0.3


def test_the_share_is_a_median_over_those_that_were_timed():
    several = [
        evaluation(smoke=0.1, correctness=0.1, timing=0.8),
        evaluation(smoke=0.1, correctness=0.2, timing=0.7),
        evaluation(smoke=0.1, correctness=0.8, timing=0.1),
        evaluation(smoke=5.0),  # rejected: not timed
    ]
    assert describe(several).startswith("0.30 s of 1.00 s in the GPU process, 30% (medians of 3 ")


def test_what_was_screened_out_is_counted_apart_and_its_seconds_join_those_of_a_proof():
    screened = [
        replace(evaluation(smoke=0.01, correctness=0.01, timing=seconds), status=Status.SCREENED)
        for seconds in (0.01, 0.03, 0.05)
    ]
    words = "3 too slow for that were screened in 0.05 s each"
    assert describe(screened) == words
    proven = evaluation(smoke=0.1, correctness=0.1, timing=0.8)
    assert describe([proven, *screened]).endswith(
        f"(medians of 1 candidates that were timed in full); {words}"
    )
    both = together(proven.environment, screened[0].environment)
    assert both == {"gpu": "H200", "smoke_s": "0.1100", "correctness_s": "0.1100", "timing_s": "0.8100"}


def test_a_run_that_measured_nothing_has_no_share():
    assert describe([]) == ""
    assert describe([evaluation(smoke=1.0)]) == ""
