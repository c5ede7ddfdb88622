"""What insights says of a run: operators, bottlenecks, arms, the winner's lineage; every form of it."""

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import forked
import numpy as np
import pytest
from rich.console import Console
from strategy_cases import SPACE, Notebook, Recorded, evaluated, score_us

from evoflash.app import insights
from evoflash.app.insights import effect_words, nogood_words, sentences
from evoflash.errors import NoKernelError
from evoflash.evaluation import Basis, Evaluation, Proposal, Run, RunKey, Status
from evoflash.search import search
from evoflash.space import Genome
from evoflash.store.store import Store, open_store
from evoflash.strategies import evolution
from evoflash.strategies.evolution import Evolution
from evoflash.strategies.family_bandit import Bandit
from evoflash.strategies.gene_effects import GeneEffect, Nogood
from evoflash.views.insights import print_insights

PROBLEM = "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16"
KEY = RunKey(PROBLEM, "l4", Basis.MEASURED, "evolution", 5)
RUN = Run(1, KEY, 1, "abc", 200, "2026-11-21T12:00:00+00:00")


def genome_of(**values: int | str) -> Genome:
    return Genome("tiles", 1, tuple(sorted(values.items())))


def outcome(
    genome: Genome,
    us: float | None,
    operator: str = "seed",
    *parents: Genome,
    bound: str = "",
    twin: str = "",
) -> tuple[Proposal, Evaluation]:
    known = evaluated(genome, us, duplicate_of=twin)
    evaluation = replace(known, problem=PROBLEM, gpu="l4", basis=Basis.MEASURED, bound=bound)
    return Proposal(genome, operator, tuple(parent.id for parent in parents)), evaluation


SEED, WIDE, DEEP, BAD, LAST, TWIN = (genome_of(block_n=n) for n in (16, 32, 48, 64, 96, 128))
HISTORY = [
    outcome(SEED, 20.0, bound="l2"),
    outcome(WIDE, 10.0, "grow_block_n", SEED, bound="latency"),
    outcome(DEEP, 12.5, "grow_block_n", WIDE),
    outcome(BAD, None, "reset", WIDE),
    outcome(TWIN, 10.0, "reset", SEED, twin=WIDE.id),
    outcome(LAST, 8.0, "crossover", DEEP, WIDE, bound="tensor"),
]
FOUND = insights.digest(RUN, HISTORY, HISTORY[-1][1])


def record(records: tuple[insights.GroupStats, ...], name: str) -> insights.GroupStats:
    return {each.name: each for each in records}[name]


def test_an_operator_is_counted_by_use_correctness_and_gain_over_the_fastest_parent() -> None:
    grow, cross = record(FOUND.operators, "grow_block_n"), record(FOUND.operators, "crossover")
    assert (grow.uses, grow.correct, grow.faster, grow.best_us, grow.best_id) == (2, 2, 1, 10.0, WIDE.id)
    assert grow.mean_gain == pytest.approx((math.log(2) + math.log(10 / 12.5)) / 2)
    assert cross.mean_gain == pytest.approx(math.log(10 / 8))


def test_failures_and_duplicates_are_uses_without_a_gain() -> None:
    reset = record(FOUND.operators, "reset")
    assert (reset.uses, reset.correct, reset.faster, reset.mean_gain, reset.best_us) == (2, 0, 0, None, None)


def test_children_are_grouped_by_what_held_their_first_parent_back() -> None:
    assert {each.name: each.uses for each in FOUND.bottlenecks} == {"l2": 2, "latency": 2, "unknown": 1}
    assert record(FOUND.pairs, "latency: grow_block_n").uses == 1


def test_the_lineage_leads_through_the_fastest_parents_and_names_what_changed() -> None:
    assert [step.genome_id for step in FOUND.lineage] == [SEED.id, WIDE.id, LAST.id]
    assert [step.operator for step in FOUND.lineage] == ["seed", "grow_block_n", "crossover"]
    assert FOUND.lineage[-1].changes == {"block_n": (32, 96)}
    assert FOUND.lineage[0].changes == {}


def test_without_a_winner_there_is_no_lineage() -> None:
    assert insights.digest(RUN, HISTORY[3:4], None).lineage == ()


@pytest.mark.parametrize("families", [("tiles",), ("tiles", "other")])
def test_the_arms_are_those_that_the_strategy_drew(families, monkeypatch) -> None:
    drawn: list[bool] = []
    real = evolution.is_control

    def spy(seed: int, position: int) -> bool:
        drawn.append(real(seed, position))
        return drawn[-1]

    monkeypatch.setattr(evolution, "is_control", spy)
    spaces = {name: replace(SPACE, family=name) for name in families}
    seeds = {name: (space.sample(np.random.default_rng(1)),) for name, space in spaces.items()}
    members = {name: Evolution(space, seed=5, seeds=seeds[name]) for name, space in spaces.items()}
    notebook = Notebook()
    search(
        Bandit(members, seed=5, genes=dict.fromkeys(members, 12)),
        Recorded(score_us),
        notebook,
        "run",
        budget=150,
    )
    found = insights.digest(RUN, notebook.rows, None)
    # A draw that found no child is followed by a random immigrant: it belongs to no arm.
    assert record(found.arms, "control").uses == pytest.approx(sum(drawn), abs=2)
    assert sum(each.uses for each in found.arms) == sum(bool(p.parents) for p in notebook.proposals)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one search in it, and a remeasurement after it."""
    target = tmp_path / "insights.db"
    with open_store(str(target)) as store:
        run = begin(store, KEY)
        for proposal, evaluation in HISTORY:
            store.add(run, evaluation, proposal)
        begin(store, replace(KEY, strategy="remeasure"))
    return target


def begin(store: Store, key: RunKey) -> Run:
    return store.begin(key, gpu_hash="abc", budget=9, argv=[], environment={})


def test_the_newest_search_is_read_and_a_remeasurement_is_none(path) -> None:
    with open_store(str(path), read_only=True) as store:
        found = insights.read_insights(store)
        assert found.run.key == KEY
        assert found.operators == FOUND.operators
        assert [step.genome_id for step in found.lineage] == [SEED.id, WIDE.id, LAST.id]
        with pytest.raises(NoKernelError, match="no search in the database fits"):
            insights.read_insights(store, gpu="h200")


def test_the_tables_show_every_operator_and_the_lineage() -> None:
    text = io.StringIO()
    print_insights(FOUND, Console(file=text, width=180))
    lines = text.getvalue().splitlines()
    grow = next(line for line in lines if line.strip().startswith("grow_block_n"))
    assert grow.split() == ["grow_block_n", "2", "2", "1", "+26.5%", "10.00", WIDE.id]
    assert any("block_n 32 -> 96" in line and "crossover" in line for line in lines)


def test_an_estimate_is_marked() -> None:
    text = io.StringIO()
    estimated = insights.digest(
        replace(RUN, key=replace(KEY, basis=Basis.ESTIMATED)), HISTORY, HISTORY[-1][1]
    )
    print_insights(estimated, Console(file=text, width=180))
    assert "~8" in text.getvalue()
    assert " 8 " not in text.getvalue()


def test_a_run_without_children_says_so() -> None:
    text = io.StringIO()
    print_insights(insights.digest(RUN, HISTORY[:1], None), Console(file=text, width=180))
    assert "none by a mutation operator" in text.getvalue()


def test_the_command_prints_json_that_can_be_read_back(path) -> None:
    done = forked.evoflash("insights", "--db", str(path), "--gpu", "l4", "--problem", "mission", "--json")
    told = json.loads(done.stdout)
    assert told["operators"][0]["name"] == "grow_block_n"
    assert told["lineage"][-1]["changes"] == {"block_n": [32, 96]}


def test_the_command_says_what_to_do_when_there_is_nothing(tmp_path) -> None:
    with open_store(str(tmp_path / "empty.db")):
        pass
    done = forked.evoflash("insights", "--db", str(tmp_path / "empty.db"))
    assert done.returncode == 3
    assert done.stderr.startswith("evoflash: no search in the database fits")


# ---- in words


def test_a_value_that_pays_is_said_with_its_interval_and_the_kernels_behind_it() -> None:
    effect = GeneEffect("tiles", "block_n", 64, 18, 1 / 1.041, 1 / 1.052, 1 / 1.029, is_paired=True)

    assert effect_words(effect) == (
        "tiles: block_n = 64 instead of other values: 4.1 % faster (95 % interval 2.9 to 5.2; "
        "18 kernels, each beside those that differ in this gene alone)."
    )
    assert effect_words(effect, 128) == (
        "tiles: block_n = 64 instead of 128: 4.1 % faster (95 % interval 2.9 to 5.2; "
        "18 pairs that differ in this gene alone)."
    )


def test_an_effect_without_pairs_has_no_interval_and_no_sentence() -> None:
    genomes = [genome_of(block_n=(32, 64)[at % 2], stages=at) for at in range(16)]
    history = [outcome(genome, 8.0 + genome.as_dict()["block_n"]) for genome in genomes]

    found = insights.digest(RUN, history, None)

    effect = next(each for each in found.effects if (each.gene, each.value) == ("block_n", 32))
    assert (effect.is_paired, effect.low, effect.high) == (False, 0.0, math.inf)
    assert effect.ratio < 0.6
    assert not [line for line in sentences(found) if "block_n = 32" in line]


def test_a_nogood_names_its_values_and_how_often_they_failed() -> None:
    nogood = Nogood("tiles", (("warps", 12), ("ctas_per_sm", 2)), 14, 15, Status.COMPILE)

    assert nogood_words(nogood) == (
        "tiles: warps = 12 with ctas_per_sm = 2 failed in 14 of 15 kernels, mostly compile."
    )


def lattice_history(times_us) -> list[tuple[Proposal, Evaluation]]:
    return [
        outcome(genome_of(block_n=block_n, stages=stages), times_us(block_n, stages))
        for block_n in (32, 64, 96)
        for stages in range(8)
    ]


def test_of_a_search_where_one_value_pays_and_one_fails_both_are_said() -> None:
    def times_us(block_n: int, stages: int) -> float | None:
        noise = 1 + 0.001 * ((7 * stages + block_n) % 5)
        return None if block_n == 96 else (8.0 if block_n == 64 else 10.0) * noise * (1 + 0.1 * stages)

    said = list(sentences(insights.digest(RUN, lattice_history(times_us), None)))
    text = "\n".join(said)

    assert "Values that were faster:" in said
    faster = next(line for line in said if "block_n = 64" in line)
    gain = float(re.search(r": ([0-9.]+) % faster", faster)[1])
    assert gain == pytest.approx(25, abs=0.5)
    assert "(95 % interval 2" in faster
    assert "block_n = 64 instead of 32: " in faster
    assert "; 8 pairs that differ in this gene alone)" in faster
    assert "Values that were slower:" not in said or "block_n = 32" not in text
    assert "tiles: block_n = 96 failed in 8 of 8 kernels" in text
    assert "ESTIMATES" not in text


def test_where_nothing_is_sure_nothing_is_claimed() -> None:
    rng = np.random.default_rng(3)
    history = lattice_history(lambda *_: float(np.exp(rng.normal(2.0, 0.1))))
    found = insights.digest(RUN, history, None)
    clear = [effect for effect in found.effects if effect.high < 1 or effect.low > 1]
    said = list(sentences(found))

    assert len(clear) <= 1  # of eleven values, at 95 %
    assert f"For {len(found.effects) - len(clear)} other values no pair of kernels tells" in "\n".join(said)


def test_estimates_stay_marked_in_words_and_json_is_json() -> None:
    estimated = replace(RUN, key=replace(KEY, basis=Basis.ESTIMATED))
    found = insights.digest(estimated, lattice_history(lambda n, s: 100.0 / n + s), None)

    assert any("ESTIMATES" in line for line in sentences(found))
    told = json.loads(json.dumps(found.as_dict()), parse_constant=lambda word: pytest.fail(word))
    assert {effect["gene"] for effect in told["effects"]} == {"block_n", "stages"}
