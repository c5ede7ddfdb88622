"""What must hold between paged attention's outputs of changed inputs. Needs no reference.

Each function draws the changed inputs and says what must hold; validation/metamorphic.py runs a kernel on
them and looks.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import decode, encode, is_non_finite
from evoflash.operations.paged.form import first_pages, pool_pages
from evoflash.operations.paged.inputs import PagedInputs, sequences_of
from evoflash.operations.paged.workload import PagedWorkload
from evoflash.workload import Relation, Rows

_STREAM = 0x5041  # a random stream of its own


def relations(inputs: PagedInputs, workload: PagedWorkload, *, seed: int) -> Iterator[Relation]:
    """All that hold for the workload, the cheapest first. `inputs` are ordinary data."""
    w, rng = workload, np.random.default_rng([seed, _STREAM])
    yield moves_pages(inputs, workload=w, rng=rng)
    yield adds_up_over_values(inputs, workload=w, rng=rng)
    if w.batch > 1 and w.caller != "csr":
        yield moves_sequences(inputs, workload=w, rng=rng)
        if not w.ragged:
            yield ignores_company(inputs, workload=w, rng=rng)
    if not (w.softcap or w.sink):
        yield ignores_shifts(inputs, workload=w, rng=rng)


def moves_pages(inputs: PagedInputs, *, workload: PagedWorkload, rng: np.random.Generator) -> Relation:
    """Pages may lie anywhere in the pool: the output is the same in every bit."""
    pool = pool_pages(workload)
    to = rng.permutation(pool).astype(np.int32)
    if (to == np.arange(pool)).all():
        to = np.roll(to, 1)
    changed: dict[str, Any] = {name: np.empty_like(inputs.tensors[name]) for name in ("K", "V")}
    for name, array in changed.items():
        array[to] = inputs.tensors[name]
    table = "PAGES" if workload.caller == "csr" else "TABLE"
    given, first = inputs.tensors[table], first_pages(workload)
    is_page = (given >= first) & (given < first + pool)
    moved = first + to[np.where(is_page, given - first, 0)]
    changed[table] = np.where(is_page, moved, given).astype(np.int32)
    every = np.arange(workload.total_q * workload.heads)
    after = _with(inputs, "pages moved", **changed)
    return Relation("pages elsewhere in the pool", Rows((inputs,), every), Rows((after,)), is_exact=True)


def moves_sequences(inputs: PagedInputs, *, workload: PagedWorkload, rng: np.random.Generator) -> Relation:
    """Sequences may change places: their rows go along. To the bit where a kernel is invariant."""
    order = rng.permutation(workload.batch)
    if (order == np.arange(workload.batch)).all():
        order = np.roll(order, 1)
    return _with_sequences(inputs, order, "sequences exchanged", workload)


def ignores_company(inputs: PagedInputs, *, workload: PagedWorkload, rng: np.random.Generator) -> Relation:
    """A sequence gives the same among others and among copies of itself, wherever in a batch it stands."""
    lengths = [sequence.keys for sequence in sequences_of(workload, inputs)]
    others = np.flatnonzero(np.array(lengths) != lengths[0])
    chosen = int(rng.choice(others)) if len(others) else int(rng.integers(workload.batch))
    return _with_sequences(inputs, np.full(workload.batch, chosen), "copies of one sequence", workload)


def _with_sequences(
    inputs: PagedInputs, order: NDArray[np.intp], words: str, workload: PagedWorkload
) -> Relation:
    """Of the same pages."""
    w, given, sequences = workload, inputs.tensors, sequences_of(workload, inputs)
    tokens = np.concatenate([sequences[at].first_row + np.arange(sequences[at].rows) for at in order])
    changed = {"Q": given["Q"][tokens], "TABLE": given["TABLE"][order], "LENGTHS": given["LENGTHS"][order]}
    if w.ragged:
        rows = [sequences[at].rows for at in order]
        changed["QINDPTR"] = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
    moved = (tokens[:, None] * w.heads + np.arange(w.heads)).reshape(-1)
    return Relation(
        words, Rows((inputs,), moved), Rows((_with(inputs, words, **changed),)), is_exact=w.invariant
    )


def adds_up_over_values(
    inputs: PagedInputs, *, workload: PagedWorkload, rng: np.random.Generator
) -> Relation:
    """The outputs of V's rows in two parts, zeros in the place of the others, add up to that of V."""
    values = inputs.tensors["V"]
    unseen = is_non_finite(values, workload.dtype)
    is_first = rng.random((*values.shape[:1], 1, values.shape[2], 1)) < 0.5
    first, second = (
        _with(inputs, "part of V", V=np.where(part | unseen, values, np.uint16(0)))
        for part in (is_first, ~is_first)
    )
    return Relation("V in two parts", Rows((inputs,)), Rows((first, second)))


def ignores_shifts(inputs: PagedInputs, *, workload: PagedWorkload, rng: np.random.Generator) -> Relation:
    """One vector added to all keys leaves the output as it was: a row's scores shift together.

    Keys are put on a grid first, on which 16 bits hold the sum exactly.
    """
    shift = rng.choice(np.array([-2, 2], np.float32), workload.head_dim)
    keys = decode(inputs.tensors["K"], workload.dtype)
    is_seen = np.isfinite(keys)
    grid = np.where(is_seen, np.round(np.where(is_seen, keys, 0) * 32).clip(-60, 60) / 32, keys)
    given, shifted = (
        _with(inputs, f"keys {word}", K=encode(each, workload.dtype))
        for word, each in (("on a grid", grid), ("shifted", grid + shift))
    )
    return Relation("shifted keys", Rows((given,)), Rows((shifted,)))


def _with(inputs: PagedInputs, words: str, **changed: NDArray[Any]) -> PagedInputs:
    return replace(inputs, name=f"{inputs.name}, {words}", tensors={**inputs.tensors, **changed})
