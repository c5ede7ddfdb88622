"""Runs renamed, deleted and merged, and how they stand; seen from another process too."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import invoke
from places import environment
from tables import data

from evoflash.errors import StoreError, UsageError
from evoflash.evaluation import Basis
from evoflash.store import run_edits
from evoflash.store.database import open_database
from evoflash.store.integrity import check_database
from evoflash.store.run_status import standings
from evoflash.store.store import open_store
from tests.store.test_store import begin, evaluation_of, genome_of, put


def filled(
    path: str | Path, *, seeds: tuple[int, ...] = (1, 2), times: tuple[float, ...] = (20.0, 10.0)
) -> str:
    """A run for each seed; genome 16 is in all of them, the other one is each run's own."""
    with open_store(str(path)) as store:
        for seed in seeds:
            run = begin(store, seed=seed, basis=Basis.ESTIMATED)
            put(store, run, evaluation_of(16, times[0], basis=Basis.ESTIMATED))
            put(store, run, evaluation_of(100 + seed, times[1] + seed, basis=Basis.ESTIMATED))
    return str(path)


@pytest.fixture
def path(target: str) -> str:
    return filled(target)


def invoked(*arguments: str) -> tuple[int, str]:
    done = invoke(*arguments)
    return done.exit_code, done.stdout if done.exit_code == 0 else str(done.exception)


def histories(path: str) -> dict[tuple[int, int], list[object]]:
    with open_store(path, read_only=True) as store:
        return {
            (run.key.seed, run.number): [(p.genome.id, e.score_us, e.builds) for p, e in store.history(run)]
            for run in store.runs()
        }


def findings(path: str) -> tuple[object, ...]:
    return check_database(open_database(path, read_only=True)).findings


def test_deleting_a_run_takes_its_own_genomes_and_leaves_every_other_run_as_it_was(path: str) -> None:
    before = histories(path)
    assert invoked("runs", "delete", "1", "--yes", "--db", path)[0] == 0
    assert histories(path) == {key: run for key, run in before.items() if key[0] != 1}
    assert findings(path) == ()
    with open_store(path, read_only=True) as store:
        assert store.find(genome_of(101).id) == []
        assert len(store.find(genome_of(16).id)) == 1


def test_deleting_asks_and_where_nobody_can_answer_wants_yes(path: str) -> None:
    before = histories(path)
    code, said = invoked("runs", "delete", "1", "--db", path)
    assert (code, "--yes" in said) == (1, True)
    assert histories(path) == before


HOLDS = data(__file__, "HOLDS")


@pytest.mark.sample(1)
def test_a_run_that_is_going_on_is_shown_so_and_not_deleted(path: str) -> None:
    before = histories(path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as search:
        assert search.stdin is not None
        assert search.stdout is not None
        assert search.stdout.readline() == "here\n"
        shown = json.loads(invoked("status", "--json", "--db", path)[1])["runs"]
        assert [(run["id"], run["state"], run["process"]) for run in shown] == [(1, "running", search.pid)]
        code, said = invoked("runs", "delete", "1", "--yes", "--db", path)
        assert (code, "is going on in another process" in said) == (1, True)
        search.stdin.close()
    assert histories(path) == before
    assert [each.process for each in standings(open_database(path))] == [None, None]


def test_a_name_finds_a_run_and_changes_nothing_else(path: str) -> None:
    before = histories(path)
    assert invoked("runs", "rename", "2", "new seeds", "--db", path)[0] == 0
    listed = json.loads(invoked("runs", "--json", "--db", path)[1])["runs"]
    assert [(run["id"], run["name"]) for run in listed] == [(2, "new seeds"), (1, "")]
    assert histories(path) == before
    with open_store(path, read_only=True) as store:
        assert store.runs()[0].environment["driver"] == "580"
    assert invoked("runs", "delete", "new seeds", "--yes", "--db", path)[0] == 0
    assert {seed for seed, _ in histories(path)} == {1}


@pytest.mark.parametrize("name", ["7", "x" * 61, "two\nlines", " blank "])
@pytest.mark.sample(4)
def test_a_name_that_would_not_tell_a_run_apart_is_refused(path: str, name: str) -> None:
    database = open_database(path)
    with pytest.raises(UsageError, match="no name for a run"):
        run_edits.rename(database, run_edits.find(database, "1"), name)


def test_two_runs_cannot_have_one_name(path: str) -> None:
    database = open_database(path)
    run_edits.rename(database, run_edits.find(database, "1"), "mine")
    with pytest.raises(UsageError, match="is called 'mine' already"):
        run_edits.rename(database, run_edits.find(database, "2"), "mine")


def test_a_run_that_is_not_there_is_answered_with_where_to_look(path: str) -> None:
    with pytest.raises(UsageError, match="no run is called '9': give a number that `evoflash runs` shows"):
        run_edits.find(open_database(path), "9")


def test_merging_brings_every_run_in_with_all_its_outcomes(path: str, tmp_path: Path) -> None:
    other = filled(tmp_path / "other.db", seeds=(2, 3), times=(20.0, 5.0))
    with open_store(str(other)) as store:  # not the same run as the one here: another command
        begin(store, seed=2, basis=Basis.ESTIMATED, fresh=True, argv=["other"])
    before, brought = histories(path), histories(other)
    assert invoked("runs", "merge", str(other), "--db", path)[0] == 0
    merged = histories(path)
    assert {key: merged[key] for key in before} == before
    assert merged[3, 1] == brought[3, 1]
    assert findings(path) == ()
    assert histories(other) == brought


def test_merging_twice_changes_nothing(path: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")
    open_store(target).close()
    for _ in range(2):
        assert invoked("runs", "merge", path, "--db", target)[0] == 0
    assert histories(target) == histories(path)
    assert findings(target) == ()


def test_merging_again_brings_what_the_other_database_has_found_since(path: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")
    invoked("runs", "merge", path, "--db", target)
    with open_store(path) as store:
        put(store, store.runs()[0], evaluation_of(64, 1.0, basis=Basis.ESTIMATED))
    assert invoked("runs", "merge", path, "--db", target)[0] == 0
    assert histories(target) == histories(path)


def test_a_database_is_not_merged_into_itself(path: str) -> None:
    assert "the same database" in invoked("runs", "merge", path, "--db", path)[1]


def test_deleting_in_a_database_that_is_not_there_makes_none(tmp_path: Path) -> None:
    code, _ = invoked("runs", "delete", "1", "--yes", "--db", str(tmp_path / "none.db"))
    assert code == 1
    assert list(tmp_path.iterdir()) == []


def test_where_a_run_stands_is_told_by_its_own_outcomes(path: str) -> None:
    newest = standings(open_database(path, read_only=True))[0]
    assert (newest.evaluated, newest.correct, newest.duplicates) == (2, 2, 0)
    assert (newest.best_us, newest.best_id, newest.is_estimate) == (12.0, genome_of(102).id, True)
    assert newest.since_best == 0


def test_without_a_search_under_way_status_tells_of_the_newest_run_and_watch_ends(path: str) -> None:
    said = invoked("status", "--db", path)[1]
    assert "stopped: 2 of 10 evaluated, 2 correct; the newest" in said
    assert "best ~12.00 us ESTIMATED, not measured" in said
    assert "stopped: 2 of 10 evaluated" in invoked("watch", "--db", path)[1]


def test_status_of_an_empty_database_says_what_to_do(tmp_path: Path) -> None:
    open_store(str(tmp_path / "a.db")).close()
    assert "run `evoflash search`" in invoked("status", "--db", str(tmp_path / "a.db"))[1]


def test_a_damaged_run_can_be_deleted_and_the_rest_is_read_again(path: str) -> None:
    database = open_database(path)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE evaluations SET status = 'splendid' WHERE run_id = 1")
    with pytest.raises(StoreError), open_store(path) as store:
        store.find(genome_of(16).id)
    run_edits.delete(database, run_edits.find(database, "1"))
    assert findings(path) == ()
    assert [seed for seed, _ in histories(path)] == [2]
