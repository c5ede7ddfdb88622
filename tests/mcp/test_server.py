"""`evoflash mcp` by the client of the package `mcp`: in memory, and once as a process over stdio."""

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from places import ROOT, environment
from tables import table_of_cases
from waiting import LIMIT_S

# The package takes a second to load: only the worker of pytest-xdist that runs these tests loads it.
if find_spec("mcp") is None:
    pytest.skip("the extra mcp is not installed", allow_module_level=True)

import anyio

from evoflash.mcp.processes import processes_below as below

if TYPE_CHECKING:
    from mcp.client import Client

Session = Callable[["Client"], Awaitable[Any]]


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
    from mcp.client import Client

    from evoflash.mcp.server import build_server

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
    async def read(client: "Client") -> tuple[str, str]:
        header = await client.read_resource("evoflash://device/ef.h")
        genes = await client.read_resource("evoflash://families/flash_mma")
        return header.contents[0].text, genes.contents[0].text

    header, genes = in_memory(root, read)
    assert "#include" in header
    assert 4 in json.loads(genes)["params"]["warps"]


@pytest.mark.slow
@pytest.mark.full
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
@pytest.mark.full
def test_an_export_is_below_the_root_and_a_dry_run_is_none(root: Path) -> None:
    asked = {"path": "kernel.cu", "family": "flash_mma", "gpu": "l4"}
    tried = call(root, "export", {**asked, "dry_run": True}).structured_content
    assert (tried["files"], (root / "kernel.cu").exists()) == (["kernel.cu"], False)
    made = call(root, "export", asked).structured_content
    assert (made["files"], (root / "kernel.cu").exists()) == (["kernel.cu"], True)


async def cancel_call(client: "Client", tool: str, arguments: dict[str, Any], before: set[Any]) -> None:
    """Cancels a call once it has started processes, and waits until none of them is left."""
    told = anyio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(client.call_tool, tool, arguments, progress_callback=hear))
        while not below(os.getpid()) - before:
            await anyio.sleep(0.05)
        with anyio.move_on_after(3):  # a check may have nothing to tell for long
            await told.wait()
        tasks.cancel_scope.cancel()
    while below(os.getpid()) - before:
        await anyio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.full
def test_a_cancelled_check_leaves_no_process(root: Path) -> None:
    async def cancel(client: "Client") -> None:
        await cancel_call(client, "check_kernel", {"path": "race.cu", "runs": 1000}, below(os.getpid()))

    in_memory(root, cancel)


@pytest.mark.slow
@pytest.mark.full
def test_a_search_goes_on_between_calls_until_it_is_stopped_and_keeps_what_it_has(root: Path) -> None:
    async def session(client: "Client") -> None:
        idle = below(os.getpid())
        asked = {"gpu": "l4", "family": "flash_simt", "budget": 5000}
        begun = (await client.call_tool("start_search", asked)).structured_content
        assert begun["state"] == "running"
        while not (await client.call_tool("search_status", {"wait_s": 1})).structured_content["evaluated"]:
            pass
        ended = (await client.call_tool("stop_search", {"run": begun["run"]})).structured_content
        assert ended["state"] == "stopped"
        assert ended["evaluated"] > 0
        assert below(os.getpid()) == idle
        done = (
            await client.call_tool("start_search", {**asked, "seed": 1, "budget": 1, "wait_s": 600})
        ).structured_content
        assert (done["state"], done["result"]["best"]["basis"]) == ("finished", "estimated")

    in_memory(root, session)


@pytest.mark.slow
def test_over_stdio_a_search_is_cancelled_and_ends_with_the_server(root: Path) -> None:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = ["-m", "evoflash", "mcp", "--root", str(root), "--db", str(root / "evoflash.db")]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment())
    asked = {"gpu": "l4", "family": "flash_simt", "budget": 5000}
    alone = below(os.getpid())

    async def session() -> None:
        with anyio.fail_after(LIMIT_S):
            async with Client(stdio_client(server)) as client:
                refused = await client.call_tool("check_kernel", {"path": "../outside.cu"})
                assert "leads out of the root" in refused.content[0].text
                idle = below(os.getpid())
                await cancel_call(client, "start_search", {**asked, "wait_s": 600}, idle)
                begun = await client.call_tool("start_search", asked)
                assert begun.structured_content["state"] == "running"

    anyio.run(session)
    assert below(os.getpid()) == alone


def test_without_the_package_it_says_in_a_line_how_to_get_it(root: Path) -> None:
    code = (
        "import sys; sys.modules['mcp'] = None; sys.argv = ['evoflash', 'mcp'];"
        "from evoflash.cli.program import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'evoflash: the package mcp is not installed: pip install "mcp>=2,<3"\n'
