"""Tests of what makes the console blocks: marks, sessions, and which differences do not count."""

import pytest

from scripts.pages import console
from scripts.pages.console.__main__ import RECORDS, difference, made, pages
from scripts.pages.console.blocks import blocks, replaced
from scripts.pages.console.session import Session, comparable

PAGE = """Text.

<!-- console: run -->
```console
$ echo one > file
$ cat file
stale
```

<!-- console: kept long -->
```console
$ echo kept
kept
```

<!-- console: shown, it needs a GPU -->
```console
$ exit 3
```
"""


def session(folder):
    return Session(folder / "home", folder / "cache")


def test_blocks_are_found_with_kind_record_and_commands() -> None:
    found = blocks(PAGE)

    assert [(block.kind, block.name) for block in found] == [("run", ""), ("kept", "long"), ("shown", "")]
    assert found[0].commands == ("echo one > file", "cat file")


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ ls\n```\n",
        "<!-- console: kept -->\n```console\n$ ls\n```\n",
        "<!-- console: guessed -->\n```console\n$ ls\n```\n",
        "<!-- console: shown -->\n```console\n$ ls\n```\n",
        "<!-- console: shown, it needs a GPU -->\n```console\n$ ls\na\n```\n",
    ],
)
def test_a_block_that_nothing_answers_for_is_an_error(text) -> None:
    with pytest.raises(ValueError, match="ls"):
        blocks(text)


def test_a_stale_output_is_replaced_and_the_rest_of_the_page_stays(tmp_path) -> None:
    (tmp_path / "long.txt").write_text("$ echo kept\nkept\n")
    texts = made(PAGE, records=tmp_path, is_full=False, cache=tmp_path)

    assert replaced(PAGE, texts) == PAGE.replace("stale", "one")


def test_a_kept_block_that_is_not_its_record_is_stale(tmp_path) -> None:
    (tmp_path / "long.txt").write_text("$ echo kept\nanother\n")

    assert made(PAGE, records=tmp_path, is_full=False, cache=tmp_path)[1] == "$ echo kept\nanother\n"


def test_a_kept_block_without_a_record_shows_no_output(tmp_path) -> None:
    assert made(PAGE, records=tmp_path, is_full=False, cache=tmp_path)[1] == "$ echo kept\n"


def test_in_full_a_kept_block_is_run_and_its_record_not_asked(tmp_path) -> None:
    assert made(PAGE, records=tmp_path, is_full=True, cache=tmp_path)[1] == "$ echo kept\nkept\n"


def test_a_command_that_fails_shows_its_exit_code(tmp_path) -> None:
    assert session(tmp_path).transcript(["exit 3"]) == "$ exit 3\n[exit code 3]\n"


def test_a_session_begins_at_home_with_nothing_of_the_callers_settings(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("EVOFLASH_DB", "elsewhere.db")
    said = session(tmp_path).transcript(['echo "$HOME ${EVOFLASH_DB:-unset}"', "pwd"])

    assert said.splitlines()[1::2] == ["~ unset", "~"]


def test_evoflash_is_this_checkouts(tmp_path) -> None:
    said = session(tmp_path).transcript(["scripts/evoflash gpus --nonsense 2>&1 | tail -1"])

    assert "No such option" in said


def test_of_the_lines_that_say_how_far_a_search_is_the_last_one_stays(tmp_path) -> None:
    line = "evoflash: {}/9 at 1.0/s, 0:0{} left; best ~1.00 us"
    said = session(tmp_path).transcript([f"echo '{line.format(3, 6)}'; echo '{line.format(9, 0)}'; echo end"])

    assert said.splitlines()[1:] == [line.format(9, 0), "end"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("9/9 at 0.6/s, 0:04 left; best", "9/9 at 12.5/s, 1:02:03 left; best"),
        ("compile 0.26 s", "compile 13 s"),
        ("2026-11-23T12:00:01+00:00", "2027-01-01"),
    ],
)
def test_rates_seconds_and_dates_do_not_count(one, other) -> None:
    assert comparable(one) == comparable(other)


@pytest.mark.parametrize(
    ("one", "other"), [("~12.92 us", "~12.93 us"), ("40 registers", "41 registers"), ("5/9 at", "6/9 at")]
)
def test_what_a_reader_would_rely_on_counts(one, other) -> None:
    assert comparable(one) != comparable(other)


def test_a_stale_page_is_shown_as_a_difference() -> None:
    assert "-old\n+new" in difference("page.md", "old", "new")


def test_every_block_of_every_page_has_a_mark_and_every_kept_one_its_record() -> None:
    found = [block for path in pages() for block in blocks(path.read_text(encoding="utf-8"))]
    kept = {block.name for block in found if block.kind == "kept"}

    assert len(found) > 10
    assert kept == {path.stem for path in RECORDS.glob("*.txt")}
    assert console.__doc__
