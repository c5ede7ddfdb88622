"""Device memory with guards around it, and one launch on it that is searched for stray writes.

Judges no output. See launcher.py for loading, streams and errors.

Inputs that are used again and again stay on the device (`keep_on_device`): a launch is then checked without
moving them, which is 400 MB of 540 at B4 H32 S4096 D128. The bands, 32 KB each, are read back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash import abi
from evoflash.cuda import device_checks as inspection
from evoflash.cuda.guarded_buffer import GUARD_BYTES, GuardedBuffer, allocate, has_room
from evoflash.cuda.launcher import LoadedKernel, Stopwatch, settle
from evoflash.cuda.tensor_map import encoded_map
from evoflash.evaluation import TensorMap
from evoflash.problem import Workload
from evoflash.validation.inputs import Trial
from evoflash.validation.reference import Sample
from evoflash.validation.validator import Output, Part, part_of


class MemoryFaultError(Exception):
    """A kernel wrote where it must not; the message says where."""


def _inputs(trial: Trial) -> dict[str, NDArray[np.uint8]]:
    tensors = zip("QKV", (trial.q, trial.k, trial.v), strict=True)
    return {name: np.ascontiguousarray(x).view(np.uint8).reshape(-1) for name, x in tensors}


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """A trial and its inputs on the device, at addresses that no kernel is given."""

    trial: Trial
    images: Mapping[str, Any]  # Q, K and V as CuPy arrays of uint8

    def verify(self) -> None:
        """Raises MemoryFaultError when the images are not what was uploaded; reads all of them back."""
        for name, values in _inputs(self.trial).items():
            if (self.images[name].get() != values).any():
                raise MemoryFaultError(f"it, or a kernel before it, overwrote evoflash's own copy of {name}")


def keep_on_device(trial: Trial) -> Trial | Original:
    """Upload a trial that will be used again; the trial itself where the device has no room to spare."""
    inputs = _inputs(trial)
    if not has_room(sum(values.nbytes for values in inputs.values())):
        return trial
    images = {name: allocate(values.nbytes) for name, values in inputs.items()}
    for name, image in images.items():
        image.set(inputs[name])
    settle()
    return Original(trial, images)


@lru_cache(maxsize=8)
def _workspace(size_bytes: int, zeroed_bytes: int) -> GuardedBuffer:
    # One for all arenas, as a user would have: kernels of one stream never use it at the same time. Whoever
    # expects zeros shares it with none that leaves other things there.
    return GuardedBuffer(size_bytes, rng=np.random.default_rng())


def _zero(buffer: GuardedBuffer, size_bytes: int) -> None:
    settle()
    buffer.device_bytes.data.memset(0, size_bytes)
    settle()


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
        self.inputs: Trial | Original | None = None

    def arguments(self, kernel: LoadedKernel, *, want_lse: bool) -> tuple[Any, ...]:
        """The kernel's arguments for these tensors, its tensor maps first; a null pointer tells it to write
        no LSE. Zeroes what the kernel expects to be zero of its workspace.
        """
        q, k, v, o, lse = (buffer.pointer for buffer in self.buffers.values())
        scratch = 0
        if kernel.workspace_bytes:
            buffer = _workspace(kernel.workspace_bytes, kernel.zeroed_bytes)
            scratch = buffer.pointer
            if kernel.zeroed_bytes:
                _zero(buffer, kernel.zeroed_bytes)
        pointers = (q, k, v, o, lse if want_lse else 0)
        plain = abi.arguments(self.workload, pointers, workspace=scratch)
        return *(self._map(each) for each in kernel.maps), *plain

    def _map(self, wanted: TensorMap) -> NDArray[np.void]:
        return encoded_map(
            self.buffers[wanted.of].pointer,
            *abi.map_geometry(wanted, self.workload),
            dtype={"fp16": "f16", "bf16": "bf16"}[self.workload.dtype],
            swizzle=wanted.swizzle,
            l2_promotion=wanted.l2_promotion,
        )

    def load(self, inputs: Trial | Original) -> None:
        """Put a trial's inputs in place."""
        if isinstance(inputs, Original):
            for name, image in inputs.images.items():
                self.buffers[name].copy(image)
        else:
            for name, values in _inputs(inputs).items():
                self.buffers[name].write(values)
        settle()
        self.inputs = inputs

    def poison(self, stream: Any) -> None:
        """Fill O and LSE with NaN: what a kernel does not write is seen."""
        self.buffers["O"].poison(stream)
        self.buffers["LSE"].poison(stream)

    def fill_outputs(self, byte: int, stream: Any) -> None:
        """Fill O and LSE with one byte, in stream order."""
        for name in ("O", "LSE"):
            buffer = self.buffers[name].device_bytes
            buffer.data.memset_async(byte, buffer.nbytes, stream)

    def output(self, *, want_lse: bool) -> Output:
        out = self.buffers["O"].read().view(np.uint16).reshape(self._query)
        lse = self.buffers["LSE"].read().view(np.float32).reshape(self._query[:3]) if want_lse else None
        return Output(out, lse)

    def part(self, sample: Sample) -> Part:
        """O and LSE at a sample. All of O is searched for NaNs and infinities, on the device."""
        w, out = self.workload, self.buffers["O"].device_bytes
        if inspection.holds_non_finite(out, dtype=w.dtype):
            part = part_of(self.output(want_lse=True), sample, workload=w)
            return replace(part, broken=part.broken or "somewhere")
        rows = self._heads("O", sample).view(np.uint16).reshape(-1, w.seq_q, w.head_dim)
        lse = self._heads("LSE", sample).view(np.float32).reshape(-1, w.seq_q)
        return Part(rows[:, sample.rows], lse[:, sample.rows], broken="")

    def _heads(self, name: str, sample: Sample) -> NDArray[np.uint8]:
        """The bytes of the sample's heads: whole heads are copied at once, and some are few."""
        heads = self.workload.batch * self.workload.heads
        if len(sample.heads) == heads:
            return self.buffers[name].read()
        each = self.buffers[name].device_bytes.reshape(heads, -1)
        return np.concatenate([each[int(head)].get() for head in sample.heads])

    def copy_of_output(self) -> Any:
        """O as a CuPy array of uint8 elsewhere on the device; None where there is no room to spare."""
        out = self.buffers["O"].device_bytes
        if not has_room(out.nbytes):
            return None
        copy = allocate(out.nbytes)
        copy.data.copy_from_device(out.data, out.nbytes)
        settle()
        return copy

    def as_output(self, copy: Any) -> Output:
        """What copy_of_output() made, on the host."""
        return Output(copy.get().view(np.uint16).reshape(self._query))

    def check_memory(self) -> None:
        """Raises MemoryFaultError when a guard band or an input is no longer what was put there."""
        for name, buffer in self.buffers.items():
            if fault := buffer.fault():
                raise MemoryFaultError(f"wrote outside {name}: {fault}")
        if changed := self._changed_input():
            raise MemoryFaultError(f"changed its input {changed}")

    def _changed_input(self) -> str:
        """Every byte is compared: with the image on the device, or, where there is none, with the trial."""
        if isinstance(self.inputs, Original):
            images = self.inputs.images.items()
            changed = (n for n, x in images if inspection.differ(self.buffers[n].device_bytes, x))
        elif self.inputs is not None:
            inputs = _inputs(self.inputs).items()
            changed = (n for n, x in inputs if (self.buffers[n].read() != x).any())
        else:
            return ""
        return next(changed, "")


def run_once(kernel: LoadedKernel, arena: Arena, trial: Trial, *, stream: Any, limit_s: float) -> Output:
    """One guarded launch with LSE. Raises MemoryFaultError, KernelHungError, or CuPy's errors."""
    launch(kernel, arena, trial, stream=stream, limit_s=limit_s)
    return arena.output(want_lse=True)


def launch(
    kernel: LoadedKernel,
    arena: Arena,
    inputs: Trial | Original,
    *,
    stream: Any,
    limit_s: float,
    want_lse: bool = True,
) -> float:
    """As run_once, leaving the output in the arena; how many microseconds the launch took: unrepeated, so
    good for a first look only.
    """
    arena.load(inputs)
    with stream:
        arena.poison(stream)
        if kernel.workspace_bytes:
            _workspace(kernel.workspace_bytes, kernel.zeroed_bytes).poison(stream)
        given = arena.arguments(kernel, want_lse=want_lse)
        stopwatch = Stopwatch(stream)
        kernel.enqueue(given)
    took_us = stopwatch.stop(limit_s=limit_s)
    arena.check_memory()
    if kernel.workspace_bytes:
        _check_workspace(kernel)
    return took_us


def _check_workspace(kernel: LoadedKernel) -> None:
    buffer = _workspace(kernel.workspace_bytes, kernel.zeroed_bytes)
    if fault := buffer.fault():
        raise MemoryFaultError(f"wrote outside its workspace: {fault}")
    if kernel.zeroed_bytes and buffer.device_bytes[: kernel.zeroed_bytes].get().any():
        raise MemoryFaultError("left its workspace other than zero where each call expects zeros")
