"""Every remedy that a message names exists: the commands and options in the texts of errors and notes."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from forked import evoflash
from places import ROOT, environment

from evoflash.cli import program as cli
from evoflash.cli.command_group import program

PROGRAM = typer.main.get_command(program(cli.commands(), cli.groups()))
SAYING = ("say", "_say", "fail")
COMMON = {"--help", "--version", "--verbose", "--quiet"}


def texts(node: ast.AST) -> str:
    """All that is written in a raise or a call, what is filled in left out."""
    return "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""
        for part in ast.walk(node)
    )


def messages(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each error that is raised and each note that is said."""
    for node in ast.walk(ast.parse(file.read_text())):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if isinstance(node, ast.Raise) or called in SAYING:
            yield node.lineno, texts(node)


@cache
def advice_given() -> list[tuple[Path, int, str]]:
    """File, line and text of each message that names a command or an option."""
    return [
        (file.relative_to(ROOT), line, text)
        for file in sorted((ROOT / "evoflash").rglob("*.py"))
        for line, text in messages(file)
        if "evoflash " in text or "--" in text
    ]


def options_of(command: object) -> set[str]:
    return COMMON | {name for option in command.params for name in (*option.opts, *option.secondary_opts)}


def wrong_in(advice: str) -> str:
    """What does not exist of `evoflash ...`; empty where all of it does."""
    words = advice.split()[1:]
    command = PROGRAM
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return f"there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    given = [word.partition("=")[0] for word in words if word.startswith("--")]
    return ", ".join(f"there is no option {each}" for each in given if each not in options_of(command))


def test_many_messages_are_looked_at() -> None:
    assert len(advice_given()) > 60


def test_a_remedy_that_does_not_exist_is_seen() -> None:
    assert wrong_in("evoflash finder") == "there is no command finder"
    assert wrong_in("evoflash runs remove 3") == "there is no command remove"
    assert wrong_in("evoflash remeasure --evaluator gpu") == "there is no option --evaluator"
    assert wrong_in("evoflash db check --db X --json") == ""


def test_every_command_that_a_message_names_exists_with_its_options() -> None:
    wrong = [
        f"{file}:{line}: `{advice}`: {fault}"
        for file, line, text in advice_given()
        for advice in re.findall(r"`(evoflash [^`]*)`", text)
        if (fault := wrong_in(advice))
    ]
    assert wrong == []


def test_every_option_that_a_message_of_a_command_names_is_one_of_that_command() -> None:
    wrong = []
    for file, line, text in advice_given():
        outside = re.sub(r"`[^`]*`", "", text)
        named = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", outside))
        place = file.parts[2].removesuffix(".py").replace("_", "-") if file.parts[1] == "commands" else ""
        own = [PROGRAM.commands[place]] if place in PROGRAM.commands else list(PROGRAM.commands.values())
        known = set().union(*(options_of(each) for each in own))
        known |= {
            name for each in own for sub in getattr(each, "commands", {}).values() for name in options_of(sub)
        }
        wrong += [f"{file}:{line}: {name}" for name in sorted(named - known)]
    assert wrong == []


def ended(command: list[str], given: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, env=given, check=False)


@pytest.mark.parametrize(
    "command", [["compare", "a", "b"], ["baselines"], ["doctor", "--noise"], ["remeasure"]]
)
def test_without_a_gpu_what_is_said_can_be_done(command: list[str], tmp_path: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU")
    done = evoflash(*command, EVOFLASH_DB=str(tmp_path / "a.db"))
    said = done.stderr.splitlines()[-1]
    assert done.returncode in (1, 2, 3, 4)
    assert [wrong_in(advice) for advice in re.findall(r"`(evoflash [^`]*)`", said)] in ([], [""])
    assert not re.search(r"(?<!`evoflash search )--evaluator", said)


@pytest.mark.parametrize("cache", ["", f"{os.devnull}/cache"])
def test_a_home_or_a_cache_that_cannot_be_written_does_not_make_cuda_missing(
    cache: str, tmp_path: Path
) -> None:
    given = environment() | {"HOME": "/dev/null", "EVOFLASH_CACHE_DIR": cache or str(tmp_path)}
    given.pop("CUPY_CACHE_DIR", None)
    code = "from evoflash.kernels.nvrtc import supports_arch; print(supports_arch('sm_89'))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=given, check=False
    )
    assert done.stdout == "True\n", done.stderr
