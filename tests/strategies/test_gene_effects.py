"""Gene effects and nogoods: what made-up searches with known effects are seen to have taught."""

import math

import numpy as np
import pytest
from strategy_cases import SPACE, distinct

from evoflash.evaluation import Basis, Evaluation, Rung, Status, Timing
from evoflash.space import Genome
from evoflash.strategies.gene_effects import GeneEffect, effects, nogoods


def outcome(genome: Genome, us: float | None, *, problem: str = "mission", **more: object) -> Evaluation:
    status = Status.COMPILE if us is None else Status.CORRECT
    evaluation = Evaluation(genome, problem, "l4", Basis.MEASURED, status, Rung.DONE, score_us=us)
    return Evaluation(**{name: getattr(evaluation, name) for name in evaluation.__slots__} | more)


def staged_is_faster(genome: Genome) -> float:
    values = genome.as_dict()
    return 10.0 * values["warps"] * (0.8 if values["epilogue"] == "staged" else 1.0)


def find(found: tuple[GeneEffect, ...], gene: str, value: object) -> GeneEffect:
    return next(each for each in found if (each.gene, each.value) == (gene, value))


def with_neighbours(count: int) -> list[Genome]:
    return list(dict.fromkeys(near for one in distinct(count) for near in (one, *SPACE.neighbours(one))))


def test_pairs_that_differ_in_one_gene_give_its_effect_exactly() -> None:
    found = effects(outcome(genome, staged_is_faster(genome)) for genome in with_neighbours(40))

    staged = find(found, "epilogue", "staged")
    assert staged.is_paired
    assert staged.n >= 20
    assert staged.ratio == pytest.approx(0.8)
    assert staged.low == pytest.approx(staged.high)
    assert find(found, "layout", "xor64").ratio == pytest.approx(1.0)


def test_without_pairs_all_kernels_are_compared_and_the_interval_holds_the_truth() -> None:
    held = 0
    for seed in range(40):
        found = effects(outcome(genome, staged_is_faster(genome)) for genome in distinct(60, seed))
        staged = find(found, "epilogue", "staged")
        assert not staged.is_paired
        held += staged.low <= 0.8 <= staged.high

    assert held >= 33  # of 40, where 38 are expected and 33 or fewer come once in a hundred times


def test_times_of_two_problems_are_not_compared_with_each_other() -> None:
    short = [outcome(genome, staged_is_faster(genome)) for genome in with_neighbours(30)]
    long = [
        outcome(genome, 1000 * staged_is_faster(genome), problem="seed_long")
        for genome in with_neighbours(30)
    ]

    found = find(effects([*short, *long]), "epilogue", "staged")
    assert found.ratio == pytest.approx(0.8)
    assert found.n == 2 * find(effects(short), "epilogue", "staged").n


def test_what_has_no_time_of_its_own_teaches_no_effect() -> None:
    genomes = with_neighbours(30)
    honest = [outcome(genome, staged_is_faster(genome)) for genome in genomes]
    censored = (Timing("w", "cold", 1.0, 1.0, 1.0, 3, censored=True),)
    others = distinct(30, seed=7)
    noise = [outcome(genome, 1e6, duplicate_of="another") for genome in others]
    noise += [outcome(genome, 1e6, timings=censored) for genome in others]
    noise += [outcome(genome, None) for genome in others]

    assert effects([*honest, *noise]) == effects(honest)
    assert effects([]) == ()


def test_a_screened_kernel_teaches_its_time() -> None:
    genomes = with_neighbours(30)
    correct = [outcome(genome, staged_is_faster(genome)) for genome in genomes]
    screened = [
        outcome(genome, staged_is_faster(genome), status=Status.SCREENED, rung=Rung.TIMING)
        for genome in genomes
    ]

    assert effects(screened) == effects(correct)


def test_the_surest_gain_comes_first_and_few_kernels_have_no_interval() -> None:
    found = effects(outcome(genome, staged_is_faster(genome)) for genome in with_neighbours(40))
    assert [each.high for each in found] == sorted(each.high for each in found)

    few = effects(outcome(genome, staged_is_faster(genome)) for genome in distinct(6))
    assert {(each.low, each.high) for each in few if each.n < 5} == {(0.0, math.inf)}


def test_a_value_and_a_pair_of_values_that_always_fail_are_nogoods() -> None:
    def fails(genome: Genome) -> bool:
        values = genome.as_dict()
        return values["layout"] == "xor64" or (values["warps"], values["epilogue"]) == (8, "staged")

    genomes = distinct(300)
    found = nogoods(outcome(g, None if fails(g) else 1.0) for g in genomes)

    assert {each.values for each in found} == {
        (("layout", "xor64"),),
        (("epilogue", "staged"), ("warps", 8)),
    }
    layout = next(each for each in found if len(each.values) == 1)
    assert layout.failed == layout.of == sum(g.as_dict()["layout"] == "xor64" for g in genomes)
    assert layout.status is Status.COMPILE


def test_failures_that_have_no_pattern_are_no_nogoods() -> None:
    rng = np.random.default_rng(1)
    named = [
        nogoods(outcome(g, None if rng.random() < 0.4 else 1.0) for g in distinct(200)) for _ in range(5)
    ]

    assert sum(map(len, named)) == 0
    assert nogoods(outcome(g, None) for g in distinct(50)) == ()
