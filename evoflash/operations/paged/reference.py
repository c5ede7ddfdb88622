"""What paged attention should be, in fp64, and what honest 16-bit arithmetic makes of it; and the device's
kernel for the same. Runs nothing on a GPU.

All is read from a call's tensors as a kernel reads them: lengths, tables, pages.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import PART, Floats, decode, each, round_to
from evoflash.operations.expectations import RIGHT_ROWS, every_row, expected_rows
from evoflash.operations.paged import form
from evoflash.operations.paged.form import scale
from evoflash.operations.paged.inputs import PagedInputs, PlacedSequence, sequences_of
from evoflash.operations.paged.workload import PagedWorkload
from evoflash.workload import DeviceReference, ExpectedNumbers, ExpectedOutputs, Sample

_MOST = 1 << 25  # elements of K that a sample reads
_SAMPLE_ROWS = 8


@dataclass(frozen=True, slots=True, eq=False)
class RowsTogether:
    """Some rows and heads over one sequence's keys of one head: what one reads together."""

    queries: Floats  # (rows, head_dim)
    keys: Floats  # (keys, head_dim), of those from the first one that any row sees
    values: Floats
    oldest: NDArray[np.intp]  # of each row the first of `keys` that it sees,
    newest: NDArray[np.intp]  # and the last; before the first: it sees none
    sinks: Floats  # of each row; -inf: none


def sample(workload: PagedWorkload, rng: np.random.Generator) -> Sample:
    """The whole output while that is cheap; else the rows of 3 to 8 tokens, the first and the last among
    them, and as many whole groups of heads as there is time for. The device answers for the other rows.
    """
    w = workload
    if w.batch * w.kv_heads * w.seq_kv * w.head_dim <= _MOST:
        return every_row(w)
    count = min(_SAMPLE_ROWS, max(3, _MOST // (w.seq_kv * w.head_dim)))
    rows = np.union1d([0, w.total_q - 1], rng.permutation(w.total_q)[: count - 2])
    groups = max(1, _MOST // (len(rows) * w.seq_kv * w.head_dim))
    chosen = np.sort(rng.permutation(w.kv_heads)[:groups])
    heads = (chosen[:, None] * w.gqa_ratio + np.arange(w.gqa_ratio)).reshape(-1)
    return Sample(rows.astype(np.intp), heads.astype(np.intp))


def expect(workload: PagedWorkload, inputs: PagedInputs, *, where: Sample) -> ExpectedOutputs:
    """The right answer and the honest one at a sample: groups are rows of Q, rows are heads."""
    w = workload
    shape = (len(where.groups), len(where.rows))
    out, lse = np.zeros((*shape, w.head_dim)), np.empty(shape)
    plain, lagging = np.zeros((2, *shape, w.head_dim), np.float32)
    plain_lse = np.empty(shape, np.float32)
    found = [
        (sequence, group, *_sample_of(w, sequence, group, where))
        for sequence in sequences_of(w, inputs)
        for group in range(w.kv_heads)
    ]

    def compute(one: tuple[PlacedSequence, int, NDArray[np.intp], NDArray[np.intp]]) -> None:
        sequence, group, tokens, heads = one
        rows = _rows(w, inputs, sequence, group, where.groups[tokens], where.rows[heads])
        at = np.ix_(tokens, heads)
        exact, exact_lse = exact_rows(rows, w)
        honest, honest_lse, lags = honest_rows(rows, w)
        many = (len(tokens), len(heads))
        out[at], plain[at], lagging[at] = (x.reshape(*many, -1) for x in (exact, honest, lags))
        lse[at], plain_lse[at] = (x.reshape(many) for x in (exact_lse, honest_lse))

    is_large = w.batch * w.kv_heads * w.seq_kv * w.head_dim > PART
    each(compute, [one for one in found if len(one[2]) and len(one[3])], threads=4 if is_large else 1)
    if w.lse_base == "2":
        lse, plain_lse = lse / math.log(2), plain_lse / np.float32(math.log(2))
    rows = {"O": expected_rows(out, plain, lagging, dtype=w.dtype)}
    return ExpectedOutputs(where, rows, {"LSE": ExpectedNumbers(lse, plain_lse)})


def _sample_of(
    workload: PagedWorkload, sequence: PlacedSequence, group: int, where: Sample
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places in the sample of a sequence's rows, and of a group's heads."""
    first, ratio = sequence.first_row, workload.gqa_ratio
    tokens = np.flatnonzero((where.groups >= first) & (where.groups < first + sequence.rows))
    return tokens, np.flatnonzero(where.rows // ratio == group)


def _rows(
    workload: PagedWorkload,
    inputs: PagedInputs,
    sequence: PlacedSequence,
    group: int,
    tokens: NDArray[np.intp],
    heads: NDArray[np.intp],
) -> RowsTogether:
    w, given = workload, inputs.tensors
    first = w.first_key(sequence.rows, sequence.keys)
    at = np.arange(first, sequence.keys)
    page, slot = sequence.pages[at // w.page], at % w.page
    keys, values = (decode(given[name][page, group, slot], w.dtype) for name in ("K", "V"))
    queries = decode(given["Q"][np.ix_(tokens, heads)], w.dtype).reshape(-1, w.head_dim)
    newest = np.repeat(sequence.keys - sequence.rows + tokens - sequence.first_row, len(heads))
    oldest = newest + 1 - w.window if w.window else np.zeros_like(newest)
    sinks = np.full(len(newest), -np.inf)
    if w.sink:
        logits = given["SINKS"] if w.sink == "fp32" else decode(given["SINKS"], "bf16")
        sinks = np.tile(logits[heads].astype(np.float64), len(tokens))
    return RowsTogether(queries, keys, values, np.maximum(oldest, 0) - first, newest - first, sinks)


def _hidden_keys(rows: RowsTogether) -> NDArray[np.bool_]:
    at = np.arange(len(rows.keys))
    return (at < rows.oldest[:, None]) | (at > rows.newest[:, None])


def _top(scores: Floats, sinks: Floats) -> Floats:
    """The largest of a row's scores and its sink; 0 where there is none."""
    top = np.maximum(scores.max(axis=1, initial=-np.inf), sinks)[:, None]
    return np.where(np.isfinite(top), top, 0)


def exact_rows(rows: RowsTogether, workload: PagedWorkload) -> tuple[Floats, Floats]:
    """Output and natural-log LSE; a row that sees no key gives an output of 0 and the sink, or -inf."""
    scores = rows.queries.astype(np.float64) @ rows.keys.astype(np.float64).T * scale(workload)
    if workload.softcap:
        scores = workload.softcap * np.tanh(scores / workload.softcap)
    scores[_hidden_keys(rows)] = -np.inf
    top = _top(scores, rows.sinks)
    weights = np.exp(scores - top)
    total = weights.sum(axis=1, keepdims=True) + np.exp(rows.sinks[:, None] - top)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[:, 0]
    return weights @ rows.values.astype(np.float64) / np.where(total > 0, total, 1), lse


def honest_rows(rows: RowsTogether, workload: PagedWorkload) -> tuple[Floats, Floats, Floats]:
    """As a plain careful kernel has it before it rounds the output: fp32 scores and sums, P rounded to the
    type; and with P below a maximum that lags, so that P of the largest key is rounded too: attention's
    reference.py.
    """
    dtype, log2e = workload.dtype, np.float32(math.log2(math.e))
    scores = rows.queries @ rows.keys.T * np.float32(scale(workload))
    if workload.softcap:
        cap = np.float32(workload.softcap)
        scores = cap * np.tanh(scores / cap)
    scores = scores * log2e
    scores[_hidden_keys(rows)] = -np.inf
    sinks = rows.sinks.astype(np.float32) * log2e
    top = _top(scores, sinks).astype(np.float32)
    weights = np.exp2(scores - top)
    sink = np.exp2(sinks[:, None] - top)
    total = weights.sum(axis=1, keepdims=True) + sink
    divisor = np.where(total > 0, total, np.float32(1))
    between = np.float32(1 + 2.0 ** -(11 if dtype == "fp16" else 8))
    plain = round_to(weights, dtype) @ rows.values / divisor
    lagging = round_to(weights * between, dtype) @ rows.values / (divisor * between)
    with np.errstate(divide="ignore"):
        lse = ((top + np.log2(total)) * np.float32(math.log(2)))[:, 0]
    return plain, lse, lagging


# ---- on the device

_ROWS = 16  # of a block: of all heads that read the same keys
_PRODUCTS = 1 << 40  # of a query's and a key's numbers, in fp64: a second of an H100


def blocks(workload: PagedWorkload) -> NDArray[np.int32]:
    """Of each block the sequence, the head of keys and its first row: as if all had the most rows."""
    of_each = range(0, workload.seq_q * workload.gqa_ratio, _ROWS)
    places = np.meshgrid(range(workload.batch), range(workload.kv_heads), of_each, indexing="ij")
    return np.stack(places, axis=-1).reshape(-1, 3).astype(np.int32)


def rows(workload: PagedWorkload) -> NDArray[np.intp]:
    return np.arange(workload.total_q * workload.heads)


def arguments(workload: PagedWorkload, addresses: Mapping[str, int]) -> tuple[np.generic, ...]:
    """The launch struct of dense tensors, then the addresses of `blocks`, `right`, `numbers`, `per_row`."""
    strides = {spec.name: spec.strides for spec in form.tensors(workload)}
    tensors = {name: addresses.get(name, 0) for name in strides}
    pointers = (np.uint64(addresses[name]) for name in ("blocks", "right", "numbers", "per_row"))
    return (*form.arguments(workload, tensors, strides), *pointers)


def applies(workload: PagedWorkload) -> bool:
    return workload.batch * workload.heads * workload.seq_q * workload.seq_kv * workload.head_dim <= _PRODUCTS


REFERENCE = DeviceReference(
    text=RIGHT_ROWS + form.STRUCT_TEXT + Path(__file__).with_name("reference.cu").read_text(encoding="utf-8"),
    entry="right_paged_rows",
    threads=128,
    output="O",
    numbers="LSE",
    applies=applies,
    blocks=blocks,
    rows=rows,
    arguments=arguments,
)
