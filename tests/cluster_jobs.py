"""What stand-ins for GPU processes are asked to do in tests of several GPUs. Tests nothing itself.

A process knows its GPU by CUDA_VISIBLE_DEVICES alone, and says so in the reason of its outcome. A task's name
is what becomes of it, with the folder in which processes leave notes for one another behind a colon.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path

from waiting import until

from evoflash.blame import begin_kernel
from evoflash.evaluation import Rung, Status, Timing
from evoflash.gpu.launcher import cuda_errors
from evoflash.gpu.process.finals import FinalReport
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.warm_up import Jobs
from evoflash.isolation import Ending

NO_DEVICE = 100  # cudaError_t


def gpu():
    return os.environ.get("CUDA_VISIBLE_DEVICES", "the one here")


def nothing(*_):
    """No references, no libraries."""


def parent_of(process):
    """That of the process that forks a worker's disposable ones is the worker."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def screen(task):
    """Nothing is too slow."""
    return GpuOutcome(task.genome_id, Status.CORRECT, Rung.TIMING)


def check(task):
    """Ends as the task's name says, on the GPU that its reason names."""
    what, _, folder = task.genome_id.partition(":")
    if what == "meet":  # no task ends before one has begun on each of two GPUs
        (Path(folder) / f"gpu{gpu()}").touch()
        until(lambda: len(list(Path(folder).glob("gpu*"))) == 2, what="a task on each GPU")
    if what == "crash" and folder in ("", gpu()):
        begin_kernel()
        os.abort()
    if what in ("kill once", "kill"):
        note = Path(folder) / "killed"
        if what == "kill" or not note.exists():
            note.touch()
            os.kill(parent_of(os.getppid()), signal.SIGKILL)
            signal.pause()
    return GpuOutcome(task.genome_id, Status.CORRECT, Rung.CORRECTNESS, gpu())


def time_correct(task, outcome):
    us = 10.0 + int(task.genome_id[:4], 16) / 1000
    timings = tuple(Timing(str(workload), "cold", us, us, us, 5) for workload, _ in task.timed)
    return replace(outcome, rung=Rung.DONE, reason="", timings=timings, score_us=us)


def finals(task):
    """Says on which GPU it was."""
    return Ending(FinalReport({}, (), {}, {}, {}), reason=gpu())


class LostWhenTold:
    """Makes contexts until a note in the folder says that this process's GPU is lost."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self):
        if (Path(self.folder) / f"lost{gpu()}").exists():
            raise cuda_errors()[0](NO_DEVICE)


class NotesContexts:
    """Makes contexts, and notes in the folder on which GPU."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self):
        (Path(self.folder) / gpu()).touch()


def jobs(warm_up=nothing):
    return Jobs(warm_up, nothing, nothing, screen, check, time_correct, finals)
