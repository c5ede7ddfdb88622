"""Bad candidates in the emulator: each costs only itself, and the next one is right."""

import pytest
from places import TEMPLATES
from tables import table_of_cases

from evoflash.evaluation import Proposal, Rung, Status
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.pipeline import ThisMachine
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

PROBLEM = parse_problem("b=1,h=2,s=64,d=64")


@pytest.fixture
def planted(use_templates):
    use_templates(TEMPLATES)
    gpu = load_gpu("l4")
    space = load_family("planted").space(PROBLEM.compile_keys(gpu.arch), gpu)
    return lambda fault, rows=32: Proposal(space.genome({"fault": fault, "block_m": rows}))


@pytest.mark.slow
@table_of_cases(
    # Ten CPU seconds; by default tests/emulator/test_launch.py has a kernel that does not end.
    more=[pytest.param("hang", Status.TIMEOUT, Rung.PREFLIGHT, "TIMEOUT", marks=pytest.mark.full)]
)
@pytest.mark.sample(1)
def test_a_bad_candidate_costs_only_itself_in_the_emulator(planted, fault, status, rung, says):
    with EmulatedEvaluator(PROBLEM, load_gpu("l4"), seed=1, cores=ThisMachine(1)) as evaluator:
        evaluator.submit(planted(fault))
        evaluator.submit(planted("none"))
        _, bad = evaluator.collect()
        _, good = evaluator.collect()

    assert (bad.status, bad.rung) == (status, rung), bad.reason
    assert says in bad.reason
    assert bad.score_us is None
    assert good.status is Status.CORRECT, good.reason
    assert good.score_us is not None
