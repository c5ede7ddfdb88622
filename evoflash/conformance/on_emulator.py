"""Runs a trial in the CPU emulator."""

from pathlib import Path

import numpy as np

from evoflash.conformance.cases import Argument, Array, Map, Pointer, Trial
from evoflash.emulator import launch as emulator
from evoflash.emulator.tensor_map import tensor_map


class ReportedError(Exception):
    """The emulator found fault with a conformance kernel: its first report, in one line."""


def run(trial: Trial, library: Path) -> dict[str, Array]:
    """The results after the launches of a built module. Raises ReportedError."""
    with emulator.Memory() as memory:
        buffers = {
            name: memory.array(name, values.shape, values.dtype, writable=name in trial.results, fill=values)
            for name, values in (*trial.inputs.items(), *trial.results.items())
        }
        given = [_argument(argument, buffers) for argument in trial.arguments]
        for launch in trial.launches:
            reports = emulator.run(library, launch, given, cpu_limit_s=60.0).reports
            if reports:
                first = reports[0]
                raise ReportedError(f"the emulator reports {first.kind}, line {first.line}: {first.message}")
        return {name: buffers[name].copy() for name in trial.results}


def _argument(argument: Argument, buffers: dict[str, Array]) -> np.generic:
    if isinstance(argument, Pointer):
        return np.uint64(buffers[argument.buffer].ctypes.data)
    if isinstance(argument, Map):
        return tensor_map(
            buffers[argument.buffer].ctypes.data,
            argument.dims,
            argument.strides,
            argument.box,
            element_bytes=argument.element_bytes,
            swizzle=argument.swizzle,
        )
    return argument
