"""The machines that do a search's work: this one, a private cluster or a scheduler's workers.

Options become evaluators' cores and GPUs here; evaluators/cluster/ has what stands behind them, and is not
loaded where nobody asks for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evoflash.app.search.plan import Present, SearchPlan
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, RunStart
from evoflash.evaluators.pipeline import Cores, GpuQueues
from evoflash.isolation import begin_processes
from evoflash.notices import say
from evoflash.paths import keep_cupy_at_home
from evoflash.settings import MOST_AHEAD, MOST_WORKERS
from evoflash.specs import GpuSpec

if TYPE_CHECKING:
    from evoflash.evaluators.cluster.connection import Connection


@dataclass(frozen=True, slots=True)
class Machines:
    """What an evaluator is given; None stands for this machine's."""

    cores: Cores | None = None
    devices: tuple[str, ...] = ("",)  # this machine's GPUs, as CUDA_VISIBLE_DEVICES calls them
    gpus: GpuQueues | None = None
    ahead: int | None = None  # proposals in flight, where a number was asked for
    where: str = ""  # in words, for the run
    # CPU seconds of workers that are not below this process.
    cpu_elsewhere_s: Callable[[], float] = float

    @property
    def has_many_gpus(self) -> bool:
        """Whether outcomes come faster than those of one GPU; a cluster's workers may still be joining."""
        return len(self.devices) > 1 or self.gpus is not None

    def with_ahead_of(self, start: RunStart) -> "Machines":
        """With as many proposals in flight as the run began with, unless another number was asked for: a
        search that is continued then proposes what it would have proposed.
        """
        return self if self.ahead else replace(self, ahead=start.ahead)


HERE = Machines()
# What processes take seconds to load that compile, emulate and use the GPU; the plan is made meanwhile.
_LOADED_FIRST = ("evoflash.evaluators.prepare", "evoflash.gpu.process.warm_up", "cupy")
_LOADED_FOR_SEVERAL_GPUS = "evoflash.app.search.proposing"
Planning = Callable[[Present | None], SearchPlan]


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """The options that say where, and how many proposals are in flight."""

    gpus: str | None = None
    workers: int | None = None
    scheduler: str | None = None
    tls: Path | None = None
    ahead: int | None = None
    evaluator: str | None = None

    def check(self) -> None:
        """UsageError for options that contradict each other or make no sense."""
        given = {"--gpus": self.gpus, "--workers": self.workers, "--scheduler": self.scheduler}
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise UsageError(f"{' and '.join(named)} say where to work in different ways: give one of them.")
        if self.tls is not None and self.scheduler is None:
            raise UsageError("--tls is the certificate for a --scheduler: name that, too.")
        if self.gpus is not None and self.evaluator == "emulated":
            raise UsageError("--gpus measures: leave it or --evaluator emulated away; --workers emulates.")
        if self.workers is not None and not 1 <= self.workers <= MOST_WORKERS:
            raise UsageError(f"--workers {self.workers}: give a number from 1 to {MOST_WORKERS}.")
        if self.ahead is not None and not 1 <= self.ahead <= MOST_AHEAD:
            raise UsageError(f"--ahead {self.ahead}: give a number from 1 to {MOST_AHEAD}.")


@contextmanager
def machines(asked: MachineOptions, planned: Planning) -> Iterator[tuple[SearchPlan, Machines]]:
    """The plan, which may depend on what is there, and where its work is done."""
    asked.check()
    if asked.scheduler is None and asked.workers is None:
        keep_cupy_at_home()
        begin_processes((*_LOADED_FIRST, _LOADED_FOR_SEVERAL_GPUS) if asked.gpus else _LOADED_FIRST)
    if asked.scheduler is None and asked.workers is None:
        plan, found = _on_gpus(asked.gpus, planned) if asked.gpus is not None else (planned(None), HERE)
        yield plan, replace(found, ahead=asked.ahead)
        return
    make = _on_workers if asked.scheduler is None else _by_scheduler
    with make(asked, planned) as (plan, found):
        yield plan, replace(found, ahead=asked.ahead)


def serve(scheduler: str, *, gpu: str | None, tls: Path | None) -> None:
    """Work for the searches of a scheduler, on one GPU of this machine or on a core, until it stays away.

    UsageError or DeviceError for a GPU that is unknown or not there, DeviceError where no scheduler answers.
    """
    from evoflash.evaluators.cluster import serving
    from evoflash.evaluators.cluster.address import address

    where = address(scheduler, tls)
    model = None if gpu is None else serving.model_of(gpu)
    say(f"working for the searches of {where.url} on {'a core' if model is None else f'GPU {gpu}, {model}'}.")
    serving.serve(where, model=model)


@contextmanager
def _by_scheduler(asked: MachineOptions, planned: Planning) -> Iterator[tuple[SearchPlan, Machines]]:
    from evoflash.evaluators.cluster.address import address
    from evoflash.evaluators.cluster.connection import connect, gpu_kind
    from evoflash.evaluators.cluster.pools import ClusterCores, ClusterGpus

    with connect(address(asked.scheduler or "", asked.tls)) as connection:
        plan = planned(partial(_gpu_of, connection, asked.evaluator))
        kind, where = gpu_kind(plan.gpu.name), f"workers of {connection.url}"
        gpus = partial(ClusterGpus, connection, kind) if plan.basis is Basis.MEASURED else None
        machines = Machines(ClusterCores(connection), gpus=gpus, where=where)
        yield plan, replace(machines, cpu_elsewhere_s=lambda: connection.cpu_s)


def _gpu_of(connection: "Connection", evaluator: str | None, wanted: GpuSpec | None) -> GpuSpec | None:
    """The GPU that workers have. Waits for one where the evaluator `gpu` was asked for by its name."""
    from evoflash.evaluators.cluster import tasks
    from evoflash.evaluators.cluster.connection import gpu_kind

    models = (wanted.name,) if wanted else connection.models()
    if len(models) != 1:
        return None
    kind = gpu_kind(models[0])
    if not connection.workers(kind) and (evaluator != "gpu" or wanted is None):
        return None
    connection.watch(kind, lambda _: None)
    return connection.ask(kind, tasks.spec)


def _on_gpus(text: str, planned: Planning) -> tuple[SearchPlan, Machines]:
    from evoflash.gpu import launcher

    launcher.restrict(text)
    devices, plan = launcher.devices(), planned(None)
    if plan.basis is not Basis.MEASURED:
        raise UsageError(f"--gpus measures on what is here, which is no {plan.gpu.name}: leave --gpu away.")
    say(f"{len(devices)} GPUs: {', '.join(devices)}.")
    return plan, Machines(devices=devices, where=f"GPUs {','.join(devices)}")


@contextmanager
def _on_workers(asked: MachineOptions, planned: Planning) -> Iterator[tuple[SearchPlan, Machines]]:
    from evoflash.evaluators.cluster.address import resources
    from evoflash.evaluators.cluster.connection import connect
    from evoflash.evaluators.cluster.pools import ClusterCores
    from evoflash.evaluators.cluster.serving import private_cluster

    count = asked.workers or 1
    plan = planned(None)
    with private_cluster([({}, resources(gpu=None))] * count) as address, connect(address) as connection:
        yield plan, Machines(ClusterCores(connection, expected=count), where=f"{count} workers")
