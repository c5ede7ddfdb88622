"""The searches that a server began: each a process that works on while no call waits for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup

from evoflash.errors import UsageError
from evoflash.mcp.processes import ToolProcess, start_tool
from evoflash.mcp.served_folder import ServedFolder

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
        """The newest search of that run."""
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
