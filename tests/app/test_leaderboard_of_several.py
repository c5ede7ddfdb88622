"""One leaderboard of several databases: what is ranked together, what stays apart, what rows say of it."""

import json
from pathlib import Path
from typing import Any

from in_process import invoke
from tables import table_of_cases

import evoflash
from evoflash.app.leaderboard import leaderboard, short_names
from evoflash.errors import UsageError
from evoflash.evaluation import Basis
from evoflash.store.run_edits import merge
from evoflash.store.store import open_store
from tests.store.test_store import begin, evaluation_of, genome_of, put


def filled(path: Path, *times: tuple[int, float], seed: int = 1, basis: Basis = Basis.MEASURED) -> str:
    """A database with a run that found these genomes with these times in us."""
    with open_store(str(path)) as store:
        run = begin(store, seed=seed, basis=basis)
        for number, us in times:
            put(store, run, evaluation_of(number, us, basis=basis))
    return str(path)


def rows(*databases: str, **asked: Any) -> list[tuple[int, str, float, str]]:
    table, _ = leaderboard(databases, **asked)
    return [
        (row["rank"], row["genome_id"], row["score_us"], row["database"].replace("/", " ").split()[-1])
        for row in table.as_dicts()
    ]


def test_a_kernel_that_two_databases_have_timed_stays_two_rows_that_say_whose_they_are(
    tmp_path: Path,
) -> None:
    one, two = filled(tmp_path / "a.db", (1, 12.0), (2, 11.0)), filled(tmp_path / "b.db", (1, 11.5), seed=2)
    first, second = genome_of(1).id, genome_of(2).id
    assert rows(one, two) == [(1, second, 11.0, "a.db"), (2, first, 11.5, "b.db"), (3, first, 12.0, "a.db")]


def test_a_measurement_that_was_copied_is_one_row_that_names_both(tmp_path: Path) -> None:
    one, two = filled(tmp_path / "a.db", (1, 12.0)), str(tmp_path / "b.db")
    with open_store(one) as source, open_store(two) as copy:
        merge(copy.database, source.database)
    (row,) = leaderboard([one, two])[0].as_dicts()
    assert row["database"] == f"{one}, {two}"


def test_equal_times_share_a_rank_and_top_counts_in_each_ranking(tmp_path: Path) -> None:
    one, two = filled(tmp_path / "a.db", (1, 9.0), (2, 10.0)), filled(tmp_path / "b.db", (3, 9.0), seed=2)
    assert [rank for rank, *_ in rows(one, two)] == [1, 1, 3]
    assert len(rows(one, two, top=2)) == 2


def test_estimates_and_measurements_of_two_databases_are_ranked_apart(tmp_path: Path) -> None:
    measured = filled(tmp_path / "a.db", (1, 12.0))
    estimated = filled(tmp_path / "b.db", (1, 3.0), basis=Basis.ESTIMATED)
    assert [(rank, us) for rank, _, us, _ in rows(estimated, measured)] == [(1, 12.0), (1, 3.0)]


def test_a_database_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    one = filled(tmp_path / "a.db", (1, 12.0))
    table, _ = leaderboard([one, one])
    assert len(table.rows) == 1
    assert "database" not in table.columns


def test_a_run_of_several_databases_is_refused(tmp_path: Path) -> None:
    one, two = filled(tmp_path / "a.db", (1, 12.0)), filled(tmp_path / "b.db", (1, 11.0))
    done = invoke("leaderboard", "--db", one, "--db", two, "--run", "1")
    assert isinstance(done.exception, UsageError)
    assert "single --db" in str(done.exception)


def test_a_front_is_that_of_all_databases_together(tmp_path: Path) -> None:
    one, two = filled(tmp_path / "a.db", (1, 12.0)), filled(tmp_path / "b.db", (2, 11.0))
    found = evoflash.leaderboard(db=[one, two], objective="latency,registers")
    assert [row["score_us"] for row in found] == [11.0]


def test_a_file_and_a_server_share_one_leaderboard_and_no_password_is_shown(
    target: str, tmp_path: Path
) -> None:
    with open_store(target) as store:
        put(store, begin(store, seed=2), evaluation_of(2, 11.0))
    one = filled(tmp_path / "a.db", (1, 12.0))
    asked = target.replace("evoflash@", "evoflash:secret@")
    done = invoke("leaderboard", "--db", one, "--db", asked, "--json")
    found = json.loads(done.stdout)
    assert [row["score_us"] for row in found["leaderboard"]] == [11.0, 12.0]
    assert {run["database"] for run in found["runs"]} == {row["database"] for row in found["leaderboard"]}
    assert "secret" not in done.output


@table_of_cases()
def test_a_table_names_databases_by_as_little_as_tells_them_apart(
    labels: list[str], short: list[str]
) -> None:
    assert list(short_names(labels).values()) == short
