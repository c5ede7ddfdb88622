"""Device memory with guards around it, and one launch on it that is searched for stray writes.

Judges no output. See launcher.py for loading, streams and errors.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash import abi
from evoflash.errors import DeviceError
from evoflash.launcher import LoadedKernel, Stopwatch, cupy, settle
from evoflash.problem import Workload
from evoflash.trials import Trial
from evoflash.validator import Output

GUARD_BYTES = 32768  # on either side of a tensor: more than a tile row of any family overshoots
_POISON = 0xFF  # all ones is NaN in fp16, bf16 and fp32


class MemoryFaultError(Exception):
    """A kernel wrote where it must not; the message says where."""


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


@lru_cache(maxsize=8)
def _workspace(size_bytes: int) -> GuardedBuffer:
    # One for all arenas, as a user would have: kernels of one stream never use it at the same time.
    return GuardedBuffer(size_bytes, rng=np.random.default_rng())


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

    def arguments(self, *, want_lse: bool, workspace_bytes: int = 0) -> tuple[np.generic, ...]:
        """The kernel's arguments for these tensors; a null pointer tells it to write no LSE."""
        q, k, v, o, lse = (buffer.pointer for buffer in self.buffers.values())
        scratch = _workspace(workspace_bytes).pointer if workspace_bytes else 0
        return abi.arguments(self.workload, (q, k, v, o, lse if want_lse else 0), workspace=scratch)

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


def run_once(kernel: LoadedKernel, arena: Arena, trial: Trial, *, stream: Any, limit_s: float) -> Output:
    """One guarded launch with LSE. Raises MemoryFaultError, KernelHungError, or CuPy's errors."""
    output, _ = run_watched(kernel, arena, trial, stream=stream, limit_s=limit_s)
    return output


def run_watched(
    kernel: LoadedKernel, arena: Arena, trial: Trial, *, stream: Any, limit_s: float
) -> tuple[Output, float]:
    """As run_once, and how many microseconds the launch took: unrepeated, so good for a first look only."""
    arena.load(trial)
    with stream:
        arena.poison(stream)
        if kernel.workspace_bytes:
            _workspace(kernel.workspace_bytes).poison(stream)
        stopwatch = Stopwatch(stream)
        kernel.enqueue(arena.arguments(want_lse=True, workspace_bytes=kernel.workspace_bytes))
    took_us = stopwatch.stop(limit_s=limit_s)
    output = arena.output(want_lse=True)
    arena.check_memory()
    if kernel.workspace_bytes and (fault := _workspace(kernel.workspace_bytes).fault()):
        raise MemoryFaultError(f"wrote outside its workspace: {fault}")
    return output, took_us
