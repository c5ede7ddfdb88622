"""Device memory between guards, and one launch on it that is searched for stray writes. Judges no output.

Loading, streams and errors are in launcher.py. Inputs that are used again and again stay on the device
(`keep_on_device`): a launch is then checked without moving them, which is 400 MB of 540 at B4 H32 S4096 D128.
The bands, 32 KB each, are read back.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.gpu import comparisons as device_checks
from evoflash.gpu.comparisons import ComparisonBatch, MemoryPair
from evoflash.gpu.driver import PackedArguments, encode_map, pack_arguments
from evoflash.gpu.launcher import LoadedKernel, Stopwatch, settle
from evoflash.gpu.layout import POISON, layouts_of
from evoflash.gpu.memory import GUARD_BYTES, GuardedBuffer, allocate, has_room, scratch_of, workspace
from evoflash.gpu.sharing import beside_others
from evoflash.launch import TensorMapSpec, geometry
from evoflash.operation import ELEMENT_BYTES, Output, Sample, TensorSpec, TestInput, Workload, operation_of
from evoflash.validation.validator import Part, in_groups, part_of

_NUMPY = {"fp16": np.uint16, "bf16": np.uint16, "fp32": np.float32}  # 16-bit floats travel as patterns


class MemoryFaultError(Exception):
    """A kernel wrote where it must not; the message says where."""


def spoilt(name: str) -> MemoryFaultError:
    """What is said where something is overwritten that no kernel was given."""
    return MemoryFaultError(f"it, or a kernel before it, overwrote evoflash's own copy of {name}")


def _inputs(inputs: TestInput) -> dict[str, NDArray[np.uint8]]:
    tensors = inputs.tensors.items()
    return {name: np.ascontiguousarray(x).view(np.uint8).reshape(-1) for name, x in tensors}


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """Inputs and their copy on the device, at addresses that no kernel is given."""

    inputs: TestInput
    images: Mapping[str, Any]  # by tensor name, as CuPy arrays of uint8

    def verify(self) -> None:
        """Raises MemoryFaultError when the images are not what was uploaded; reads all of them back."""
        for name, values in _inputs(self.inputs).items():
            if (self.images[name].get() != values).any():
                raise spoilt(name)


def keep_on_device(inputs: TestInput) -> TestInput | Original:
    """Upload inputs that will be used again; the inputs themselves where the device has no room to spare."""
    tensors = _inputs(inputs)
    if not has_room(sum(values.nbytes for values in tensors.values())):
        return inputs
    images = {name: allocate(values.nbytes) for name, values in tensors.items()}
    for name, image in images.items():
        image.set(tensors[name])
    settle()
    return Original(inputs, images)


class Arena:
    """Device memory for one workload: its tensors, each guarded; dense, or strided as layout.py has them."""

    def __init__(
        self,
        workload: Workload,
        *,
        rng: np.random.Generator,
        guard_bytes: int = GUARD_BYTES,
        is_strided: bool = False,
    ) -> None:
        self.workload = workload
        self._operation = operation_of(workload)
        specs = self._operation.tensors(workload)
        self._specs = {spec.name: spec for spec in specs}
        self._layouts = layouts_of(specs, is_strided=is_strided)
        self.buffers = {
            name: GuardedBuffer(layout.size_bytes, rng=rng, guard_bytes=guard_bytes)
            for name, layout in self._layouts.items()
        }
        self.inputs: TestInput | Original | None = None
        self._plain: dict[int, PackedArguments] = {}
        self._maps: dict[TensorMapSpec, PackedArguments] = {}

    def arguments(self, kernel: LoadedKernel, *, without: Collection[str] = ()) -> tuple[Any, ...]:
        """The kernel's arguments for these tensors, its tensor maps first; a null pointer tells it not to
        write an output that is left out. Zeroes what the kernel expects to be zero of its workspace.
        """
        plain = self._arguments(scratch_of(kernel), without)
        return *(value for wanted in kernel.maps for value in self._map(wanted).values), *plain

    def packed_arguments(self, kernel: LoadedKernel) -> PackedArguments:
        """As arguments(), for LoadedKernel.enqueue_packed(). They are kept: a graph takes them of 60 arenas,
        and of the candidates of a search most ask for the same.
        """
        scratch = scratch_of(kernel)
        if scratch not in self._plain:
            self._plain[scratch] = pack_arguments(self._arguments(scratch, ()))
        maps = (self._map(wanted) for wanted in kernel.maps)
        return sum(maps, start=PackedArguments((), ())) + self._plain[scratch]

    def _arguments(self, scratch: int, without: Collection[str]) -> tuple[np.generic, ...]:
        addresses = {name: 0 if name in without else x.pointer for name, x in self.buffers.items()}
        strides = {name: layout.strides for name, layout in self._layouts.items()}
        return self._operation.arguments(self.workload, addresses, strides, workspace=scratch)

    def _map(self, wanted: TensorMapSpec) -> PackedArguments:
        if wanted not in self._maps:
            self._maps[wanted] = pack_arguments([self._encode_map(wanted)])
        return self._maps[wanted]

    def _encode_map(self, wanted: TensorMapSpec) -> NDArray[np.void]:
        spec = self._specs[wanted.of]
        strides = [ELEMENT_BYTES[spec.dtype] * stride for stride in self._layouts[wanted.of].strides]
        return encode_map(
            self.buffers[wanted.of].pointer,
            *geometry(wanted, spec.shape, strides),
            dtype=spec.dtype,
            swizzle=wanted.swizzle,
            l2_promotion=wanted.l2_promotion,
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What kernels write."""
        return tuple(spec for spec in self._specs.values() if spec.role != "input")

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
        for spec in self.outputs:
            self.buffers[spec.name].poison(stream)

    def fill_outputs(self, byte: int, stream: Any) -> None:
        """Fill the outputs with one byte, in stream order."""
        for spec in self.outputs:
            buffer = self.buffers[spec.name].device_bytes
            buffer.data.memset_async(byte, buffer.nbytes, stream)

    def output(self, *, without: Collection[str] = ()) -> Output:
        """What a kernel wrote, but for the outputs that are left out."""
        wanted = (spec for spec in self.outputs if spec.name not in without)
        return Output({spec.name: self._as_tensor(self.buffers[spec.name].read(), spec) for spec in wanted})

    def output_rows(self) -> Output:
        """The outputs that are judged row by row alone."""
        return self.output(without=[spec.name for spec in self.outputs if spec.role != "rows"])

    def _as_tensor(self, values: NDArray[np.uint8], spec: TensorSpec) -> NDArray[Any]:
        return self._layouts[spec.name].values(values)

    def part(self, sample: Sample) -> Part:
        """The outputs at a sample. All rows are searched for NaNs and infinities, on the device."""
        for spec in self.rows:
            if device_checks.holds_non_finite(self.buffers[spec.name].device_bytes, dtype=spec.dtype):
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
        return any(
            device_checks.differ(copy, self.buffers[name].device_bytes) for name, copy in copies.items()
        )

    def as_output(self, copies: Mapping[str, Any]) -> Output:
        """What copy_of_rows() made, on the host."""
        return Output({name: self._as_tensor(copy.get(), self._specs[name]) for name, copy in copies.items()})

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
            changed = (n for n, x in kept if device_checks.differ(self.buffers[n].device_bytes, x))
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


def run_once(kernel: LoadedKernel, arena: Arena, inputs: TestInput, *, stream: Any, limit_s: float) -> Output:
    """One guarded launch with all outputs. Raises MemoryFaultError, KernelHungError, or CuPy's errors."""
    launch(kernel, arena, inputs, stream=stream, limit_s=limit_s)
    return arena.output()


def launch(
    kernel: LoadedKernel,
    arena: Arena,
    inputs: TestInput | Original,
    *,
    stream: Any,
    limit_s: float,
    without: Collection[str] = (),
) -> float:
    """As run_once, leaving the output in the arena; how many microseconds the launch took: unrepeated, so
    good for a first look only.
    """
    with beside_others():
        arena.load(inputs)
        with stream:
            arena.poison(stream)
            if kernel.workspace_bytes:
                workspace(kernel.workspace_bytes, kernel.zeroed_bytes).poison(stream)
            given = arena.arguments(kernel, without=without)
            stopwatch = Stopwatch(stream)
            kernel.enqueue(given)
        took_us = stopwatch.stop(limit_s=limit_s)
        arena.check_memory()
        if kernel.workspace_bytes:
            _check_workspace(kernel)
    return took_us


def _check_workspace(kernel: LoadedKernel) -> None:
    buffer = workspace(kernel.workspace_bytes, kernel.zeroed_bytes)
    if fault := buffer.fault():
        raise MemoryFaultError(f"wrote outside its workspace: {fault}")
    if kernel.zeroed_bytes and buffer.device_bytes[: kernel.zeroed_bytes].get().any():
        raise MemoryFaultError("left its workspace other than zero where each call expects zeros")
