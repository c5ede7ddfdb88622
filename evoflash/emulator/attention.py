"""One attention call of a built kernel in the emulator: buffers, arguments, launches; and where it is wrong.

Outputs are poisoned before. It runs in this process, as emulator.py does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.abi import Strides, arguments
from evoflash.emulator import launch as emulator
from evoflash.emulator.tensor_map import tensor_map
from evoflash.errors import UsageError
from evoflash.evaluation import Launch, TensorMap, geometry
from evoflash.problem import Workload
from evoflash.validation.inputs import Trial
from evoflash.validation.reference import Expected, decode, over_rms
from evoflash.validation.thresholds import gates_of
from evoflash.validation.validator import Output

_POISON = 0xFFFF  # NaN in fp16 and bf16
_GAP = 16  # elements: rows stay aligned to 16 bytes, as TMA and vector loads want them
_NOT_ZEROED = emulator.Report(
    *("workspace-not-zeroed", 0, 0, 1),
    "the part of the workspace that must be zero before each call is not zero after this one",
)
_BETWEEN_ROWS = emulator.Report(
    *("OOB-global", 0, 0, 1), "O was written between its rows, which do not lie close together here"
)


@dataclass(frozen=True, slots=True)
class Run:
    """How one run goes inside the emulator."""

    delivery: emulator.Delivery
    schedule: emulator.Schedule
    seed: int
    cpu_limit_s: float  # of each launch
    registers: int = 0  # that the compiler gave a thread; 0: not known
    wants_lse: bool = True  # of an attention kernel: LSE may be null
    is_strided: bool = False  # tensors lie as (batch, row, head, dim) with a gap behind each row, not dense

    def __str__(self) -> str:
        without = "" if self.wants_lse else ", LSE null"
        strided = ", strided" if self.is_strided else ""
        return f"{self.delivery} delivery, {self.schedule} schedule, seed {self.seed}{without}{strided}"


def attend(
    library: Path,
    launches: tuple[Launch, ...],
    workload: Workload,
    trial: Trial,
    run: Run,
) -> tuple[tuple[emulator.Emulation, ...], Output]:
    """All launches of one attention call on a trial's inputs, and what they wrote."""
    with emulator.Memory() as memory:
        inputs = [
            _tensor(memory, name, x.shape, run, fill=x)
            for name, x in (("Q", trial.q), ("K", trial.k), ("V", trial.v))
        ]
        out = _tensor(memory, "O", trial.q.shape, run, fill=_POISON, is_output=True)
        lse = memory.array("LSE", trial.q.shape[:3], np.float32, writable=True, unset=True, fill=np.nan)
        q, k, v, o, lse_at = (array.ctypes.data for array in (*inputs, out, lse))
        scratch = _workspace(memory, launches[0])
        arrays = dict(zip("QKVO", (*inputs, out), strict=True))
        given = (
            *(mapped(each, arrays[each.of]) for each in launches[0].maps),
            *arguments(
                workload,
                (q, k, v, o, lse_at if run.wants_lse else 0),
                (_strides(inputs[0]), _strides(inputs[1]), _strides(inputs[2]), _strides(out)),
                workspace=0 if scratch is None else scratch.ctypes.data,
            ),
        )
        emulations = [launch_once(library, launch, given, run) for launch in launches]
        if scratch is not None and scratch[: launches[0].zeroed_bytes].any():
            emulations[-1] = _reported(emulations[-1], _NOT_ZEROED)
        if _wrote_between_rows(out):
            emulations[-1] = _reported(emulations[-1], _BETWEEN_ROWS)
        return tuple(emulations), Output(out.copy(), lse.copy() if run.wants_lse else None)


def _tensor(
    memory: emulator.Memory,
    name: str,
    shape: tuple[int, ...],
    run: Run,
    *,
    fill: Any,
    is_output: bool = False,
) -> NDArray[np.uint16]:
    """A (batch, heads, rows, head_dim) tensor: dense, or a view with the heads inside and poisoned gaps."""
    if not run.is_strided:
        return memory.array(name, shape, np.uint16, writable=is_output, unset=is_output, fill=fill)
    batch, heads, rows, head_dim = shape
    wide = (batch, rows, heads, head_dim + _GAP)
    array = memory.array(name, wide, np.uint16, writable=is_output, unset=is_output, fill=_POISON)
    view = array.transpose(0, 2, 1, 3)[..., :head_dim]
    view[...] = fill
    return view


def _wrote_between_rows(tensor: NDArray[np.uint16]) -> bool:
    whole = tensor.base  # of a view the array that _tensor made; a dense tensor is that array itself
    return isinstance(whole, np.ndarray) and bool((whole[..., tensor.shape[-1] :] != _POISON).any())


def _strides(tensor: NDArray[np.uint16]) -> Strides:
    batch, head, row, _ = (stride // tensor.itemsize for stride in tensor.strides)
    return batch, head, row


def mapped(wanted: TensorMap, array: np.ndarray[Any, Any]) -> np.generic:
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


def describe_error(workload: Workload, expected: Expected, output: Output) -> tuple[str, str]:
    """The worst element with its value, and which rows and columns are wrong; `expected` is of every row."""
    got = decode(output.out.reshape(-1, workload.seq_q, workload.head_dim), workload.dtype)
    relative = over_rms(np.abs(got - expected.out), expected.scale.rms)
    relative = np.where(np.isfinite(relative), relative, np.inf)
    head, row, column = np.unravel_index(int(relative.argmax()), relative.shape)
    b, h = divmod(int(head), workload.heads)
    value, right = float(got[head, row, column]), float(expected.out[head, row, column])
    worst = (
        f"O is {value:.5g} instead of {right:.5g} at b={b} h={h} row={row} col={column}, its worst element"
    )
    wrong = relative > gates_of(workload).max_over_rms
    heads, rows, columns = (_ranges(np.unique(numbers)) for numbers in np.nonzero(wrong))
    extent = f"{int(wrong.sum()):,} of {wrong.size:,} elements are wrong"
    if wrong.any():
        extent += f": heads {heads}, rows {rows}, columns {columns}"
    return worst, extent


def _ranges(numbers: NDArray[np.intp], most: int = 6) -> str:
    """ "0-31,64": ascending numbers, neighbours joined."""
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    runs = [part for part in np.split(numbers, breaks) if len(part)]
    words = [str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in runs]
    return ",".join(words[:most]) + (",..." if len(words) > most else "")
