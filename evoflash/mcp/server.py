"""The server: offers the tools and resources by the Model Context Protocol, and calls them."""

import inspect
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from evoflash.errors import UsageError
from evoflash.mcp.answers import ANSWERS
from evoflash.mcp.processes import Searches, ServedSearch, end_tools, start_tool
from evoflash.mcp.served_folder import ServedFolder, served_folder
from evoflash.mcp.tools import BY_NAME, TOOLS, ToolEntry, check_names
from evoflash.mcp.work import call_tool
from evoflash.notices import say
from evoflash.paths import DEVICE
from evoflash.version import __version__
from evoflash.views.terminal import error_facts

Facts = dict[str, Any]

_LOOK_EVERY_S = 0.2
_INSTRUCTIONS = (
    "Search for fast CUDA kernels, find their mistakes by line without a GPU, and export them. A time is "
    "measured only where its basis says so; never report an estimate as one. A verdict of `passed` "
    "is for the shapes that it names. A search is started, polled and stopped."
)


class KernelServer(MCPServer):  # type: ignore[misc]
    """An MCPServer whose refusals are one line that says what to do."""

    async def call_tool(self, name: str, arguments: Facts, context: Any = None) -> Any:
        """The tool's answer, or what was wrong with its arguments."""
        entry = BY_NAME.get(name)
        if entry is None:
            return _result(
                {"error": error_facts(f"no tool is called '{name}': use {', '.join(BY_NAME)}.", 2)}
            )
        known = _parameters(entry)
        if unknown := [each for each in arguments if each not in known]:
            said = f"{name} takes no {', '.join(unknown)}: use {', '.join(known)}."
            return _result({"error": error_facts(said, 2)})
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.__cause__.errors()]
            said = f"{'; '.join(wrong)[:500]}; correct it as the tool's schema says."
            return _result({"error": error_facts(" ".join(said.split()), 2)})


def build_server(root: Path, db: str) -> KernelServer:
    """A server of one folder and one database. UsageError where there is no such folder."""
    served = served_folder(root, db)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[Searches]:
        async with anyio.create_task_group() as tasks:
            searches = Searches(served, tasks)
            try:
                yield searches
            finally:
                await searches.end_all()

    server = KernelServer(
        "evoflash", version=__version__, instructions=_INSTRUCTIONS, lifespan=lifespan, log_level="WARNING"
    )
    for entry in TOOLS:
        _add_tool(server, entry, served)
    _add_resources(server)
    return server


def _add_tool(server: KernelServer, entry: ToolEntry, served: ServedFolder) -> None:
    special = {"start_search": _start_search, "search_status": _search_status, "stop_search": _stop_search}
    answer = special.get(entry.name, partial(_call_in_process if entry.works else _call_here, entry.name))

    async def call(ctx: Context, **arguments: Any) -> CallToolResult:
        return _result(await answer(served, ctx, arguments))

    returned = Annotated[CallToolResult, ANSWERS[entry.name]]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=Context)
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*_parameters(entry).values(), context], return_annotation=returned
    )
    hints = ToolAnnotations(
        title=entry.title,
        read_only_hint=entry.only_reads,
        destructive_hint=False,
        idempotent_hint=entry.has_same_end,
        open_world_hint=False,
    )
    said = " ".join((entry.call.__doc__ or "").split())
    server.tool(entry.name, title=entry.title, description=said, annotations=hints)(call)


def _parameters(entry: ToolEntry) -> dict[str, inspect.Parameter]:
    """Those that a client gives: all but the folder."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    _, *mine = inspect.signature(entry.call).parameters.values()
    return {each.name: each.replace(kind=keyword) for each in mine}


def _result(ended: Facts) -> CallToolResult:
    if "error" in ended:
        error = ended["error"]
        content = [TextContent(type="text", text=error["message"])]
        return CallToolResult(content=content, structured_content=error, is_error=True)
    content = [TextContent(type="text", text=json.dumps(ended["answer"]))]
    return CallToolResult(content=content, structured_content=ended["answer"])


async def _call_here(name: str, served: ServedFolder, ctx: Context, arguments: Facts) -> Facts:
    """In a thread: what is quick and starts nothing."""
    found: Facts = await anyio.to_thread.run_sync(call_tool, name, arguments, served)
    return found


async def _call_in_process(name: str, served: ServedFolder, ctx: Context, arguments: Facts) -> Facts:
    """In a process of its own, which is gone with all its children when the call is answered or cancelled."""
    try:
        check_names(name, arguments, served)
    except UsageError as error:  # here too, because a process takes seconds to start
        return {"error": error_facts(str(error), error.exit_code)}
    with anyio.CancelScope(shield=True):
        process = await start_tool(name, arguments, served)
    ended, steps = None, 0
    try:
        async for event in process.events():
            if "answer" in event or "error" in event:
                ended = event
            else:
                steps += 1
                await ctx.report_progress(steps, None, event.get("note"))
    finally:
        await process.end()
    return ended or {"error": error_facts(f"{name} ended without an answer: see the server's stderr.", 70)}


async def _start_search(served: ServedFolder, ctx: Context, arguments: Facts) -> Facts:
    wait_s = arguments.pop("wait_s", 0.0)
    searches: Searches = ctx.request_context.lifespan_context
    search = await searches.start(arguments)
    try:
        while search.run is None and not search.over.is_set():
            await anyio.sleep(_LOOK_EVERY_S)
        await _wait(search, ctx, wait_s)
    except anyio.get_cancelled_exc_class():
        await search.end()
        raise
    if search.run is None or (search.ended is not None and "error" in search.ended and not search.spent):
        return search.ended or {"error": error_facts("the search ended: see the server's stderr.", 70)}
    return await _status(served, search.run, search)


async def _search_status(served: ServedFolder, ctx: Context, arguments: Facts) -> Facts:
    found = await _status(served, arguments.get("run"), None)
    if "error" in found:
        return found
    run, searches = found["answer"]["run"], ctx.request_context.lifespan_context
    search: ServedSearch | None = searches.of_run(run)
    if search is None:
        return found
    await _wait(search, ctx, arguments.get("wait_s", 0.0))
    return await _status(served, run, search)


async def _stop_search(served: ServedFolder, ctx: Context, arguments: Facts) -> Facts:
    found = await _status(served, arguments["run"], None)
    if "error" in found:
        return found
    run = found["answer"]["run"]
    searches: Searches = ctx.request_context.lifespan_context
    try:
        await searches.stop(run)
    except UsageError as error:
        return {"error": error_facts(str(error), error.exit_code)}
    return await _status(served, run, searches.of_run(run))


async def _status(served: ServedFolder, run: str | int | None, search: ServedSearch | None) -> Facts:
    """How a run stands, and what its process came to where this server began it."""
    found: Facts = await anyio.to_thread.run_sync(call_tool, "search_status", {"run": run}, served)
    if "error" in found or search is None:
        return found
    ended = search.ended or {}
    error = ended.get("error", {}).get("message")
    return {"answer": {**found["answer"], "result": ended.get("answer"), "error": error}}


async def _wait(search: ServedSearch, ctx: Context, wait_s: float) -> None:
    """For the end of a search, for so long at most; with progress where it was asked for."""
    told = -1
    with anyio.move_on_after(wait_s):
        while not search.over.is_set():
            if search.spent > told:
                told = search.spent
                await ctx.report_progress(told, search.budget, search.note)
            await anyio.sleep(_LOOK_EVERY_S)


def _add_resources(server: KernelServer) -> None:
    """What a kernel may call, and the families' genes."""
    for path in sorted(DEVICE.iterdir()):
        if path.suffix in (".h", ".toml"):
            offer = server.resource(f"evoflash://device/{path.name}", name=path.name, mime_type="text/plain")
            offer(_reader(path))

    @server.resource("evoflash://families/{name}", mime_type="application/json")  # type: ignore[untyped-decorator]
    def genes(name: str) -> str:
        """A family's genes: their values, what each is, and the checks of a genome."""
        from evoflash.app.catalogue import families

        (found,) = families(name)
        return json.dumps({**found.as_dict(), "notes": dict(found.notes)})


def _reader(path: Path) -> Callable[[], str]:
    return lambda: path.read_text(encoding="utf-8")


def serve(root: Path, db: str) -> None:
    """Over stdio, until the client closes it, or a signal comes."""
    server = build_server(root, db)

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_exit_on_signal)
            await server.run_stdio_async()
            tasks.cancel_scope.cancel()

    anyio.run(run)


async def _exit_on_signal(task_status: Any) -> None:
    """Without a look back, once all processes have ended: a thread that waits for stdin cannot be stopped."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            await end_tools()
            say(f"stopped by {'Ctrl-C' if number == signal.SIGINT else 'SIGTERM'}.")
            os._exit(128 + number)
