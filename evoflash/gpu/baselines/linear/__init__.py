"""The linear layer of other libraries: a file for each, which says how the library is called.

flashinfer  FlashInfer's block-scaled linear layer on Hopper, which vLLM calls by default for fewer than 32
            rows
pytorch     PyTorch's linear layers on cuBLASLt
"""

from collections.abc import Sequence
from typing import Any

from evoflash.gpu.baselines.contender import BaselineAbsentError
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.linear.workload import BLOCK, LinearWorkload

# What rounding x to e4m3 makes an output be off, and W too where its scales become one; with room.
OFF_BY_8_BITS, OFF_BY_8_BITS_TWICE = 4e-2, 8e-2


def linear_on(bench: Bench, *, adds_bias: bool = False) -> LinearWorkload:
    """The bench's workload. BaselineAbsentError where it is no linear layer, or adds what the library does
    not.
    """
    workload = bench.workload
    if not isinstance(workload, LinearWorkload):
        raise BaselineAbsentError(f"it computes a linear layer, not {workload.operation}")
    if workload.residual or (workload.bias and not adds_bias):
        raise BaselineAbsentError("it adds nothing to the product")
    return workload


def numbers_of_x(x: Any, scales: Sequence[Any], workload: LinearWorkload) -> Any:
    """x in fp32, of the bits and the scales that a workload has: W's come before those of x."""
    if workload.x == "bf16":
        return x.float()
    each = scales[1][:, : workload.m].t().repeat_interleave(BLOCK, dim=1)
    return x.float() * each[:, : workload.k]
