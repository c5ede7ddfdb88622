"""Runs the hand-written Hopper kernel, or a changed text of it, in the emulator, and judges what it wrote.

Draws inputs, makes tensor maps, launches once. cases.py says what is launched.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evoflash.emulator import launch as emulator
from evoflash.emulator.launch import Emulation, Memory
from evoflash.emulator.tensor_map import tensor_map
from evoflash.evaluation import Verdict
from evoflash.kernels import gxx
from evoflash.operation import Delivery, Schedule
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.forms.dense import Strides, arguments
from evoflash.operations.attention.inputs import AttentionInputs
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.validation.cases import case
from evoflash.validation.validator import judge
from scripts.hopper_kernel.cases import Configuration


@dataclass(frozen=True, slots=True)
class Outcome:
    """One launch: what the emulator reported, and what the validator says of the output."""

    emulation: Emulation
    verdict: Verdict

    @property
    def kinds(self) -> set[str]:
        """The kinds of all reports."""
        return {report.kind for report in self.emulation.reports}


def run_hopper(
    text: str,
    configuration: Configuration,
    workload: AttentionWorkload,
    *,
    trial: str = "normal",
    delivery: Delivery = "lazy",
    schedule: Schedule = "random",
    seed: int = 1,
    heads_inside: bool = False,
    without: tuple[str, ...] = (),
    o_swizzle: Literal[0, 128] = 128,
    cpu_limit_s: float = 10.0,
) -> Outcome:
    """Build `text`, which Configuration.source made for the workload, and run it on a trial's inputs.

    `heads_inside`: tensors lie in memory as (batch, row, head, head_dim). `without`: outputs left out.
    `o_swizzle`: of the tensor map by which O leaves, in bytes.
    """
    library = gxx.build(text, name="hopper")
    given, expected = case(workload, trial, 1)
    assert isinstance(given, AttentionInputs)
    with Memory() as memory:
        order = (0, 2, 1, 3) if heads_inside else (0, 1, 2, 3)
        inputs = [
            memory.array(name, x.transpose(order).shape, x.dtype, fill=x.transpose(order))
            for name, x in (("Q", given.q), ("K", given.k), ("V", given.v))
        ]
        out = memory.array("O", inputs[0].shape, np.uint16, writable=True, unset=True, fill=0xFFFF)
        lse = memory.array("LSE", given.q.shape[:3], np.float32, writable=True, unset=True, fill=np.nan)
        of_q, of_k, of_v, of_o = (_strides(array.transpose(order)) for array in (*inputs, out))
        strides = (of_q, of_k, of_v, of_o)
        q, k, v, o, sums = (array.ctypes.data for array in (*inputs, out, lse))
        maps = [
            tensor_map(
                m.pointer, m.sizes, m.strides_bytes, m.box, swizzle=128 if m.pointer != o else o_swizzle
            )
            for m in configuration.maps(workload, (q, k, v, o), strides)
        ]
        emulation = emulator.run_launch(
            library,
            configuration.launch(workload),
            [*maps, *arguments(workload, (q, k, v, o, 0 if "LSE" in without else sums), strides)],
            delivery=delivery,
            schedule=schedule,
            seed=seed,
            cpu_limit_s=cpu_limit_s,
        )
        result = dense.output(out.transpose(order).copy(), None if "LSE" in without else lse.copy())
    return Outcome(emulation, judge(workload, [(given, expected, result)]))


def _strides(tensor: np.ndarray[Any, Any]) -> Strides:
    batch, head, row, _ = (stride // tensor.itemsize for stride in tensor.strides)
    return batch, head, row
