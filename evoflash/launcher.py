"""The door to the GPU: which one is present, memory with guards around it, loading and launching a cubin.

Judges nothing and times nothing. CuPy is used for memory, modules, streams and launches only, none of which
compiles anything: inputs and references are NumPy's. A CUDA error leaves here as CuPy raises it
(`cuda_errors`), because the process it happened in is then lost; see worker.py.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash import abi
from evoflash.errors import DeviceError, UsageError
from evoflash.evaluation import Launch
from evoflash.gpu import GpuSpec, known_gpus, load_gpu
from evoflash.problem import Workload
from evoflash.trials import Trial
from evoflash.validator import Output

GUARD_BYTES = 32768  # on either side of a tensor: more than a tile row of any family overshoots
_POISON = 0xFF  # all ones is NaN in fp16, bf16 and fp32
_NOT_READY = 600  # cudaErrorNotReady

# GpuSpec field -> cudaDeviceAttr. The clock is left out: the driver reports kHz of the highest boost state.
_ATTRIBUTES = {
    "sm_count": 16,
    "smem_per_block": 97,  # after opt-in
    "smem_per_sm": 81,
    "regs_per_sm": 82,
    "threads_per_sm": 39,
    "blocks_per_sm": 106,
    "l2_bytes": 38,
}
_CAPABILITY = (75, 76)  # major, minor


class KernelHungError(Exception):
    """A launch did not end within its limit; the process must be killed to be rid of it."""


class MemoryFaultError(Exception):
    """A kernel wrote where it must not; the message says where."""


@dataclass(frozen=True, slots=True)
class PresentGpu:
    """The GPU of this machine as its driver reports it."""

    device_name: str
    compute_capability: int  # 89, 90
    driver: str  # CUDA version that the driver supports, "13.0"
    pci_bus_id: str
    attributes: tuple[tuple[str, int], ...]  # by GpuSpec field name

    @property
    def l2_bytes(self) -> int:
        return dict(self.attributes)["l2_bytes"]

    def differences(self, spec: GpuSpec) -> tuple[str, ...]:
        """Where the driver disagrees with the spec, one line each; the driver is right."""
        lines = [
            f"{name}: {value} here, {getattr(spec, name)} in gpus/{spec.name}.toml"
            for name, value in self.attributes
            if value != getattr(spec, name)
        ]
        if self.device_name not in spec.device_names:
            lines.insert(0, f"name: '{self.device_name}' here, {', '.join(spec.device_names)} in the spec")
        return tuple(lines)

    def runs(self, spec: GpuSpec) -> bool:
        """Whether cubins for the spec's arch load here: sm_90a on 9.0 only, sm_86 on 8.6 and 8.9."""
        if spec.arch.endswith(("a", "f")):
            return self.compute_capability == spec.compute_capability
        same_major = self.compute_capability // 10 == spec.compute_capability // 10
        return same_major and self.compute_capability >= spec.compute_capability


@cache
def cupy() -> Any:
    """The cupy module; DeviceError when it is not installed or cannot be loaded."""
    try:
        import cupy as module
    except Exception as error:  # ImportError, or CuPy's own, by what is missing
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DeviceError(
            f'CuPy cannot be loaded ({reason[:120]}): pip install "evoflash[cuda13]" (driver 580 or later) '
            'or "evoflash[cuda12]".'
        ) from None
    return module


def cuda_errors() -> tuple[type[Exception], ...]:
    """What CuPy raises when CUDA reports an error."""
    cuda = cupy().cuda
    return cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError


def present_gpu() -> PresentGpu:
    """The current device; DeviceError when there is none or its driver is too old. Creates no context."""
    runtime = cupy().cuda.runtime
    try:
        device = runtime.getDevice() if runtime.getDeviceCount() else None
    except runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"no GPU can be used ({error}): run on a machine with an NVIDIA GPU and its driver, or search "
            "with --evaluator emulated."
        ) from None
    if device is None:
        raise DeviceError("the driver sees no GPU: check CUDA_VISIBLE_DEVICES, or use --evaluator emulated.")
    major, minor = (runtime.deviceGetAttribute(code, device) for code in _CAPABILITY)
    version = runtime.driverGetVersion()
    return PresentGpu(
        device_name=runtime.getDeviceProperties(device)["name"].decode(),
        compute_capability=10 * major + minor,
        driver=f"{version // 1000}.{version % 1000 // 10}",
        pci_bus_id=runtime.deviceGetPCIBusId(device),
        attributes=tuple(
            (name, int(runtime.deviceGetAttribute(code, device))) for name, code in _ATTRIBUTES.items()
        ),
    )


def spec_of(gpu: PresentGpu) -> GpuSpec:
    """The known spec whose device names hold this GPU; UsageError says how to add one."""
    for name in known_gpus():
        spec = load_gpu(name)
        if gpu.device_name in spec.device_names:
            return spec
    raise UsageError(
        f"no spec knows '{gpu.device_name}' (sm_{gpu.compute_capability}): name the nearest with --gpu "
        f"({', '.join(known_gpus())}) or add evoflash/gpus/<name>.toml with device_names for it."
    )


def wait(stream: Any, *, limit_s: float) -> None:
    """Return when the stream's work is done. Raises KernelHungError after limit_s, CuPy's errors at once.

    Polls, so that a hang leaves this thread able to say so; CuPy's `stream.done` takes a dead context for
    one that is still busy, hence the raw query.
    """
    query, deadline = cupy().cuda.runtime.streamQuery, time.monotonic() + limit_s
    while (status := query(stream.ptr)) == _NOT_READY:
        if time.monotonic() > deadline:
            raise KernelHungError(f"did not end within {limit_s:g} s")
        time.sleep(2e-5)
    if status:
        stream.synchronize()  # raises with the error's name


def _allocate(size_bytes: int) -> Any:
    try:
        return cupy().empty(size_bytes, dtype=np.uint8)
    except cupy().cuda.memory.OutOfMemoryError:
        raise DeviceError(
            f"the GPU has no {size_bytes >> 20} MiB left: stop what else runs on it (nvidia-smi), or choose "
            "a smaller problem."
        ) from None


class GuardedBuffer:
    """Device bytes between two bands of random ones, which must stay as they are."""

    def __init__(
        self, payload_bytes: int, *, rng: np.random.Generator, guard_bytes: int = GUARD_BYTES
    ) -> None:
        self._payload, self._guard = payload_bytes, guard_bytes
        self._bands = rng.integers(0, 256, (2, guard_bytes), dtype=np.uint8)
        self._memory = _allocate(payload_bytes + 2 * guard_bytes)
        self._memory[:guard_bytes].set(self._bands[0])
        self._memory[guard_bytes + payload_bytes :].set(self._bands[1])
        settle()

    @property
    def pointer(self) -> int:
        return int(self._memory.data.ptr) + self._guard

    @property
    def device_bytes(self) -> Any:
        """The payload as a CuPy array of uint8 on the same memory."""
        return self._memory[self._guard : self._guard + self._payload]

    def write(self, values: NDArray[Any]) -> None:
        self.device_bytes.set(np.ascontiguousarray(values).view(np.uint8).reshape(-1))

    def poison(self, stream: Any) -> None:
        self.device_bytes.data.memset_async(_POISON, self._payload, stream)

    def read(self) -> NDArray[np.uint8]:
        data: NDArray[np.uint8] = self.device_bytes.get()
        return data

    def fault(self) -> str:
        """Empty while the bands are intact; else how many bytes changed, and where the first one lies."""
        below = self._memory[: self._guard].get() != self._bands[0]
        above = self._memory[self._guard + self._payload :].get() != self._bands[1]
        if above.any():
            return f"{int(above.sum())} bytes past its end, the first {int(above.argmax())} bytes behind"
        if below.any():
            return (
                f"{int(below.sum())} bytes before its start, the last {int(below[::-1].argmax()) + 1} ahead"
            )
        return ""


class Arena:
    """Device memory for one workload: Q, K, V, O and LSE, each guarded; dense tensors."""

    def __init__(
        self, workload: Workload, *, rng: np.random.Generator, guard_bytes: int = GUARD_BYTES
    ) -> None:
        w = workload
        self.workload = w
        self._query = (w.batch, w.heads, w.seq_q, w.head_dim)
        query, key = 2 * int(np.prod(self._query)), 2 * w.batch * w.kv_heads * w.seq_kv * w.head_dim
        sizes = {"Q": query, "K": key, "V": key, "O": query, "LSE": 4 * w.batch * w.heads * w.seq_q}
        self.buffers = {
            name: GuardedBuffer(size, rng=rng, guard_bytes=guard_bytes) for name, size in sizes.items()
        }
        self.inputs: Trial | None = None

    def arguments(self, *, want_lse: bool) -> tuple[np.generic, ...]:
        """The kernel's arguments for these tensors; a null pointer tells it to write no LSE."""
        q, k, v, o, lse = (buffer.pointer for buffer in self.buffers.values())
        return abi.arguments(self.workload, (q, k, v, o, lse if want_lse else 0))

    def load(self, trial: Trial) -> None:
        """Put a trial's inputs in place."""
        for name, values in zip("QKV", (trial.q, trial.k, trial.v), strict=True):
            self.buffers[name].write(values)
        settle()
        self.inputs = trial

    def poison(self, stream: Any) -> None:
        """Fill O and LSE with NaN: what a kernel does not write is seen."""
        self.buffers["O"].poison(stream)
        self.buffers["LSE"].poison(stream)

    def output(self, *, want_lse: bool) -> Output:
        out = self.buffers["O"].read().view(np.uint16).reshape(self._query)
        lse = self.buffers["LSE"].read().view(np.float32).reshape(self._query[:3]) if want_lse else None
        return Output(out, lse)

    def check_memory(self) -> None:
        """Raises MemoryFaultError when a guard band or an input is no longer what was put there."""
        for name, buffer in self.buffers.items():
            if fault := buffer.fault():
                raise MemoryFaultError(f"wrote outside {name}: {fault}")
        if self.inputs is None:
            return
        for name, values in zip("QKV", (self.inputs.q, self.inputs.k, self.inputs.v), strict=True):
            if (self.buffers[name].read() != np.ascontiguousarray(values).view(np.uint8).reshape(-1)).any():
                raise MemoryFaultError(f"changed its input {name}")


class LoadedKernel:
    """A cubin and the launches that make up one candidate on one workload, ready to run."""

    def __init__(self, cubin_path: str, launches: Sequence[Launch]) -> None:
        # Loaded from a path: no hidden flags and no compile. CuPy keeps modules for the life of the process.
        module = cupy().RawModule(path=cubin_path)
        self._launches = tuple((module.get_function(launch.entry), launch) for launch in launches)
        for kernel, launch in self._launches:
            _opt_in(kernel, launch.smem_bytes)

    def enqueue(self, arguments: tuple[np.generic, ...]) -> None:
        """Launch on the current stream; returns before the kernels have run."""
        for kernel, launch in self._launches:
            kernel(launch.grid, launch.block, arguments, shared_mem=launch.smem_bytes)


def _opt_in(kernel: Any, smem_bytes: int) -> None:
    limit = kernel.max_dynamic_shared_size_bytes  # asking loads the module: here, not inside a capture
    # Workloads share the function and its attributes: only ever raise the limit.
    if smem_bytes > limit:
        kernel.max_dynamic_shared_size_bytes = smem_bytes
    if smem_bytes:
        kernel.preferred_shared_memory_carveout = 100


def run_once(kernel: LoadedKernel, arena: Arena, trial: Trial, *, stream: Any, limit_s: float) -> Output:
    """One guarded launch with LSE. Raises MemoryFaultError, KernelHungError, or CuPy's errors."""
    arena.load(trial)
    with stream:
        arena.poison(stream)
        kernel.enqueue(arena.arguments(want_lse=True))
    wait(stream, limit_s=limit_s)
    output = arena.output(want_lse=True)
    arena.check_memory()
    return output


def new_stream() -> Any:
    """A stream of its own; capture does not work on the default one."""
    return cupy().cuda.Stream(non_blocking=True)


def settle() -> None:
    """Wait until every copy has arrived: one from pageable memory may return before, and our streams do not
    wait for the default one.
    """
    cupy().cuda.runtime.deviceSynchronize()


def warm_up() -> None:
    """Create the context and touch memory, so that the next call finds both."""
    stream = new_stream()
    buffer = cupy().empty(1 << 20, dtype=np.uint8)
    buffer.data.memset_async(0, 1 << 20, stream)
    stream.synchronize()
