"""Presets and populations of evolution: what each lets proposals know, and whom it keeps."""

from dataclasses import replace

import numpy as np
import pytest
from strategy_cases import SPACE, StrategyCases, distinct, evaluated, fails, score_us, spend

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal, Status
from evoflash.space import Genome
from evoflash.strategies import make_strategy
from evoflash.strategies.evolution import PRESETS, Insight, preset_of, strategy_name, trials_of
from evoflash.strategies.operators import operators
from evoflash.strategies.populations import ISLANDS, MIGRATION, POPULATIONS, make_population

GENERAL = {operator.name for operator in operators() if operator.is_general}
CROSSING = {operator.name for operator in operators() if operator.arity == 2}


def used(name: str, budget: int = 90) -> set[str]:
    proposals = spend(make_strategy(name, SPACE, seed=1), budget).proposals
    return {proposal.operator for proposal in proposals} - {"sample"}


class TestFullOnIslands(StrategyCases):
    """One pair of all stands for them: what differs is who breeds, and by which operators."""

    name = "evolution:full:islands"


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.sample(1)
def test_every_population_ends_in_children_and_resumes(population: str) -> None:
    def strategy():
        return make_strategy(f"evolution:insight:{population}", SPACE, seed=3)

    unbroken, broken = spend(strategy(), 60), spend(strategy(), 31)

    assert sum(bool(proposal.parents) for proposal in unbroken.proposals) > 20
    assert spend(strategy(), 60, notebook=broken).proposals == unbroken.proposals


def test_presets_differ_in_the_operators_that_they_may_use() -> None:
    free, insight = used("evolution:free"), used("evolution:insight")
    solution, full = used("evolution:solution"), used("evolution:full")

    assert free <= GENERAL - CROSSING
    assert solution <= GENERAL
    assert CROSSING & solution
    assert CROSSING & full
    assert not CROSSING & insight
    assert insight - GENERAL
    assert full - GENERAL


def test_names_are_composed_of_options_and_wrong_ones_answered_in_words() -> None:
    assert strategy_name("surrogate", None, None) == "surrogate"
    assert strategy_name("evolution", "full", None) == "evolution:full"
    assert strategy_name("evolution", "free-45", "islands") == "evolution:free-45:islands"
    for options, words in (
        (("surrogate", "full", None), "for --strategy evolution"),
        (("evolution", None, "single"), "add --preset"),
        (("evolution", "all", None), "use free or insight"),
        (("evolution", "full", "archipelago"), "use single or elites"),
    ):
        with pytest.raises(UsageError, match=words):
            strategy_name(*options)
    for name in ("tpe:full", "evolution:full:single:more", "evolution:all"):
        with pytest.raises(UsageError):
            make_strategy(name, SPACE, seed=0)


def test_the_paper_s_trials_and_population_come_with_a_preset() -> None:
    assert {trials_of(name) for name in PRESETS} == {None, 45}
    assert (trials_of("full-45"), preset_of("full-45").size) == (45, 5)
    assert (trials_of("full"), trials_of(None)) == (None, None)
    assert preset_of("free").population == preset_of("insight").population == "single"
    assert preset_of("full-45", "islands").population == "islands"


def timed(count: int) -> list[Evaluation]:
    return [evaluated(genome, score_us(genome)) for genome in distinct(count)]


@pytest.mark.parametrize("name", POPULATIONS)
def test_a_population_keeps_the_best_and_nothing_unproven(name: str) -> None:
    population, told = make_population(name, cell=SPACE.blocks[0]), timed(60)
    for evaluation in told:
        population.add(evaluation)
    genome = distinct(1, seed=9)[0]
    for unproven in (
        evaluated(genome, None),
        evaluated(genome, 0.1, duplicate_of="0" * 16),
        replace(evaluated(genome, 0.1), status=Status.SCREENED),
    ):
        assert not population.add(unproven)

    best = min((e for e in told if e.score_us), key=lambda e: e.score_us)
    scores = [elite.score_us for elite in population.elites]
    assert population.elites[0].genome == best.genome
    assert scores == sorted(scores)
    assert len(set(population.elites)) == len(scores)
    rng = np.random.default_rng(0)
    assert all(len(set(population.parents(2, rng))) <= 2 for _ in range(20))
    assert {elite for _ in range(300) for elite in population.parents(1, rng)} == set(population.elites)


def test_children_stay_on_their_island_and_the_best_is_copied_to_the_next() -> None:
    islands = make_population("islands")
    genomes = distinct(80)
    first = evaluated(genomes[0], 5.0)
    islands.add(first)
    parent = genomes[0].id
    for us, genome in enumerate(genomes[1 : MIGRATION - 1], 10):
        islands.add(evaluated(genome, float(us)), [parent])
    rng = np.random.default_rng(0)
    assert len(islands.elites) == 4  # one island alone is inhabited

    islands.add(evaluated(genomes[70], 4.0), [parent])

    homes = [{elite.genome for elite in islands.parents(4, rng)} for _ in range(60)]
    assert len(set(map(frozenset, homes))) == 2 <= ISLANDS
    assert {genomes[70]} in homes


def test_map_elites_keeps_the_fastest_of_each_kind() -> None:
    population = make_population("map-elites", cell=("warps",))
    for evaluation in timed(80):
        population.add(evaluation)

    best: dict[int, float] = {}
    for each in timed(80):
        if each.score_us:
            warps = each.genome.as_dict()["warps"]
            best[warps] = min(best.get(warps, np.inf), each.score_us)
    assert {e.genome.as_dict()["warps"]: e.score_us for e in population.elites} == best


def test_insight_prefers_what_was_faster_and_avoids_what_always_failed() -> None:
    def outcome(genome: Genome) -> Evaluation:
        values = genome.as_dict()
        us = None if values["layout"] == "xor64" else 10.0 * (0.8 if values["epilogue"] == "staged" else 1.0)
        return evaluated(genome, us)

    insight, genomes = Insight(), distinct(200)
    for genome in genomes:
        insight.tell(outcome(genome))
    plain = {("epilogue", "direct"), ("layout", "pad8")}
    parent = next(genome for genome in genomes if plain <= set(genome.values))
    values = parent.as_dict()
    staged = SPACE.genome({**values, "epilogue": "staged"})
    broken = SPACE.genome({**values, "epilogue": "staged", "layout": "xor64"})
    other = SPACE.genome({**values, "layout": "xor128"})

    assert insight.favourite(parent, [other, broken, staged]) == staged
    assert insight.favourite(parent, [broken, other]) == other
    assert insight.favourite(parent, [broken]) == broken


def test_at_a_standstill_evolution_changes_two_genes_and_draws_more() -> None:
    def share(best_first: bool) -> float:
        found: list[str] = []
        for seed in range(4):
            told = sorted(timed(60), key=lambda e: e.score_us or 1e9)
            strategy = make_strategy("evolution", SPACE, seed=seed)
            for each in told if best_first else reversed(told):
                strategy.tell(Proposal(each.genome), each)
            found.extend(strategy.ask().operator for _ in range(20))
        return sum(operator in ("two_genes", "sample") for operator in found) / len(found)

    assert share(best_first=True) > 0.4 > share(best_first=False)


def test_where_all_fails_every_preset_keeps_drawing() -> None:
    notebook = spend(make_strategy("evolution:full-45", SPACE, seed=0), 45, score=fails)

    assert {proposal.operator for proposal in notebook.proposals} == {"sample"}
