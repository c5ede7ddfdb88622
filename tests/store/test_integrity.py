"""A database that somebody else wrote to: what `db check` finds, and what the other commands say of it."""

import json
import sqlite3
from pathlib import Path

import pytest
from in_process import invoke
from tables import data

from evoflash.errors import StoreError
from evoflash.store.database import open_database
from evoflash.store.integrity import Health, check_database
from evoflash.store.schema import HEAD
from evoflash.store.store import Store, open_store
from tests.store.test_store import begin, evaluation_of, genome_of, put

FIRST, SECOND = genome_of(16).id, genome_of(32).id


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one run of two genomes."""
    target = tmp_path / "evoflash.db"
    with open_store(str(target)) as store:
        run = begin(store)
        put(store, run, evaluation_of(16, 20.0))
        put(store, run, evaluation_of(32, 10.0))
    return target


def health(path: Path) -> Health:
    database = open_database(str(path), read_only=True)
    try:
        return check_database(database)
    finally:
        database.engine.dispose()


def damage(path: Path, *statements: str) -> None:
    """Write as a program would that knows nothing of evoflash."""
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_a_database_as_evoflash_left_it_has_nothing_wrong_with_it(path: Path) -> None:
    found = health(path)
    assert found.findings == ()
    assert (found.revision, found.rows["genomes"], found.rows["runs"]) == (HEAD, 2, 1)


DAMAGES = {
    name: (statement.replace("<first>", FIRST), found)
    for name, (statement, found) in data(__file__, "DAMAGES").items()
}


@pytest.mark.parametrize("what", DAMAGES)
def test_what_is_damaged_is_found_in_its_table(path: Path, what: str) -> None:
    statement, found = DAMAGES[what]
    damage(path, statement)
    assert [each for each in health(path).findings if each.table == found[0] and found[1] in each.what]


@pytest.mark.parametrize(
    "what", ["a genome's id", "a genome's values", "text that is no JSON", "a status", "an evaluation"]
)
def test_reading_a_damaged_run_is_one_line_that_names_the_row_and_says_what_to_do(path, what) -> None:
    damage(path, DAMAGES[what][0])
    with open_store(str(path), read_only=True) as store, pytest.raises(StoreError) as error:
        store.history(store.runs()[0])
    said = str(error.value)
    assert "\n" not in said
    assert str(path) in said
    assert " row " in said
    assert "`evoflash db check`" in said
    assert "`evoflash runs delete`" in said


@pytest.mark.parametrize(
    "what", ["a word for a time", "an endless time", "a word for a count", "bytes for a text"]
)
def test_a_value_that_its_column_cannot_hold_is_refused_before_anybody_counts_with_it(path, what) -> None:
    damage(path, DAMAGES[what][0])
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"row 1 of its table .* is damaged") as error:
            open_store(str(path), read_only=read_only)
        assert "`evoflash db check`" in str(error.value)


@pytest.mark.parametrize(
    ("statement", "read", "says"),
    [
        ("DELETE FROM genomes", lambda store: store.best(None, None), "its genome or run is missing"),
        (DAMAGES["an environment that is no JSON"][0], Store.runs, "row 1 of its table"),
    ],
)
def test_what_is_found_when_it_is_read_is_one_line(path: Path, statement, read, says) -> None:
    damage(path, statement)
    with open_store(str(path), read_only=True) as store, pytest.raises(StoreError, match=says):
        read(store)


def test_a_missing_table_is_one_line(path: Path) -> None:
    damage(path, "DROP TABLE timings")
    with pytest.raises(StoreError, match="lacks a table"):
        open_store(str(path), read_only=True)


def invoked(*arguments: str) -> tuple[int, str]:
    done = invoke(*arguments)
    return done.exit_code, done.stdout


def test_the_command_counts_rows_and_ends_with_0_where_nothing_is_wrong(path: Path) -> None:
    code, said = invoked("db", "check", "--db", str(path))
    assert code == 0
    assert "2  genomes" in said
    assert "nothing is wrong with it." in said


def test_the_command_ends_with_1_and_prints_json_that_names_the_row(path: Path) -> None:
    damage(path, DAMAGES["a status"][0])
    code, said = invoked("db", "check", "--json", "--db", str(path))
    assert code == 1
    assert json.loads(said)["findings"] == [
        {
            "table": "evaluations",
            "row": "1",
            "what": "status is 'splendid', none of correct, constraints, compile, runtime, timeout, "
            "correctness, unmeasured, screened",
        }
    ]
    assert "wrong: evaluations, row 1: status" in invoked("db", "check", "--db", str(path))[1]


def test_checking_changes_nothing(path: Path) -> None:
    before = sqlite3.connect(path).execute("SELECT * FROM evaluations").fetchall()
    damage(path, DAMAGES["an environment that is no JSON"][0])
    health(path)
    assert sqlite3.connect(path).execute("SELECT * FROM evaluations").fetchall() == before
    assert sqlite3.connect(path).execute("SELECT environment_json FROM runs").fetchall() == [("x",)]
