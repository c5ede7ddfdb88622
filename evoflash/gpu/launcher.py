"""Finds the GPU that is present, shares it with other processes, loads a cubin, launches it and waits. Judges
nothing and times nothing.

CuPy is used for memory, modules, streams and launches only, none of which compiles anything: inputs and
references are NumPy's. A CUDA error leaves here as CuPy raises it (`cuda_errors`), because the process it
happened in is then lost; see process/worker.py. Which GPUs this process may use is set here in the words of
CUDA_VISIBLE_DEVICES.
"""

import fcntl
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from evoflash.blame import begin_kernel
from evoflash.errors import DeviceError, UsageError
from evoflash.extras import install
from evoflash.gpu import driver
from evoflash.gpu.driver import PackedArguments, pack_arguments
from evoflash.launch import LaunchConfig, too_many
from evoflash.paths import cupy_folder_error, keep_cupy_at_home
from evoflash.specs import GpuSpec, known_gpus, load_gpu

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


_hung: list[Exception] = []


class KernelHungError(Exception):
    """A launch did not end within its limit; the process must be killed to be rid of it.

    `contender`: whose it is, where several are timed. The error is kept, and so is what the calls on its way
    have on the GPU: to free that may wait for the kernel, and the process would not tell that it hangs.
    """

    contender = ""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        _hung.append(self)


class LaunchRefusedError(Exception):
    """A launch whose blocks wait for one another has more of them than fit on this GPU; nothing has run."""


class GpuBusyError(Exception):
    """A time cannot be trusted for what else runs on the GPU; nothing is said of the kernel."""


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
            f"{name}: {value} here, {getattr(spec, name)} in gpu/{spec.name}.toml"
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
    keep_cupy_at_home()
    try:
        import cupy as module
    except Exception as error:  # ImportError, or CuPy's own, by what is missing
        if isinstance(error, OSError) and error.filename:
            raise cupy_folder_error(error) from None
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DeviceError(
            f"CuPy cannot be loaded ({reason[:120]}): {install('cuda13')}; with a driver before 580 "
            f"{install('cuda12')}."
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
            f"no GPU can be used ({error}): run this on a machine with an NVIDIA GPU and its driver; "
            "`evoflash search --gpu h200` needs none and estimates times."
        ) from None
    if device is None:
        raise DeviceError(
            "the driver sees no GPU: check CUDA_VISIBLE_DEVICES; `evoflash search --gpu h200` needs none and "
            "estimates times."
        )
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
        f"({', '.join(known_gpus())}), or write its figures into a file of your own: `evoflash new gpu NAME`."
    )


def present_spec(gpu: str | None) -> GpuSpec:
    """This machine's GPU with the driver's attributes; DeviceError when there is none, or it is not `gpu`."""
    wanted = load_gpu(gpu) if gpu else None
    device = present_gpu()
    spec = spec_of(device)
    if wanted and wanted.name != spec.name:
        raise DeviceError(f"baselines are timed on the GPU that is here, a {spec.name}: leave --gpu out.")
    return replace(spec, **dict(device.attributes))  # type: ignore[arg-type]  # they are all numbers


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


class LoadedKernel:
    """A cubin and the launches that make up one candidate on one workload, ready to run."""

    def __init__(self, cubin_path: str, launches: Sequence[LaunchConfig]) -> None:
        """LaunchRefusedError if blocks that wait for one another do not all fit."""
        # Loaded from a path: no hidden flags and no compile. CuPy keeps modules for the life of the process.
        module = cupy().RawModule(path=cubin_path)
        self._launches = tuple((module.get_function(launch.entry), launch) for launch in launches)
        self.workspace_bytes = max(launch.workspace_bytes for launch in launches)
        self.zeroed_bytes = launches[0].zeroed_bytes
        self.scratch = self.workspace_bytes, self.zeroed_bytes
        self.maps = launches[0].maps
        for kernel, launch in self._launches:
            _opt_in(kernel, launch.smem_bytes)
            _make_room(kernel, launch)

    def enqueue(self, arguments: tuple[np.generic, ...]) -> None:
        """Launch on the current stream; returns before the kernels have run."""
        begin_kernel()
        for kernel, launch in self._launches:
            if driver.is_plain(launch):
                kernel(launch.grid, launch.block, arguments, shared_mem=launch.smem_bytes)
            else:
                _enqueue(kernel, launch, pack_arguments(arguments))

    def enqueue_packed(self, arguments: PackedArguments) -> None:
        """As enqueue(), in a third of the host's time."""
        begin_kernel()
        for kernel, launch in self._launches:
            _enqueue(kernel, launch, arguments)


def _enqueue(kernel: Any, launch: LaunchConfig, arguments: PackedArguments) -> None:
    stream = cupy().cuda.get_current_stream().ptr
    _raise_for(driver.enqueue(kernel.kernel.ptr, launch, arguments, stream=stream))


def _make_room(kernel: Any, launch: LaunchConfig) -> None:
    if driver.is_plain(launch):
        return
    function = kernel.kernel.ptr
    _raise_for(driver.allow_cluster(function, launch))
    if not launch.resident:
        return
    runtime = cupy().cuda.runtime
    sm_count = runtime.deviceGetAttribute(_ATTRIBUTES["sm_count"], runtime.getDevice())
    status, room = driver.room(function, launch, sm_count=sm_count)
    _raise_for(status)
    if math.prod(launch.grid) > room:
        raise LaunchRefusedError(too_many(launch, room))


def _raise_for(status: int) -> None:
    if status:
        raise cupy().cuda.driver.CUDADriverError(status)


def _opt_in(kernel: Any, smem_bytes: int) -> None:
    limit = kernel.max_dynamic_shared_size_bytes  # asking loads the module: here, not inside a capture
    # Workloads share the function and its attributes: only ever raise the limit.
    if smem_bytes > limit:
        kernel.max_dynamic_shared_size_bytes = smem_bytes
    if smem_bytes:
        kernel.preferred_shared_memory_carveout = 100


class Stopwatch:
    """The time of what is enqueued on a stream between its making and stop()."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._before, self._after = stream, cupy().cuda.Event(), cupy().cuda.Event()
        self._before.record(stream)

    def stop(self, *, limit_s: float) -> float:
        """Wait for the stream; microseconds. Raises as wait() does."""
        self._after.record(self._stream)
        wait(self._stream, limit_s=limit_s)
        return float(cupy().cuda.get_elapsed_time(self._before, self._after)) * 1e3


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
    sys.unraisablehook = lambda _: None  # what is freed in a lost context complains; its outcome has said why
    with beside_others():
        stream = new_stream()
        buffer = cupy().empty(1 << 20, dtype=np.uint8)
        buffer.data.memset_async(0, 1 << 20, stream)
        stream.synchronize()


def memory_bytes() -> tuple[int, int]:
    """Of the GPU's memory what is free, and all of it."""
    free, total = cupy().cuda.runtime.memGetInfo()
    return int(free), int(total)


_VARIABLE = "CUDA_VISIBLE_DEVICES"


def restrict(text: str) -> None:
    """Let this process see the GPUs at these positions alone, `0,1` or `all`, counted among those that it saw
    before; to be called before anything has loaded CUDA. UsageError for what is no such list.
    """
    if text == "all":
        return
    words = text.split(",")
    if not all(word.isdecimal() for word in words) or len(set(map(int, words))) < len(words):
        raise UsageError(f"--gpus {text}: give numbers with commas between, each once, as in 0,1, or all.")
    before = [word.strip() for word in os.environ.get(_VARIABLE, "").split(",") if word.strip()]
    if before and max(map(int, words)) >= len(before):
        raise UsageError(f"--gpus {text}: {_VARIABLE} allows {len(before)}, the first of which is 0.")
    chosen = [before[int(word)] for word in words] if before else [str(int(word)) for word in words]
    os.environ[_VARIABLE] = ",".join(chosen)


def devices() -> tuple[str, ...]:
    """For each visible GPU what CUDA_VISIBLE_DEVICES calls it.

    DeviceError where there is none, where one that was asked for is not there, and where they are of several
    models: times of those are not compared.
    """
    runtime = cupy().cuda.runtime
    present_gpu()
    names = [runtime.getDeviceProperties(at)["name"].decode() for at in range(runtime.getDeviceCount())]
    wanted = [word.strip() for word in os.environ.get(_VARIABLE, "").split(",") if word.strip()]
    if wanted and len(names) < len(wanted):  # CUDA sees those before the first that is not there
        raise DeviceError(
            f"GPU {wanted[len(names)]} is not there: see nvidia-smi; {len(names)} before it are."
        )
    if len(set(names)) > 1:
        raise DeviceError(
            f"the GPUs here are of several models ({', '.join(names)}): name those of one, as in --gpus 0,1."
        )
    return tuple(wanted) or tuple(map(str, range(len(names))))


# ---- sharing: while one process times a kernel, none of the others launches any; a lock on a file says so.
# Launches that are not timed may run beside those of other processes. The file is the one that the variable
# EVOFLASH_GPU_TURNS names for this GPU, else one of the search's own; a process that was given neither has
# the GPU to itself and waits for nobody. Where an exception ends a launch or a timing its kernel may still
# run: the lock is kept until let_go() is called, or the process dies.


@dataclass(slots=True)
class _Share:
    """This process's handles of the file and of the door to it; `held` while it launches or times."""

    handle: int = -1
    door: int = -1
    held: bool = False


_share = _Share()
_TURNS = "EVOFLASH_GPU_TURNS"
_DOOR_S, _AWAY_S, _LOOK_EVERY_S = 0.5, 0.05, 2e-4


def share_gpu_by(path: str) -> None:
    """From here on this process shares the GPU with all that name the same file; once for a process. What
    EVOFLASH_GPU_TURNS names goes first. UsageError where it cannot be opened.
    """
    if _share.handle >= 0:
        return
    path = _users_file() or path
    try:
        _share.handle, _share.door = (
            os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) for name in (path, f"{path}-door")
        )
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; {_TURNS} wants a file that you may write.") from None


def _users_file() -> str:
    """Of those who name the same one, and see the same GPU; empty where none is named."""
    named, gpu = os.environ.get(_TURNS, ""), os.environ.get(_VARIABLE, "").replace("/", "-")
    return named and f"{named}{gpu and '-'}{gpu}"


def alone() -> AbstractContextManager[None]:
    """Nothing of the other processes runs meanwhile. Not inside of `beside_others`."""
    return _hold(fcntl.LOCK_EX)


def beside_others() -> AbstractContextManager[None]:
    """Launches of other processes may run meanwhile, and nothing is timed."""
    return _hold(fcntl.LOCK_SH)


@contextmanager
def _hold(how: int) -> Iterator[None]:
    if _share.handle < 0 and (path := _users_file()):
        share_gpu_by(path)
    if _share.handle < 0 or _share.held:  # what runs alone may launch
        yield
        return
    while not _enter(how):
        time.sleep(_AWAY_S)
    _share.held = True
    yield
    let_go()


def _enter(how: int) -> bool:
    """Whether this process got in. While it waits it has the door, by which all come in: launches without a
    pause would else keep a timing from ever beginning. Not for long: one of those inside may stay.
    """
    fcntl.flock(_share.door, fcntl.LOCK_EX)
    try:
        end_s = time.monotonic() + _DOOR_S
        while time.monotonic() < end_s:
            with suppress(BlockingIOError):
                fcntl.flock(_share.handle, how | fcntl.LOCK_NB)
                return True
            time.sleep(_LOOK_EVERY_S)
        return False
    finally:
        fcntl.flock(_share.door, fcntl.LOCK_UN)


def let_go() -> None:
    """Others may go on: nothing of this process is on the GPU."""
    if _share.held:
        _share.held = False
        fcntl.flock(_share.handle, fcntl.LOCK_UN)
