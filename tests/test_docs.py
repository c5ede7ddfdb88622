"""The pages that people read: links and paths lead somewhere, and every command is on one of them."""

import re
from pathlib import Path

import pytest
from places import ROOT

from evoflash.cli import program as cli
from evoflash.strategies import STRATEGIES

SKILLS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "skills").rglob("*.md"))
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "AGENTS.md",
    *SKILLS,
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)
# Their commands and names are those of the day on which a record was made.
HISTORIES = ("docs/h200.md", "docs/genes.md")
OURS = ("evoflash", "templates", "mutations", "db", "scripts", "tests", "docs")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_to_a_file_or_folder(page: str) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    files = [target.partition("#")[0] for target in targets if not target.startswith(("http", "#"))]

    assert [file for file in files if not (ROOT / Path(page).parent / file).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in HISTORIES])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = re.findall(rf"`((?:{'|'.join(OURS)})/[\w./*-]+)`", text_of(page))

    assert [path for path in named if not any(ROOT.glob(path.rstrip("/")))] == []


def test_the_index_lists_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", text_of("docs/README.md")))

    assert {Path(page).name for page in PAGES if page.startswith("docs/")} - {"README.md"} == linked


def test_every_command_is_documented() -> None:
    listed = set(re.findall(r"^\| `evoflash ([\w-]+)` \|", text_of("docs/commands.md"), re.MULTILINE))

    assert {command.__name__.replace("_", "-") for command in cli.commands()} - listed == set()


@pytest.mark.parametrize("group", cli.groups(), ids=lambda group: group.info.name)
def test_every_command_of_a_group_is_documented(group) -> None:
    page = text_of("docs/commands.md")
    words = [f"{group.info.name} {command.callback.__name__}" for command in group.registered_commands]

    assert words
    assert [each for each in words if f"`{each}" not in page and f"`evoflash {each}" not in page] == []


def test_every_strategy_is_documented() -> None:
    table = text_of("docs/searching.md").partition("## Strategies")[2].partition("\n## ")[0]

    assert [strategy for strategy in STRATEGIES if f"`{strategy}`" not in table] == []
