"""`evoflash dashboard`: the study has the run's candidates, and what goes wrong is one line."""

import json
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import optuna
import pytest
import report_cases as cases
from waiting import until

from evoflash.app.dashboard import MISSING, storage_of
from evoflash.cli import program as cli
from evoflash.evaluation import Basis
from evoflash.store.store import open_store


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("dashboard") / "evoflash.db"
    with open_store(str(path)) as store:
        cases.fill(store)
    return path


def run(*words: str) -> int:
    try:
        return cli.run_command(["dashboard", *words])
    except SystemExit as ended:
        return int(ended.code or 0)


def study_in(path: Path) -> optuna.Study:
    (name,) = optuna.get_all_study_names(storage_of(path))
    return optuna.load_study(study_name=name, storage=storage_of(path))


@pytest.fixture(scope="module", params=["study.db", "study.log"])
def study(request, database, tmp_path_factory) -> optuna.Study:
    path = tmp_path_factory.mktemp("study") / request.param
    assert run("1", "--db", str(database), "--no-serve", "-o", str(path)) == 0
    return study_in(path)


def test_each_evaluation_is_a_trial_and_a_duplicate_is_none(study):
    states = [trial.state.name for trial in study.trials]
    assert [trial.value for trial in study.trials] == [20.0, 16.0, None, 15.0, 90.0, 12.6, 12.5]
    assert states == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE", "COMPLETE", "COMPLETE", "COMPLETE"]


def test_a_trial_has_its_genes_under_their_family_and_its_kernel_as_attributes(study):
    seed = cases.genomes(1)[0]
    trial = study.trials[0]
    assert trial.params == {"family": "flash_mma"} | {f"flash_mma.{gene}": v for gene, v in seed.values}
    assert trial.user_attrs["genome"] == seed.id
    assert trial.user_attrs["operator"] == "seed"
    assert trial.user_attrs["registers"] == 120
    assert study.trials[2].user_attrs["reason"] == cases.SCRIPT


def test_a_study_and_its_trials_say_what_made_them_and_what_their_times_are(database, study):
    with open_store(str(database), read_only=True) as store:
        run = next(each for each in store.runs() if each.id == int(study.user_attrs["run"]))

    assert run.made_with
    assert {name: study.user_attrs[name] for name in run.made_with} == run.made_with
    for trial in study.trials:
        assert trial.user_attrs["basis"] == run.key.basis
        assert trial.user_attrs["family_version"] == cases.genomes(1)[0].version


def test_what_is_not_proven_violates_the_constraint_and_never_is_the_best(study):
    violated = [trial.constraints[MISSING] > 0 for trial in study.trials]
    assert violated == [False, False, True, False, True, False, False]
    assert study.best_trial.value == 12.5


def test_a_study_is_replaced_by_a_newer_one_and_another_file_is_not(database, tmp_path, capsys):
    path = tmp_path / "study.log"
    for _ in range(2):
        assert run("1", "--db", str(database), "--no-serve", "-o", str(path)) == 0
    assert len(study_in(path).trials) == 7
    for other in (database, tmp_path / "notes.log"):
        if not other.exists():
            other.write_text("mine")
        before = other.read_bytes()
        capsys.readouterr()
        assert run("1", "--db", str(database), "--no-serve", "-o", str(other)) != 0
        assert "is no Optuna study: choose another file" in capsys.readouterr().err
        assert other.read_bytes() == before


def test_without_optuna_dashboard_a_line_says_which_extra_it_needs(database, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)  # as where it is not installed
    assert run("1", "--db", str(database)) == 2
    said = capsys.readouterr().err
    assert 'pip install "optuna-dashboard>=' in said
    assert said.count("\n") == 1


def test_a_study_that_nobody_would_see_is_refused(database, capsys):
    assert run("--db", str(database), "--no-serve") == 2
    assert "-o study.db" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(database, capsys):
    pytest.importorskip("optuna_dashboard")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        assert run("1", "--db", str(database), "--port", str(port)) == 2
    assert "give another --port" in capsys.readouterr().err


@pytest.mark.slow
def test_the_dashboard_shows_the_run(database):
    pytest.importorskip("optuna_dashboard")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    words = ["dashboard", "1", "--db", str(database), "--port", str(port)]
    with subprocess.Popen([sys.executable, "-m", "evoflash", *words], stderr=subprocess.DEVNULL) as process:
        try:
            studies = until(lambda: fetched(f"http://127.0.0.1:{port}/api/studies"), what="an answer")
        finally:
            process.terminate()
    (summary,) = studies["study_summaries"]
    assert summary["study_name"].startswith("run 1: b=1,h=8")


def fetched(address: str) -> dict | None:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return json.load(answer)
    except OSError:  # nobody listens yet, or what does takes its time
        return None


def test_a_trial_begins_and_ends_when_its_outcome_was_stored(database, tmp_path):
    moved = tmp_path / "moved.db"
    moved.write_bytes(database.read_bytes())
    with closing(sqlite3.connect(moved)) as connection, connection:
        connection.execute("UPDATE runs SET created = '2026-11-26T10:00:00+00:00' WHERE id = 1")
        for at, (each,) in enumerate(
            connection.execute("SELECT id FROM evaluations WHERE run_id = 1 ORDER BY id").fetchall()
        ):
            when = f"2026-11-26T10:{at:02}:30+00:00"
            connection.execute("UPDATE evaluations SET created = ? WHERE id = ?", (when, each))
    path = tmp_path / "study.log"
    assert run("1", "--db", str(moved), "--no-serve", "-o", str(path)) == 0

    trials = study_in(path).trials

    begun = datetime(2026, 11, 26, 10, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert trials[0].datetime_start == begun
    assert trials[0].datetime_complete == begun + timedelta(seconds=30)
    for before, after in pairwise(trials):
        assert after.datetime_start == before.datetime_complete
    assert trials[-1].datetime_complete > begun + timedelta(minutes=5)


def test_the_metric_has_a_name_and_an_estimate_its_mark(study, tmp_path):
    assert study.metric_names == ["us"]
    path = tmp_path / "estimated.db"
    genome = cases.genomes(1)[0]
    with open_store(str(path)) as store:
        estimate = replace(
            cases.measured(genome, 11.710520728872702), basis=Basis.ESTIMATED, model_version="4"
        )
        cases.put(store, cases.begin(store, basis=Basis.ESTIMATED), [(estimate, "seed", ())])
    out = tmp_path / "study.log"
    assert run("1", "--db", str(path), "--no-serve", "-o", str(out)) == 0

    estimated = study_in(out)

    assert estimated.metric_names == ["~us, ESTIMATED, not measured"]
    assert estimated.best_value == 11.7105
    assert estimated.best_trial.user_attrs["time"].startswith("~11.71 us ESTIMATED")
