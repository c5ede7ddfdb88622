"""What the Optuna strategies promise beyond the contract of strategy_cases.py."""

import logging
import statistics
import subprocess
import sys

import optuna
import pytest
from optuna.trial import TrialState
from places import environment
from strategy_cases import SPACE, TINY, evaluated, sampled, score_us, spend

from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, Status, Timing
from evoflash.space import Genome, Param, SearchSpace
from evoflash.strategies import make_strategy
from evoflash.strategies.nsga2 import POPULATION, Nsga2
from evoflash.strategies.optuna_study import INACTIVE, INITIAL, OptunaStrategy
from evoflash.strategies.tpe import Tpe

BOTH = pytest.mark.parametrize("kind", [Tpe, Nsga2])


def trials(strategy: OptunaStrategy) -> list[optuna.trial.FrozenTrial]:
    """The trials that stand for a genome; a draw that led nowhere was ended as failed."""
    return [trial for trial in strategy._study.trials if trial.state is not TrialState.FAIL]


def told(strategy: OptunaStrategy, genome: Genome, status: Status, rung: Rung) -> optuna.trial.FrozenTrial:
    strategy.tell(Proposal(genome), Evaluation(genome, "p", "g", Basis.REPLAYED, status, rung))
    return trials(strategy)[-1]


@BOTH
def test_after_the_first_uniform_ones_the_sampler_proposes(kind):
    operators = [proposal.operator for proposal in spend(kind(SPACE, seed=0), 100).proposals]

    assert set(operators[:INITIAL]) == {"sample"}
    assert operators[INITIAL:].count(kind.name) > 70


@BOTH
def test_seeds_are_proposed_first_and_those_that_do_not_fit_are_left_out(kind):
    good, other = sampled(2)
    too_big = SPACE.genome({**good.as_dict(), "warps": 8, "rows_per_warp": 32})
    foreign = Genome("elsewhere", 1, (("a", 1),))
    strategy = kind(SPACE, seed=0, seeds=(too_big, good, foreign, other))

    first = [strategy.ask() for _ in range(3)]
    assert [(p.genome, p.operator) for p in first[:2]] == [(good, "seed"), (other, "seed")]
    assert first[2].operator == "sample"


@BOTH
def test_every_told_genome_is_one_trial_whether_it_was_asked_for_or_not(kind):
    strategy = kind(SPACE, seed=0)
    asked = strategy.ask().genome
    strategy.tell(Proposal(asked), evaluated(asked, 5.0))
    foreign = next(genome for genome in sampled(5) if genome != asked)
    strategy.tell(Proposal(foreign, "reset"), evaluated(foreign, 7.0))

    assert [trial.value for trial in trials(strategy)] == [5.0, 7.0]
    assert [trial.state for trial in trials(strategy)] == [TrialState.COMPLETE] * 2


@BOTH
def test_what_fails_a_named_check_never_becomes_a_trial_that_teaches(kind):
    strategy = kind(SPACE, seed=1)
    notebook = spend(strategy, 90, ahead=3)

    kept = {tuple(sorted((k, v) for k, v in t.params.items() if v != INACTIVE)) for t in trials(strategy)}
    assert kept == {proposal.genome.values for proposal in notebook.proposals}
    assert len(trials(strategy)) == 90


@BOTH
def test_a_param_that_is_inactive_is_inactive_in_its_trial(kind):
    strategy = kind(SPACE, seed=0)
    spend(strategy, 60)

    for trial in trials(strategy):
        params = trial.params
        assert set(params) == set(SPACE.names)
        assert (params["v_stages"] == INACTIVE) is (params["waits"] == "joint")
        assert (params["lazy_tau"] == INACTIVE) is (params["rescale"] == "online")
        assert params["warps"] != INACTIVE


def test_tpe_learns_of_broken_genomes_as_pruned_ones_that_violate_their_status():
    strategy = Tpe(SPACE, seed=0)
    first, second = sampled(2)
    early = told(strategy, first, Status.COMPILE, Rung.COMPILE)
    late = told(strategy, second, Status.CORRECTNESS, Rung.CORRECTNESS)

    assert early.state is late.state is TrialState.PRUNED
    assert early.constraints.keys() == {"compile"}
    assert late.constraints.keys() == {"correctness"}
    assert early.constraints["compile"] > late.constraints["correctness"] > 0


def test_nsga2_learns_of_broken_genomes_as_complete_ones_that_are_infeasible():
    strategy = Nsga2(SPACE, seed=0)
    trial = told(strategy, sampled(1)[0], Status.RUNTIME, Rung.SMOKE)

    assert trial.state is TrialState.COMPLETE
    assert trial.constraints["runtime"] > 0


@BOTH
@pytest.mark.full
def test_a_broken_region_is_left(kind):
    """Half of the space crashes; a sampler that did not learn it would stay in it half of the time."""

    def halved(genome: Genome) -> float | None:
        return None if genome.as_dict()["layout"] == "xor64" else score_us(genome)

    def share(proposals: list[Proposal]) -> float:
        return statistics.mean(p.genome.as_dict()["layout"] == "xor64" for p in proposals)

    later = [p for seed in range(3) for p in spend(kind(SPACE, seed=seed), 120, score=halved).proposals[60:]]
    free = [p for seed in range(3) for p in spend(kind(SPACE, seed=seed), INITIAL).proposals]
    assert share(later) < 0.5 * share(free)


def test_a_lower_bound_counts_as_a_time_and_a_twin_has_its_twins():
    strategy = Tpe(SPACE, seed=0)
    first, second = sampled(2)
    bound = Timing("p", "cold", 9.0, 9.0, 9.0, 1, censored=True)
    strategy.tell(
        Proposal(first),
        Evaluation(
            first, "p", "g", Basis.REPLAYED, Status.CORRECT, Rung.TIMING, timings=(bound,), score_us=9.0
        ),
    )
    strategy.tell(Proposal(second), evaluated(second, 4.0, duplicate_of="0" * 16))

    assert [trial.value for trial in trials(strategy)] == [9.0, 4.0]


def test_nsga2_breeds_once_a_generation_is_complete():
    strategy = Nsga2(SPACE, seed=0)
    spend(strategy, 4 * POPULATION + INITIAL)
    generations = [trial.system_attrs.get("NSGAIISampler:generation") for trial in trials(strategy)]

    assert generations == [i // POPULATION for i in range(4 * POPULATION + INITIAL)]


def test_nsga2_children_come_of_the_best_of_a_generation():
    """Told times that depend on one param alone, the next generation has its best values."""
    strategy = Nsga2(SPACE, seed=0)
    notebook = spend(strategy, 160, score=lambda genome: float(genome.as_dict()["block_n"]))

    last = [proposal.genome.as_dict()["block_n"] for proposal in notebook.proposals[-40:]]
    assert statistics.median(last) == 16


def test_in_flight_genomes_push_tpe_elsewhere():
    """The constant liar: without it a batch would be the same proposal and its neighbours."""
    strategy = Tpe(SPACE, seed=3)
    spend(strategy, 80)
    batch = [strategy.ask().genome for _ in range(12)]

    assert [t.state for t in trials(strategy)[-12:]] == [TrialState.RUNNING] * 12
    assert len({(g.as_dict()["warps"], g.as_dict()["block_n"], g.as_dict()["k_stages"]) for g in batch}) > 2


@BOTH
def test_a_space_without_choices_is_proposed_and_then_nothing(kind):
    single = SearchSpace("single", (Param("a", (1,)), Param("b", ("x",))))
    strategy = kind(single, seed=0)
    proposal = strategy.ask()
    strategy.tell(proposal, evaluated(proposal.genome, 1.0))

    assert proposal.genome.as_dict() == {"a": 1, "b": "x"}
    assert strategy.ask() is None


@BOTH
def test_params_of_every_kind_come_back_with_their_types(kind):
    mixed = SearchSpace(
        "mixed",
        (
            Param("n", tuple(range(8))),
            Param("on", (False, True)),
            Param("word", ("a", "b")),
            Param("k", (0, 1)),
        ),
    )
    genomes = [
        p.genome for p in spend(kind(mixed, seed=0), 60, score=lambda g: 1.0 + g.as_dict()["n"]).proposals
    ]

    assert len(set(genomes)) == 60
    assert {type(genome.as_dict()["on"]) for genome in genomes} == {bool}
    assert {type(genome.as_dict()["k"]) for genome in genomes} == {int}


def test_optuna_says_nothing_and_keeps_its_users_verbosity(capfd):
    before = optuna.logging.get_verbosity()
    spend(make_strategy("tpe", TINY, seed=0), 10, score=lambda genome: 1.0 + genome.as_dict()["a"])

    assert optuna.logging.get_verbosity() == before != logging.ERROR
    assert capfd.readouterr().err == ""


def test_optuna_is_not_imported_until_a_study_is_needed():
    probe = "import sys, evoflash.cli.program, evoflash.strategies; sys.exit('optuna' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", probe], env=environment(), check=False).returncode == 0
