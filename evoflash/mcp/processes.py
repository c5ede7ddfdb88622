"""Starts the processes of tools, hears what they tell, and ends them with all that they started.

A search that a server began is a process that works on while no call waits for it.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process, TaskGroup

import evoflash
from evoflash.errors import UsageError
from evoflash.mcp.served_folder import ServedFolder

_GRACE_S = 3.0  # for contexts to be left, after which what is left is killed
_LOOK_EVERY_S = 0.05
_CHUNK = 1 << 16
_Identity = tuple[int, str]  # a process's number, and when it started


@dataclass(slots=True, eq=False)
class ToolProcess:
    """One call of a tool, in a session of its own."""

    process: Process
    _seen: set[_Identity] = field(default_factory=set)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What it tells, line by line, to its end."""
        rest = b""
        assert self.process.stdout is not None
        while True:
            try:
                rest += await self.process.stdout.receive(_CHUNK)
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                return
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield json.loads(line)

    async def end(self) -> None:
        """Nothing of it is left afterwards: SIGTERM first, then SIGKILL for it and whatever it started."""
        with anyio.CancelScope(shield=True):
            self._look()
            if self.process.returncode is None:
                self.process.terminate()
            with anyio.move_on_after(_GRACE_S):
                while self.process.returncode is None or any(map(_is_alive, self._seen)):
                    self._look()
                    await anyio.sleep(_LOOK_EVERY_S)
            for each in self._seen:
                if _is_alive(each):
                    os.kill(each[0], signal.SIGKILL)
            if self.process.returncode is None:
                self.process.kill()
            await self.process.aclose()
            _live.discard(self)

    def _look(self) -> None:
        """A process that has ended names its children no more: they are noted before."""
        if self.process.returncode is None:
            self._seen |= processes_below(self.process.pid)


_live: set[ToolProcess] = set()


async def start_tool(tool: str, arguments: Mapping[str, Any], served: ServedFolder) -> ToolProcess:
    paths = [str(Path(evoflash.__file__).resolve().parent.parent), *sys.path[1:]]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    process = await anyio.open_process(
        [sys.executable, "-P", "-m", "evoflash.mcp.work"], stderr=None, env=variables, start_new_session=True
    )
    request = {"tool": tool, "arguments": arguments, "root": str(served.root), "db": served.db}
    assert process.stdin is not None
    await process.stdin.send(json.dumps(request).encode() + b"\n")
    _live.add(started := ToolProcess(process))
    return started


async def end_tools() -> None:
    """All that are at work in this process."""
    async with anyio.create_task_group() as tasks:
        for each in tuple(_live):
            tasks.start_soon(each.end)


def _stat(process: int) -> tuple[str, int, str] | None:
    """State, parent and time of start; None where there is no such process."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return words[0], int(words[1]), words[19]


def _is_alive(identity: _Identity) -> bool:
    found = _stat(identity[0])
    return found is not None and found[0] != "Z" and found[2] == identity[1]


def processes_below(process: int) -> set[_Identity]:
    stats = {int(each.name): _stat(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit()}
    found, grown = {process}, True
    while grown:
        more = {number for number, stat in stats.items() if stat and stat[1] in found} - found
        found, grown = found | more, bool(more)
    return {(number, stat[2]) for number in found if (stat := stats.get(number))}


Facts = dict[str, Any]


@dataclass(slots=True, eq=False)
class ServedSearch:
    """A search, and the newest of what it told."""

    process: ToolProcess
    run: int | None = None  # once it has begun
    spent: int = 0
    budget: int | None = None
    note: str = ""
    ended: Facts | None = None  # its `answer` or `error`
    over: anyio.Event = field(default_factory=anyio.Event)

    async def follow(self) -> None:
        """To its end, after which no process of it is left."""
        try:
            async for event in self.process.events():
                self.note = event.get("note", self.note)
                self.run = event.get("run", self.run)
                self.spent, self.budget = event.get("spent", self.spent), event.get("budget", self.budget)
                if "answer" in event or "error" in event:
                    self.ended = event
                    self.run = event.get("answer", {}).get("run", self.run)
        finally:
            await self.process.end()
            self.over.set()

    async def end(self) -> None:
        await self.process.end()
        with anyio.CancelScope(shield=True):
            await self.over.wait()


@dataclass(slots=True, eq=False)
class Searches:
    """Those of one connection; they end with it."""

    served: ServedFolder
    tasks: TaskGroup
    _found: list[ServedSearch] = field(default_factory=list)

    async def start(self, arguments: Mapping[str, Any]) -> ServedSearch:
        with anyio.CancelScope(shield=True):  # else a process could be begun that nobody knows of
            search = ServedSearch(await start_tool("start_search", arguments, self.served))
        self._found.append(search)
        self.tasks.start_soon(search.follow)
        return search

    def of_run(self, run: int) -> ServedSearch | None:
        return next((each for each in reversed(self._found) if each.run == run), None)

    async def stop(self, run: int) -> None:
        """UsageError for a run of somebody else."""
        search = self.of_run(run)
        if search is None:
            raise UsageError(f"run {run} was not begun by this server: stop it where it was begun.")
        await search.end()

    async def end_all(self) -> None:
        for search in self._found:
            await search.end()
