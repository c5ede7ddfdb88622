"""An estimate keeps its mark through a recording and its replay, and no replay stands among kernels."""

import json
import sqlite3
from pathlib import Path

import pytest
from in_process import invoke
from places import FIXTURES

from evoflash.app.insights import read_insights
from evoflash.app.leaderboard import read_rankings as read_table
from evoflash.app.recordings import record
from evoflash.app.search.limits import Limits
from evoflash.app.search.recorded import search_recording
from evoflash.errors import NoKernelError
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, RunKey, Status
from evoflash.kernels.family import load_family
from evoflash.perf_model import model_version
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import Store, open_store
from evoflash.views import kernel as kernel_report

GPU, PROBLEM = load_gpu("l4"), parse_problem("mission")
RECORDED = FIXTURES / "recorded.json.gz"
FAMILY = load_family("flash_simt")
GENOMES = FAMILY.seeds_for(PROBLEM, FAMILY.space(PROBLEM.compile_keys(GPU.arch), GPU), GPU)[:2]


def put(store: Store, basis: Basis, *times_us: float, model: str = "") -> None:
    key = RunKey(str(PROBLEM), "l4", basis, "evolution", 0)
    run = store.begin(key, gpu_hash="abc", budget=9, argv=[], environment={})
    for genome, us in zip(GENOMES, times_us, strict=False):
        known = (str(PROBLEM), "l4", basis, Status.CORRECT, Rung.DONE)
        store.add(run, Evaluation(genome, *known, score_us=us, model_version=model), Proposal(genome))


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Estimates of two genomes, and a replay of what `record --estimated` wrote of them."""
    path = str(tmp_path / "a.db")
    with open_store(path) as store:
        put(store, Basis.ESTIMATED, 20.0, 30.0, model=model_version())
    file = tmp_path / "recorded.json.gz"
    record(path, file, problem="mission", gpu="l4", family=None, estimated=True)
    found = search_recording(file, path, strategy="uniform", seed=0, limits=Limits(9), fresh=False, argv=[])
    assert found.best is not None
    return path


def test_a_replayed_estimate_says_that_it_is_one_and_by_which_model(db: str) -> None:
    with open_store(db) as store:
        replayed = next(e for e in store.find(GENOMES[0].id) if e.basis is Basis.REPLAYED)
    assert replayed.is_estimate
    assert f"~20.00 us ESTIMATED by model {model_version()}, not measured (likely " in kernel_report.brief(
        replayed
    )


def test_a_search_on_recorded_estimates_reports_an_estimate(db: str, tmp_path: Path) -> None:
    options = ["--evaluator", "replay", "--recorded", str(tmp_path / "recorded.json.gz"), "--db", db]
    said = invoke("search", *options, "--budget", "1", "--seed", "7")
    assert f"ESTIMATED by model {model_version()}, not measured" in said.stdout


def test_best_never_answers_with_a_replay(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        put(store, Basis.REPLAYED, 1.0, 2.0)
        assert store.best(str(PROBLEM), "l4") is None
        put(store, Basis.ESTIMATED, 20.0, 30.0, model=model_version())
        assert store.best(str(PROBLEM), "l4").score_us == 20.0
        assert store.best(str(PROBLEM), "l4", basis=Basis.REPLAYED).score_us == 1.0


def test_a_replay_stands_on_no_leaderboard_unless_it_is_asked_for(db: str) -> None:
    with open_store(db) as store:
        assert {row["basis"] for row in read_table(store).as_dicts()} == {"estimated"}
        asked = read_table(store, basis=Basis.REPLAYED).as_dicts()
    assert [(row["basis"], row["score_us"]) for row in asked] == [("replayed", 20.0), ("replayed", 30.0)]
    said = invoke("leaderboard", "--replayed", "--db", db, env={"COLUMNS": "200"})
    assert f"replayed from a recording, estimated by model {model_version()}, not measured" in " ".join(
        said.stdout.split()
    )
    assert "~20" in said.stdout


def test_a_replay_stands_not_in_the_database_s_own_view(db: str) -> None:
    rows = sqlite3.connect(db).execute("SELECT DISTINCT basis FROM leaderboard").fetchall()
    assert rows == [("estimated",)]


def test_insights_are_those_of_a_search_on_kernels_unless_replays_are_asked_for(db: str) -> None:
    with open_store(db) as store:
        assert read_insights(store).run.key.basis is Basis.ESTIMATED
        asked = read_insights(store, replayed=True)
    assert (asked.run.key.basis, asked.is_estimated) == (Basis.REPLAYED, True)


def test_failures_are_those_of_the_newest_search_on_kernels(db: str) -> None:
    with open_store(db) as store:
        assert {evaluation.basis for _, evaluation in store.newest_history()} == {Basis.ESTIMATED}


def test_a_database_of_replays_alone_has_no_insights_and_says_so(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        put(store, Basis.REPLAYED, 1.0)
        with pytest.raises(NoKernelError, match="no search in the database"):
            read_insights(store)


def test_a_replay_of_before_estimates_were_marked_claims_no_measurement(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        put(store, Basis.REPLAYED, 14.2)
        (old,) = store.find(GENOMES[0].id)
    assert "14.20 us replayed from a recording, not measured here" in kernel_report.brief(old)


def test_a_configuration_that_another_tuner_recorded_is_shown(tmp_path: Path) -> None:
    """Of a problem and on a GPU that evoflash does not know."""
    db = str(tmp_path / "r.db")
    found = search_recording(RECORDED, db, strategy="uniform", seed=0, limits=Limits(3), fresh=False, argv=[])
    assert found.best is not None

    def show(*more: str) -> tuple[str, object]:
        done = invoke("show", found.best.genome.id, *more, "--db", db)
        return done.stdout, done.exception

    assert "replayed from a recording" in show()[0]
    assert json.loads(show("--json")[0])[0]["basis"] == "replayed"
    assert "is of a recorded space: no command makes it again" in str(show("--command")[1])
