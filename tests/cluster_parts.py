"""A scheduler, workers and searches as processes of their own, as a person starts them: tests kill them."""

import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from cluster_jobs import jobs
from waiting import is_alive, until

from evoflash.app.search import plan as planning
from evoflash.app.search.limits import Limits
from evoflash.app.search.machines import Machines
from evoflash.app.search.session import run_search
from evoflash.evaluation import Basis
from evoflash.store.store import open_store

ROOT = Path(__file__).parents[1]
EVOFLASH = (sys.executable, "-m", "evoflash")
DASK = (sys.executable, "-m", "distributed.cli.dask_scheduler")
PROBLEM, FAMILY = "b=1,h=1,s=32,d=16", "flash_simt"  # what compiles and runs fastest


def started(*command, log):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path, "DASK_LOGGING__DISTRIBUTED": "critical"}
    with open(log, "ab") as file:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)


def free_port():
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def kill(process):
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


def children(process):
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    return [int(pid) for pid in found.split()]


def python_children(process):
    """Those that are workers; Python's own resource tracker is another child."""

    def is_worker(pid):
        try:
            return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    return [pid for pid in children(process) if is_worker(pid)]


class Parts:
    """All of a cluster; what has ended is started anew by mend()."""

    def __init__(self, folder, *, workers=2, scheduler=(), worker=(), scheme="tcp"):
        self.folder, self.port = folder, free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._scheduler = (*DASK, "--host", self.url.rpartition(":")[0], "--port", str(self.port), *scheduler)
        self._worker = (*EVOFLASH, "worker", "--scheduler", self.url, *worker)
        self.scheduler, self.workers = None, [None] * workers
        self.mend()

    def mend(self):
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.scheduler = started(*self._scheduler, "--no-dashboard", log=self.folder / "scheduler.log")
        for at, worker in enumerate(self.workers):
            if worker is None or worker.poll() is not None:
                self.workers[at] = started(*self._worker, log=self.folder / f"worker{at}.log")

    def kill_worker(self, rng: random.Random):
        """The command, or the process that its nanny watches, as chance has it."""
        worker = rng.choice([worker for worker in self.workers if worker.poll() is None])
        inner = python_children(worker)
        if inner and rng.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(inner[0], signal.SIGKILL)
        else:
            kill(worker)
            until(lambda: not any(map(is_alive, inner)), what="the worker ends with its nanny")

    def search(self, db, *more, budget=6, seed=3):
        """A search that proposes the same on any number of workers."""
        return started(
            *(*EVOFLASH, "search", "--gpu", "l4", "--problem", PROBLEM, "--family", FAMILY),
            *("--evaluator", "emulated", "--no-archive", "--ahead", "4", "--seed", str(seed)),
            *("--budget", str(budget), "--db", str(db), "--scheduler", self.url, *more),
            log=self.folder / f"{Path(db).stem}.log",
        )

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def close(self):
        for process in (*self.workers, self.scheduler):
            kill(process)


def history_of(db):
    """All that a search has evaluated, in the order of the store."""
    with open_store(str(db)) as store:
        (run,) = store.runs()
        return [
            (p.genome.id, p.operator, p.parents, e.status, e.rung, e.score_us, e.duplicate_of)
            for p, e in store.history(run)
        ]


def history_on(gpus, database):
    """What six evaluations, four in flight, find on the GPUs that `gpus` makes, without kernels."""
    plan = planning.plan(
        gpu="h200",
        problem=PROBLEM,
        strategy="surrogate",
        seed=3,
        family=FAMILY,
        evaluator=None,
        present=lambda wanted: wanted,
    )
    assert plan.basis is Basis.MEASURED
    machines = Machines(gpus=partial(gpus, jobs=jobs()), ahead=4)
    run_search(plan, str(database), limits=Limits(6), fresh=False, argv=[], machines=machines)
    return history_of(database)
