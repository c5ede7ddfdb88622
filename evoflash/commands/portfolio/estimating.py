"""Times of kernels on shapes by the performance model, where no GPU is there to ask. Measures nothing.

Right is what the emulator found right on its small shapes, and beside borders on one batch and one key/value
head of the shape, where that is not too much for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from evoflash.commands.portfolio.building import Built, Parts
from evoflash.commands.portfolio.table import KernelTime, Row
from evoflash.compilers import gxx
from evoflash.emulator.preflight import complaint_of, emulate
from evoflash.evaluators.estimates import estimates
from evoflash.families.family import load_family
from evoflash.families.renderer import render
from evoflash.gpu import GpuSpec
from evoflash.operation import Workload
from evoflash.problem import Problem

MOST_FLOPS = 1 << 27  # of an emulated call: some seconds of a core


def estimated(workload: Workload, ids: Sequence[str], parts: Parts, gpu: GpuSpec) -> Row:
    """The kernels of these ids on the shape: estimates in us, or reasons why there are none."""
    key = workload.compile_key(gpu.arch)
    mine = {name: parts[name, key] for name in ids}
    times = {name: _time(part, workload, gpu) for name, part in mine.items() if not part.reason}
    return Row(workload, times, {name: part.reason for name, part in mine.items() if part.reason})


def _time(part: Built, workload: Workload, gpu: GpuSpec) -> KernelTime:
    assert part.prepared is not None, "asked of what has no reason only"
    (found,) = estimates(part.genome, part.prepared, Problem((workload,)), gpu)
    return KernelTime(found.total_us, found.total_us, found.total_us, n=0)


def one_group(workload: Workload) -> Workload | None:
    """One batch and one key/value head of the shape, as the emulator runs it; None where that is too much."""
    sizes = workload.names()
    part: Workload = replace(  # type: ignore[type-var]  # every workload is a dataclass
        workload, batch=1, heads=sizes["heads"] // sizes["kv_heads"], kv_heads=1
    )
    return part if part.flops <= MOST_FLOPS else None


def complaint(part: Built, workload: Workload, gpu: GpuSpec, seed: int) -> str:
    """What the emulator finds wrong with the kernel on that shape; empty where nothing is."""
    family = load_family(part.genome.family)
    library = gxx.build(render(part.genome, part.key, gpu).source, name=family.name)
    launches = family.launches(part.genome, workload, gpu)
    registers = part.build.registers
    emulations, verdict = emulate(
        library,
        launches,
        workload,
        "normal",
        delivery="random",
        schedule="random",
        seed=seed,
        registers=registers,
    )
    return complaint_of(tuple(chain.from_iterable(each.reports for each in emulations)), verdict)
