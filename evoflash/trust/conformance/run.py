"""Says whether the emulator agrees with the GPU of this machine, for `evoflash doctor --conformance`.

What was found is told by primitive. Runs no kernel itself: sweep.py does.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evoflash.gpu.launcher import PresentGpu, cupy, present_gpu
from evoflash.gpu.timing.noise_floor import versions
from evoflash.trust.conformance.cases import CaseResult, Primitive, primitives
from evoflash.trust.conformance.sweep import BY_CTRL_C, conform


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """A case that is not equal, and how."""

    case: str
    detail: str


@dataclass(frozen=True, slots=True)
class PrimitiveSummary:
    """One entry of the table: how many cases it has, how many were equal, which were not."""

    primitive: str
    arch: str  # from which GPU on
    cases: int
    equal: int
    crashed: int  # or hung
    not_run: int  # the run was stopped, or too many of them had crashed
    skipped: str  # why none ran; "" where they ran
    compare: str  # "bits", "ulp" or "runs"
    bound_ulp: int
    worst_ulp: dict[str, float]  # by where, for approximations: "gpu", "emulator"
    failures: tuple[CaseFailure, ...]  # of those that ran

    @property
    def state(self) -> str:
        if self.skipped:
            return "skipped"
        if self.failures:
            return "differs"
        return "ok" if self.equal == self.cases else "not run"


@dataclass(frozen=True, slots=True)
class Conformance:
    """All of it, for one GPU."""

    gpu: str
    arch: str
    versions: str
    seconds: float
    primitives: tuple[PrimitiveSummary, ...]
    stopped: str = ""  # why before its end

    @property
    def cases(self) -> int:
        return sum(each.cases for each in self.primitives)

    @property
    def equal(self) -> int:
        return sum(each.equal for each in self.primitives)

    @property
    def is_interrupted(self) -> bool:
        return self.stopped == BY_CTRL_C

    def as_dict(self) -> dict[str, Any]:
        """Everything; of the cases, those that are not equal."""
        return {
            "cases": self.cases,
            "equal": self.equal,
            "crashed": sum(each.crashed for each in self.primitives),
            "not_run": sum(each.not_run for each in self.primitives),
            **asdict(self),
        }


def summaries(outcomes: Sequence[CaseResult], arch: str) -> tuple[PrimitiveSummary, ...]:
    """One for each entry of the table, in its order."""
    by_name: dict[str, list[CaseResult]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.label.primitive, []).append(outcome)
    return tuple(_summary(entry, by_name.get(entry.name, []), arch) for entry in primitives())


def _summary(entry: Primitive, outcomes: list[CaseResult], arch: str) -> PrimitiveSummary:
    worst: dict[str, float] = {}
    for outcome in outcomes:
        for side, error in outcome.ulp.items():
            worst[side] = max(error, worst.get(side, 0.0))
    return PrimitiveSummary(
        primitive=entry.name,
        arch=entry.arch,
        cases=len(outcomes),
        equal=sum(outcome.ok for outcome in outcomes),
        crashed=sum(outcome.end == "crashed" for outcome in outcomes),
        not_run=sum(outcome.end == "not run" for outcome in outcomes),
        skipped=_skip_reason(entry, outcomes, arch),
        compare=entry.compare,
        bound_ulp=entry.ulp,
        worst_ulp=worst,
        failures=tuple(
            CaseFailure(each.label.case, each.detail)
            for each in outcomes
            if not each.ok and each.end != "not run"
        ),
    )


def _skip_reason(entry: Primitive, outcomes: list[CaseResult], arch: str) -> str:
    if not entry.runs_on(arch):
        return f"needs {entry.arch}"
    return "" if outcomes else "not chosen"


_WGMMA = 90  # compute capability; its cubins run on no other
_CONTEXT_BYTES = 1 << 30  # of GPU memory that a process is assumed to take
_MOST_CONTEXTS = 16
_COMPUTE_MODE, _DEFAULT_MODE = 20, 0  # of cudaDeviceAttr and cudaComputeMode; others admit one process


def check_primitives(
    *, only: Collection[str] = (), time_limit_s: float = 240.0, said: Callable[[str], None] | None = None
) -> Conformance:
    """Runs every case that this GPU has; see sweep.conform. DeviceError without a GPU, or without g++."""
    gpu = present_gpu()
    arch, begin_s = arch_of(gpu), time.perf_counter()
    swept = conform(arch, on_gpu=True, only=only, most_workers=room(), time_limit_s=time_limit_s, said=said)
    seconds = round(time.perf_counter() - begin_s, 1)
    entries = summaries(swept.outcomes, arch)
    return Conformance(gpu.device_name, arch, versions(), seconds, entries, swept.stopped)


def arch_of(gpu: PresentGpu) -> str:
    """What to compile for: everything that the GPU has."""
    return f"sm_{gpu.compute_capability}" + ("a" if gpu.compute_capability == _WGMMA else "")


def room() -> int:
    """How many processes may use the GPU at once."""
    runtime = cupy().cuda.runtime
    device = runtime.getDevice()
    if runtime.deviceGetAttribute(_COMPUTE_MODE, device) != _DEFAULT_MODE:
        return 1
    total_bytes = runtime.getDeviceProperties(device)["totalGlobalMem"]
    return int(max(1, min(_MOST_CONTEXTS, total_bytes // _CONTEXT_BYTES // 2)))
