"""What stands in for a GPU where everything else is measured: processes that sleep as long as it would work.
Checks and times no kernel.

A look and a proof take from half of the given seconds to one and a half, as the genome's id has it: how they
are spread on a GPU is not in the records that the seconds come from (scripts.cluster.efficiency).
"""

import time
from dataclasses import dataclass, replace

from evoflash.evaluation import Rung, Status, Timing, score
from evoflash.gpu.process.finals import FinalReport, FinalTask
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.process import Jobs
from evoflash.gpu.process.rungs import GpuTask
from evoflash.isolation import Ending


@dataclass(frozen=True, slots=True)
class Look:
    """Takes its time; `proven` is the share of the candidates that it finds worth a proof."""

    seconds: float
    proven: float

    def __call__(self, task: GpuTask) -> GpuOutcome:
        time.sleep(self.seconds * _spread(task))
        is_slow = int(task.genome_id[4:8], 16) / 16**4 >= self.proven
        status = Status.SCREENED if is_slow else Status.CORRECT
        us = _times_us(task)
        return GpuOutcome(task.genome_id, status, Rung.TIMING, score_us=score(us), timings=_timings(task, us))


@dataclass(frozen=True, slots=True)
class Proof:
    """Takes its time, and finds nothing wrong."""

    seconds: float

    def __call__(self, task: GpuTask) -> GpuOutcome:
        time.sleep(self.seconds * _spread(task))
        return GpuOutcome(task.genome_id, Status.CORRECT, Rung.CORRECTNESS)


def jobs(*, look_s: float, proof_s: float, proven: float) -> Jobs:
    """Of a GPU that takes so long."""
    return Jobs(_nothing, _nothing, _nothing, Look(look_s, proven), Proof(proof_s), _timed, _finals)


def _spread(task: GpuTask) -> float:
    return 0.5 + int(task.genome_id[:4], 16) / 16**4


def _times_us(task: GpuTask) -> list[float]:
    """Made up, the same for a genome each time."""
    return [10.0 + int(task.genome_id[8:12], 16) / 1000 for _ in task.timed]


def _timings(task: GpuTask, times_us: list[float]) -> tuple[Timing, ...]:
    pairs = zip(task.timed, times_us, strict=True)
    return tuple(Timing(str(workload), "cold", us, us, us, 5) for (workload, _), us in pairs)


def _timed(task: GpuTask, outcome: GpuOutcome) -> GpuOutcome:
    us = _times_us(task)
    return replace(outcome, rung=Rung.DONE, timings=_timings(task, us), score_us=score(us))


def _nothing(*_: object) -> None:
    """No context, no references, no libraries."""


def _finals(task: FinalTask) -> Ending[FinalReport]:
    return Ending(None, Status.RUNTIME, "a stand-in times nothing again")
