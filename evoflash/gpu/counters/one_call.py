"""What runs under Nsight Compute: one launch of a kernel at the timed size. Measures and judges nothing.

    python -m evoflash.gpu.counters.one_call FILE

FILE is a pickled OneCall. Inputs are those of a benchmark; two launches come before the profiled one, so
that code and descriptors are on the device. Caches are left to Nsight Compute, which empties them before each
pass.
"""

import pickle
import sys
from dataclasses import dataclass
from pathlib import Path

from evoflash.gpu.launcher import cupy, warm_up
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operation import Workload


@dataclass(frozen=True, slots=True)
class OneCall:
    """A kernel, and the workload that it is called on."""

    task: GpuTask
    workload: Workload


def run(call: OneCall) -> None:
    """The launches, the last of them between the profiler's start and its stop."""
    warm_up()
    bench = Bench(call.workload, spec=call.task.spec, seed=call.task.seed)
    kernel = call.task.kernel(call.workload, dict(call.task.timed)[call.workload])
    arguments = [arena.packed_arguments(kernel) for arena in bench.arenas[:3]]
    profiler = cupy().cuda.runtime
    with bench.stream:
        for each in arguments[:2]:
            kernel.enqueue_packed(each)
        bench.stream.synchronize()
        profiler.profilerStart()
        kernel.enqueue_packed(arguments[-1])
        bench.stream.synchronize()
        profiler.profilerStop()


if __name__ == "__main__":
    run(pickle.loads(Path(sys.argv[1]).read_bytes()))
