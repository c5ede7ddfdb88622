"""Fuzz: every option of every command, from the program's own list, with values that make sense and none.

Where a command would begin real work, the setting `extensions` names a folder that is not there: whoever
looks for a family or a GPU ends there. A new command, or a new option, is covered as soon as it is listed.
"""

import gzip
import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzzing import CASES_OF_A_FILE, CASES_OF_AN_OPTION, FILES, cases, run
from hypothesis import given
from hypothesis import strategies as st
from places import FIXTURES
from tables import data

from evoflash.cli import program as cli
from evoflash.store.store import open_store


def every(command: Any, *path: str) -> dict[str, Any]:
    """The commands by the words that call them, those of groups included."""
    found = {" ".join(path): command} if path else {}
    for name, nested in getattr(command, "commands", {}).items():
        found |= every(nested, *path, name)
    return found


COMMANDS: dict[str, Any] = every(cli.app())
LONG = {"--self-test", "--conformance"}  # minutes of work that no folder stops: with a misspelt option only
WORDS = st.sampled_from([*data(__file__, "WORDS"), "a" * 300, "\x00"]) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)  # a shell passes no more
NUMBERS = st.sampled_from(
    [
        *("0", "1", "-1", "2", "200", "1e9", "nan", "inf", "-inf", "1.5", "", "x", "0x10", "1_000", "٣"),
        *(str(2**31), str(2**63), str(2**64), str(10**30), str(-(2**63) - 1), "9" * 5000),
    ]
)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a database, a broken one, a recorded space and odd files; commands run in it."""
    folder = tmp_path_factory.mktemp("fuzz")
    with sqlite3.connect(folder / "good.db") as connection:
        connection.executescript((FIXTURES / "store_0001.sql").read_text())
    connection.close()
    with open_store(str(folder / "good.db")):
        pass  # brought to the present schema
    shutil.copy(folder / "good.db", folder / "kept.db")
    (folder / "broken.db").write_bytes(b"no database" * 99)
    recorded = gzip.decompress((FIXTURES / "recorded.json.gz").read_bytes())
    (folder / "recorded.json").write_bytes(recorded)
    (folder / "empty.txt").write_text("")
    (folder / "binary.cu").write_bytes(bytes(range(256)))
    (folder / "folder").mkdir()
    return folder


PATHS = st.sampled_from([*data(__file__, "PATHS"), "a" * 300])


def words_of(option: Any) -> st.SearchStrategy[str]:
    """Values for an option or an argument, by what its help calls their type."""
    kind = str(getattr(option, "type_descriptor", None) and option.type_descriptor.annotation).lower()
    if "int" in kind or "float" in kind:
        return NUMBERS
    is_path = "path" in kind or option.name == "db"
    return PATHS if is_path else WORDS | PATHS


def cases_of(name: str) -> int:
    return 16 + CASES_OF_AN_OPTION * len(COMMANDS[name].params)


def typed(option: Any) -> st.SearchStrategy[list[str]]:
    """The option as it may be typed, its value included."""
    flags = st.sampled_from([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return flags.map(lambda flag: [flag, "--misspelt"] if flag in LONG else [flag])
    return st.tuples(flags, words_of(option)).map(list)


def lines(name: str) -> st.SearchStrategy[list[str]]:
    """Command lines of a command: some of its options, arguments, once in a while one that it has not."""
    params = COMMANDS[name].params
    options = [each for each in params if each.param_type_name == "option"]
    arguments = [words_of(each) for each in params if each.param_type_name == "argument"]
    one = st.sampled_from(options).flatmap(typed) if options else st.just([])
    given_options = st.tuples(one).map(list) | st.lists(one, max_size=4)
    positional = st.tuples(*arguments).map(list) | st.lists(WORDS, max_size=2)
    required = [typed(each) for each in options if each.required]
    odd = st.sampled_from([[], [], [], [], [], [], ["--misspelt"], ["-x"], ["--"]])
    parts = st.tuples(st.tuples(*required).map(list), given_options, odd)
    return st.tuples(positional, parts).map(
        lambda line: [*line[0], *(word for part in (*line[1][0], *line[1][1], line[1][2]) for word in part)]
    )


@pytest.fixture(autouse=True)
def _stopped_before_work(place, monkeypatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("EVOFLASH_EXTENSIONS", str(place / "no_such_folder"))
    monkeypatch.setenv("EVOFLASH_DB", str(place / "good.db"))
    for server in ("optuna_dashboard", "mcp"):  # else `dashboard` and `mcp` serve and do not end
        monkeypatch.setitem(sys.modules, server, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sample(6)
def test_a_command_ends_in_good_order_whatever_its_options(name, place) -> None:
    @cases(cases_of(name))
    @given(lines(name))
    def each(line: list[str]) -> None:
        run(*name.split(), *line)
        check_kept(place)

    each()


def check_kept(place: Path) -> None:
    """The database is as it was, or whole and readable; then it is put back for the next case."""
    now, kept = (place / "good.db").read_bytes(), (place / "kept.db").read_bytes()
    if now == kept:
        return
    with sqlite3.connect(place / "good.db") as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        assert connection.execute("select count(*) from evaluations").fetchone()
    connection.close()
    for path in place.glob("good.db*"):
        path.unlink()
    shutil.copy(place / "kept.db", place / "good.db")


@cases(60)
@given(st.lists(WORDS | NUMBERS | st.sampled_from(["-v", "-q", "--version", "--help", "search"]), max_size=3))
def test_what_stands_before_a_command_ends_in_good_order(words: list[str]) -> None:
    run(*words, "--misspelt") if "search" in words else run(*words)


def test_the_fuzz_covers_at_least_two_thousand_cases() -> None:
    assert sum(map(cases_of, COMMANDS)) + len(FILES) * CASES_OF_A_FILE >= 2000


def test_a_quiet_command_leaves_the_next_one_as_loud_as_it_was() -> None:
    before = dict(os.environ)
    run("-q", "--misspelt")
    assert dict(os.environ) == before
