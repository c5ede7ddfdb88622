"""Reads a kernel's hardware counters on this machine's GPU, for `evoflash profile`. Times and stores nothing.

The counters say which limit binds: what the performance model only guesses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evoflash.app.compare import contenders
from evoflash.errors import UsageError
from evoflash.gpu import launcher
from evoflash.gpu.counters.limits import LaunchCounters
from evoflash.gpu.counters.ncu import read_counters, tool
from evoflash.gpu.counters.one_call import OneCall
from evoflash.notices import working


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """The counters of one kernel's launches, by workload."""

    name: str
    problem: str
    gpu: str
    launches: Mapping[str, tuple[LaunchCounters, ...]]

    def as_dict(self) -> dict[str, Any]:
        """Where, and each launch's counters with what they say."""
        found = {
            workload: [each.as_dict() for each in launches] for workload, launches in self.launches.items()
        }
        return {"kernel": self.name, "problem": self.problem, "gpu": self.gpu, "launches": found}


def profile_kernel(word: str, *, problem: str | None, seed: int, db: str) -> KernelProfile:
    """The counters of the kernel that `word` names, a candidate's id or a .cu file.

    DeviceError without a GPU, without Nsight Compute, and where it may not read counters; UsageError for what
    is no kernel of ours: a library's launches are of no source that evoflash has.
    """
    spec = launcher.present_spec(None)
    tool()
    what, (kernel,) = contenders((word,), problem=problem, spec=spec, db=db, seed=seed)
    if kernel.task is None:
        raise UsageError(f"{word} is a library's kernel: give a candidate's id or a .cu file.")
    found = {}
    for workload in what.workloads:
        with working(f"reading the counters of {word} on {workload}"):
            found[str(workload)] = read_counters(OneCall(kernel.task, workload))
    return KernelProfile(kernel.name, str(what), spec.name, found)
