"""A search that is continued without the extension that some of its outcomes are of."""

import sqlite3
from dataclasses import replace
from pathlib import Path

from places import FIXTURES

from evoflash.app.search.session import _of_known_families
from evoflash.notices import heard_by
from evoflash.store.store import open_store


def test_outcomes_of_a_family_that_is_not_here_are_left_aside_and_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((FIXTURES / "store_0001.sql").read_text())
    connection.close()
    with open_store(str(path)) as store:
        known = [evaluation for run in store.runs() for _, evaluation in store.history(run)]
    unknown = [replace(each, genome=replace(each.genome, family="simple")) for each in known[:2]]
    heard: list[str] = []

    with heard_by(heard.append):
        assert _of_known_families([*unknown, *known]) == known
    assert len(heard) == 1
    assert "2 outcomes of the family simple" in heard[0]
    assert "EVOFLASH_EXTENSIONS" in heard[0]
    assert "--fresh" in heard[0]
