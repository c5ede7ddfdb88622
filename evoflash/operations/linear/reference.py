"""What y = x W^T should be, in fp64, and what honest fp32 arithmetic makes of it. Runs nothing on a GPU."""

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import decode, each, round_to
from evoflash.operation import ExpectedOutputs, Sample
from evoflash.operations.expectations import every_row, expected_rows
from evoflash.operations.linear import e4m3
from evoflash.operations.linear.inputs import LinearInputs
from evoflash.operations.linear.workload import BLOCK, LinearWorkload

_PART = 1 << 22  # elements of W that are taken at a time


def sample(workload: LinearWorkload, rng: np.random.Generator) -> Sample:
    """All of it: a row of y costs what reading W costs, and there are at most 64."""
    return every_row(workload)


def expect(workload: LinearWorkload, inputs: LinearInputs, *, where: Sample) -> ExpectedOutputs:
    """The right answer and the honest one at a sample of rows, for inputs of the workload's shapes.

    The right one is of W's numbers as they are given, times their scales, in fp64. Honest arithmetic sums in
    fp32, block of k after block of k, multiplies each sum by its scale, and rounds once.
    """
    w, x = workload, decode(inputs.x[where.rows], "bf16")
    right, plain = np.empty((len(x), w.n)), np.empty((len(x), w.n), np.float32)
    rows = max(BLOCK, _PART // w.k // BLOCK * BLOCK)

    def compute(first: int) -> None:
        """Some columns of y, which are rows of W: whole blocks of it."""
        part = slice(first, min(first + rows, w.n))
        weights = values(inputs.w[part], w)
        scale = _scales(inputs, w)[first // BLOCK : -(-part.stop // BLOCK)]
        each_row = np.repeat(scale, BLOCK, axis=0)[: len(weights)]
        right[:, part], plain[:, part] = 0, 0
        for block in range(each_row.shape[1]):
            of_k = slice(block * BLOCK, min((block + 1) * BLOCK, w.k))
            factor = each_row[:, block]
            exact = x[:, of_k].astype(np.float64) @ weights[:, of_k].astype(np.float64).T
            right[:, part] += exact * factor.astype(np.float64)
            plain[:, part] += (x[:, of_k] @ weights[:, of_k].T) * factor

    each(compute, range(0, w.n, rows))
    for added in (inputs.bias, None if inputs.residual is None else inputs.residual[where.rows]):
        if added is not None:
            right += decode(added, "bf16")
            plain += decode(added, "bf16")
    rounded = round_to(plain, "bf16")
    return ExpectedOutputs(where, {"Y": expected_rows(right[None], rounded[None])}, {})


def values(weights: NDArray[np.generic], workload: LinearWorkload) -> NDArray[np.float32]:
    """W's numbers without their scales; exact."""
    return decode(weights, "bf16") if workload.weights == "bf16" else e4m3.decode(weights)  # type: ignore[arg-type]


def _scales(inputs: LinearInputs, workload: LinearWorkload) -> NDArray[np.float32]:
    """Of each block of W, (blocks of n, blocks of k), also where they are all the same."""
    blocks = -(-workload.n // BLOCK), -(-workload.k // BLOCK)
    if inputs.w_scale is None:
        return np.ones(blocks, np.float32)
    return np.broadcast_to(inputs.w_scale, blocks)
