"""A search without a GPU whose GPU work takes as long as a real one's: what a candidate takes of wall time
and of the search process's CPU, without Dask and with a loopback worker for each GPU. Measures no kernel.

Everything else is the real thing: strategy, the compiler's cache, messages, store. Kernels are compiled
before (each search is run once for that) and not emulated: a small machine keeps up with a fast GPU.
"""

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evoflash.app.search import plan as planning
from evoflash.app.search.machines import Machines
from evoflash.app.search.session import evaluator, strategy_of
from evoflash.evaluation import Basis
from evoflash.evaluators.cluster.connection import connect, gpu_kind
from evoflash.evaluators.cluster.loopback import private_cluster
from evoflash.evaluators.cluster.pools import ClusterGpus
from evoflash.evaluators.machines import GpuQueues
from evoflash.gpu.process.process import Jobs
from evoflash.gpu.process.worker import GpuWorker
from evoflash.search import search
from evoflash.specs import GpuSpec
from evoflash.store.store import open_store

GPU, PROBLEM = "h200", "mission"


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one search, from its first candidate after the opening to its last; per candidate."""

    candidates: int
    wall_s: float
    cpu_s: float  # of the search process alone: not of compilers, workers and GPU processes
    main_s: float  # of it, the thread that proposes, learns and stores
    scheduler_s: float  # CPU of the private cluster's own process


@contextmanager
def gpus_of(count: int, jobs: Jobs) -> Iterator[GpuQueues]:
    """Without Dask where the count is 0: the one GPU process that a search on one GPU has."""
    if not count:
        yield partial(GpuWorker, jobs=jobs)
        return
    names = [str(at) for at in range(count)]
    with private_cluster(gpus=names, model=GPU) as address, connect(address) as connection:
        yield partial(ClusterGpus, connection, gpu_kind(GPU), jobs=jobs)


def searched(
    count: int, jobs: Jobs, *, strategy: str, budget: int, opening: int, ahead: int, seed: int = 0
) -> Measured:
    """A search on so many GPUs; the first `opening` candidates are not counted."""
    plan = planning.plan(
        gpu=GPU,
        problem=PROBLEM,
        strategy=strategy,
        seed=seed,
        family=None,
        evaluator=None,
        present=_is_there,
    )
    assert plan.basis is Basis.MEASURED
    os.environ["PATH"] = ""  # no g++: nothing is emulated
    clocks: list[tuple[float, float, float, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        gpus_of(count, jobs) as gpus,
        open_store(str(Path(folder) / "search.db")) as store,
        evaluator(plan, (), machines=Machines(gpus=gpus, ahead=ahead)) as evaluates,
    ):
        scheduler = _scheduler()
        run = store.begin(plan.key, gpu_hash="", budget=budget, argv=(), environment={})
        search(
            strategy_of(plan),
            evaluates,
            store,
            run,
            budget=budget,
            on_evaluation=lambda *_: clocks.append(_now(scheduler)),
        )
    first, last = clocks[opening - 1], clocks[-1]
    each = [(after - before) / (len(clocks) - opening) for before, after in zip(first, last, strict=True)]
    return Measured(len(clocks) - opening, *each)


def _scheduler() -> Path | None:
    """Of the private cluster's process, its folder in /proc."""
    lists = Path("/proc/self/task").glob("*/children")
    children = [Path("/proc", pid) for each in lists for pid in each.read_text().split()]
    return next((each for each in children if b"loopback_process" in (each / "cmdline").read_bytes()), None)


def _now(scheduler: Path | None) -> tuple[float, float, float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    scheduled_s = 0.0
    if scheduler is not None:
        user, system = (scheduler / "stat").read_text().rpartition(")")[2].split()[11:13]
        scheduled_s = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), used.ru_utime + used.ru_stime, time.thread_time(), scheduled_s


def _is_there(wanted: GpuSpec | None) -> GpuSpec | None:
    return wanted
