"""What a search without a GPU proves, and what it screens out: never what may be the best."""

from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from places import TEMPLATES
from tables import table_of_cases

from evoflash.app.evaluate import FixedList
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, RunKey, Status
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.pipeline import ThisMachine
from evoflash.evaluators.prepare import ELITES, Preparation, PreparationFailure, rival_beating, rivals
from evoflash.isolation import Ending
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.search import InterruptedSearch, search
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.store import open_store

PROBLEM, GPU = parse_problem("b=1,h=2,s=64,d=64"), load_gpu("l4")
MISSION = parse_problem("mission")
SLOW_US, FAST_US = 1e6, 1e-3  # what a kernel of this problem is far faster, and far slower than


def genome_of(number: int) -> Genome:
    return Genome("flash_mma", 1, (("block_m", number),))


def correct(number: int, us: float) -> Evaluation:
    genome, basis = genome_of(number), Basis.ESTIMATED
    return Evaluation(genome, str(PROBLEM), GPU.name, basis, Status.CORRECT, Rung.DONE, score_us=us)


def best_at(us: float) -> list[Evaluation]:
    """A past whose best kernels take that long, and some less."""
    return [correct(number, us * (1 - number / 100)) for number in range(ELITES)]


@pytest.fixture
def planted(use_templates):
    """A kernel with that fault, of the family of tests/templates."""
    use_templates(TEMPLATES)
    space = load_family("planted").space(PROBLEM.compile_keys(GPU.arch), GPU)
    return lambda fault: Proposal(space.genome({"fault": fault, "block_m": 32}))


def evaluated(proposal: Proposal, history: list[Evaluation], *, proves_all: bool = False) -> Evaluation:
    with EmulatedEvaluator(
        PROBLEM, GPU, seed=1, cores=ThisMachine(1), ahead=1, history=history, proves_all=proves_all
    ) as evaluator:
        evaluator.submit(proposal)
        return evaluator.collect()[1]


@pytest.mark.full
def test_a_slow_kernel_is_screened_after_the_runs_that_its_estimate_is_made_of(planted) -> None:
    proven = evaluated(planted("none"), best_at(SLOW_US))
    assert (proven.status, proven.rung) == (Status.CORRECT, Rung.DONE), proven.reason
    screened = evaluated(planted("none"), best_at(FAST_US))
    assert (screened.status, screened.rung) == (Status.SCREENED, Rung.TIMING), screened.reason
    assert "too slow to be proven" in screened.reason
    assert len(screened.verdicts) == 2
    assert len(proven.verdicts) > 10
    assert [build.text_sha for build in screened.builds] == [build.text_sha for build in proven.builds]
    assert (screened.score_us, screened.bound) == (proven.score_us, proven.bound)
    assert screened.timings == proven.timings


@pytest.mark.full
def test_what_is_as_slow_as_the_last_of_the_best_is_screened_and_what_is_faster_is_proven(planted) -> None:
    us = evaluated(planted("none"), []).score_us
    assert us is not None
    assert evaluated(planted("none"), best_at(us)).status is Status.SCREENED
    assert evaluated(planted("none"), best_at(us * 1.005)).status is Status.CORRECT
    assert evaluated(planted("none"), best_at(FAST_US), proves_all=True).status is Status.CORRECT


@pytest.mark.slow
@pytest.mark.parametrize("best_us", [SLOW_US, FAST_US])
@table_of_cases()
@pytest.mark.sample(1)
def test_a_wrong_kernel_is_rejected_however_fast_and_whoever_its_rivals_are(
    planted, fault, status, rung, says, best_us
) -> None:
    found, usual = (evaluated(planted(fault), history) for history in (best_at(best_us), []))
    assert (found.status, found.rung) == (status, rung), found.reason
    assert says in found.reason
    assert (found.reason, found.builds, found.score_us) == (usual.reason, usual.builds, None)


@pytest.mark.slow
@pytest.mark.full
def test_what_is_wrong_where_no_estimate_looks_is_rejected_when_it_is_fast(planted) -> None:
    """Wrong in the second head alone: the runs that the estimate is made of have one, the pre-flight two."""
    found = evaluated(planted("second_head"), best_at(SLOW_US))
    assert (found.status, found.rung) == (Status.CORRECTNESS, Rung.PREFLIGHT), found.reason
    assert found.score_us is None
    assert evaluated(planted("second_head"), best_at(FAST_US)).status is Status.SCREENED


def searched(db: Path, *, workers: int, stop_after: int | None = None) -> list[tuple[object, ...]]:
    """All outcomes of a search through a list of kernels, in the order of the store."""
    family = load_family("flash_direct")
    space, rng = family.space(PROBLEM.compile_keys(GPU.arch), GPU), np.random.default_rng(7)
    genomes = list(dict.fromkeys(space.sample(rng) for _ in range(24)))
    seen: list[Evaluation] = []

    def stop(proposal: Proposal, evaluation: Evaluation) -> None:
        seen.append(evaluation)
        if len(seen) == stop_after:
            raise KeyboardInterrupt

    with open_store(str(db)) as store:
        key = RunKey(str(PROBLEM), GPU.name, Basis.ESTIMATED, "given", 0)
        run = store.begin(key, gpu_hash=GPU.hash, budget=len(genomes), argv=[], environment={}, fresh=False)
        past = [evaluation for _, evaluation in store.history(run)]
        evaluates = EmulatedEvaluator(PROBLEM, GPU, seed=0, cores=ThisMachine(workers), ahead=3, history=past)
        with evaluates:
            try:
                search(
                    FixedList(genomes, "given"),
                    evaluates,
                    store,
                    run,
                    budget=len(genomes),
                    on_evaluation=stop,
                )
            except InterruptedSearch:
                assert len(seen) == stop_after
        history = [evaluation for _, evaluation in store.history(run)]
        best = store.best_of(run)
        ranked = {row[0] for row in store.query("SELECT genome_id FROM leaderboard", {})[1]}
    assert best is not None
    assert len(best.verdicts) > 10
    assert ranked == {e.genome.id for e in history if e.is_correct and not e.duplicate_of}
    return [(e.genome.id, e.status, e.score_us, e.reason) for e in history]


@pytest.mark.slow
@pytest.mark.full
def test_a_search_screens_the_same_with_any_number_of_workers_and_over_a_stop(tmp_path) -> None:
    whole = searched(tmp_path / "whole.db", workers=1)
    statuses = {status for _, status, *_ in whole}
    assert statuses == {Status.CORRECT, Status.SCREENED}
    assert searched(tmp_path / "cut.db", workers=2, stop_after=10) == whole[:10]
    assert searched(tmp_path / "cut.db", workers=2) == whole


class Cores:
    """One core, whose process does nothing; notes what it was asked."""

    count, ahead = 1, 2

    def __init__(self) -> None:
        self.asked: list[tuple[float, ...]] = []

    def processes(self) -> "Cores":
        return self

    def submit(self, function, *arguments, timeout_s):
        self.asked.append(arguments[-1] if function.__name__ == "screen_or_prepare" else ())
        done: Future[Ending[Preparation]] = Future()
        done.set_result(
            Ending(Preparation(failure=PreparationFailure(Status.COMPILE, Rung.COMPILE, "refused")))
        )
        return done

    def close(self) -> None:
        """Nothing runs."""


def asked(history: list[Evaluation], *, ahead: int, count: int) -> list[tuple[float, ...]]:
    """What so many proposals, submitted at once, have to keep up with."""
    cores = Cores()
    with EmulatedEvaluator(PROBLEM, GPU, seed=0, cores=cores, ahead=ahead, history=history) as evaluator:
        for number in range(count):
            evaluator.submit(Proposal(genome_of(100 + number)))
    return cores.asked


def test_a_proposal_keeps_up_with_what_was_known_when_it_was_made_also_after_a_stop() -> None:
    times = [10.0, 9.0, 30.0, 8.0]
    past = [correct(number, us) for number, us in enumerate(times)]
    # With three in flight the first three know nothing, the fourth one outcome, the fifth two ...
    assert asked([], ahead=3, count=3) == [()] * 3
    assert asked(past[:1], ahead=3, count=3) == [(), (), (10.0,)]
    assert asked(past[:3], ahead=3, count=3) == [(10.0,), (9.0, 10.0), (9.0, 10.0, 30.0)]
    assert asked(past, ahead=3, count=2) == [(9.0, 10.0), (9.0, 10.0, 30.0)]
    assert asked(past, ahead=1, count=1) == [(8.0, 9.0, 10.0, 30.0)]


def test_what_counts_is_the_eighth_best_time_or_while_there_are_fewer_a_factor_of_the_best() -> None:
    assert rival_beating(5.0, ()) is None
    assert rival_beating(7.4, (3.0, 4.0)) is None
    assert rival_beating(7.5, (3.0, 4.0)) == 7.5
    eight = rivals(float(number) for number in range(20, 0, -1))
    assert eight == tuple(range(1, ELITES + 1))
    assert rival_beating(7.9, eight) is None
    assert rival_beating(8.1, eight) == ELITES


def test_times_that_the_model_hardly_tells_apart_count_once_unless_one_is_the_fastest_of_all() -> None:
    known = rivals([11.71, 11.71, 11.7101, 12.0, 13.0])
    assert known == (11.71, 12.0, 13.0)
    assert rival_beating(12.001, known) == 12.0
    assert rival_beating(11.999, known) == 12.0
    assert rival_beating(12.1, known) is None
    assert rival_beating(11.7099, known) is None
