"""What a mistake on the command line is told, and how help writes the values that options take."""

import re

import pytest
from forked import evoflash
from tables import table_of_cases

from evoflash.cli.program import app
from evoflash.specs import load_gpu


@table_of_cases()
def test_a_mistake_is_told_what_to_write(words: list[str], code: int, says: str) -> None:
    done = evoflash(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in " ".join(done.stderr.split())


@pytest.mark.parametrize("name", ["NVIDIA H200", "nvidia h200", "H200", "h200"])
def test_a_gpu_is_known_by_the_name_that_its_driver_reports(name: str) -> None:
    assert load_gpu(name).name == "h200"


@pytest.mark.parametrize("command", [name for name in app().commands if name not in ("runs", "db")])
@pytest.mark.sample(14)
def test_help_names_values_in_words_and_no_limit_that_nobody_meets(command: str) -> None:
    shown = evoflash(command, "--help").stdout
    options = shown.partition("Options:")[2]
    assert re.findall(r"<\w+ range>|<(?:int|float|list.*?|path)>|2147483647|4294967295", options) == []
    usage = shown.partition("\n\n")[0]
    assert re.findall(r"[{\[][a-z]\w*[}\]]", usage) == []


def test_help_of_a_preset_and_of_quiet_are_whole_sentences() -> None:
    shown = " ".join(evoflash("search", "--help").stdout.split())
    assert "with EvoEngineer's budget of 45" in shown
    assert "No progress and no notes; a search prints one line." in shown
