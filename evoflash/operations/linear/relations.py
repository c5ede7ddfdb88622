"""What must hold between the linear layer's outputs of changed inputs. Needs no reference.

Each function draws the changed inputs and says what must hold; validation/metamorphic.py runs a kernel on
them and looks.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import Bits, decode, encode, other_order
from evoflash.operations.linear.inputs import LinearInputs
from evoflash.operations.linear.workload import BLOCK, LinearWorkload
from evoflash.workload import Relation, Rows

_STREAM = 0x4C49  # a random stream of its own


def relations(inputs: LinearInputs, workload: LinearWorkload, *, seed: int) -> Iterator[Relation]:
    """All that hold for the workload, the cheapest first. `inputs` are ordinary data."""
    rng = np.random.default_rng([seed, _STREAM])
    yield keeps_rows_apart(inputs, workload=workload, rng=rng)
    if workload.m > 1:
        yield ignores_company(inputs, workload=workload, rng=rng)
    if not (workload.bias or workload.residual):
        yield doubles(inputs, workload=workload)
        yield adds_up_over_blocks(inputs, workload=workload, rng=rng)


def keeps_rows_apart(inputs: LinearInputs, *, workload: LinearWorkload, rng: np.random.Generator) -> Relation:
    """Rows of x may change places: those of y go along, in every bit, wherever in a batch a row stands."""
    order = other_order(workload.m, rng)
    moved = _with_rows(inputs, order, "rows exchanged")
    return Relation("exchanged rows", Rows((inputs,), order), Rows((moved,)), is_exact=True)


def ignores_company(inputs: LinearInputs, *, workload: LinearWorkload, rng: np.random.Generator) -> Relation:
    """A row gives the same among others and among copies of itself."""
    row = int(rng.integers(workload.m))
    alike = np.full(workload.m, row)
    return Relation(
        "a row among copies of itself", Rows((inputs,), alike), Rows((_with_rows(inputs, alike, "one row"),))
    )


def doubles(inputs: LinearInputs, *, workload: LinearWorkload) -> Relation:
    """Twice x gives twice y, to the bit: a power of two is exact in all arithmetic on the way."""
    name = f"{inputs.name}, x doubled"
    if inputs.x_scale is not None:
        twice = replace(inputs, name=name, x_scale=2 * inputs.x_scale)
    else:
        twice = replace(inputs, name=name, x=encode(2 * decode(inputs.x, "bf16"), "bf16"))
    return Relation("x doubled", Rows((inputs, inputs)), Rows((twice,)))


def adds_up_over_blocks(
    inputs: LinearInputs, *, workload: LinearWorkload, rng: np.random.Generator
) -> Relation:
    """One block of k alone, and all others, add up to the whole: nothing is left out or taken twice."""
    block = int(rng.integers(-(-workload.k // BLOCK)))
    inside = np.arange(workload.k) // BLOCK == block
    alone, others = (
        replace(inputs, name=f"{inputs.name}, {words}", x=np.where(kept, inputs.x, inputs.x.dtype.type(0)))
        for words, kept in ((f"block {block} of k alone", inside), (f"without block {block} of k", ~inside))
    )
    return Relation("k in two parts", Rows((inputs,)), Rows((alone, others)))


def _with_rows(inputs: LinearInputs, rows: NDArray[np.intp], words: str) -> LinearInputs:
    """x, its scales, and what is added to y, with those rows in this order."""
    residual: Bits | None = None if inputs.residual is None else inputs.residual[rows]
    x_scale = None if inputs.x_scale is None else inputs.x_scale.copy()
    if x_scale is not None:
        x_scale[:, : len(rows)] = x_scale[:, rows]
    moved = replace(inputs, name=f"{inputs.name}, {words}", x=inputs.x[rows], residual=residual)
    return replace(moved, x_scale=x_scale)
