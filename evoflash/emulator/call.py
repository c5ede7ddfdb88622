"""One call of a built kernel in the emulator: its tensors, arguments and launches.

Outputs are poisoned before. It runs in this process, as launch.py does, and judges nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.emulator import launch as emulator
from evoflash.emulator.tensor_map import tensor_map
from evoflash.errors import UsageError
from evoflash.evaluation import Launch, TensorMap, geometry
from evoflash.operation import Delivery, Output, Schedule, TensorSpec, TestInput, Workload
from evoflash.operations import operation_of

Array = NDArray[Any]

_POISON = 0xFFFF  # NaN in fp16 and bf16
_GAP = 16  # elements: rows stay aligned to 16 bytes, as TMA and vector loads want them
_NOT_ZEROED = emulator.Report(
    *("workspace-not-zeroed", 0, 0, 1),
    "the part of the workspace that must be zero before each call is not zero after this one",
)


@dataclass(frozen=True, slots=True)
class Run:
    """How one run goes inside the emulator."""

    delivery: Delivery
    schedule: Schedule
    seed: int
    cpu_limit_s: float  # of each launch
    registers: int = 0  # that the compiler gave a thread; 0: not known
    without: tuple[str, ...] = ()  # optional outputs whose pointer is null
    is_strided: bool = False  # tensors lie as their TensorSpec.spread says, with a gap behind each row

    def __str__(self) -> str:
        without = "".join(f", {name} null" for name in self.without)
        strided = ", strided" if self.is_strided else ""
        return f"{self.delivery} delivery, {self.schedule} schedule, seed {self.seed}{without}{strided}"


def run_call(
    library: Path,
    launches: tuple[Launch, ...],
    workload: Workload,
    inputs: TestInput,
    run: Run,
) -> tuple[tuple[emulator.Emulation, ...], Output]:
    """All launches of one call on the inputs, and what they wrote."""
    operation = operation_of(workload)
    specs = operation.tensors(workload)
    with emulator.Memory() as memory:
        arrays = {spec.name: _tensor(memory, spec, run, inputs) for spec in specs}
        addresses = {name: 0 if name in run.without else array.ctypes.data for name, array in arrays.items()}
        scratch = _workspace(memory, launches[0])
        given = (
            *(mapped(wanted, arrays[wanted.of]) for wanted in launches[0].maps),
            *operation.arguments(
                workload,
                addresses,
                {name: _strides(array) for name, array in arrays.items()},
                workspace=0 if scratch is None else scratch.ctypes.data,
            ),
        )
        emulations = [launch_once(library, launch, given, run) for launch in launches]
        if scratch is not None and scratch[: launches[0].zeroed_bytes].any():
            emulations[-1] = _reported(emulations[-1], _NOT_ZEROED)
        if between := _written_between_rows(arrays, specs):
            emulations[-1] = _reported(emulations[-1], between)
        written = (spec for spec in specs if spec.role != "input" and spec.name not in run.without)
        return tuple(emulations), Output({spec.name: arrays[spec.name].copy() for spec in written})


def _tensor(memory: emulator.Memory, spec: TensorSpec, run: Run, inputs: TestInput) -> Array:
    """A tensor: dense, or a view with its axes in another order and poisoned gaps; an output is poisoned."""
    is_output = spec.role != "input"
    fill: Any = _poison_of(spec) if is_output else inputs.tensors[spec.name]
    kind = np.float32 if spec.dtype == "fp32" else np.uint16
    if not (run.is_strided and spec.spread):
        return memory.array(spec.name, spec.shape, kind, writable=is_output, unset=is_output, fill=fill)
    *leading, columns = (spec.shape[axis] for axis in spec.spread)
    array = memory.array(
        spec.name,
        (*leading, columns + _GAP),
        kind,
        writable=is_output,
        unset=is_output,
        fill=_poison_of(spec),
    )
    view = array.transpose(np.argsort(spec.spread))[..., :columns]
    view[...] = fill
    return view


def _poison_of(spec: TensorSpec) -> Any:
    return np.nan if spec.dtype == "fp32" else _POISON


def _written_between_rows(arrays: Mapping[str, Array], specs: Sequence[TensorSpec]) -> emulator.Report | None:
    """A report where an output was written between its rows; a dense tensor has nothing there."""
    for spec in specs:
        whole = arrays[spec.name].base  # of a view the array that _tensor made
        if spec.role != "rows" or not isinstance(whole, np.ndarray):
            continue
        if (whole[..., spec.shape[-1] :] != _POISON).any():
            said = f"{spec.name} was written between its rows, which do not lie close together here"
            return emulator.Report("OOB-global", 0, 0, 1, said)
    return None


def _strides(tensor: Array) -> tuple[int, ...]:
    return tuple(stride // tensor.itemsize for stride in tensor.strides)


def mapped(wanted: TensorMap, array: Array) -> np.generic:
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


def launch_once(library: Path, launch: Launch, given: Sequence[np.generic], run: Run) -> emulator.Emulation:
    """One launch as the run says."""
    return emulator.run(
        library,
        launch,
        given,
        delivery=run.delivery,
        schedule=run.schedule,
        seed=run.seed,
        registers=run.registers,
        cpu_limit_s=run.cpu_limit_s,
    )


def _workspace(memory: emulator.Memory, launch: Launch) -> NDArray[np.uint8] | None:
    if not launch.workspace_bytes:
        return None
    # An array is unset as a whole: where a part is set, reading the rest is seen by its poison alone.
    array = memory.array(
        "workspace",
        (launch.workspace_bytes,),
        np.uint8,
        writable=True,
        unset=not launch.zeroed_bytes,
        fill=0xFF,
    )
    array[: launch.zeroed_bytes] = 0
    return array


def _reported(emulation: emulator.Emulation, report: emulator.Report) -> emulator.Emulation:
    """With the report, unless there is one that may be the reason."""
    return emulation if emulation.reports else replace(emulation, reports=(report,))
