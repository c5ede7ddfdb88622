"""Every strategy keeps the contract of strategy_cases.py; what each promises beyond it is here."""

import re
import statistics
import subprocess
import sys
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from strategy_cases import SPACE, TINY, StrategyCases, evaluated, fails, score_us, spend

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal, Rung, Timing
from evoflash.space import Check, Genome, Param, SearchSpace
from evoflash.strategies import STRATEGIES, make_strategy
from evoflash.strategies.evolution import Evolution
from evoflash.strategies.operators import operators
from evoflash.strategies.populations import Population


class TestUniform(StrategyCases):
    name = "uniform"


class TestEvolution(StrategyCases):
    name = "evolution"


class TestSurrogate(StrategyCases):
    name = "surrogate"


class TestTpe(StrategyCases):
    name = "tpe"


class TestNsga2(StrategyCases):
    name = "nsga2"


class TestExhaustive(StrategyCases):
    name = "exhaustive"

    def test_another_seed_gives_another_search(self) -> None:
        """There is one order, whatever the seed."""
        assert [p.genome for p in spend(self.make(seed=1), 20).proposals] == list(islice(SPACE, 20))
        assert spend(self.make(seed=2), 20).proposals == spend(self.make(seed=1), 20).proposals


def test_every_registered_strategy_is_held_to_the_contract() -> None:
    named = (cases.name for cases in StrategyCases.__subclasses__() if hasattr(cases, "name"))
    held = {name.partition(":")[0] for name in named}  # a preset of evolution is held to it too
    assert held == set(STRATEGIES)  # a bandit is no strategy on a space, and has no name there


def test_an_unknown_strategy_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"called 'annealing'\. Use evolution or "):
        make_strategy("annealing", SPACE, seed=0)


def test_a_negative_seed_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="seed -1"):
        make_strategy("uniform", SPACE, seed=-1)


def test_a_space_without_a_valid_genome_is_a_usage_error() -> None:
    empty = SearchSpace("none", (Param("a", (1, 2)),), checks=(Check("never", lambda v: False),))
    with pytest.raises(UsageError, match="no valid genome of none"):
        make_strategy("uniform", empty, seed=0).ask()


def test_uniform_gives_every_genome_the_same_chance_to_be_first() -> None:
    first = Counter(make_strategy("uniform", TINY, seed=seed).ask().genome for seed in range(1400))
    assert set(first) == set(TINY)
    assert max(first.values()) < 2 * min(first.values())


def test_the_last_genomes_of_a_space_are_listed_not_gambled_for() -> None:
    pool = SearchSpace("pool", (Param("a", tuple(range(3000))),))
    assert len(spend(make_strategy("uniform", pool, seed=0), 5000, score=fails).rows) == 3000


@pytest.mark.full
def test_evolution_beats_uniform_search_at_the_default_budget() -> None:
    best = {
        name: statistics.median(
            min(
                e.score_us
                for _, e in spend(make_strategy(name, SPACE, seed=seed), 200, ahead=2).rows
                if e.is_correct
            )
            for seed in range(10)
        )
        for name in ("evolution", "uniform")
    }
    assert best["evolution"] < 0.98 * best["uniform"]


def test_seeds_are_proposed_first_and_those_that_do_not_fit_are_left_out() -> None:
    rng = np.random.default_rng(0)
    good, other = SPACE.sample(rng), SPACE.sample(rng)
    too_big = SPACE.genome({**good.as_dict(), "warps": 8, "rows_per_warp": 32})
    foreign = Genome("elsewhere", 1, (("a", 1),))
    strategy = make_strategy("evolution", SPACE, seed=0, seeds=(too_big, good, foreign, other))
    first = [strategy.ask() for _ in range(12)]
    assert [(p.genome, p.operator) for p in first[:2]] == [(good, "seed"), (other, "seed")]
    assert sum(bool(p.parents) for p in first) >= 7  # bred before either is timed
    assert all(set(p.parents) <= {good.id, other.id} for p in first)


@pytest.mark.parametrize("stop", [1, 2, 5, 30])
def test_a_resumed_evolution_with_seeds_goes_on_as_an_unbroken_one(stop: int) -> None:
    rng = np.random.default_rng(4)
    seeds = tuple(SPACE.sample(rng) for _ in range(3))

    def strategy() -> Evolution:
        return Evolution(SPACE, seed=2, seeds=seeds)

    unbroken, broken = spend(strategy(), 60), spend(strategy(), stop)
    assert spend(strategy(), 60, notebook=broken).proposals == unbroken.proposals


def test_seeds_that_all_fail_are_not_bred_from() -> None:
    rng = np.random.default_rng(4)
    seeds = tuple(SPACE.sample(rng) for _ in range(3))
    proposals = spend(Evolution(SPACE, seed=2, seeds=seeds), 30, score=fails).proposals
    assert {proposal.operator for proposal in proposals[3:]} == {"sample"}


def test_children_name_the_operator_and_the_parents_they_come_from() -> None:
    proposals = spend(make_strategy("evolution", SPACE, seed=3), 120).proposals
    known = {operator.name: operator.arity for operator in operators()}
    ids = {proposal.genome.id for proposal in proposals}
    children = [proposal for proposal in proposals if proposal.operator in known]
    assert len(children) > 60
    assert all(len(child.parents) == known[child.operator] for child in children)
    assert all(set(child.parents) <= ids for child in children)


def test_random_immigrants_keep_coming() -> None:
    later = spend(make_strategy("evolution", SPACE, seed=3), 200).proposals[40:]
    assert 5 <= sum(proposal.operator == "sample" for proposal in later) <= 40


@pytest.mark.slow
@pytest.mark.full
def test_an_operator_whose_children_fail_is_used_less_but_not_never() -> None:
    used: Counter[str] = Counter()
    for seed in range(20):
        for operator in ("retile", "no_such_operator"):
            strategy, rng = Evolution(SPACE, seed=seed), np.random.default_rng(seed)
            for _ in range(60):
                genome = SPACE.sample(rng)
                strategy.tell(Proposal(genome, operator, ("0" * 16,)), evaluated(genome, None))
            genome = SPACE.sample(rng)
            strategy.tell(Proposal(genome), evaluated(genome, 10.0))
            used[operator] += sum(strategy.ask().operator == "retile" for _ in range(20))
    assert 0 < used["retile"] < 0.6 * used["no_such_operator"]


def test_the_population_holds_no_failure_no_duplicate_and_no_lower_bound() -> None:
    genome = SPACE.sample(np.random.default_rng(0))
    bound = Timing("p", "cold", 9.0, 9.0, 9.0, 1, censored=True)
    censored = Evaluation(
        genome, "p", "g", evaluated(genome, 9.0).basis, evaluated(genome, 9.0).status, Rung.TIMING,
        timings=(bound,), score_us=9.0,
    )  # fmt: skip
    population = Population()
    refused = (evaluated(genome, None), evaluated(genome, 9.0, duplicate_of="0" * 16), censored)
    assert [population.add(evaluation) for evaluation in refused] == [False, False, False]
    assert population.add(evaluated(genome, 9.0))


def test_one_behaviour_cell_cannot_fill_the_population() -> None:
    population = Population(cell=("warps", "block_n"), size=6, per_cell=2)
    rng = np.random.default_rng(0)
    for _ in range(300):
        genome = SPACE.sample(rng)
        population.add(evaluated(genome, score_us(genome)))
    values = [elite.genome.as_dict() for elite in population.elites]
    cells = Counter((v["warps"], v["block_n"]) for v in values)
    scores = [elite.score_us for elite in population.elites]
    assert len(population.elites) == 6
    assert max(cells.values()) <= 2
    assert scores == sorted(scores)


def test_without_cells_the_fastest_fill_the_population() -> None:
    numbers = SearchSpace("numbers", (Param("a", tuple(range(50))),))
    population = Population(size=6, per_cell=2)
    for genome in numbers:
        population.add(evaluated(genome, 1.0 + genome.as_dict()["a"]))
    assert [elite.score_us for elite in population.elites] == [1, 2, 3, 4, 5, 6]


def test_the_faster_an_elite_the_more_often_it_is_a_parent() -> None:
    population = Population()
    for genome in list(TINY)[:6]:
        population.add(evaluated(genome, 1.0 + genome.as_dict()["a"]))
    rng = np.random.default_rng(0)
    chosen = Counter(population.parents(1, rng)[0].score_us for _ in range(600))
    assert chosen[population.elites[0].score_us] > 2 * chosen[population.elites[-1].score_us] > 0


def test_two_parents_are_two_genomes() -> None:
    population = Population()
    for genome in list(TINY)[:4]:
        population.add(evaluated(genome, 1.0 + genome.as_dict()["a"]))
    rng = np.random.default_rng(0)
    pairs = [population.parents(2, rng) for _ in range(50)]
    assert all(first.genome != second.genome for first, second in pairs)


def test_help_names_every_registered_strategy_and_loads_none() -> None:
    code = (
        "import sys; from evoflash.cli.shared_options import strategy_names; print(strategy_names());"
        "print(*(name for name in sys.modules if name.startswith(('evoflash.strategies.', 'numpy'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    named, loaded = done.stdout.splitlines()
    assert sorted(re.split(", | or ", named)) == sorted(STRATEGIES)
    assert loaded == ""
