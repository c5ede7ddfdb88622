"""Device memory between guards, and one launch on it that is searched for stray writes. Judges no output.

Loading, streams and errors are in launcher.py. Inputs that are used again and again stay on the device
(`keep_on_device`): a launch is then checked without moving them, which is 400 MB of 540 at B4 H32 S4096 D128.
The bands, 32 KB each, are read back.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.gpu.comparisons import ComparisonBatch, MemoryPair, differ, holds_non_finite
from evoflash.gpu.driver import PackedArguments
from evoflash.gpu.launcher import LoadedKernel, Stopwatch, beside_others, settle
from evoflash.gpu.memory import (
    COARSE,
    POISON,
    CallArguments,
    GuardedBuffer,
    allocate,
    has_room,
    layouts_of,
    on_device,
    raw_bytes,
    scratch_of,
    workspace,
)
from evoflash.operation import operation_of
from evoflash.validation.validator import Part, in_groups, part_of
from evoflash.workload import Output, Sample, TensorSpec, TestInput, Workload

_NUMPY = {"fp16": np.uint16, "bf16": np.uint16, "fp32": np.float32}  # 16-bit floats travel as patterns


class MemoryFaultError(Exception):
    """A kernel wrote where it must not; the message says where."""


def spoilt(name: str) -> MemoryFaultError:
    """What is said where something is overwritten that no kernel was given."""
    return MemoryFaultError(f"it, or a kernel before it, overwrote evoflash's own copy of {name}")


def verify_copy(copy: Any, values: NDArray[np.uint8], name: str) -> None:
    """Raises MemoryFaultError when a copy on the device is not what was uploaded; reads all of it back."""
    if (copy.get() != values).any():
        raise spoilt(name)


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """Inputs and their copy on the device, at addresses that no kernel is given."""

    inputs: TestInput
    images: Mapping[str, Any]  # by tensor name, as CuPy arrays of uint8

    def verify(self) -> None:
        """As verify_copy(), of all images."""
        for name, values in self.inputs.tensors.items():
            verify_copy(self.images[name], raw_bytes(values), name)


def keep_on_device(inputs: TestInput) -> TestInput | Original:
    """Upload inputs that will be used again; the inputs themselves where the device has no room to spare."""
    if not has_room(sum(values.nbytes for values in inputs.tensors.values())):
        return inputs
    return Original(inputs, {name: on_device(values) for name, values in inputs.tensors.items()})


class Arena:
    """Device memory for one workload: its tensors, each guarded; dense, or strided as their layouts say."""

    def __init__(
        self,
        workload: Workload,
        *,
        rng: np.random.Generator,
        step: int = COARSE,
        is_strided: bool = False,
    ) -> None:
        """`step`: the bytes that each tensor begins at a multiple of."""
        self.workload = workload
        specs = operation_of(workload).tensors(workload)
        self._layouts = layouts_of(specs, is_strided=is_strided)
        self.buffers = {
            name: GuardedBuffer(layout.size_bytes, rng=rng, step=step)
            for name, layout in self._layouts.items()
        }
        self.inputs: TestInput | Original | None = None
        self._arguments = CallArguments(workload, self.buffers, self._layouts)

    def arguments(self, kernel: LoadedKernel, *, without: Collection[str] = ()) -> tuple[Any, ...]:
        """The kernel's arguments for these tensors, but for outputs that are left out. Zeroes what the kernel
        expects to be zero of its workspace.
        """
        return self._arguments.values(kernel, scratch_of(kernel), without=without)

    def packed_arguments(self, kernel: LoadedKernel) -> PackedArguments:
        """As arguments(), for LoadedKernel.enqueue_packed()."""
        return self._arguments.pack(kernel, scratch_of(kernel))

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return tuple(x.spec for x in self._layouts.values() if x.spec.role != "input")

    @property
    def rows(self) -> tuple[TensorSpec, ...]:
        """Of the outputs those that are judged row by row."""
        return tuple(spec for spec in self.outputs if spec.role == "rows")

    def load(self, inputs: TestInput | Original) -> None:
        """Put inputs in place; on the device they lie dense, as this arena's tensors must then."""
        if isinstance(inputs, Original):
            for name, image in inputs.images.items():
                self.buffers[name].copy(image)
        else:
            for name, values in inputs.tensors.items():
                self.buffers[name].write(self._layouts[name].image(values))
        settle()
        self.inputs = inputs

    def poison(self, stream: Any) -> None:
        """Fill the outputs with NaN: what a kernel does not write is seen."""
        self.fill_outputs(POISON, stream)

    def fill_outputs(self, byte: int, stream: Any) -> None:
        """Fill the outputs with one byte, in stream order."""
        for spec in self.outputs:
            self.buffers[spec.name].fill(byte, stream)

    def output(self, *, without: Collection[str] = ()) -> Output:
        """What a kernel wrote, but for the outputs that are left out."""
        wanted = (spec for spec in self.outputs if spec.name not in without)
        return Output({x.name: self._layouts[x.name].values(self.buffers[x.name].read()) for x in wanted})

    def output_rows(self) -> Output:
        """The outputs that are judged row by row alone."""
        return self.output(without=[spec.name for spec in self.outputs if spec.role != "rows"])

    def part(self, sample: Sample) -> Part:
        """The outputs at a sample. All rows are searched for NaNs and infinities, on the device."""
        for spec in self.rows:
            if holds_non_finite(self.buffers[spec.name].device_bytes, dtype=spec.dtype):
                part = part_of(self.output(), sample, workload=self.workload)
                return replace(part, broken=part.broken or "somewhere")
        return Part(
            {spec.name: self._groups(spec, sample)[:, sample.rows] for spec in self.outputs}, broken=""
        )

    def _groups(self, spec: TensorSpec, sample: Sample) -> NDArray[Any]:
        """The sample's groups of an output: whole groups are copied at once, and some are few."""
        groups = math.prod(spec.group_shape)
        if len(sample.groups) == groups:
            values = self.buffers[spec.name].read()
        else:
            by_group = self.buffers[spec.name].device_bytes.reshape(groups, -1)
            values = np.concatenate([by_group[int(group)].get() for group in sample.groups])
        return in_groups(values.view(_NUMPY[spec.dtype]), spec)

    def copy_of_rows(self) -> dict[str, Any] | None:
        """The outputs of rows as CuPy arrays of uint8 elsewhere on the device; None where there is no room to
        spare.
        """
        outputs = {spec.name: self.buffers[spec.name].device_bytes for spec in self.rows}
        if not has_room(sum(out.nbytes for out in outputs.values())):
            return None
        copies = {name: allocate(out.nbytes) for name, out in outputs.items()}
        for name, copy in copies.items():
            copy.data.copy_from_device(outputs[name].data, copy.nbytes)
        settle()
        return copies

    def differ_from(self, copies: Mapping[str, Any]) -> bool:
        """Whether the outputs of rows are not, bit for bit, what copy_of_rows() copied."""
        return any(differ(copy, self.buffers[name].device_bytes) for name, copy in copies.items())

    def as_output(self, copies: Mapping[str, Any]) -> Output:
        """What copy_of_rows() made, on the host."""
        return Output({name: self._layouts[name].values(copy.get()) for name, copy in copies.items()})

    def read_only_pairs(self) -> list[MemoryPair] | None:
        """What no kernel may change, for a comparison on the device; None where that does not have it all."""
        if not isinstance(self.inputs, Original) or any(x.gap for x in self._layouts.values()):
            return None
        bands = [MemoryPair(*band) for buffer in self.buffers.values() for band in buffer.bands]
        images = self.inputs.images.items()
        inputs = [(self.buffers[name].pointer, int(x.data.ptr), x.nbytes) for name, x in images]
        return [*bands, *(MemoryPair(*each) for each in inputs)]

    def check_memory(self) -> None:
        """Raises MemoryFaultError when a guard band or an input is no longer what was put there."""
        for name, buffer in self.buffers.items():
            if fault := buffer.fault():
                raise MemoryFaultError(f"wrote outside {name}: {fault}")
        if changed := self._changed_input():
            raise MemoryFaultError(f"changed its input {changed}")
        for name, layout in self._layouts.items():
            if layout.gap and (layout.between_rows(self.buffers[name].read()) != POISON).any():
                raise MemoryFaultError(f"wrote between the rows of {name}")

    def _changed_input(self) -> str:
        """Every byte is compared: with the image on the device, or, where there is none, with the inputs."""
        if isinstance(self.inputs, Original):
            kept = self.inputs.images.items()
            changed = (n for n, x in kept if differ(self.buffers[n].device_bytes, x))
        elif self.inputs is not None:
            inputs = self.inputs.tensors.items()
            images = ((n, self._layouts[n].image(x)) for n, x in inputs)
            changed = (n for n, x in images if (self.buffers[n].read() != x).any())
        else:
            return ""
        return next(changed, "")


def check_memory_of(arenas: Sequence[Arena]) -> None:
    """As check_memory() of each of them, in one question where they all are on the device."""
    parts = [arena.read_only_pairs() for arena in arenas]
    pairs = [pair for part in parts for pair in part or ()]
    if all(part is not None for part in parts) and not ComparisonBatch(pairs).ask_now().any():
        return
    for arena in arenas:
        arena.check_memory()


def launch(
    kernel: LoadedKernel,
    arena: Arena,
    inputs: TestInput | Original,
    *,
    stream: Any,
    limit_s: float,
    without: Collection[str] = (),
) -> float:
    """One guarded launch that leaves its outputs in the arena; how many microseconds it took: unrepeated, so
    good for a first look only. Raises MemoryFaultError, KernelHungError, or CuPy's errors.
    """
    with beside_others():
        arena.load(inputs)
        with stream:
            arena.poison(stream)
            if kernel.workspace_bytes:
                workspace(*kernel.scratch).poison(stream)
            given = arena.arguments(kernel, without=without)
            stopwatch = Stopwatch(stream)
            kernel.enqueue(given)
        took_us = stopwatch.stop(limit_s=limit_s)
        arena.check_memory()
        if kernel.workspace_bytes:
            buffer, zeroed = workspace(*kernel.scratch), kernel.zeroed_bytes
            check_workspaces([buffer], is_dirty=bool(zeroed and buffer.device_bytes[:zeroed].get().any()))
    return took_us


def check_workspaces(buffers: Iterable[GuardedBuffer], *, is_dirty: bool) -> None:
    """Raises MemoryFaultError when a guard band of one changed, or what must be zero of one is not."""
    if fault := next(filter(None, (buffer.fault() for buffer in buffers)), ""):
        raise MemoryFaultError(f"wrote outside its workspace: {fault}")
    if is_dirty:
        raise MemoryFaultError("left its workspace other than zero where each call expects zeros")
