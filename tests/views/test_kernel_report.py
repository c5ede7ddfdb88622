"""`evoflash show`: a kernel that was screened is no failure; rates and errors are those of its operation."""

from dataclasses import replace

import pytest

from evoflash.app.kernel_lookup import KnownKernel, failures
from evoflash.evaluation import Basis, Evaluation, Proposal, Run, Rung, RunKey, Status, Timing, Verdict
from evoflash.space import Genome
from evoflash.store.store import open_store
from evoflash.views import kernel as kernel_report

PROBLEM = "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16"
FIELDS = {"problem": PROBLEM, "gpu": "h200", "basis": Basis.MEASURED}


def evaluation_of(number, status, rung, *, us=None):
    timings = () if us is None else (Timing(PROBLEM, "screen", us, us, us, 9),)
    genome = Genome("flash_simt", 1, (("block_m", number),))
    return Evaluation(genome, **FIELDS, status=status, rung=rung, reason="why", timings=timings, score_us=us)


def test_a_screened_kernel_is_said_to_be_unproven_and_is_no_failure(tmp_path):
    screened = evaluation_of(1, Status.SCREENED, Rung.TIMING, us=7.5)
    with open_store(str(tmp_path / "a.db")) as store:
        key = RunKey(PROBLEM, "h200", Basis.MEASURED, "evolution", 0)
        run = store.begin(key, gpu_hash="", budget=2, argv=[], environment={})
        store.add(run, screened, Proposal(screened.genome))
        assert kernel_report.describe_failures(failures(store, run)) == "1 evaluated, no failures."
        wrong = evaluation_of(2, Status.CORRECTNESS, Rung.CORRECTNESS)
        store.add(run, wrong, Proposal(wrong.genome))
        assert kernel_report.describe_failures(failures(store, run)).startswith("2 evaluated, 1 failed:")
    words = "7.50 us measured, by a short look: not proven to be right"
    assert screened.time == words


@pytest.mark.parametrize(("basis", "remeasures"), [(Basis.ESTIMATED, True), (Basis.MEASURED, False)])
def test_a_search_ends_with_its_run_and_the_commands_that_come_next(basis: Basis, remeasures: bool) -> None:
    key = RunKey(PROBLEM, "h200", basis, "evolution", 0)
    said = kernel_report.next_steps(Run(7, key, 1, "", 9, "2026-11-26T12:00:00+00:00"))

    assert said.startswith("run 7; next `evoflash report 7")
    assert "`evoflash best --run 7 --export kernel.cu" in said
    assert ("where an h200 is `evoflash remeasure" in said) is remeasures


LINEAR = "linear:m=8,n=1280,k=8192,dtype=fp8b128"
DECODE = "b=16,h=32,hkv=8,sq=1,skv=8192,d=128,dtype=fp16"


@pytest.mark.parametrize(
    ("problem", "rates", "has_lse"),
    [
        (PROBLEM, "10.00 us = 53.7 TFLOPS;", True),
        (DECODE, "10.00 us = 53713 GB/s = 214.7 TFLOPS;", True),  # K and V are read once for four heads each
        (LINEAR, "10.00 us = 1064 GB/s = 16.8 TFLOPS;", False),  # W in 8 bits is read once for eight rows
        ("convolution", "10.00 us;", True),
    ],
)
def test_a_time_has_the_rate_that_bounds_it_and_errors_are_of_outputs_that_there_are(
    problem: str, rates: str, has_lse: bool
) -> None:
    timing = Timing(problem, "hot", 10.0, 10.0, 10.0, 1, terms={"dram": 2.0, "exp": 0.01})
    verdict = Verdict(problem if problem != "convolution" else PROBLEM, True, 1e-3, 1e-2, 2e-5, 1.0)
    made = replace(evaluation_of(1, Status.CORRECT, Rung.DONE), problem=problem)
    made = replace(made, timings=(timing,), verdicts=(verdict,), score_us=10.0)
    said = kernel_report.describe(KnownKernel(made.genome, problem, "h200", (made,), None))

    assert f"hot: {rates} terms in us: dram 2.0\n" in said  # no term of 0.0
    assert ("log-sum-exp error 2.0e-05" in said) is has_lse
    assert (", LSE 2.0e-05" in kernel_report.describe_checks([replace(verdict, passed=False)])) is has_lse
