"""Every command with --json: one JSON document on stdout, for what works and for what does not; dry runs."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from forked import evoflash
from places import FIXTURES
from report_cases import fill
from tables import data, table_of_cases

from evoflash.cli import json_answer
from evoflash.cli.program import app
from evoflash.store.store import open_store
from evoflash.views.terminal import json_text

NEEDS_GPU = {"baselines", "compare", "profile", "remeasure", "verify"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With two searches in a database, another database, and files to read."""
    made = tmp_path_factory.mktemp("json")
    for name in ("a.db", "b.db"):
        with open_store(str(made / name)) as store:
            fill(store)
    (made / "recorded.json.gz").write_bytes((FIXTURES / "recorded.json.gz").read_bytes())
    (made / "mix.txt").write_text("b=1,h=8,s=64,d=64\n")
    return made


def document(words: list[str], folder: Path) -> tuple[int, Any]:
    done = evoflash(*words, "--json", cwd=folder, EVOFLASH_DB=str(folder / "a.db"))
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.sample(8)
@table_of_cases()
def test_stdout_is_one_document_with_its_version(words: list[str], has: str, folder: Path) -> None:
    code, found = document(words, folder)
    assert code == 0, found
    for each in found if isinstance(found, list) else [found]:
        assert each["schema_version"] == 1
        assert has in each


@pytest.mark.sample(6)
@table_of_cases()
def test_an_error_is_a_document_that_says_what_to_do(words: list[str], code: int, folder: Path) -> None:
    ended, found = document(words, folder)
    assert (ended, found["schema_version"]) == (code, 1)
    assert found["status"] in ("error", "refused")
    if found["status"] == "error":
        assert found["exit_code"] == code
        assert found["message"].endswith(found["help"]) or "--help" in found["help"]
        assert "\n" not in found["message"]


def names() -> set[str]:
    """Of all commands; those of groups with the group's name before them."""
    group = app().commands
    inner = {f"{name} {each}" for name in ("runs", "db") for each in group[name].commands}
    return set(group) - {"db"} | inner


def is_of(words: list[str], name: str) -> bool:
    return words[: len(name.split())] == name.split()


def test_every_command_stands_in_the_tables() -> None:
    works = [row["words"] for row in data(__file__, "test_stdout_is_one_document_with_its_version")]
    fails = [row["words"] for row in data(__file__, "test_an_error_is_a_document_that_says_what_to_do")]
    endless = {"worker", "mcp"}  # they work for as long as somebody asks
    for name in names():
        assert any(is_of(words, name) for words in fails), name
        assert name in NEEDS_GPU | endless or any(is_of(words, name) for words in works), name


def state_of(folder: Path) -> dict[str, bytes]:
    """Every file but what SQLite keeps beside a database that is open."""
    kept = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".db-" not in path.name)
    return {str(path): path.read_bytes() for path in kept}


@pytest.mark.sample(6)
@table_of_cases()
def test_a_dry_run_says_what_it_would_do_and_changes_nothing(
    words: list[str], file: str, says: str, folder: Path
) -> None:
    before = state_of(folder)
    code, found = document([*words, "--dry-run"], folder)
    assert (code, found["dry_run"]) == (0, True)
    assert file in " ".join(found["files"])
    assert says in " ".join(found["notes"])
    assert state_of(folder) == before


def test_a_dry_run_of_what_cannot_be_written_is_the_error_of_the_run(folder: Path) -> None:
    words = ["export", "--family", "flash_mma", "--gpu", "l4", "-o", "nowhere/kernel.cu"]
    assert document([*words, "--dry-run"], folder) == document(words, folder)


def test_an_evaluation_in_a_dry_run_is_whole_and_not_stored(folder: Path) -> None:
    before = state_of(folder)
    code, found = document(["evaluate", "--family", "flash_simt", "--gpu", "l4", "--dry-run"], folder)
    assert (code, found[0]["status"]) == (0, "correct")
    assert state_of(folder) == before


def test_every_command_that_writes_has_a_dry_run() -> None:
    group = app().commands
    commands = {**group, **{f"runs {name}": each for name, each in group["runs"].commands.items()}}
    lacking = {
        name
        for name, command in commands.items()
        if not any("--dry-run" in param.opts for param in command.params)
    }
    readers = {"show", "status", "watch", "insights", "replay", "check", "compare", "families"}
    assert lacking - readers == {"gpus", "problems", "config", "mcp", "worker", "runs", "db"}


def test_what_is_no_number_is_null_for_which_every_reader_has_a_word() -> None:
    told = json_text({"error": math.inf, "times_us": [math.nan, 1.5]})
    assert json.loads(told) == {"schema_version": 1, "error": None, "times_us": [None, 1.5]}


def test_what_was_printed_before_an_error_stands_in_its_document(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        print("half of it")
        os.write(1, b"a library's words\n")
        json_answer.hear_error("no space: free some.")
        return 1

    with pytest.raises(SystemExit) as ended:
        json_answer.run(fail)
    out, err = capfd.readouterr()
    assert ended.value.code == 1
    assert json.loads(out) == {
        **{"schema_version": 1, "status": "error", "exit_code": 1, "message": "no space: free some."},
        **{"help": "free some.", "output": "half of it\n"},
    }
    assert err == "a library's words\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["report", "--json"], ["report", "--json=-"]),
        (["report", "3", "--json", "-q"], ["report", "3", "--json=-", "-q"]),
        (["report", "--json", "-"], ["report", "--json=-"]),
        (["report", "--json", "page.json"], ["report", "--json", "page.json"]),
        (["runs", "--json"], ["runs", "--json"]),
    ],
)
def test_a_report_without_a_file_goes_to_stdout(words: list[str], expected: list[str]) -> None:
    assert json_answer.with_stdout(words) == expected
    assert json_answer.is_asked(expected) is (expected[-1] != "page.json")
