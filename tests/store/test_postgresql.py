"""A store on a real PostgreSQL server: claims, processes at once, a server that goes away, old tables.

What is the same on SQLite is in test_store.py and test_run_edits.py, which run on both.
"""

import json
import signal
import subprocess
from pathlib import Path

import pytest
import python_processes
import sqlalchemy as sa
from in_process import invoke
from places import FIXTURES, environment
from postgres_server import Server
from tables import data, table_of_cases
from waiting import LIMIT_S, until

from evoflash.errors import StoreError
from evoflash.paths import DB
from evoflash.store import schema
from evoflash.store.database import label_of, open_database
from evoflash.store.integrity import check_database
from evoflash.store.run_edits import merge
from evoflash.store.run_status import standings
from evoflash.store.store import open_store
from tests.store.test_store import (
    WRITER,
    begin,
    evaluation_of,
    full_evaluation,
    genome_of,
    put,
    restored,
)

RECORDED = str(FIXTURES / "recorded.json.gz")
REPLAY = ("search", "--evaluator", "replay", "--recorded", RECORDED, "--strategy", "uniform")
HOLDS = data(__file__, "HOLDS")
OPENS = data(__file__, "OPENS")


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.store()


def named(url: str) -> str:
    return sa.make_url(url).database or ""


def python(code: str, *arguments: object) -> "subprocess.Popen[str]":
    return python_processes.python("-c", code, *arguments, stdin=subprocess.PIPE, stderr=None)


def searching(*arguments: str) -> "subprocess.Popen[str]":
    return python_processes.evoflash(*REPLAY, *arguments, env=environment(NO_COLOR="1"))


def ended(search: "subprocess.Popen[str]") -> tuple[int, str]:
    """Its exit code, and the error that it ends in; the only line that is one."""
    _, said = search.communicate(timeout=LIMIT_S)
    assert "Traceback" not in said, said
    return search.returncode, said.splitlines()[-1]


# ---- claims


def test_a_run_is_refused_while_another_process_has_it_and_free_after_kill_9(url: str) -> None:
    with python(HOLDS, url) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "mine\n"
        with open_store(url) as store:
            with pytest.raises(StoreError, match="is being continued by another process: wait for it"):
                begin(store)
            assert begin(store, seed=2).number == 1, "another run is nobody's"
        assert [each.process for each in standings(open_database(url))] == [None, first.pid]
        first.send_signal(signal.SIGKILL)
        first.wait()
    with open_store(url) as store:
        assert until(lambda: not standings(store.database)[1].process, what="the claim is given back")
        assert begin(store).number == 1


def test_a_claim_ends_with_its_store_though_the_process_goes_on(url: str) -> None:
    with open_store(url) as store:
        begin(store)
    with open_store(url) as store, open_store(url) as other:
        assert begin(store).number == 1
        with pytest.raises(StoreError, match="another process"):
            begin(other)


def test_nothing_is_written_once_the_claim_is_lost(url: str, postgres: Server) -> None:
    with open_store(url) as store:
        run = begin(store)
        put(store, run, evaluation_of(1, 10.0))
        postgres.run("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        with pytest.raises(StoreError, match="run the same command again: what was stored stays"):
            put(store, run, evaluation_of(2, 9.0))
        with pytest.raises(StoreError, match="the connection to the database was lost"):
            put(store, run, evaluation_of(2, 9.0))
        assert store.spent_budget(run) == 1, "what was stored can be read all the same"
    with open_store(url) as store:
        put(store, begin(store), evaluation_of(2, 9.0))


def test_schemas_of_one_database_have_claims_of_their_own(postgres: Server) -> None:
    url = postgres.database()
    postgres.run("CREATE SCHEMA team", named(url))
    with open_store(url) as store, open_store(f"{url}&options=-csearch_path=team") as other:
        assert (begin(store).id, begin(other).id) == (1, 1)


# ---- several processes at once


@pytest.mark.full
def test_processes_that_make_and_fill_one_database_at_once_lose_nothing(postgres: Server) -> None:
    url = postgres.database()
    searches = [python(WRITER, url, seed, 15) for seed in (1, 2, 3)]
    assert [len(each.communicate()[0].split()) for each in searches] == [15, 15, 15]
    with open_store(url, read_only=True) as store:
        assert [store.spent_budget(run) for run in store.runs()] == [15, 15, 15]
        assert store.query("SELECT count(*), count(DISTINCT id) FROM genomes", {})[1] == [(15, 15)]
        assert check_database(store.database).findings == ()


def upgrade(connection: sa.Connection, revision: str) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(DB))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def old_on_the_server(url: str) -> None:
    """The tables of revision 0001 with one run."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        upgrade(connection, "0001")
        connection.exec_driver_sql(
            "INSERT INTO runs (problem, gpu, gpu_hash, basis, strategy, seed, number, budget, argv_json, "
            "environment_json, evoflash_version, created) VALUES ('p', 'l4', 'h', 'measured', 'evolution', "
            "1, 1, 5, '[]', '{}', '0', '2026-01-01T00:00:00+00:00')"
        )
    engine.dispose()


def test_an_old_database_of_a_server_upgrades_to_what_its_copy_in_a_file_does(
    postgres: Server, tmp_path: Path
) -> None:
    url, file = postgres.database(), restored(tmp_path / "old.db", FIXTURES / "store_0003.sql.xz")
    rows = sa.create_engine(f"sqlite:///{file}").connect()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        upgrade(connection, "0003")
        there = sa.inspect(connection).get_table_names()
        for name in [each.name for each in schema.metadata.sorted_tables if each.name in there]:
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            for row in rows.execute(sa.select(table)).mappings():
                connection.execute(sa.insert(table).values(**row))
    engine.dispose()
    rows.close()
    with open_store(url) as store, open_store(str(file)) as other:
        assert store.runs() == other.runs()
        assert [store.history(run) for run in store.runs()] == [other.history(run) for run in other.runs()]
        board = "SELECT rank, strategy, genome_id, score_us, run FROM leaderboard"
        assert store.query(board, {}) == other.query(board, {})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.sample(1)
def test_processes_that_open_an_old_database_at_once_upgrade_it_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        target = str(restored(tmp_path / "old.db"))
    else:
        target = request.getfixturevalue("postgres").database()
        old_on_the_server(target)
    openers = [python(OPENS, target) for _ in range(3)]
    assert [each.communicate("go\n")[0] for each in openers] == ["1\n", "1\n", "1\n"]
    with open_store(target, read_only=True) as store:
        assert check_database(store.database).revision == schema.HEAD
        assert store.query("SELECT count(*) FROM leaderboard", {})[1]


def test_opening_what_is_up_to_date_leaves_the_view_alone(url: str, postgres: Server) -> None:
    before = postgres.run("SELECT 'leaderboard'::regclass::oid", named(url))
    with open_store(url) as store:
        assert store.query("SELECT 'leaderboard'::regclass::oid", {})[1] == before
        store.database.write(
            lambda connection: connection.exec_driver_sql("COMMENT ON VIEW leaderboard IS 'x'")
        )
    with open_store(url) as store:
        assert store.query("SELECT 'leaderboard'::regclass::oid", {})[1] != before, "another version's is not"


def test_a_reader_sees_one_moment_while_another_process_writes(url: str) -> None:
    with open_store(url) as store, open_store(url, read_only=True) as reader:
        run = begin(store)
        with reader.database.reading() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM lineage").scalar() == 0
            put(store, run, evaluation_of(1, 10.0))
            assert connection.exec_driver_sql("SELECT count(*) FROM evaluations").scalar() == 0
        assert reader.spent_budget(run) == 1


def test_a_reader_cannot_write_on_a_server_either(url: str) -> None:
    with open_store(url, read_only=True) as store, pytest.raises(StoreError, match="cannot be written"):
        begin(store)


# ---- a server that goes away


@pytest.mark.slow
@pytest.mark.full
def test_a_server_that_goes_away_ends_the_search_in_one_line_and_the_same_command_continues(
    postgres: Server,
) -> None:
    url = postgres.store()
    database = named(url)
    search = searching("--budget", "100", "--db", url)
    until(lambda: postgres.run("SELECT 1 FROM evaluations", database), what="a stored row")
    postgres.kill()
    try:
        code, line = ended(search)
        assert (code, line.count("run the same command again")) == (1, 1), line
        refused = ended(searching("--budget", "100", "--db", url))
        assert (refused[0], "cannot be reached: check that the server runs" in refused[1]) == (1, True)
    finally:
        postgres.start()
    before = dict(postgres.run("SELECT genome_id, status FROM evaluations", database))  # type: ignore[arg-type]
    assert 0 < len(before) < 100
    assert ended(searching("--budget", "100", "--db", url))[0] == 0
    after = postgres.run("SELECT genome_id, status FROM evaluations", database)
    assert (len(after), before.items() <= dict(after).items()) == (100, True)  # type: ignore[arg-type]


# ---- moving, checking, passwords


def test_runs_go_from_a_file_to_the_server_and_back_unchanged(url: str, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "laptop.db")) as laptop, open_store(url) as shared:
        run = begin(laptop)
        put(laptop, run, full_evaluation())
        put(laptop, run, evaluation_of(3, None))
        assert merge(shared.database, laptop.database) == (1, 2)
        with open_store(str(tmp_path / "back.db")) as back:
            assert merge(back.database, shared.database) == (1, 2)
            assert back.history(back.runs()[0]) == laptop.history(run)


def test_a_damaged_row_on_the_server_is_found_and_named(url: str) -> None:
    with open_store(url) as store:
        put(store, begin(store), evaluation_of(1, 10.0))
        assert check_database(store.database).findings == ()
        store.database.write(
            lambda connection: connection.exec_driver_sql("UPDATE genomes SET values_json = '{}'")
        )
        assert [found.table for found in check_database(store.database).findings] == ["genomes"]
        with pytest.raises(StoreError, match=f"row '{genome_of(1).id}' of its table genomes is damaged"):
            store.history(store.runs()[0])


def test_the_commands_read_a_server_as_they_read_a_file(url: str) -> None:
    with open_store(url) as store:
        put(store, begin(store), evaluation_of(1, 10.0))

    def said(*words: str) -> str:
        done = invoke(*words, "--db", url)
        assert done.exit_code == 0, (words, done.output, done.exception)
        return done.stdout

    for words in (("runs",), ("status",), ("watch",), ("leaderboard",), ("db", "check"), ("best", "--json")):
        assert said(*words)
    assert json.loads(said("leaderboard", "--json"))["leaderboard"][0]["score_us"] == 10.0


@table_of_cases()
def test_no_password_of_a_url_is_shown(target: str) -> None:
    assert "secret" not in label_of(target)
    assert "kernels" in label_of(target)


@table_of_cases()
def test_what_the_server_refuses_is_one_line_that_says_what_to_do(
    postgres: Server, user: str, database: str, advice: str
) -> None:
    with pytest.raises(StoreError, match=advice) as caught:
        open_store(postgres.url(database).replace("evoflash@", f"{user}:secret@"))
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
