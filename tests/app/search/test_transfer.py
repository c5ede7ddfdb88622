"""A search learns from the store's searches on other problems; what it learnt from is kept with the run."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from in_process import invoke

from evoflash.app.search import plan as planning
from evoflash.app.search import transfer
from evoflash.app.search.proposing import strategy_of
from evoflash.evaluation import Basis, EarlierRun, Evaluation, Proposal, Run, Rung, RunKey, RunStart, Status
from evoflash.space import Genome
from evoflash.store.store import Store, open_store

NEAR, FAR, OWN = "b=1,h=8,s=640,d=64", "b=8,h=32,s=8192,d=128", "b=1,h=8,s=512,d=64"
COUNT = transfer.FEWEST


def plan(*, problem: str = OWN, strategy: str = "surrogate", **options: bool) -> planning.SearchPlan:
    where = {"gpu": "l4", "evaluator": "emulated", "family": "flash_mma"}
    return planning.plan(problem=problem, strategy=strategy, seed=0, **where, **options)


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    with open_store(str(tmp_path / "a.db")) as opened:
        yield opened


def begun(store: Store, wanted: planning.SearchPlan, start: RunStart | None = None) -> Run:
    return store.begin(wanted.key, gpu_hash=wanted.gpu.hash, budget=9, argv=[], environment={}, start=start)


@cache
def drawn(problem: str, count: int) -> tuple[Genome, ...]:
    """Genomes for the problem, the same for each test: finding valid ones takes a second."""
    space, rng = plan(problem=problem).fields[0].space, np.random.default_rng(0)
    return tuple(space.sample(rng) for _ in range(count))


def searched(
    store: Store, problem: str, count: int = COUNT, basis: Basis = Basis.ESTIMATED
) -> tuple[Genome, ...]:
    """A search that found each genome faster than the one before; the second failed."""
    wanted, genomes = plan(problem=problem), drawn(problem, count)
    key = RunKey(wanted.key.problem, "l4", basis, "uniform", len(store.runs()))
    run = store.begin(key, gpu_hash=wanted.gpu.hash, budget=count, argv=[], environment={})
    for at, genome in enumerate(genomes):
        status = Status.COMPILE if at == 1 else Status.CORRECT
        us = None if at == 1 else 50.0 - at
        evaluation = Evaluation(genome, key.problem, "l4", basis, status, Rung.DONE, score_us=us)
        store.add(run, evaluation, Proposal(genome))
    return genomes


def noted(run: Run, count: int = COUNT) -> EarlierRun:
    return EarlierRun(run.key.problem, "uniform", run.key.seed, run.created, count)


def test_searches_of_the_same_gpu_and_basis_are_noted_and_no_others(store) -> None:
    searched(store, NEAR, basis=Basis.MEASURED)
    searched(store, OWN)
    assert transfer.start_of(store, plan()).learns_from == ()

    searched(store, FAR)
    far = store.runs()[0]
    searched(store, NEAR)
    near = store.runs()[0]

    assert transfer.start_of(store, plan()).learns_from == (noted(near), noted(far))
    assert transfer.start_of(store, plan(transfer=False)).learns_from == ()


def test_what_a_run_learns_from_is_what_there_was_when_it_began(store) -> None:
    genomes = searched(store, NEAR)
    wanted = plan()
    run = begun(store, wanted, transfer.start_of(store, wanted))
    before = transfer.earlier(store, run, wanted)
    searched(store, "b=1,h=8,s=520,d=64")

    again = begun(store, wanted, transfer.start_of(store, wanted))

    assert again.id == run.id
    assert transfer.earlier(store, again, wanted) == before
    (found,) = before["flash_mma"]
    assert [genome for genome, _ in found.outcomes] == list(genomes)
    assert found.outcomes[1][1] == np.inf
    assert found.starts == (genomes[-1], genomes[-2])


def test_outcomes_are_known_by_the_proportions_of_their_own_problem(store) -> None:
    searched(store, FAR)
    wanted, there = plan(), plan(problem=FAR).fields[0].space.proportions
    run = begun(store, wanted, transfer.start_of(store, wanted))

    (found,) = transfer.earlier(store, run, wanted)["flash_mma"]

    assert there is not None
    assert found.sizes == there.sizes != wanted.fields[0].space.proportions.sizes
    assert list(found.proportions) == [there.of(genome) for genome, _ in found.outcomes]
    assert found.starts == ()  # its problem is too far away for its best to be worth a try


def test_how_far_a_family_stood_behind_the_best_of_all_is_known_of_near_problems_alone(store) -> None:
    genomes = searched(store, NEAR)
    searched(store, FAR)
    (near,) = [run for run in store.runs() if run.key.problem == plan(problem=NEAR).key.problem]
    faster = replace(genomes[0], family="flash_wmma")
    evaluation = Evaluation(
        faster, near.key.problem, "l4", Basis.ESTIMATED, Status.CORRECT, Rung.DONE, score_us=5.0
    )
    store.add(near, evaluation, Proposal(faster))
    wanted = plan()
    run = begun(store, wanted, transfer.start_of(store, wanted))

    first, second = transfer.earlier(store, run, wanted)["flash_mma"]

    assert first.behind == pytest.approx((50.0 - (COUNT - 1)) / 5.0)
    assert second.behind is None


def test_few_outcomes_of_a_family_teach_nothing(store) -> None:
    searched(store, NEAR, count=COUNT - 1)
    wanted = plan()
    run = begun(store, wanted, transfer.start_of(store, wanted))

    assert transfer.earlier(store, run, wanted) == {"flash_mma": ()}


def test_the_best_of_near_searches_are_seeds_before_the_family_s_own(store) -> None:
    genomes = searched(store, NEAR)
    wanted = plan()
    run = begun(store, wanted, transfer.start_of(store, wanted))
    strategy = strategy_of(wanted, transfer.earlier(store, run, wanted))

    asked = [strategy.ask() for _ in range(3)]

    assert asked[:2] == [Proposal(genomes[-1], "seed"), Proposal(genomes[-2], "seed")]
    assert asked[2].genome in wanted.fields[0].seeds


def test_a_run_that_noted_nothing_learns_nothing(store) -> None:
    searched(store, NEAR)
    wanted = plan(transfer=False)

    assert transfer.earlier(store, begun(store, wanted), wanted) == {"flash_mma": ()}


def test_a_search_that_may_not_learn_is_a_run_of_its_own() -> None:
    assert plan().key.search_name == "surrogate/flash_mma"
    assert plan(transfer=False).key.search_name == "surrogate-transfer/flash_mma"
    assert plan(strategy="uniform", transfer=False).key.search_name == "uniform/flash_mma"


def test_a_run_that_was_merged_into_another_database_learns_from_the_same_searches(tmp_path) -> None:
    wanted, source, target = plan(), str(tmp_path / "source.db"), str(tmp_path / "target.db")
    with open_store(source) as store:
        searched(store, NEAR)
        run = begun(store, wanted, transfer.start_of(store, wanted))
        before = transfer.earlier(store, run, wanted)
    with open_store(target) as store:
        searched(store, "b=1,h=8,s=520,d=64", count=9)  # takes the number that the near one had

    merging = invoke("runs", "merge", source, "--db", target)

    assert merging.exit_code == 0, merging.output
    with open_store(target) as store:
        merged = next(run for run in store.runs() if run.key == wanted.key)
        assert transfer.earlier(store, merged, wanted) == before


SAID = "learning from earlier searches on other problems; --no-transfer: not."


def searched_by_command(db: Path, budget: int, *options: str) -> tuple[list[Proposal], str]:
    """All proposals of the run that `evoflash search` began or continued, and what the command said."""
    where = ["--gpu", "l4", "--family", "flash_mma", "--problem", OWN, "--no-archive", "--db", str(db)]
    done = invoke("search", *where, "--budget", str(budget), *options)
    assert done.exit_code == 0, done.output
    with open_store(str(db), read_only=True) as store:
        run = next(run for run in store.runs() if run.key.problem == plan().key.problem)
        return [proposal for proposal, _ in store.history(run)], done.stderr


@pytest.mark.slow
def test_the_command_starts_from_near_searches_and_goes_on_with_the_same_ones(tmp_path) -> None:
    db = tmp_path / "a.db"
    with open_store(str(db)) as store:
        genomes = searched(store, NEAR)
    begun, said = searched_by_command(db, 1)
    assert begun == [Proposal(genomes[-1], "seed")]
    assert SAID in said

    with open_store(str(db)) as store:
        searched(store, "b=1,h=8,s=520,d=64", count=9)  # nearer, and there too late
    continued, _ = searched_by_command(db, 2)

    assert continued == [*begun, Proposal(genomes[-2], "seed")]


@pytest.mark.slow
@pytest.mark.full
def test_the_command_learns_nothing_with_no_transfer(tmp_path) -> None:
    db = tmp_path / "a.db"
    with open_store(str(db)) as store:
        searched(store, NEAR)
    (alone,), said = searched_by_command(db, 1, "--no-transfer")
    assert alone.genome == plan().fields[0].seeds[0]
    assert SAID not in said
