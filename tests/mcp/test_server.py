"""`evoflash mcp` by the client of the package `mcp`: in memory, and once as a process over stdio."""

import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from tables import table_of_cases
from waiting import LIMIT_S

pytest.importorskip("mcp.server", reason="the extra mcp is not installed")

import anyio
from mcp.client import Client

from evoflash.mcp.processes import _below
from evoflash.mcp.server import build_server

Session = Callable[[Client], Awaitable[Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With a kernel that races, and links that lead out."""
    made = tmp_path / "root"
    (made / "folder").mkdir(parents=True)
    (made / "race.cu").write_text((ROOT / "docs/examples/race.cu").read_text())
    (tmp_path / "outside.cu").write_text((ROOT / "docs/examples/race.cu").read_text())
    (made / "link.cu").symlink_to(tmp_path / "outside.cu")
    (made / "inner.cu").symlink_to(made / "race.cu")
    (made / "away").symlink_to(tmp_path)
    (made / "folder" / "torch-ext").symlink_to(tmp_path)
    return made


def in_memory(root: Path, session: Session) -> Any:
    async def run() -> Any:
        with anyio.fail_after(LIMIT_S):
            async with Client(build_server(root, str(root / "evoflash.db"))) as client:
                return await session(client)

    return anyio.run(run)


def call(root: Path, tool: str, arguments: dict[str, Any]) -> Any:
    return in_memory(root, lambda client: client.call_tool(tool, arguments))


def test_every_tool_has_schemas_that_say_what_is_meant(root: Path) -> None:
    listed = in_memory(root, lambda client: client.list_tools()).tools
    assert {tool.name for tool in listed} >= {
        *("describe_problem", "list_families", "check_kernel", "evaluate", "start_search"),
        *("search_status", "stop_search", "best", "explain", "export"),
    }
    for tool in listed:
        assert tool.description
        assert "schema_version" in tool.output_schema["properties"]
        assert all("description" in each for each in tool.input_schema["properties"].values()), tool.name
        assert "served" not in tool.input_schema["properties"]
    by_name = {tool.name: tool for tool in listed}
    assert by_name["check_kernel"].annotations.read_only_hint
    assert not by_name["export"].annotations.read_only_hint


@pytest.mark.sample(9)
@table_of_cases()
def test_what_makes_no_sense_is_one_line_that_says_what_to_do(
    tool: str, arguments: dict[str, Any], says: str, root: Path
) -> None:
    answer = call(root, tool, arguments)
    assert answer.is_error
    (content,) = answer.content
    assert says in content.text
    assert "\n" not in content.text
    assert content.text.endswith(answer.structured_content["help"])
    assert not (root.parent / "new.cu").exists()


def test_an_answer_is_the_record_of_the_application(root: Path) -> None:
    answer = call(root, "describe_problem", {"gpu": "h200"}).structured_content
    assert (answer["schema_version"], answer["name"], answer["gpu"]) == (1, "mission", "h200")
    assert 0 < answer["floor_us"] < 5
    assert "flash_mma" in answer["families"]
    assert answer["workloads"][0]["flops"] == 4 * 8 * 512 * 512 * 64


def test_resources_are_what_a_kernel_may_call_and_the_genes_of_a_family(root: Path) -> None:
    async def read(client: Client) -> tuple[str, str]:
        header = await client.read_resource("evoflash://device/ef.h")
        genes = await client.read_resource("evoflash://families/flash_mma")
        return header.contents[0].text, genes.contents[0].text

    header, genes = in_memory(root, read)
    assert "#include" in header
    assert 4 in json.loads(genes)["params"]["warps"]


@pytest.mark.slow
def test_a_check_names_the_line_and_tells_of_its_progress(root: Path) -> None:
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    arguments = {"path": "race.cu", "runs": 1}
    answer = in_memory(
        root, lambda client: client.call_tool("check_kernel", arguments, progress_callback=hear)
    )
    found = answer.structured_content
    assert (answer.is_error, found["verdict"]) == (False, "failed")
    assert found["checked"][0]["file"] == "race.cu"
    assert {each["kind"] for each in found["checked"][0]["findings"]} & {"race-RAW", "uninit-shared"}
    assert told == sorted(set(told))


@pytest.mark.slow
def test_an_export_is_below_the_root_and_a_dry_run_is_none(root: Path) -> None:
    asked = {"path": "kernel.cu", "family": "flash_mma", "gpu": "l4"}
    tried = call(root, "export", {**asked, "dry_run": True}).structured_content
    assert (tried["files"], (root / "kernel.cu").exists()) == (["kernel.cu"], False)
    made = call(root, "export", asked).structured_content
    assert (made["files"], (root / "kernel.cu").exists()) == (["kernel.cu"], True)


async def children(client: Client, tool: str, arguments: dict[str, Any], begun: Callable[[], bool]) -> float:
    """Cancels the call once `begun`; seconds after which no process of this one's calls is left."""
    mine = {each for each in _below(subprocess.os.getpid())}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, tool, arguments)
        while not begun():
            await anyio.sleep(0.05)
        assert _below(subprocess.os.getpid()) - mine
        tasks.cancel_scope.cancel()
    at = time.monotonic()
    while _below(subprocess.os.getpid()) - mine:
        await anyio.sleep(0.05)
    return time.monotonic() - at
