"""Bad candidates through the whole evaluator, past the emulator on purpose, on to the GPU."""

import time

import pytest
from places import TEMPLATES

from evoflash.evaluation import Proposal, Status
from evoflash.evaluators import measured
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.pipeline import ThisMachine
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem

PROBLEM = parse_problem("b=1,h=2,s=64,d=64")
FAULTS = {
    "crash": Status.RUNTIME,
    "hang": Status.TIMEOUT,
    "overrun": Status.CORRECTNESS,
    "nan": Status.CORRECTNESS,
    "broken": Status.COMPILE,
}


@pytest.mark.gpu
@pytest.mark.alone_on_gpu
def test_each_bad_candidate_costs_only_itself_on_the_gpu(spec, monkeypatch, use_templates):
    use_templates(TEMPLATES)
    monkeypatch.setattr(measured, "which", lambda _: None)  # no g++: nothing stops them before the GPU
    space = load_family("planted").space(PROBLEM.compile_keys(spec.arch), spec)
    with MeasuredEvaluator(
        PROBLEM, spec, seed=1, cores=ThisMachine(3), ahead=2 * len(FAULTS), proves_all=True
    ) as evaluator:
        for rows, fault in enumerate(FAULTS):
            evaluator.submit(Proposal(space.genome({"fault": fault, "block_m": 32})))
            evaluator.submit(Proposal(space.genome({"fault": "none", "block_m": (16, 32, 64)[rows % 3]})))
        for fault, status in FAULTS.items():
            _, bad = evaluator.collect()
            known = time.monotonic()
            _, good = evaluator.collect()
            took_s = time.monotonic() - known
            print(f"\n{fault}: {bad.status} at {bad.rung}: {bad.reason}; the next one took {took_s:.2f} s")
            assert bad.status is status, bad.reason
            assert good.status is Status.CORRECT, good.reason
            assert good.score_us
