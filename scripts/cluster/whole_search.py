"""A search without a GPU whose GPU work takes as long as a real one's: the search process's CPU seconds and the
wall time of a candidate, without Dask and with a loopback worker for each of some GPUs. Measures no kernel.

Everything but the GPU is the real thing: strategy, compiler's cache, emulator, messages, store. Kernels are
compiled and emulated before (the search runs once for that), so that a small machine keeps up with the GPUs.
"""

import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evoflash.commands.search import plan as planning
from evoflash.commands.search.machines import Machines
from evoflash.commands.search.run import evaluator, strategy_of
from evoflash.evaluation import Basis
from evoflash.evaluators.cluster.connection import connected, gpu_kind
from evoflash.evaluators.cluster.gpus import ClusterGpus
from evoflash.evaluators.cluster.loopback import private_cluster
from evoflash.evaluators.machines import GpuQueues
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.gpu import GpuSpec
from evoflash.gpu_process.process import Jobs
from evoflash.gpu_process.worker import GpuWorker
from evoflash.search import search
from evoflash.store.store import open_store

GPU, PROBLEM = "h200", "mission"


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one search, from its first candidate after the opening to its last; per candidate."""

    candidates: int
    wall_s: float
    cpu_s: float  # of the search process alone: not of compilers, workers and GPU processes
    main_s: float  # of it, the thread that proposes, learns and stores


@contextmanager
def gpus_of(count: int, jobs: Jobs) -> Iterator[GpuQueues]:
    """Without Dask where the count is 0: the one GPU process that a search on one GPU has."""
    if not count:
        yield partial(GpuWorker, jobs=jobs)
        return
    names = [str(at) for at in range(count)]
    with private_cluster(gpus=names, model=GPU) as address, connected(address) as connection:
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
    clocks: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder, gpus_of(count, jobs) as gpus:
        with open_store(str(Path(folder) / "search.db")) as store:
            run = store.begin(plan.key, gpu_hash="", budget=budget, argv=(), environment={})
            with evaluator(plan, (), machines=Machines(gpus=gpus, ahead=ahead)) as evaluates:
                assert isinstance(evaluates, MeasuredEvaluator)
                search(
                    strategy_of(plan),
                    evaluates,
                    store,
                    run,
                    budget=budget,
                    on_evaluation=lambda *_: clocks.append(_now()),
                )
    first, last = clocks[opening - 1], clocks[-1]
    each = [(after - before) / (len(clocks) - opening) for before, after in zip(first, last, strict=True)]
    return Measured(len(clocks) - opening, *each)


def _now() -> tuple[float, float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime, time.thread_time()


def _is_there(wanted: GpuSpec | None) -> GpuSpec | None:
    return wanted
