"""The Pareto front: which rows nothing beats in every objective, on leaderboards and at a search's end."""

import io
import json
import random
from dataclasses import replace

import pytest
from rich.console import Console
from tables import table_of_cases

from evoflash.app.leaderboard import front_of, read_front, read_rankings
from evoflash.app.objectives import OBJECTIVES, objectives_of, pareto_front
from evoflash.app.search import plan as planning
from evoflash.app.search import session as running
from evoflash.app.search.limits import Limits
from evoflash.cli import program as cli
from evoflash.errors import DeviceError, UsageError
from evoflash.evaluation import (
    Baseline,
    Basis,
    Build,
    Evaluation,
    Proposal,
    Rung,
    RunKey,
    Status,
    Timing,
    Verdict,
)
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.views import leaderboard as report

GPU, PROBLEM = load_gpu("l4"), parse_problem("mission")
SPACE = load_family("flash_simt").space(PROBLEM.compile_keys(GPU.arch), GPU)
GENOMES = load_family("flash_simt").seeds_for(PROBLEM, SPACE, GPU)
BOTH = objectives_of("latency,registers")


def row(us, regs, **more):
    return {"score_us": us, "registers": regs, **more}


def is_beaten(one, others):
    """By the definition, of two figures: less or equal in both, less in one."""
    return any(
        o["score_us"] <= one["score_us"]
        and o["registers"] <= one["registers"]
        and (o["score_us"], o["registers"]) != (one["score_us"], one["registers"])
        for o in others
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_what_no_other_row_beats(seed) -> None:
    rng = random.Random(seed)
    rows = [row(rng.randrange(9), rng.randrange(9)) for _ in range(40)]
    front = pareto_front(rows, BOTH)

    assert sorted(map(id, front)) == sorted(id(each) for each in rows if not is_beaten(each, rows))
    assert [each["score_us"] for each in front] == sorted(each["score_us"] for each in front)


def test_of_one_objective_the_front_is_the_best_with_its_equals() -> None:
    rows = [row(2.0, 1), row(1.0, 9), row(1.0, 8)]
    assert pareto_front(rows, objectives_of(None)) == [row(1.0, 9), row(1.0, 8)]


def test_the_first_objective_orders_the_front() -> None:
    rows = [row(1.0, 9), row(3.0, 2), row(2.0, 5)]
    assert [each["registers"] for each in pareto_front(rows, objectives_of("registers,latency"))] == [2, 5, 9]


@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_a_row_without_a_figure_is_left_out_and_beats_nothing(unknown) -> None:
    rows = [row(1.0, unknown), row(5.0, 64)]
    assert pareto_front(rows, BOTH) == [row(5.0, 64)]
    assert pareto_front([{"score_us": 1.0}], BOTH) == []


def test_a_front_of_nothing_is_empty_and_one_without_objectives_an_error() -> None:
    assert pareto_front([], BOTH) == []
    with pytest.raises(ValueError, match="at least one objective"):
        pareto_front([row(1.0, 1)], ())


@table_of_cases()
def test_what_is_no_objective_is_refused_with_those_that_are(text, says) -> None:
    with pytest.raises(UsageError, match=says):
        objectives_of(text)


def test_blanks_between_objectives_do_not_matter() -> None:
    assert objectives_of("latency, energy") == (OBJECTIVES["latency"], OBJECTIVES["energy"])


# ---- on the leaderboard


def kernel(at, us, *, registers=64, spills=0, rel_l2=1e-4, energy_mj=None):
    genome = GENOMES[at]
    key = PROBLEM.compile_keys(GPU.arch)[0]
    build = Build(genome.id, key, "source", "cubin", f"text{at}", registers=registers, spill_bytes=spills)
    return Evaluation(
        genome,
        str(PROBLEM),
        "l4",
        Basis.MEASURED,
        Status.CORRECT,
        Rung.DONE,
        builds=(build,),
        verdicts=(Verdict("a", True, rel_l2, 0.1, 0.0, 1.0), Verdict("b", True, rel_l2 / 2, 0.1, 0.0, 1.0)),
        timings=(Timing(str(PROBLEM), "cold", us, us, us, 30, energy_mj=energy_mj),),
        score_us=us,
    )


@pytest.fixture
def db(tmp_path):
    return str(tmp_path / "evoflash.db")


@pytest.fixture
def store(db):
    with open_store(db) as opened:
        yield opened


def put(store, *evaluations):
    key = RunKey(str(PROBLEM), "l4", Basis.MEASURED, "evolution", 1)
    run = store.begin(key, gpu_hash="abc", budget=9, argv=[], environment={})
    for evaluation in evaluations:
        store.add(run, evaluation, Proposal(evaluation.genome))
    return run


def figures(store, objectives, *columns):
    rows = read_front(store, objectives=objectives_of(objectives)).as_dicts()
    return [tuple(row[column] for column in columns) for row in rows]


def test_a_leaderboards_front_has_the_worst_error_of_all_checks(store) -> None:
    put(store, kernel(0, 10.0, rel_l2=4e-4), kernel(1, 20.0, rel_l2=1e-4), kernel(2, 30.0, rel_l2=2e-4))
    assert figures(store, "latency,error", "score_us", "rel_l2") == [(10.0, 4e-4), (20.0, 1e-4)]


def test_energies_of_several_workloads_are_their_geometric_mean(store) -> None:
    one = kernel(0, 4.0)
    times = tuple(
        Timing(name, "cold", us, us, us, 30, energy_mj=mj) for name, us, mj in (("a", 2, 1.0), ("b", 8, 4.0))
    )
    put(store, replace(one, timings=times))
    assert figures(store, "energy", "energy_mj") == [(pytest.approx(2.0),)]


def test_an_energy_that_a_workload_lacks_is_none(store) -> None:
    one = kernel(0, 4.0)
    times = (Timing("a", "cold", 2, 2, 2, 30, energy_mj=1.0), Timing("b", "cold", 8, 8, 8, 30))
    put(store, replace(one, timings=times))
    assert figures(store, "energy", "energy_mj") == []


def test_an_energy_that_is_measured_again_replaces_the_older_one(store) -> None:
    run = put(store, kernel(0, 4.0, energy_mj=9.0))
    again = Timing(str(PROBLEM), "final-cold", 4.0, 4.0, 4.0, 30, energy_mj=3.0)
    store.update_timings(run, GENOMES[0].id, [again], 4.0)
    ((_, evaluation),) = store.history(run)

    assert figures(store, "latency,energy", "energy_mj") == [(3.0,)]
    kept = {timing.protocol: timing.energy_mj for timing in evaluation.timings}
    assert kept == {"cold": 9.0, "final-cold": 3.0}


def test_a_library_is_on_the_front_where_it_has_the_figures(store) -> None:
    run = put(store, kernel(0, 10.0, energy_mj=5.0))
    timing = Timing(str(PROBLEM), "cold", 12.0, 12.0, 12.0, 30, energy_mj=2.0)
    store.add_baseline(run, Baseline("sdpa_flash", str(PROBLEM), "l4", (timing,), 12.0))

    assert figures(store, "latency,energy", "name") == [("flash_simt",), ("sdpa_flash",)]
    assert figures(store, "latency,registers", "name") == [("flash_simt",)]


def test_shared_memory_is_what_the_family_asks_for_and_unknown_of_another_version(store) -> None:
    family = load_family("flash_simt")
    put(store, kernel(0, 10.0))
    (launch,) = family.launches(GENOMES[0], PROBLEM.workloads[0], GPU)
    assert figures(store, "shared-memory", "smem_bytes") == [(launch.smem_bytes,)]

    old = replace(GENOMES[1], version=family.version - 1)
    put(store, replace(kernel(1, 5.0), genome=old))
    assert figures(store, "shared-memory,latency", "genome_id") == [(GENOMES[0].id,)]


def shown(store, objectives):
    console = Console(file=io.StringIO(), width=100)
    report.print_table(read_front(store, objectives=objectives_of(objectives)), console, wide=True)
    return console.file.getvalue()


def test_the_table_says_of_how_many_kernels_it_is_the_front(store) -> None:
    put(store, kernel(0, 10.0, registers=96), kernel(1, 20.0, registers=64), kernel(2, 30.0, registers=80))
    text = shown(store, "latency,registers,error")

    assert "Pareto front of latency, registers and error: 2 of 3 kernels" in text
    assert "rel L2" in text
    assert "1.0e-04" in text


def test_kernels_without_a_figure_are_counted(store) -> None:
    put(store, kernel(0, 10.0, energy_mj=5.0), kernel(1, 20.0))
    assert "1 of 1 kernels; 1 more lack a figure" in shown(store, "latency,energy")


def test_where_no_energy_was_measured_the_table_says_what_measures_it(store) -> None:
    put(store, kernel(0, 10.0))
    assert "evoflash search --objective latency,energy" in " ".join(shown(store, "energy").split())


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_the_command_prints_the_front_in_every_form(form, db, store, capsys) -> None:
    put(store, kernel(0, 10.0, registers=96), kernel(1, 20.0, registers=64), kernel(2, 30.0, registers=80))
    with pytest.raises(SystemExit):
        cli.run_command(["leaderboard", "--objective", "latency,registers", form, "--db", db])
    out = capsys.readouterr().out

    if form == "--csv":
        assert len(out.splitlines()) == 1 + 2
    else:
        assert json.loads(out)["objectives"] == ["latency", "registers"]
        assert [each["registers"] for each in json.loads(out)["leaderboard"]] == [96, 64]


def test_top_shortens_the_front_of_each_ranking(store) -> None:
    put(store, kernel(0, 10.0, registers=96), kernel(1, 20.0, registers=64))
    assert len(front_of(read_rankings(store), BOTH, top=1).rows) == 1


# ---- of a search


def planned(**given):
    usual = {"gpu": "l4", "problem": "mission", "strategy": "uniform", "seed": 0, "family": "flash_wmma"}
    return planning.plan(**{**usual, "evaluator": "emulated", **given})


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    db = str(tmp_path_factory.mktemp("pareto") / "evoflash.db")
    return db, running.run_search(
        planned(objective="latency,registers"), db, limits=Limits(budget=2), fresh=False, argv=()
    )


@pytest.mark.slow
def test_a_search_keeps_its_objectives_and_ends_with_its_front(searched) -> None:
    db, result = searched
    with open_store(db, read_only=True) as store:
        (run,) = store.runs()
        assert run.objectives == "latency,registers"
    assert result.front is not None
    assert {row["run"] for row in result.front.as_dicts()} == {run.id}
    assert report.front_in_words(result.front)[0].startswith("Pareto front of latency and registers: ")


def test_the_same_search_with_other_objectives_is_the_same_run(searched) -> None:
    db, first = searched
    again = running.run_search(planned(objective="error"), db, limits=Limits(budget=2), fresh=False, argv=())
    with open_store(db, read_only=True) as store:
        (run,) = store.runs()
        assert run.objectives == "error"
    assert again.spent == first.spent
    assert again.front is not None


def test_a_search_for_latency_alone_shows_no_front(searched) -> None:
    db, _ = searched
    assert running.run_search(planned(), db, limits=Limits(budget=2), fresh=False, argv=()).front is None


def test_energy_is_refused_where_nothing_measures_it() -> None:
    with pytest.raises(DeviceError, match="energy is measured, never estimated"):
        planned(objective="latency,energy")
