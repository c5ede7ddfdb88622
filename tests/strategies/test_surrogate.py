"""What the surrogate promises beyond the contract: it learns, jumps when it stands still, and resumes."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from strategy_cases import SPACE, Notebook, cut, distinct, evaluated, fails, score_us, spend

from evoflash.evaluation import Basis, Proposal, Status, Timing
from evoflash.space import Check, Genome, Param, SearchSpace, Values
from evoflash.strategies import make_strategy, surrogate
from evoflash.strategies.family_bandit import Bandit
from evoflash.strategies.prior import Earlier
from evoflash.strategies.surrogate import (
    BATCH,
    ELITES,
    OPENING,
    SEEDS,
    STANDSTILL,
    Surrogate,
)

LEARNT = {"one_gene", "two_genes", "division"}


def drawn(count: int, *, seed: int = 4) -> tuple[Genome, ...]:
    return tuple(distinct(count, seed))


def test_after_a_random_opening_it_names_where_its_proposals_come_from() -> None:
    proposals = spend(make_strategy("surrogate", SPACE, seed=1), 100).proposals
    ids = {proposal.genome.id for proposal in proposals}
    later = proposals[OPENING + BATCH :]

    assert {proposal.operator for proposal in proposals[:OPENING]} == {"sample"}
    assert sum(proposal.operator in LEARNT for proposal in later) > 0.5 * len(later)
    assert all(set(proposal.parents) <= ids for proposal in later)
    assert all(bool(proposal.parents) == (proposal.operator != "sample") for proposal in later)


def test_what_failed_is_avoided() -> None:
    def score(genome: Genome) -> float | None:
        return None if genome.as_dict()["layout"] != "xor64" else score_us(genome)

    rows = spend(make_strategy("surrogate", SPACE, seed=0), 100, score=score).rows
    near = [e.is_correct for p, e in rows[40:] if p.operator in LEARNT]

    random = [e.is_correct for p, e in rows if p.operator == "sample"]
    assert len(near) > 10
    assert near.count(False) / len(near) < 0.25 * random.count(False) / len(random)


def test_at_most_a_tenth_of_the_default_budget_goes_to_seeds_and_the_model_may_choose_the_others() -> None:
    seeds = drawn(60)
    chosen = spend(Surrogate(SPACE, seed=0, seeds=seeds), 100, score=score_us).proposals

    assert [proposal.genome for proposal in chosen[:SEEDS]] == list(seeds[:SEEDS])
    assert chosen[SEEDS].operator != "seed"
    assert {p.operator for p in chosen[SEEDS:] if p.genome in seeds} <= {"seed", "sample", *LEARNT}


def test_seeds_that_do_not_fit_are_left_out() -> None:
    good = drawn(1)[0]
    too_big = SPACE.genome({**good.as_dict(), "warps": 8, "rows_per_warp": 32})
    strategy = Surrogate(SPACE, seed=0, seeds=(too_big, Genome("elsewhere", 1, (("a", 1),)), good))

    assert strategy.ask() == Proposal(good, "seed")
    assert strategy.ask().operator == "sample"


@pytest.mark.parametrize("stop", [3, 22, 41, 58])
@pytest.mark.sample(2)
def test_resumed_with_seeds_it_goes_on_as_an_unbroken_one(stop: int) -> None:
    def strategy() -> Surrogate:
        return Surrogate(SPACE, seed=2, seeds=drawn(8))

    unbroken, broken = spend(strategy(), 80), spend(strategy(), stop)

    assert spend(strategy(), 80, notebook=broken).proposals == unbroken.proposals


def told(strategy: Surrogate, genomes: tuple[Genome, ...], score=score_us) -> None:
    for genome in genomes:
        strategy.tell(Proposal(genome), evaluated(genome, score(genome)))


@pytest.fixture
def past_the_first_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surrogate, "FIRST_OUTCOMES", 0)


@pytest.mark.usefixtures("past_the_first_outcomes")
def test_when_nothing_gains_it_jumps_and_draws_more() -> None:
    def operators(best_first: bool) -> Counter[str]:
        counts: Counter[str] = Counter()
        for seed in range(4):
            genomes = sorted(drawn(60, seed=seed), key=lambda genome: score_us(genome) or 1e9)
            strategy = Surrogate(SPACE, seed=seed)
            told(strategy, tuple(genomes if best_first else reversed(genomes)))
            counts.update(strategy.ask().operator for _ in range(BATCH))
        return counts

    assert len(drawn(60)) > 2 * STANDSTILL
    standing, moving = operators(best_first=True), operators(best_first=False)
    assert standing["sample"] > moving["sample"]


SWITCHES = tuple(Param(f"s{at}", (0, 1)) for at in range(6))
TILED = SearchSpace("tiled", (Param("tile", tuple(range(20))), *SWITCHES), blocks=(("tile",), ("s0", "s1")))


def tiles_after_sixteen(space: SearchSpace, count: int) -> list[int]:
    """The tiles of the next proposals after 48 outcomes of sixteen tiles, of which the first is far ahead."""
    strategy = Surrogate(space, seed=0)
    for tile, at in [(tile, at) for at in range(3) for tile in range(16)]:
        values = {"tile": tile} | {f"s{bit}": at >> bit & 1 for bit in range(6)}
        us = 30.0 - 5 * at if tile == 0 else 300.0
        strategy.tell(Proposal(space.genome(values)), evaluated(space.genome(values), us))
    return [strategy.ask().genome.as_dict()["tile"] for _ in range(count)]


@pytest.mark.usefixtures("past_the_first_outcomes")
def test_one_pick_of_a_batch_has_a_new_tile_though_the_best_one_still_pays() -> None:
    tiles = tiles_after_sixteen(TILED, BATCH)

    assert sum(tile > 15 for tile in tiles) == 1
    assert tiles.count(0) == BATCH - 1


def test_most_of_the_first_picks_divide_the_work_as_none_that_was_tried() -> None:
    assert sum(tile > 15 for tile in tiles_after_sixteen(TILED, BATCH)) == 3

    divided = replace(TILED, partition=("tile", "s5"))  # no switch 5 was on so far
    strategy = Surrogate(divided, seed=0)
    for tile in range(20):
        genome = divided.genome({"tile": tile})
        strategy.tell(Proposal(genome), evaluated(genome, 30.0 + tile))

    assert sum(strategy.ask().genome.as_dict()["s5"] for _ in range(BATCH)) >= 3


def test_a_division_of_the_work_that_was_too_slow_for_a_proof_keeps_neighbours_on_offer() -> None:
    strategy = Surrogate(replace(TILED, partition=("tile",)), seed=0)
    for tile in range(20):
        genome = TILED.genome({"tile": tile})
        known = evaluated(genome, 30.0 + tile)
        slow = replace(known, status=Status.SCREENED, basis=Basis.MEASURED)
        strategy.tell(Proposal(genome), slow if tile in (1, 2, 3) else known)

    strategy.ask()  # tile by tile all have been tried: what is left are other switches
    offered = {parent for pick in (strategy.ask() for _ in range(30)) for parent in pick.parents}

    assert offered & {TILED.genome({"tile": tile}).id for tile in (1, 2, 3)}


@pytest.mark.usefixtures("past_the_first_outcomes")
def test_where_valid_genomes_are_rare_a_random_genome_is_a_walk_from_one_that_was_told() -> None:
    def is_smooth(values: Values) -> bool:
        steps = [values[f"p{at}"] - values[f"p{at + 1}"] for at in range(7)]
        return all(abs(step) <= 1 for step in steps)  # 1 of 1,800 points

    params = tuple(Param(f"p{at}", tuple(range(8))) for at in range(8))
    rare = SearchSpace("rare", params, checks=(Check("smooth", is_smooth),), blocks=(("p0",),))
    rng = np.random.default_rng(0)
    genomes = tuple(dict.fromkeys(rare.sample(rng) for _ in range(30)))
    strategy = Surrogate(rare, seed=0)
    for us, genome in enumerate(genomes, 1):  # the first is the best: nothing gains
        strategy.tell(Proposal(genome), evaluated(genome, float(us)))

    proposals = [strategy.ask() for _ in range(2 * BATCH)]

    walks = [proposal for proposal in proposals if proposal.operator == "walk"]
    assert walks
    assert all(set(walk.parents) <= {genome.id for genome in genomes} for walk in walks)
    assert all(rare.is_valid(proposal.genome) for proposal in proposals)


@pytest.mark.parametrize("kind", ["duplicate", "lower bound"])
def test_a_duplicate_or_a_lower_bound_is_no_parent(kind: str) -> None:
    genomes = drawn(30)
    strategy = Surrogate(SPACE, seed=0)
    told(strategy, genomes[1:])
    fastest = evaluated(genomes[0], 1.0, duplicate_of="0" * 16 if kind == "duplicate" else "")
    if kind == "lower bound":
        fastest = replace(fastest, timings=(Timing("p", "cold", 1.0, 1.0, 1.0, 1, censored=True),))
    strategy.tell(Proposal(genomes[0]), fastest)

    assert all(genomes[0].id not in strategy.ask().parents for _ in range(10))


def test_many_in_flight_are_still_different_and_learnt_from() -> None:
    notebook = spend(make_strategy("surrogate", SPACE, seed=0), 80, ahead=16)

    assert len({proposal.genome for proposal in notebook.proposals}) == 80
    assert sum(proposal.operator in LEARNT for proposal in notebook.proposals[48:]) > 16


def test_before_anything_is_known_as_many_seeds_are_in_flight_as_there_are() -> None:
    seeds = drawn(60)
    strategy = Surrogate(SPACE, seed=0, seeds=seeds, first=3)

    assert [strategy.ask().genome for _ in seeds] == list(seeds)
    jumps = [strategy.ask() for _ in range(8)]  # and then what lies near them, which no random genome does
    assert {jump.operator for jump in jumps} == {"two_genes"}
    assert {parent for jump in jumps for parent in jump.parents} <= {seed.id for seed in seeds}


def test_a_family_too_slow_for_any_proof_is_searched_near_its_fastest() -> None:
    genomes, strategy = drawn(3 * BATCH), Surrogate(SPACE, seed=0)
    for us, genome in enumerate(genomes, 40):
        screened = replace(evaluated(genome, float(us)), status=Status.SCREENED, basis=Basis.MEASURED)
        strategy.tell(Proposal(genome), screened)

    parents = {parent for _ in range(BATCH) for parent in strategy.ask().parents}
    assert parents
    assert parents <= {genome.id for genome in genomes[:ELITES]}


def test_a_family_with_less_than_an_opening_is_searched_under_the_bandit() -> None:
    spaces = tuple(replace(SPACE, family=name) for name in ("one", "two", "three"))
    members = {space.family: make_strategy("surrogate", space, seed=0) for space in spaces}

    proposals = spend(Bandit(members, seed=0, genes=dict.fromkeys(members, 12)), 60).proposals

    assert len({proposal.genome for proposal in proposals}) == 60
    assert {proposal.genome.family for proposal in proposals} == set(members)


def test_where_all_fails_it_keeps_drawing() -> None:
    notebook: Notebook = spend(make_strategy("surrogate", SPACE, seed=0), 60, score=fails)

    assert {proposal.operator for proposal in notebook.proposals} == {"sample"}


def test_a_space_of_one_gene_is_finished() -> None:
    line = SearchSpace("line", (Param("a", tuple(range(70))),))
    notebook = spend(make_strategy("surrogate", line, seed=0), 100, score=lambda g: 1.0 + g.as_dict()["a"])

    assert len(notebook.rows) == 70


def test_it_learns_from_an_earlier_search_until_its_own_outcomes_count_more() -> None:
    def best_after(budget: int, earlier: tuple[Earlier, ...]) -> float:
        seeds = {seed: drawn(3, seed=seed) for seed in range(4)}
        made = (Surrogate(SPACE, seed=seed, seeds=few, earlier=earlier) for seed, few in seeds.items())
        found = [spend(strategy, budget).rows for strategy in made]
        return float(np.mean([min(e.score_us for _, e in rows if e.score_us) for rows in found]))

    known = spend(make_strategy("surrogate", SPACE, seed=50), 80).rows
    taught = Earlier(tuple((e.genome, 3.0 * e.score_us if e.score_us else np.inf) for _, e in known))

    assert best_after(15, (taught,)) < best_after(15, ())


def test_with_earlier_searches_the_model_is_asked_right_after_the_seeds_and_a_cut_search_goes_on() -> None:
    taught = Earlier(tuple((genome, score_us(genome) or np.inf) for genome in drawn(40, seed=9)))

    def made() -> Surrogate:
        return Surrogate(SPACE, seed=0, seeds=drawn(3), earlier=(taught,))

    unbroken, broken = spend(made(), 50, ahead=8), cut(made(), 50, at=21, ahead=8)

    assert spend(made(), 50, ahead=8, notebook=broken).proposals == unbroken.proposals
    operators = [proposal.operator for proposal in unbroken.proposals]
    assert operators[:3] == ["seed"] * 3
    assert set(operators[3:8]) & LEARNT


@pytest.mark.full  # how well it searches: four searches of 120
def test_an_earlier_search_that_misleads_is_overcome() -> None:
    wrong = Earlier(tuple((genome, 1e4 / (score_us(genome) or 1e4)) for genome in drawn(60, seed=8)))

    def best_after(budget: int, earlier: tuple[Earlier, ...]) -> float:
        made = (Surrogate(SPACE, seed=seed, seeds=drawn(3), earlier=earlier) for seed in range(4))
        found = [spend(strategy, budget).rows for strategy in made]
        return float(np.mean([min(e.score_us for _, e in rows if e.score_us) for rows in found]))

    assert best_after(120, (wrong,)) <= 1.02 * best_after(40, ())
