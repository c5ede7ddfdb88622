"""Finals that outlive their baselines: one that crashes, hangs or exits is left out, and all is timed again.

Decides nothing about times. finals.py is what runs in the GPU process; worker.py has the process.
"""

import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from evoflash.baselines import OPTIONAL, BaselineFailedError
from evoflash.baselines.attempts import culprit, note_in
from evoflash.evaluation import Status
from evoflash.gpu_process.finals import FinalReport, FinalTask, run_finals
from evoflash.isolation import Ending

log = logging.getLogger(__name__)
# Runs run_noting(task) in a GPU process that did nothing else before.
Round = Callable[[FinalTask], Ending[FinalReport]]


def run_noting(task: FinalTask) -> Ending[FinalReport]:
    """In the GPU process: run_finals, while the task's file of notes says which baseline is under way."""
    if task.notes:
        note_in(task.notes)
    try:
        return run_finals(task)
    except BaselineFailedError as failed:
        return Ending(None, Status.RUNTIME, str(failed))


def rounds(task: FinalTask, run_once: Round) -> Ending[FinalReport]:
    """Call `run_once` until it has a report, without the baseline that took the process down; what was left
    out is absent in the report, with its reason. A failure that no note explains costs all libraries but
    PyTorch, once.
    """
    lost: dict[str, str] = {}
    while True:
        ending, blamed, reason = _round(task, run_once)
        if ending.value is not None:
            absent = {**ending.value.absent, **_on_each(task, lost)}
            return replace(ending, value=replace(ending.value, absent=absent))
        if not blamed:
            return ending
        for name in blamed:
            lost[name] = reason
        log.warning("baseline %s is left out: %s; the others are timed again.", ", ".join(blamed), reason)
        task = replace(task, baselines=tuple(name for name in task.baselines if name not in lost))


def _round(task: FinalTask, run_once: Round) -> tuple[Ending[FinalReport], tuple[str, ...], str]:
    """How the round ended; after a failure also the baselines to blame, and the reason."""
    with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
        notes = Path(folder) / "baseline"
        notes.touch()
        ending = run_once(replace(task, notes=str(notes)))
        name, overdue = culprit(notes)
    if name in task.baselines:
        return ending, (name,), overdue or ending.reason
    suspects = tuple(name for name in task.baselines if name in OPTIONAL)
    return ending, suspects, f"{ending.reason}, and nothing says which baseline it was"


def _on_each(task: FinalTask, lost: dict[str, str]) -> dict[str, str]:
    """The reasons by baseline and workload, as finals.py names what is absent."""
    return {f"{name} on {workload}": why for name, why in lost.items() for workload in task.workloads}
