"""In which order a GPU's evaluator hands outcomes back; processes are made up, and the GPU gets no work."""

from concurrent.futures import Future

import numpy as np
import pytest

from evoflash.evaluation import Proposal, Rung, Status
from evoflash.evaluators import measured
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.prepare import Preparation, PreparationFailure
from evoflash.isolation import Ending
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu

NOT_COMPILED = Ending(Preparation(failure=PreparationFailure(Status.COMPILE, Rung.COMPILE, "refused")))


class Pool:
    """Calls that the test ends when it wants to, by genome."""

    def __init__(self) -> None:
        self.calls: dict[Genome, Future] = {}

    def submit(self, function, *arguments, timeout_s):
        return self.calls.setdefault(arguments[0] if arguments else None, Future())

    def close(self) -> None:
        """Nothing runs."""


class Cores:
    """Two, whose processes are the pool."""

    count, ahead = 2, 4

    def __init__(self) -> None:
        self.pool = Pool()

    def processes(self) -> Pool:
        return self.pool


class Gpu:
    """Gets no work, for nothing compiles."""

    at_once = 1

    def __init__(self, **_) -> None:
        """As GpuQueues makes one."""

    def cancel(self) -> None:
        """Nothing runs."""

    close = cancel


def proposals() -> list[Proposal]:
    return [Proposal(Genome("flash_mma", 1, (("block_m", number),))) for number in (1, 2, 3)]


def submitted(ahead: int | None) -> tuple[MeasuredEvaluator, Pool, list[Proposal]]:
    cores, problem = Cores(), parse_problem("b=1,h=1,s=64,d=64")
    evaluator = MeasuredEvaluator(problem, load_gpu("h200"), seed=0, cores=cores, gpus=Gpu, ahead=ahead)
    asked = proposals()
    for proposal in asked:
        evaluator.submit(proposal)
    return evaluator, cores.pool, asked


def test_what_is_done_first_is_handed_back_first() -> None:
    evaluator, pool, (one, two, three) = submitted(ahead=None)
    with evaluator:
        order = []
        for proposal in (three, one, two):
            pool.calls[proposal.genome].set_result(NOT_COMPILED)
            order.append(evaluator.collect()[0])
    assert order == [three, one, two]


@pytest.mark.parametrize(("count", "sees_both"), [(2, True), (16, False)])
def test_the_emulator_sees_first_what_no_clean_genome_vouches_for(count, sees_both, monkeypatch) -> None:
    """A structural core where cores are few; else a family, for what is proven is emulated meanwhile."""
    monkeypatch.setattr(measured, "known_starts", lambda _: ())
    monkeypatch.setattr(Cores, "count", count)
    family = load_family("flash_mma")
    problem, gpu = parse_problem("b=1,h=1,s=64,d=64"), load_gpu("h200")
    space, rng = family.space(problem.compile_keys(gpu.arch), gpu), np.random.default_rng(0)
    genomes = {family.core(genome): genome for genome in (space.sample(rng) for _ in range(20))}
    first, second = list(genomes.values())[:2]
    clean = Future()
    clean.set_result(Ending(Preparation(profiles=(None,))))
    with MeasuredEvaluator(problem, gpu, seed=0, cores=Cores(), gpus=Gpu) as evaluator:
        assert evaluator._emulates(first)
        assert evaluator._emulates(second)
        evaluator._note(first, clean)
        assert not evaluator._emulates(first)
        assert evaluator._emulates(second) is sees_both


def test_the_oldest_is_handed_back_first_where_the_number_in_flight_was_asked_for() -> None:
    evaluator, pool, asked = submitted(ahead=3)
    with evaluator:
        for proposal in reversed(asked):
            pool.calls[proposal.genome].set_result(NOT_COMPILED)
        assert [evaluator.collect()[0] for _ in asked] == asked
