"""Kernels whose text was edited: the judge prepares them, no core runs them, and a GPU sees what is right."""

from dataclasses import replace

import pytest
from waiting import LIMIT_S

from evoflash.evaluation import JUDGED, Build, Proposal, Rung, Status, Timing
from evoflash.evaluators.emulated import NO_ESTIMATE, EmulatedEvaluator
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.prepare import Preparation, PreparationFailure
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.isolation import Turns
from evoflash.kernels.standalone import valid_genome
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

PROBLEM, GPU = parse_problem("b=1,h=1,s=64,d=64"), load_gpu("l4")
PARENT = valid_genome("flash_mma", {}, PROBLEM, GPU)
RIGHT, WRONG = (replace(PARENT, edits=((word, "x"),)) for word in ("right", "wrong"))
(KEY,) = PROBLEM.compile_keys(GPU.arch)


def judge(genome, seed):
    if genome == WRONG:
        why = PreparationFailure(Status.CORRECTNESS, Rung.PREFLIGHT, "line 7: wrong-result")
        return Preparation(failure=why)
    return Preparation((Build(genome.id, KEY, "", "", text_sha=genome.id),), judged="12 outputs compared")


class NoCores:
    count = ahead = 4

    def processes(self):
        return self

    def submit(self, function, *arguments, timeout_s):
        raise AssertionError("an edited text is no work for a core")

    def close(self):
        pass


class OneGpu:
    at_once = 1

    def __init__(self, **_):
        self.asked, self.turns = [], Turns("gpu")

    def screen(self, task, *, now):
        return self.turns.submit(self._outcome, task.genome_id)

    def submit(self, task, *, now):
        return self.turns.submit(self._outcome, task.genome_id)

    def _outcome(self, genome_id):
        self.asked.append(genome_id)
        timings = (Timing(str(PROBLEM), "cold", 5.0, 5.0, 5.0, 9),)
        return GpuOutcome(genome_id, Status.CORRECT, Rung.DONE, timings=timings, score_us=5.0)

    def prepare_finals(self, hidden, seed):
        pass

    def cancel(self):
        pass

    def close(self):
        pass


def outcomes(evaluator):
    with evaluator:
        for genome in (WRONG, RIGHT):
            evaluator.submit(Proposal(genome))
        found = {}
        while evaluator.pending:
            _, evaluation = evaluator.collect()
            found[evaluation.genome] = evaluation
        return found[WRONG], found[RIGHT]


def test_what_the_judge_refuses_never_reaches_the_gpu_and_what_is_right_is_timed_there() -> None:
    gpu = OneGpu()
    evaluator = MeasuredEvaluator(
        PROBLEM, GPU, seed=1, cores=NoCores(), gpus=lambda **_: gpu, proves_all=True, judge=judge
    )
    wrong, right = outcomes(evaluator)
    assert (wrong.status, wrong.rung, wrong.reason) == (
        *(Status.CORRECTNESS, Rung.PREFLIGHT),
        "line 7: wrong-result",
    )
    assert (right.status, right.score_us) == (Status.CORRECT, 5.0)
    assert right.environment[JUDGED] == "12 outputs compared"
    assert set(gpu.asked) == {RIGHT.id}


def test_without_a_gpu_what_is_right_is_kept_without_an_estimate_and_is_nobodys_original() -> None:
    evaluator = EmulatedEvaluator(PROBLEM, GPU, seed=1, cores=NoCores(), judge=judge)
    wrong, right = outcomes(evaluator)
    assert wrong.status is Status.CORRECTNESS
    assert (right.status, right.rung, right.score_us) == (Status.CORRECT, Rung.PREFLIGHT, None)
    assert right.reason == NO_ESTIMATE
    twin = (Build(PARENT.id, KEY, "", "", text_sha=RIGHT.id),)
    assert evaluator._duplicates.original_of(PARENT, twin) is None


def test_a_finalist_is_judged_once_more_with_another_seed() -> None:
    seeds = []

    def note(genome, seed):
        seeds.append(seed)
        return judge(genome, seed)

    with EmulatedEvaluator(PROBLEM, GPU, seed=1, cores=NoCores(), judge=note) as evaluator:
        evaluator.submit(Proposal(RIGHT))
        evaluator.collect()
        (again,) = evaluator.proof_as_finalist(RIGHT).parts
        assert again.result(LIMIT_S).value is None
        failure = evaluator.proof_as_finalist(WRONG).failure()
    assert failure is not None
    assert failure.status is Status.CORRECTNESS
    assert len(set(seeds)) == 3


def test_what_goes_wrong_with_the_machine_ends_the_search() -> None:
    def broken(genome, seed):
        raise OSError("no space left")

    with EmulatedEvaluator(PROBLEM, GPU, seed=1, cores=NoCores(), judge=broken) as evaluator:
        evaluator.submit(Proposal(RIGHT))
        with pytest.raises(OSError, match="no space left"):
            evaluator.collect()
