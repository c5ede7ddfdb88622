"""docs/database.md: its ten queries run as they stand, and it names every table and only columns that are."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import report_cases as cases
from places import ROOT

from evoflash.evaluation import Basis, Proposal, Timing
from evoflash.store import schema
from evoflash.store.store import open_store

PAGE = (ROOT / "docs" / "database.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
TITLES = re.findall(r"\n([^\n]+):\n\n```sql", PAGE)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A measured search, and an estimate of its winner."""
    path = tmp_path_factory.mktemp("page") / "evoflash.db"
    with open_store(str(path)) as store:
        cases.fill(store)
        best = cases.genomes(4)[3]
        run = cases.begin(store, basis=Basis.ESTIMATED)
        timings = (Timing(cases.MISSION, "model", 13.0, 13.0, 13.0, 1),)
        guess = replace(cases.measured(best, 13.0), basis=Basis.ESTIMATED, timings=timings, model_version="4")
        store.add(run, guess, Proposal(best))
    return path


def test_there_are_ten_of_them_each_with_a_title() -> None:
    assert len(QUERIES) == len(TITLES) == 10


@pytest.mark.parametrize(("title", "query"), [*zip(TITLES, QUERIES, strict=True)], ids=TITLES)
def test_a_query_of_the_page_answers(database: Path, title: str, query: str) -> None:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        assert connection.execute(query).fetchall(), title


def test_the_best_so_far_and_the_error_of_the_model_are_what_the_run_has(database: Path) -> None:
    asked = {title.partition(",")[0]: query for title, query in zip(TITLES, QUERIES, strict=True)}
    with closing(sqlite3.connect(database)) as connection:
        curve = connection.execute(asked["A run's best time so far"]).fetchall()
        assert [best for *_, best in curve][:3] == [20.0, 16.0, 16.0]
        ((*_, ratio),) = connection.execute(asked["Kernels that were both estimated and measured"])
    assert ratio == pytest.approx(13.0 / 12.5)


def test_every_table_is_described_and_every_column_that_is_named_is_one() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", PAGE, re.MULTILINE))
    assert set(rows) == {*schema.metadata.tables, "leaderboard"}
    for name, table in schema.metadata.tables.items():
        named = set(re.findall(r"`([a-z]\w+)`", rows[name].partition("|")[2]))
        words = {"measured", "estimated", "replayed", "model", "runs"}
        assert named - words <= set(table.c.keys()), name
