"""What y = x W^T should be, in fp64, and what honest fp32 arithmetic makes of it; and the device's kernel for
the same. Runs nothing on a GPU.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import decode, each
from evoflash.operations.expectations import every_row, expected_rows
from evoflash.operations.linear import e4m3
from evoflash.operations.linear.inputs import LinearInputs
from evoflash.operations.linear.workload import BLOCK, LinearWorkload
from evoflash.workload import DeviceReference, ExpectedOutputs, Sample

_PART = 1 << 22  # elements of W that are taken at a time


def sample(workload: LinearWorkload, rng: np.random.Generator) -> Sample:
    """All of it: a row of y costs what reading W costs, and there are at most 64."""
    return every_row(workload)


def expect(workload: LinearWorkload, inputs: LinearInputs, *, where: Sample) -> ExpectedOutputs:
    """The right answer and the honest one at a sample of rows, for inputs of the workload's shapes.

    The right one is of the numbers of W and x as they are given, times their scales, in fp64. Honest
    arithmetic sums in fp32, block of k after block of k, multiplies each sum by its scales, and rounds once.
    """
    w, x = workload, numbers_of(inputs.x[where.rows], workload.x)
    x_scale = None if inputs.x_scale is None else inputs.x_scale[:, where.rows, None]
    right, plain = np.empty((len(x), w.n)), np.empty((len(x), w.n), np.float32)
    rows = max(BLOCK, _PART // w.k // BLOCK * BLOCK)

    def compute(first: int) -> None:
        """Some columns of y, which are rows of W: whole blocks of it."""
        part = slice(first, min(first + rows, w.n))
        weights = numbers_of(inputs.w[part], w.weights)
        scale = _scales(inputs, w)[first // BLOCK : -(-part.stop // BLOCK)]
        each_row = np.repeat(scale, BLOCK, axis=0)[: len(weights)]
        right[:, part], plain[:, part] = 0, 0
        for block in range(each_row.shape[1]):
            of_k = slice(block * BLOCK, min((block + 1) * BLOCK, w.k))
            factor, of_x = each_row[:, block], np.float32(1) if x_scale is None else x_scale[block]
            exact = x[:, of_k].astype(np.float64) @ weights[:, of_k].astype(np.float64).T
            right[:, part] += exact * factor.astype(np.float64) * of_x.astype(np.float64)
            plain[:, part] += (x[:, of_k] @ weights[:, of_k].T) * (factor * of_x)

    each(compute, range(0, w.n, rows))
    for added in (inputs.bias, None if inputs.residual is None else inputs.residual[where.rows]):
        if added is not None:
            right += decode(added, "bf16")
            plain += decode(added, "bf16")
    return ExpectedOutputs(where, {"Y": expected_rows(right[None], plain[None], dtype="bf16")}, {})


def numbers_of(bits: NDArray[np.generic], kind: str) -> NDArray[np.float32]:
    """W's or x's numbers without their scales; exact. `kind` is what the workload says of them."""
    return decode(bits, "bf16") if kind == "bf16" else e4m3.decode(bits)  # type: ignore[arg-type]


def _scales(inputs: LinearInputs, workload: LinearWorkload) -> NDArray[np.float32]:
    """Of each block of W, (blocks of n, blocks of k), also where they are all the same."""
    blocks = -(-workload.n // BLOCK), -(-workload.k // BLOCK)
    if inputs.w_scale is None:
        return np.ones(blocks, np.float32)
    return np.broadcast_to(inputs.w_scale, blocks)


_COLUMNS = 16  # of y, that a block of the device's kernel computes
_MOST = 1 << 37  # multiply-adds: 0.1 s of an H100


def blocks(workload: LinearWorkload) -> NDArray[np.int32]:
    """The first column of each block."""
    return np.arange(0, workload.n, _COLUMNS, dtype=np.int32)


def rows(workload: LinearWorkload) -> NDArray[np.intp]:
    return np.arange(workload.m)


def arguments(workload: LinearWorkload, addresses: Mapping[str, int]) -> tuple[np.generic, ...]:
    """Of both kernels: addresses of tensors, 0 for those that there are not, then sizes and types."""
    w = workload
    names = ("X", "W", "SW", "SX", "B", "R", "blocks", "right", "honest", "per_row")
    scales = {"bf16": 0, "fp8b128": 1, "fp8t": 2}[w.weights]
    sizes = (w.m, w.n, w.k, w.x_scale_shape[1], scales, w.weights != "bf16", w.x != "bf16")
    return (*(np.uint64(addresses.get(name, 0)) for name in names), *(np.int32(size) for size in sizes))


def applies(workload: LinearWorkload) -> bool:
    return workload.m * workload.n * workload.k <= _MOST


REFERENCE = DeviceReference(
    text=Path(__file__).with_name("reference.cu").read_text(encoding="utf-8"),
    entry="right_columns",
    threads=128,
    output="Y",
    numbers="",
    applies=applies,
    blocks=blocks,
    rows=rows,
    arguments=arguments,
    entry_of_rows="told_of_rows",
)
