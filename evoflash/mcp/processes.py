"""Starts the processes of tools, hears what they tell, and ends them with all that they started."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

import evoflash
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
    """A process that works on the call."""
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
    """The process and all that descend from it."""
    stats = {int(each.name): _stat(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit()}
    found, grown = {process}, True
    while grown:
        more = {number for number, stat in stats.items() if stat and stat[1] in found} - found
        found, grown = found | more, bool(more)
    return {(number, stat[2]) for number in found if (stat := stats.get(number))}
