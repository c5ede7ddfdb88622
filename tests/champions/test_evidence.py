"""What is known of a kernel's time: the measured goes first, and the model's error is that of the archive."""

import json
from dataclasses import replace

import pytest

from evoflash.champions import champions
from evoflash.champions.evidence import (
    ESTIMATES,
    archived_for,
    archived_kernel,
    error_in_words,
    has_order,
    known_times,
    model_error,
    percent_of,
    ties,
)
from evoflash.evaluation import Basis, Evaluation, Rung, Status, Timing
from evoflash.paths import CHAMPIONS
from evoflash.perf_model import model_version
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.pages.estimates import estimates_us

PROBLEM = str(parse_problem("gqa4k_d128,causal"))
SMALLEST = str(parse_problem("short128"))


def evaluation(basis: Basis, us: float, *, protocol: str = "", **more) -> Evaluation:
    """Of the archive's kernel for PROBLEM."""
    known = archived_for(PROBLEM, "h200")
    assert known is not None
    timing = Timing(PROBLEM, protocol or ("cold" if basis is Basis.MEASURED else "model"), us, us, us, 1)
    made = Evaluation(
        known.genome, PROBLEM, "h200", basis, Status.CORRECT, Rung.DONE, timings=(timing,), score_us=us
    )
    return replace(made, **more)


@pytest.mark.parametrize(
    ("stored", "us", "time"),
    [
        ([], 786.65, "786.65 us, archived, measured on NVIDIA H200, 2026-11-22"),
        ([(Basis.ESTIMATED, 961.41)], 786.65, "786.65 us, archived, measured on NVIDIA H200, 2026-11-22"),
        ([(Basis.ESTIMATED, 961.41), (Basis.MEASURED, 800.0)], 800.0, "800.00 us measured"),
    ],
    ids=["archived", "archived before estimated", "measured here before both"],
)
def test_what_was_measured_is_the_time(stored, us, time) -> None:
    evaluations = [evaluation(*each) for each in stored]
    genome = evaluation(Basis.ESTIMATED, 1.0).genome

    known = known_times(genome, PROBLEM, "h200", evaluations)

    assert known.us == pytest.approx(us, abs=0.005)
    assert known.time == time


def test_a_time_in_turns_goes_before_a_faster_one_that_was_taken_once() -> None:
    again = evaluation(Basis.MEASURED, 800.0, protocol="final-cold")

    known = known_times(again.genome, PROBLEM, "h200", [evaluation(Basis.MEASURED, 790.0), again])

    assert known.measured == again


def test_the_estimate_beside_a_measured_time_says_how_far_it_is_off() -> None:
    estimate = evaluation(Basis.ESTIMATED, 961.41)

    assert known_times(estimate.genome, PROBLEM, "h200", [estimate]).calibration == (
        "the model says ~961.41 us, 22 % more"
    )


@pytest.mark.parametrize(
    "other",
    [{"problem": SMALLEST}, {"gpu": "h100"}, {"status": Status.CORRECTNESS}],
    ids=["problem", "gpu", "wrong"],
)
def test_what_is_of_something_else_is_no_evidence(other) -> None:
    estimate = evaluation(Basis.ESTIMATED, 961.41, **other)

    assert known_times(estimate.genome, PROBLEM, "h200", [estimate]).estimated is None


def test_another_kernel_or_a_recordings_problem_is_not_the_archives() -> None:
    known = archived_for(PROBLEM, "h200")
    assert known is not None
    assert archived_kernel(known.genome, SMALLEST, "h200") is None
    assert archived_kernel(known.genome, "some convolution", "h200") is None
    assert archived_kernel(known.genome, PROBLEM, "A100") is None


@pytest.mark.parametrize(("ratio", "words"), [(1.222, "22 % more"), (0.93, "7 % less"), (1.0, "0 % more")])
def test_a_ratio_is_said_in_percent(ratio, words) -> None:
    assert percent_of(ratio) == words


def test_the_models_error_is_said_of_the_archive_and_of_no_other_gpu() -> None:
    (own,), (other,) = error_in_words("h200", PROBLEM), error_in_words("l4", PROBLEM)

    assert own.startswith(
        f"of {len(champions('h200'))} archived kernels of h200 the model says 18 % more than was measured"
    )
    assert own.endswith("(-7 to +25 %); it cannot rank masks or shapes")
    assert other == f"for l4 nothing was measured; {own}"


@pytest.mark.parametrize(
    ("estimates", "order"), [((11.71, 11.71), False), ((11.71, 11.74), False), ((11.71, 14.0), True)]
)
def test_estimates_nearer_than_the_models_error_have_no_order(estimates, order) -> None:
    assert has_order(estimates, "h200", PROBLEM) is order


def test_what_is_known_of_attention_is_said_of_no_other_operation() -> None:
    linear = "linear:m=1,n=1280,k=8192,dtype=fp8b128"

    assert error_in_words("h200", linear) == (
        "no linear kernel was measured, on h200 or elsewhere: how far the model is off is unknown",
    )
    assert not has_order((2.0, 14.0), "h200", linear)
    found = ties([11.7101, 11.7104, 11.9], "h200", linear)
    assert found is not None
    assert (found.equal, found.near, found.error) == (1, 0, None)
    assert found.in_words(" shown") == (
        "1 other kernel shown ties with the fastest: equal estimates of ~11.71 us.",
        "The model's error is unknown: estimates near one another are no order.",
    )


def test_the_shipped_estimates_are_of_todays_model_and_archive() -> None:
    said = json.loads((CHAMPIONS / f"h200{ESTIMATES}").read_text())

    assert said["model_version"] == model_version(), f"run {said['made_by']}"
    assert set(said["estimates_us"]) == {each.problem for each in champions("h200")}
    found = model_error("h200")
    assert found is not None
    assert 1.0 < found.spread < max(found.ratios) / min(found.ratios)


def test_a_shipped_estimate_comes_out_again() -> None:
    said = json.loads((CHAMPIONS / f"h200{ESTIMATES}").read_text())["estimates_us"]

    assert estimates_us(load_gpu("h200"), frozenset([SMALLEST])) == pytest.approx(
        {SMALLEST: said[SMALLEST]}, rel=1e-3
    )


@pytest.mark.parametrize(
    ("estimates", "says"),
    [
        ([11.71, 14.0], ()),
        ([11.7101, 11.7104, 14.0], ("1 other kernel ties with the fastest: equal estimates of ~11.71 us.",)),
        (
            [11.74, 11.71, 11.71, 11.71, 12.0],
            (
                "2 other kernels tie with the fastest: equal estimates of ~11.71 us.",
                "2 more are nearer to the fastest than the model's error, 6 %: the model does not order "
                "these.",
            ),
        ),
    ],
)
def test_equal_estimates_are_a_tie_and_near_ones_no_order(estimates, says) -> None:
    found = ties(estimates, "h200", PROBLEM)

    assert found is not None
    assert found.says == says
    assert ties([], "h200", PROBLEM) is None
