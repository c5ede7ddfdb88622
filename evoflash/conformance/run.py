"""Conformance of the emulator with the GPU of this machine: `evoflash doctor --conformance`."""

import time
from collections.abc import Callable, Collection

from evoflash.conformance.report import Conformance, summaries
from evoflash.conformance.sweep import conform
from evoflash.cuda.launcher import PresentGpu, cupy, present_gpu
from evoflash.timing.environment import versions

_WGMMA = 90  # compute capability; its cubins run on no other
_CONTEXT_BYTES = 1 << 30  # of GPU memory that a process is assumed to take
_MOST_CONTEXTS = 16
_COMPUTE_MODE, _DEFAULT_MODE = 20, 0  # of cudaDeviceAttr and cudaComputeMode; others admit one process


def check(
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
