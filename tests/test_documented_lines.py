"""Every line of evoflash on a page is one that the command line takes, and its Python names what there is.

What the console blocks print is compared by `python -m scripts.pages.console`; here no command runs.
"""

import re
import shlex
from pathlib import Path

import pytest
import typer
from places import ROOT

import evoflash
from evoflash.cli.program import app

SKILLS = sorted((ROOT / "skills").rglob("*.md"))  # for programs that use evoflash
PAGES = (ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md")), *SKILLS)
# Their lines are those of the day on which a record was made.
HISTORIES = ("unseen.md", "h200.md", "genes.md")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path, *kinds: str) -> list[str]:
    return [text for kind, text in FENCE.findall(page.read_text(encoding="utf-8")) if kind in kinds]


def lines() -> list[str]:
    """Command lines of fenced blocks and of code in the text that says more than a command's name."""
    found = []
    for page in PAGES:
        if page.name in HISTORIES:
            continue
        for text in blocks(page, "console", "sh"):
            joined = text.replace("\\\n", " ")
            found += re.findall(r"^(?:\$ )?(?:\w+=\S+ )*(?:scripts/)?(evoflash .*)$", joined, re.MULTILINE)
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        found += re.findall(r"`(evoflash [a-z-]+ [^`]*--[^`]*)`", prose)
    return sorted({line for line in found if not re.search(r"[.]{3}|[A-Z]\.\.", line)})


@pytest.mark.parametrize("line", lines())
def test_a_command_line_of_a_page_is_one_that_can_be_given(line: str) -> None:
    words = shlex.split(re.split(r"\s+#|[|;&>]", line)[0])[1:]
    command, context = app(), None
    while words and words[0] in getattr(command, "commands", {}):
        context = typer.Context(command, info_name=words[0], parent=context)
        command, words = command.commands[words[0]], words[1:]
    params = {flag: param for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    flags = [word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1]
    known = {*params, "--help", "-h", "--version", "-q", "-v"}
    assert [flag for flag in flags if flag not in known and not re.fullmatch(r"-\d+", flag)] == []
    assert command is not app() or flags, f"no such command: {line}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_of_a_page_compiles_and_names_what_evoflash_has(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, page.name, "exec")
        if re.search(r"^import evoflash$", text, re.MULTILINE):
            named = set(re.findall(r"\bevoflash\.([a-z_]+)\(", text))
            assert named <= {*evoflash.__all__}, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nvcc_of_a_page_names_an_architecture_that_hopper_kernels_assemble_for(page: Path) -> None:
    calls = re.findall(r"nvcc [^`\n]*", page.read_text(encoding="utf-8"))
    assert [call for call in calls if re.search(r"-arch=(native|sm_90\b(?!a))", call)] == []


@pytest.mark.parametrize(
    "page", [page for page in SKILLS if page.name == "SKILL.md"], ids=lambda page: page.parent.name
)
def test_a_skill_is_laid_out_as_the_published_format_asks(page: Path) -> None:
    """agentskills.io: a folder called as the skill, a name and a description, a body that is soon read."""
    head, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", page.read_text(encoding="utf-8"), re.DOTALL).groups()
    fields = dict(line.split(": ", 1) for line in head.splitlines())

    assert fields["name"] == page.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert 1 <= len(fields["description"]) <= 1024
    assert len(fields.get("compatibility", "")) <= 500
    assert set(fields) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert len(body.split()) < 3000
