"""What is known of a kernel's time: the measured goes first."""

from dataclasses import replace

import pytest

from evoflash.champions.evidence import (
    archived_for,
    archived_kernel,
    known_times,
    percent_of,
)
from evoflash.evaluation import Basis, Evaluation, Rung, Status, Timing
from evoflash.problem import parse_problem

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
