"""Runs all of conformance for one GPU, modules in processes of their own; gathers what became of each case.

A kernel that crashes or hangs costs its own case: the rest of its module goes on in a fresh process.
"""

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evoflash import hostcompiler
from evoflash.conformance.trial import Label, Outcome
from evoflash.conformance.worker import modules, read_journal, run_module
from evoflash.isolation import Ending, IsolatedPool

MODULE_LIMIT_S = 180.0


@dataclass(slots=True)
class _Progress:
    """One module's journal, read so far."""

    labels: tuple[Label, ...]
    journal: Path
    outcomes: list[Outcome] = field(default_factory=list)
    open_labels: tuple[Label, ...] = ()  # of the trial under way when the journal ends
    next: int = 0
    finished: bool = False
    ending: str = ""  # of the last process, where it was none of its own choice

    def all(self) -> tuple[Outcome, ...]:
        """One outcome for each case: what was never reached has failed."""
        reached = {outcome.label for outcome in self.outcomes}
        reason = f"was not reached: {self.ending or 'the process ended'}"
        missing = [Outcome(label, False, reason) for label in self.labels if label not in reached]
        return (*self.outcomes, *missing)

    def read(self) -> None:
        """All of it again."""
        self.outcomes, self.open_labels = [], ()
        for line in read_journal(self.journal):
            if "begin" in line:
                self.open_labels, self.next = _labels(line["labels"]), line["begin"] + 1
            elif "outcomes" in line:
                self.outcomes += [_outcome(raw) for raw in line["outcomes"]]
                self.open_labels = ()
            self.finished = self.finished or "finished" in line

    def write_off(self, reason: str) -> None:
        """The trial under way has failed for that reason; it is written to the journal as well."""
        lost = [asdict(Outcome(label, False, reason)) for label in self.open_labels]
        with self.journal.open("a", encoding="utf-8") as file:
            print(file=file)  # what a dying process began to write
            print(json.dumps({"outcomes": lost}), file=file)


def conform(
    arch: str,
    *,
    on_gpu: bool,
    only: str = "",
    most_workers: int = 16,
    said: Callable[[str], None] | None = None,
) -> tuple[Outcome, ...]:
    """Every case of the table that a GPU such as "sm_90a" has; `only`: of modules whose names begin so.

    Without `on_gpu` the emulator is held against NumPy alone, which needs no GPU and no NVRTC. There are as
    many processes as cores, but at most `most_workers`. `said` is told of each module when it is done.
    """
    hostcompiler.runtime()  # once, before many processes ask for it
    chosen = {name: module for name, module in modules(arch).items() if name.startswith(only)}
    workers = max(1, min(os.cpu_count() or 1, most_workers, len(chosen)))
    with tempfile.TemporaryDirectory() as folder, IsolatedPool(workers) as pool:
        progress = {
            name: _Progress(module.labels, Path(folder) / f"{name}.jsonl") for name, module in chosen.items()
        }

        def start(name: str) -> "Future[Ending[None]]":
            mine = progress[name]
            return pool.submit(_run, name, arch, mine.journal, mine.next, on_gpu, timeout_s=MODULE_LIMIT_S)

        waiting = {start(name): name for name in chosen}
        while waiting:
            future = next(as_completed(waiting))
            name = waiting.pop(future)
            if _settle(progress[name], future.result()):
                if said:
                    said(name)
            else:
                waiting[start(name)] = name
        return tuple(outcome for mine in progress.values() for outcome in mine.all())


def _settle(mine: _Progress, ending: Ending[None]) -> bool:
    """Whether the module is done; if not, the trial that its process died of is written off."""
    before, mine.ending = mine.next, ending.reason
    mine.read()
    if mine.finished:
        return True
    if mine.open_labels:
        mine.write_off(ending.reason or "its process ended")
        mine.read()
    return mine.next == before  # no trial was even begun: another try would end likewise


def _run(name: str, arch: str, journal: Path, first: int, on_gpu: bool) -> None:
    run_module(name, arch, journal, first=first, on_gpu=on_gpu)


def _labels(raw: list[dict[str, Any]]) -> tuple[Label, ...]:
    return tuple(Label(**each) for each in raw)


def _outcome(raw: dict[str, Any]) -> Outcome:
    return Outcome(**{**raw, "label": Label(**raw["label"])})
