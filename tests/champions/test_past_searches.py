"""Outcomes that ship with evoflash: written by a script, read back, chosen by distance, learnt from."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evoflash.app.search import plan as planning
from evoflash.app.search import transfer
from evoflash.champions import past_searches
from evoflash.champions.past_searches import Outcomes, PastSearch, read_past_searches
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, RunKey, RunStart, Status
from evoflash.kernels.family import load_family
from evoflash.paths import CHAMPIONS
from evoflash.perf_model import proportions_on
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import Store, open_store
from evoflash.strategies.prior import MOST_OUTCOMES
from scripts.searches import ship

HERE, FAR = "b=1,h=8,s=640,d=64", "b=8,h=32,s=8192,d=128"
NEAR = "b=1,h=8,hkv=8,sq=700,skv=700,d=64,dtype=fp16"


def outcomes(count: int, problem: str = NEAR) -> Outcomes:
    """Random kernels of flash_mma, each slower than the one before; the third failed."""
    what, gpu = parse_problem(problem), load_gpu("h200")
    family = load_family("flash_mma")
    space = family.space(what.compile_keys(gpu.arch), gpu)
    rng = np.random.default_rng(0)
    found = dict.fromkeys(space.sample(rng) for _ in range(3 * count))
    return tuple(
        (genome, math.inf if at == 2 else 10.0 + at) for at, genome in enumerate(list(found)[:count])
    )


def past_search(problem: str, count: int) -> PastSearch:
    found = outcomes(count)
    what, gpu = parse_problem(problem), load_gpu("h200")
    known = proportions_on(what, load_family("flash_mma"), gpu)
    proportions = tuple(known.of(genome) for genome, _ in found)
    return PastSearch(problem, "made up", {"flash_mma": found}, {"flash_mma": proportions})


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> PastSearch:
    """One search near HERE and one far away are what ships for the h200."""
    mine = past_search(NEAR, ship.FEWEST)
    far = past_search(str(parse_problem(FAR)), ship.FEWEST - 1)
    known = {"h200": {each.problem: each for each in (far, mine)}}
    monkeypatch.setattr(past_searches, "_entries", lambda gpu: known.get(gpu, {}))
    monkeypatch.setattr(transfer, "past_search", lambda gpu, problem: known.get(gpu, {}).get(problem))
    return mine


def stored(store: Store, found: Outcomes, problem: str = NEAR, basis: Basis = Basis.MEASURED) -> None:
    key = RunKey(problem, "h200", basis, "uniform", 0)
    run = store.begin(key, gpu_hash="0", budget=9, argv=[], environment={})
    for genome, us in found:
        failed = us == math.inf
        status = Status.COMPILE if failed else Status.CORRECT
        score = None if failed else us
        evaluation = Evaluation(genome, problem, "h200", basis, status, Rung.DONE, score_us=score)
        store.add(run, evaluation, Proposal(genome))


def written(folder: Path, *databases: str) -> Path:
    path = folder / "h200_searches.json.gz"
    ship.main([*databases, "--source", "a test", "-o", str(path)])
    return path


def test_what_the_script_writes_is_read_back(tmp_path: Path) -> None:
    db, found = str(tmp_path / "a.db"), outcomes(10)
    with open_store(db) as store:
        stored(store, found)
        stored(store, found, problem=FAR, basis=Basis.ESTIMATED)

    (search,) = read_past_searches(written(tmp_path, db))

    assert (search.problem, search.source) == (NEAR, "a test")
    assert search.families == {"flash_mma": found}
    known = proportions_on(parse_problem(NEAR), load_family("flash_mma"), load_gpu("h200"))
    for (genome, _), proportions in zip(found, search.proportions["flash_mma"], strict=True):
        assert proportions == pytest.approx(known.of(genome), abs=6e-4)


def test_few_outcomes_are_left_out_and_problems_that_the_file_had_stay(tmp_path: Path) -> None:
    one, two = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    with open_store(one) as store:
        stored(store, outcomes(ship.FEWEST))
    with open_store(two) as store:
        stored(store, outcomes(ship.FEWEST - 1), problem=str(parse_problem(HERE)))
    written(tmp_path, one)

    near, here = read_past_searches(written(tmp_path, two))

    assert len(near.families["flash_mma"]) == ship.FEWEST
    assert here.families == {}


def test_the_nearest_come_first_and_other_operations_not_at_all(shipped: PastSearch) -> None:
    assert past_searches.near(parse_problem(HERE), "h200", 6) == (NEAR, str(parse_problem(FAR)))
    assert past_searches.near(parse_problem(HERE), "h200", 1) == (shipped.problem,)
    assert past_searches.near(parse_problem("linear:m=1,n=64,k=64"), "h200", 6) == ()
    assert past_searches.near(parse_problem(HERE), "h200", 0) == ()
    assert past_searches.near(parse_problem(HERE), "l4", 6) == ()


def planned(**options: object) -> planning.SearchPlan:
    """For the h200 as if it were here."""
    where = {"gpu": "h200", "evaluator": None, "family": "flash_mma", "strategy": "surrogate", "seed": 0}
    return planning.plan(problem=HERE, present=lambda _: load_gpu("h200"), **(where | options))


def test_a_measured_search_learns_from_them_and_goes_on_with_them(tmp_path, shipped) -> None:
    plan = planned(archive=False)
    assert plan.shipped == (NEAR, str(parse_problem(FAR)))
    assert plan.key.search_name == "surrogate/flash_mma"

    with open_store(str(tmp_path / "a.db")) as store:
        start = transfer.start_of(store, plan)
        run = store.begin(plan.key, gpu_hash=plan.gpu.hash, budget=9, argv=[], environment={}, start=start)
        (earlier,) = transfer.earlier(store, run, plan)["flash_mma"]

    assert start.learns_from_shipped == plan.shipped
    assert earlier.outcomes == shipped.families["flash_mma"]
    assert transfer.seeds(plan.fields[0], (earlier,)) == plan.fields[0].seeds  # their best are the archive's


def test_a_family_of_the_same_name_with_other_genes_learns_what_it_has_in_common(tmp_path, shipped) -> None:
    plan = planned(archive=False)
    (field,) = plan.fields
    some = shipped.families["flash_mma"][0][0].as_dict()["block_n"]
    params = tuple(
        replace(param, values=tuple(value for value in param.values if value != some))
        if param.name == "block_n"
        else param
        for param in field.space.params
    )
    own = replace(plan, fields=(replace(field, space=replace(field.space, params=params)),))
    with open_store(str(tmp_path / "a.db")) as store:
        start = transfer.start_of(store, plan)
        run = store.begin(plan.key, gpu_hash=plan.gpu.hash, budget=9, argv=[], environment={}, start=start)
        (earlier,) = transfer.earlier(store, run, own)["flash_mma"]

    wanted = [pair for pair in shipped.families["flash_mma"] if pair[0].as_dict()["block_n"] != some]
    assert list(earlier.outcomes) == wanted != list(shipped.families["flash_mma"])
    assert len(earlier.proportions) == len(wanted)


@pytest.mark.parametrize("options", [{"transfer": False}, {"strategy": "evolution"}])
@pytest.mark.sample(1)
def test_nobody_else_does(options, shipped) -> None:
    assert planned(**options).shipped == ()


def test_no_estimate_is_learnt_from_what_was_measured(shipped) -> None:
    plan = planning.plan(
        problem=HERE,
        gpu="h200",
        evaluator="emulated",
        family="flash_mma",
        strategy="surrogate",
        seed=0,
        archive=True,
    )
    assert plan.shipped == ()


def test_a_note_of_a_search_that_ships_no_more_is_passed_over(tmp_path, shipped) -> None:
    plan = planned(archive=True)
    with open_store(str(tmp_path / "a.db")) as store:
        start = RunStart(learns_from_shipped=("b=1,h=1,hkv=1,sq=8,skv=8,d=64,dtype=fp16",))
        run = store.begin(plan.key, gpu_hash=plan.gpu.hash, budget=9, argv=[], environment={}, start=start)
        assert transfer.earlier(store, run, plan) == {"flash_mma": ()}


@pytest.mark.parametrize("text", ["", "[]", '{"searches":[{}]}', '{"searches":[{"problem":1}]}'])
def test_a_broken_file_ends_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "h200_searches.json.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(UsageError, match="install evoflash anew"):
        read_past_searches(path)


@pytest.mark.parametrize("name", ["h100", "h200"])
def test_what_ships_is_of_problems_that_are_and_of_genomes_and_proportions_of_today(name: str) -> None:
    gpu, searches = load_gpu(name), read_past_searches(CHAMPIONS / f"{name}_searches.json.gz")
    assert searches
    for search in searches:
        problem = parse_problem(search.problem)
        assert str(problem) == search.problem
        for family, found in search.families.items():
            assert ship.FEWEST <= len(found) <= MOST_OUTCOMES
            assert min(us for _, us in found) < math.inf
            known = proportions_on(problem, load_family(family), gpu)
            kept = search.proportions[family]
            assert len(kept) == len(found)
            space = load_family(family).space(problem.compile_keys(gpu.arch), gpu)
            for at in range(0, len(found), 40):
                genome = found[at][0]
                assert genome.version == space.version
                assert space.is_valid(genome)
                # Else: python -m scripts.searches.ship -o evoflash/champions/GPU_searches.json.gz
                assert kept[at] == pytest.approx(known.of(genome), abs=6e-4)


def test_a_genome_keeps_its_id_through_the_file(tmp_path: Path) -> None:
    ((genome, _),) = outcomes(1)
    table = ship.as_json(PastSearch(NEAR, "made up", {"flash_mma": ((genome, 1.0),)}, {}), load_gpu("h200"))
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"searches": [table]}).encode()))
    ((back, _),) = read_past_searches(path)[0].families["flash_mma"]
    assert back.id == genome.id
