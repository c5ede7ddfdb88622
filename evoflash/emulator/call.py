"""Calls a built kernel in the emulator, with its tensors, arguments and launches. Judges nothing.

Outputs are poisoned before each call. It runs in this process, as launch.py does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from evoflash.emulator import launch as emulator
from evoflash.emulator.tensor_map import tensor_map
from evoflash.errors import DeviceError, UsageError
from evoflash.kernels import gxx
from evoflash.launch import LaunchConfig, TensorMapSpec, geometry
from evoflash.numerics import ARRAY_TYPES
from evoflash.operation import Delivery, Schedule, operation_of
from evoflash.workload import ELEMENT_BYTES, Output, TensorSpec, TestInput, Workload

Array = NDArray[Any]

# Elements from one to the next along a strided tensor's batches and heads: more than 32 bits count, and no
# multiple of what they do, so that an offset that was cut to 32 bits is another place. Each tensor adds to it
# by its gap.
_FAR = (1 << 32) + (1 << 16) + 8
# Rows are at least so far apart and less than 2^31 bytes, on which kernels may count.
_MOST_APART = 1 << 39  # elements: from twice as many bytes on a tensor map takes no stride
_FAR_ROWS, _MOST_ROWS_APART = (1 << 26) + (1 << 16) + 8, (1 << 30) - (1 << 17) + 8
_MOST_FAR_ROWS = 512  # each of which takes pages of its own
_LEAD_BYTES = 16  # what tensors are aligned to, and no more
_NOT_ZEROED = emulator.EmulatorReport(
    *("workspace-not-zeroed", 0, 0, 1),
    "the part of the workspace that must be zero before each call is not zero after this one",
)


@dataclass(frozen=True, slots=True)
class EmulatorRun:
    """How one run goes inside the emulator."""

    delivery: Delivery
    schedule: Schedule
    seed: int
    cpu_limit_s: float  # of each launch
    registers: int = 0  # that the compiler gave a thread; 0: not known
    without: tuple[str, ...] = ()  # optional outputs whose pointer is null
    is_strided: bool = False  # tensors lie as their TensorSpec.spread and .gap say, see Placed
    is_displaced: bool = False  # tensors lie at drawn addresses, 16 bytes behind aligned ones
    is_rescaled: bool = False  # another scale and inputs that make up for it, see Operation.rescale
    watched: tuple[int, ...] = ()  # lines whose callers are told apart, of a library built for that
    is_repeated: bool = False  # three calls in one memory: on inputs, on others, and on the first again
    kernel_before: Path | None = None  # its library, where a sandbox has no compiler; None: it is built

    def __str__(self) -> str:
        without = "".join(f", {name} null" for name in self.without)
        strided = (", strided" if self.is_strided else "") + (", another scale" if self.is_rescaled else "")
        repeated = ", called three times" if self.is_repeated else ""
        how = f"{without}{strided}{repeated}"
        return f"{self.delivery} delivery, {self.schedule} schedule, seed {self.seed}{how}"

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the inputs of each call."""
        return (self.seed, self.seed + 1, self.seed) if self.is_repeated else (self.seed,)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedTensor:
    """A tensor in the emulator's memory.

    A strided one has its axes in another order, a gap of poison behind each row, and its batches, its heads
    and, where they are few, its rows so far apart that 32 bits do not count the elements between them; where
    the system has no address space for that, close together.
    """

    array: Array  # of the tensor's own shape
    poisoned: Array | None = None  # all memory of a strided one that was: rows and gaps


def run_call(
    library: Path,
    launches: tuple[LaunchConfig, ...],
    workload: Workload,
    inputs: TestInput,
    run: EmulatorRun,
) -> tuple[tuple[emulator.Emulation, ...], Output]:
    """All launches of one call on the inputs, and what they wrote."""
    return run_calls(library, launches, workload, [inputs], run)[0]


def run_calls(
    library: Path,
    launches: tuple[LaunchConfig, ...],
    workload: Workload,
    calls: Sequence[TestInput],
    run: EmulatorRun,
) -> list[tuple[tuple[emulator.Emulation, ...], Output]]:
    """Calls on these inputs one after the other, in one memory: each finds the workspace as the one before it
    has left it, and its threads and blocks run in another order. After a report there is no further call.
    """
    operation, found = operation_of(workload), []
    scaling: Mapping[str, float] = {}
    if run.is_rescaled and operation.rescale:
        scaled = [operation.rescale(inputs, workload) for inputs in calls]
        calls, scaling = [inputs for inputs, _ in scaled], scaled[0][1]
    specs, inputs = operation.tensors(workload), calls[0]
    with emulator.Memory(run.seed if run.is_displaced else None) as memory:
        written_before = _written_before(specs, launches[0], run)
        results = [spec.name for spec in specs if spec.role != "input" and spec.name not in run.without]
        placed = {
            spec.name: _place(memory, spec, run, inputs, is_read_only=spec.name not in written_before)
            for spec in specs
        }
        arrays = {name: each.array for name, each in placed.items()}
        addresses = {name: 0 if name in run.without else array.ctypes.data for name, array in arrays.items()}
        scratch = _workspace(memory, launches[0])
        given = (
            *(map_tensor(wanted, arrays[wanted.of]) for wanted in launches[0].maps),
            *operation.arguments(
                workload,
                addresses,
                {name: _strides(array) for name, array in arrays.items()},
                workspace=0 if scratch is None else scratch.ctypes.data,
                **scaling,
            ),
        )
        for at, inputs in enumerate(calls):
            if at > 0:
                for spec in specs:
                    arrays[spec.name][...] = _fill_of(spec, inputs)
            if launches[0].dependent and not run.is_strided:
                parts = () if scratch is None else np.split(scratch, [launches[0].zeroed_bytes])
                written = [*(arrays[name] for name in written_before), *parts[:1]]
                read = [*(arrays[name] for name in results), *parts[1:]]
                _run_the_kernel_before(written, read, run)
            ordered = replace(run, seed=run.seed + at)
            emulations = [launch_once(library, launch, given, ordered) for launch in launches]
            output = Output({name: arrays[name].copy() for name in results})
            if scratch is not None and scratch[: launches[0].zeroed_bytes].any():
                emulations[-1] = _with_report(emulations[-1], _NOT_ZEROED)
            if between := _gap_write_report(placed, specs):
                emulations[-1] = _with_report(emulations[-1], between)
            found.append((tuple(emulations), output))
            if any(emulation.reports for emulation in emulations):
                break
    return found


def _fill_of(spec: TensorSpec, inputs: TestInput) -> Any:
    """An input's values; an output's poison."""
    return inputs.tensors[spec.name] if spec.role == "input" else _poison_of(spec)


def _written_before(specs: Sequence[TensorSpec], launch: LaunchConfig, run: EmulatorRun) -> tuple[str, ...]:
    """The inputs that a kernel before the call writes: none, but where a call's first launch may begin before
    that has ended. Of strided tensors none either, so that a write to an input is seen there.
    """
    if not launch.dependent or run.is_strided:
        return ()
    return tuple(spec.name for spec in specs if spec.role == "input" and not spec.is_constant)


_MOST_BEFORE = 16  # arrays that a kernel before a call uses
_BEFORE = """\
#include "ef.h"

// What lies there is written once more, or read: 16 bytes at a time, as kernels do, and two at a time what is
// in front of these and behind them. Nothing is there for most.
template <class T>
EF_DEV void use_all(ef::u16* at, int begin, int end, int writes) {{
  constexpr int many = sizeof(T) / sizeof(ef::u16);
  for (int i = begin + many * threadIdx.x; i < end; i += 32 * many) {{
    T* const place = (T*)(at + i);
    const T value = ef::ldg(place);
    if (writes) ef::stg(place, value);
  }}
}}

EF_DEV void use(ef::u16* at, int count, int writes) {{
  const int in_front = (int)((0 - (unsigned long long)at) % 16 / 2);
  const int begin = in_front < count ? in_front : count, end = begin + (count - begin) / 8 * 8;
  use_all<ef::u16>(at, 0, begin, writes);
  use_all<ef::u32x4>(at, begin, end, writes);
  use_all<ef::u16>(at, end, count, writes);
}}

extern "C" __global__ void kernel_before({parameters}) {{
  {body}
}}
EF_EXPORT_KERNEL(kernel_before)
""".format(
    parameters=", ".join(f"ef::u16* a{at}, int count{at}, int writes{at}" for at in range(_MOST_BEFORE)),
    body="\n  ".join(f"use(a{at}, count{at}, writes{at});" for at in range(_MOST_BEFORE)),
)


def kernel_before() -> Path:
    """The library of a kernel that a call may begin before the end of. DeviceError without g++."""
    return gxx.build(_BEFORE, name="kernel_before")


def _run_the_kernel_before(written: Sequence[Array], read: Sequence[Array], run: EmulatorRun) -> None:
    """A launch that uses these arrays, of which the next one may begin before it has ended."""
    used = [*((array, 1) for array in written), *((array, 0) for array in read)]
    given: list[np.generic] = []
    for array, writes in used:
        given += (np.uint64(array.ctypes.data), np.int32(array.nbytes // 2), np.int32(writes))
    given += (np.uint64(0), np.int32(0), np.int32(0)) * (_MOST_BEFORE - len(used))
    launch = LaunchConfig("kernel_before", (1, 1, 1), (32, 1, 1), 0)
    launch_once(run.kernel_before or kernel_before(), launch, given, run)


def _place(
    memory: emulator.Memory, spec: TensorSpec, run: EmulatorRun, inputs: TestInput, *, is_read_only: bool
) -> PlacedTensor:
    """A tensor with its values, or poisoned if it is an output."""
    is_output, fill = spec.role != "input", _fill_of(spec, inputs)
    lead = _LEAD_BYTES if run.is_displaced else 0
    if run.is_strided and spec.spread:
        return _place_strided(memory, spec, fill, lead=lead)
    kind = ARRAY_TYPES[spec.dtype]
    return PlacedTensor(
        memory.array(
            spec.name,
            spec.shape,
            kind,
            writable=is_output or not is_read_only,
            unset=is_output,
            lead=lead,
            fill=fill,
        )
    )


def _place_strided(memory: emulator.Memory, spec: TensorSpec, fill: Any, *, lead: int) -> PlacedTensor:
    is_output = spec.role != "input"
    for is_far in (True, False):
        strides, size = _strided_layout(spec, is_far=is_far)
        try:
            kind = ARRAY_TYPES[spec.dtype]
            flat = memory.array(spec.name, (size,), kind, writable=is_output, unset=is_output, lead=lead)
        except DeviceError:
            if not is_far:
                raise
            continue
        break
    view = as_strided(flat, spec.shape, [stride * flat.itemsize for stride in strides])
    poisoned = _close_together(flat, spec, strides)
    poisoned[...] = _poison_of(spec)
    view[...] = fill
    return PlacedTensor(view, poisoned)


def _strided_layout(spec: TensorSpec, *, is_far: bool) -> tuple[tuple[int, ...], int]:
    """Strides of the strided tensor, by axis, and its size; all in elements."""
    strides = dict.fromkeys(spec.spread, 1)
    size = spec.shape[spec.spread[-1]] + spec.gap
    rows, far = len(spec.shape) - 2, _far_axes(spec) if is_far else ()
    for axis in reversed(spec.spread[:-1]):
        apart = (_rows_apart(spec.shape[rows]) if axis == rows else _FAR) + 1024 * spec.gap
        apart *= 2 if ELEMENT_BYTES[spec.dtype] == 1 else 1  # as many bytes, and whole vectors of 16
        fits = max(size, apart) * spec.shape[axis] < _MOST_APART
        strides[axis] = max(size, apart) if axis in far and fits else size
        size = strides[axis] * (spec.shape[axis] - 1) + size
    return tuple(strides[axis] for axis in range(len(spec.shape))), size


def _rows_apart(rows: int) -> int:
    """Elements from one of so many rows to the next: 32 bits do not count those from the first to the last,
    where rows are three or four 31 bits.
    """
    wanted = _FAR // max(1, rows - 1) // 16 * 16 + 24  # an odd number of 16 bytes
    return max(_FAR_ROWS, min(_MOST_ROWS_APART, wanted))


def _far_axes(spec: TensorSpec) -> tuple[int, ...]:
    """The axes outside of the rows that have more than one place, outermost first, and the rows, unless they
    are many in all.

    Axes inside of the rows stay close together, and so do rows that others lie in: kernels may count on rows
    that are less than 2^31 bytes apart.
    """
    rows = len(spec.shape) - 2
    outside = spec.spread[: spec.spread.index(rows)]
    inside = spec.spread[len(outside) + 1 : -1]
    far = tuple(axis for axis in outside if spec.shape[axis] > 1)
    alone = all(spec.shape[axis] == 1 for axis in inside) and spec.shape[rows] > 1
    many = math.prod(spec.shape[axis] for axis in (*outside, rows))
    return (*far, rows) if alone and many <= _MOST_FAR_ROWS else far


def _close_together(flat: Array, spec: TensorSpec, strides: Sequence[int]) -> Array:
    """A strided tensor's memory but for what lies between places that are far apart."""
    far = [axis for axis in _far_axes(spec) if strides[axis] >= _FAR_ROWS]
    size = flat.size - sum(strides[axis] * (spec.shape[axis] - 1) for axis in far)
    shape = (*(spec.shape[axis] for axis in far), size)
    return as_strided(flat, shape, [flat.itemsize * step for step in (*(strides[axis] for axis in far), 1)])


def _poison_of(spec: TensorSpec) -> Any:
    """NaN of the type: of patterns, all ones."""
    kind = ARRAY_TYPES[spec.dtype]
    return np.nan if spec.dtype == "fp32" else np.iinfo(kind).max


def _gap_write_report(
    placed: Mapping[str, PlacedTensor], specs: Sequence[TensorSpec]
) -> emulator.EmulatorReport | None:
    """A report where an output was written between its rows; a dense tensor has nothing there. What is in the
    rows is gone afterwards.
    """
    for spec in specs:
        if spec.role != "rows":
            continue
        placed[spec.name].array[...] = _poison_of(spec)
        poisoned = placed[spec.name].poisoned
        if poisoned is not None and (poisoned != _poison_of(spec)).any():
            said = f"{spec.name} was written between its rows, which do not lie close together here"
            return emulator.EmulatorReport("OOB-global", 0, 0, 1, said)
    return None


def _strides(tensor: Array) -> tuple[int, ...]:
    return tuple(stride // tensor.itemsize for stride in tensor.strides)


def map_tensor(wanted: TensorMapSpec, array: Array) -> np.generic:
    """A tensor map of an array. UsageError as of a driver."""
    try:
        return tensor_map(
            array.ctypes.data,
            *geometry(wanted, array.shape, array.strides),
            element_bytes=array.itemsize,
            swizzle=wanted.swizzle,
        )
    except UsageError as error:
        raise UsageError(f"the map of '{wanted.of}': {error}") from None


def launch_once(
    library: Path, launch: LaunchConfig, given: Sequence[np.generic], run: EmulatorRun
) -> emulator.Emulation:
    """One launch as the run says."""
    return emulator.run_launch(
        library,
        launch,
        given,
        delivery=run.delivery,
        schedule=run.schedule,
        seed=run.seed,
        registers=run.registers,
        cpu_limit_s=run.cpu_limit_s,
        watched=run.watched,
    )


def _workspace(memory: emulator.Memory, launch: LaunchConfig) -> NDArray[np.uint8] | None:
    if not launch.workspace_bytes:
        return None
    array = memory.array(
        "workspace",
        (launch.workspace_bytes,),
        np.uint8,
        writable=True,
        unset=True,
        set_bytes=launch.zeroed_bytes,
        fill=0xFF,
    )
    array[: launch.zeroed_bytes] = 0
    return array


def _with_report(emulation: emulator.Emulation, report: emulator.EmulatorReport) -> emulator.Emulation:
    """With the report, unless there is one that may be the reason."""
    return emulation if emulation.reports else replace(emulation, reports=(report,))
