"""What attention should be, in fp64, and what honest 16-bit arithmetic makes of it. Runs nothing on a GPU.

The host's answers are computed with NumPy. At the benchmark's shape the device computes them, by the kernel
of reference.cu, behind the text that all kinds of attention share: how that is launched stands here.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import PART, Floats, decode, each, round_to
from evoflash.operations.attention.forms.dense import scale
from evoflash.operations.attention.inputs import AttentionInputs
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import RIGHT_ROWS, distance, every_row, expected_rows
from evoflash.workload import DeviceReference, ExpectedNumbers, ExpectedOutputs, Sample

_ROWS, _THREADS = 16, 128  # of a block
_MOST = 1 << 38  # products of a query with a key, times head_dim: 0.2 s of an H200


def blocks(workload: AttentionWorkload) -> NDArray[np.int32]:
    """Blocks of 16 rows: head, counted through all batches, first row, and the rows stored before them.

    Of a workload that is too large every n-th block of a head, with another one to begin with in each.
    """
    w = workload
    work = w.batch * w.heads * w.visible_pairs * w.head_dim
    every = max(1, -(-work // _MOST))
    firsts = np.arange(0, w.seq_q, _ROWS)
    found, stored = [], 0
    for head in range(w.batch * w.heads):
        chosen = firsts[head % min(every, len(firsts)) :: every]
        sizes = np.minimum(_ROWS, w.seq_q - chosen)
        begins = stored + np.concatenate([[0], sizes.cumsum()])
        found.append(np.stack([np.full_like(chosen, head), chosen, begins[:-1]], axis=1))
        stored = int(begins[-1])
    return np.concatenate(found).astype(np.int32)


def rows(workload: AttentionWorkload) -> NDArray[np.intp]:
    """The rows that are stored, in order, counted through all heads."""
    found = [
        head * workload.seq_q + np.arange(first, min(first + _ROWS, workload.seq_q))
        for head, first, _ in blocks(workload)
    ]
    return np.concatenate(found).astype(np.intp)


def arguments(workload: AttentionWorkload, addresses: Mapping[str, int]) -> tuple[np.generic, ...]:
    """Of the kernel: addresses of Q, K, V, `blocks`, `right`, `numbers` and `per_row`, then sizes."""
    w = workload
    names = ("Q", "K", "V", "blocks", "right", "numbers", "per_row")
    sizes = (w.seq_q, w.seq_kv, w.heads, w.kv_heads, w.head_dim, w.dtype == "bf16", w.causal)
    pointers = (np.uint64(addresses[name]) for name in names)
    return (*pointers, *(np.int32(size) for size in sizes), np.float32(scale(w)))


def applies(workload: AttentionWorkload) -> bool:
    """Whether the kernel knows what honest arithmetic of this precision gives: not where it sums in fp16."""
    return workload.accumulate == "fp32"


REFERENCE = DeviceReference(
    text=RIGHT_ROWS + Path(__file__).with_name("reference.cu").read_text(encoding="utf-8"),
    entry="right_rows",
    threads=_THREADS,
    output="O",
    numbers="LSE",
    applies=applies,
    blocks=blocks,
    rows=rows,
    arguments=arguments,
)


Head = Callable[[Floats, Floats, Floats, NDArray[np.intp], float], tuple[Floats, Floats]]

# of one test input: more only wait for the interpreter, and several inputs are made at once
_INPUT_THREADS = 4
_BLOCK_SCORES = 1 << 22  # scores held at once: 32 MiB in fp64
_FULL_SCORES = 1 << 24  # up to here every row is compared; beyond, a sample
_SAMPLE_HEADS = 8


def attention(
    q: Floats, k: Floats, v: Floats, *, causal: bool, scale: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Output (B, H, Sq, D) and natural-log LSE (B, H, Sq), of Q (B, H, Sq, D), K and V (B, Hkv, Skv, D).

    Causal is bottom-right aligned; a row that sees no key gives an output of 0 and an LSE of -inf.
    """
    return _each_head(_exact_head, q, k, v, causal=causal, scale=scale)


def honest(
    q: Floats, k: Floats, v: Floats, *, causal: bool, scale: float, dtype: str, accumulate: str = "fp32"
) -> NDArray[np.float32]:
    """The output of a plain careful kernel: fp32 scores and sums, P and the output rounded to `dtype`.

    With `accumulate` = "fp16" the scores are what tensor cores make of them that sum in fp16.
    """
    out, _ = _each_head(_honest_head(dtype, accumulate), q, k, v, causal=causal, scale=scale)
    return round_to(out.astype(np.float32), dtype)


def sample(workload: AttentionWorkload, rng: np.random.Generator) -> Sample:
    """The whole output while that is cheap; else up to 8 heads, and rows among which are the first, the last,
    the neighbours of the first and last multiples of 16, 64 and 128, and tile edges and rows at random.
    """
    heads, rows = workload.batch * workload.heads, workload.seq_q
    if heads * rows * workload.seq_kv <= _FULL_SCORES:
        return every_row(workload)
    chosen = np.union1d([0, heads - 1], rng.permutation(heads)[: _SAMPLE_HEADS - 2])
    room = max(32, _FULL_SCORES // (len(chosen) * workload.seq_kv))
    if rows <= room:
        return Sample(chosen, np.arange(rows))
    return Sample(chosen, _row_sample(rows, room=room, rng=rng))


def _row_sample(rows: int, *, room: int, rng: np.random.Generator) -> NDArray[np.intp]:
    always = {0, rows - 1}
    for tile in (16, 64, 128):
        always |= _near(tile, rows) | _near(rows // tile * tile, rows)
    edges = rng.integers(1, max(2, rows // 16), size=room) * 16 + rng.integers(-1, 2, size=room)
    extra = np.where(rng.random(room) < 0.5, edges, rng.integers(0, rows, size=room))
    room_left = max(0, room - len(always))
    return np.unique([*always, *extra[:room_left].clip(0, rows - 1)]).astype(np.intp)


def _near(edge: int, rows: int) -> set[int]:
    return {row for row in (edge - 1, edge, edge + 1) if 0 <= row < rows}


def expect(workload: AttentionWorkload, inputs: AttentionInputs, *, where: Sample) -> ExpectedOutputs:
    """The right answer and the honest one at a sample of rows, for 16-bit inputs of the workload's shapes."""
    shape = (len(where.groups), len(where.rows), workload.head_dim)
    out, lse = np.empty(shape), np.empty(shape[:2])
    plain, plain_lse = np.empty(shape, np.float32), np.empty(shape[:2], np.float32)
    lagging = np.empty(shape, np.float32)
    answers: tuple[Floats, ...] = (out, lse, plain, plain_lse, lagging)
    seen = visible(where.rows, workload.seq_q, workload.seq_kv, causal=workload.causal)
    factor = scale(workload)

    def compute(group: tuple[int, int]) -> None:
        """All heads of the sample that read one head of K and V, their rows below each other."""
        keys, values = (decode(x[group], workload.dtype) for x in (inputs.k, inputs.v))
        places = [at for at, _ in readers[group]]
        heads = [inputs.q[group[0], head][where.rows] for _, head in readers[group]]
        queries, in_sight = decode(np.concatenate(heads), workload.dtype), np.tile(seen, len(heads))
        exact = _exact_head(queries, keys, values, in_sight, factor)
        honest = _both_honest(
            queries, keys, values, in_sight, factor, dtype=workload.dtype, accumulate=workload.accumulate
        )
        for all_heads, found in zip(answers, (*exact, *honest), strict=True):
            all_heads[places] = found.reshape(len(places), *all_heads.shape[1:])

    readers = _readers(workload, where)
    is_large = len(readers) * workload.seq_kv * workload.head_dim > PART
    each(compute, list(readers), threads=_INPUT_THREADS if is_large else 1)
    # An LSE of fp32 scores needs no excuse; one of fp16 sums may be as far off as honest ones.
    excused = float(distance(plain_lse, lse).max()) if workload.accumulate == "fp16" else 0.0
    rows = {"O": expected_rows(out, plain, lagging, dtype=workload.dtype)}
    return ExpectedOutputs(where, rows, {"LSE": ExpectedNumbers(lse, plain_lse, excused)})


def _readers(workload: AttentionWorkload, where: Sample) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """By batch and head of K and V: places in the sample and their heads of Q."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for at, flat in enumerate(where.groups):
        batch, head = divmod(int(flat), workload.heads)
        found.setdefault((batch, head // workload.gqa_ratio), []).append((at, head))
    return found


def _each_head(
    one: Head, q: Floats, k: Floats, v: Floats, *, causal: bool, scale: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    batch, heads, rows, _ = q.shape
    ratio = heads // k.shape[1]
    out, lse = np.empty((batch, heads, rows, v.shape[-1])), np.empty((batch, heads, rows))
    seen = visible(np.arange(rows), rows, k.shape[2], causal=causal)
    for b in range(batch):
        for h in range(heads):
            out[b, h], lse[b, h] = one(q[b, h], k[b, h // ratio], v[b, h // ratio], seen, scale)
    return out, lse


def visible(rows: NDArray[np.intp], seq_q: int, seq_kv: int, *, causal: bool) -> NDArray[np.intp]:
    """How many keys, from the first on, each of the rows sees."""
    if not causal:
        return np.full(len(rows), seq_kv)
    return (rows + 1 + seq_kv - seq_q).clip(0, seq_kv)


def _blocks(rows: int, keys: int) -> Iterator[slice]:
    step = max(1, _BLOCK_SCORES // keys)
    return (slice(start, start + step) for start in range(0, rows, step))


def _weights(scores: Floats, seen: NDArray[np.intp], exp: Any) -> tuple[Floats, Floats, Floats]:
    """exp(score - row maximum), hidden keys at 0; its row sums, 1 where a row sees nothing; the maxima."""
    hidden = np.arange(scores.shape[1]) >= seen[:, None]
    scores[hidden] = -np.inf
    top = scores.max(axis=1, keepdims=True)
    weights = exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=1, keepdims=True)
    return weights, np.where(seen[:, None] > 0, total, 1), top


def _exact_head(
    q: Floats, k: Floats, v: Floats, seen: NDArray[np.intp], scale: float
) -> tuple[Floats, Floats]:
    keys, values = k.astype(np.float64), v.astype(np.float64)
    out, lse = np.empty((len(q), v.shape[1])), np.empty(len(q))
    for block in _blocks(len(q), len(k)):
        weights, total, top = _weights(q[block].astype(np.float64) @ keys.T * scale, seen[block], np.exp)
        out[block] = weights @ values / total
        lse[block] = (top + np.log(total))[:, 0]
    return out, lse


def _fp16_sums(q: Floats, k: Floats) -> NDArray[np.float32]:
    """Q K^T with a running sum that is rounded to fp16 after each 16 products, as mma.m16n8k16.f16 does."""
    total = np.zeros((len(q), len(k)), np.float16)
    for start in range(0, q.shape[1], 16):
        part = q[:, start : start + 16] @ k[:, start : start + 16].T
        with np.errstate(over="ignore"):
            total = (total.astype(np.float32) + part).astype(np.float16)
    return total.astype(np.float32)


def _honest_head(dtype: str, accumulate: str = "fp32") -> Head:
    def head(q: Floats, k: Floats, v: Floats, seen: NDArray[np.intp], scale: float) -> tuple[Floats, Floats]:
        return _both_honest(q, k, v, seen, scale, dtype=dtype, accumulate=accumulate)[:2]

    return head


def _both_honest(
    q: Floats,
    k: Floats,
    v: Floats,
    seen: NDArray[np.intp],
    scale: float,
    *,
    dtype: str,
    accumulate: str,
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Output and LSE with P below the row's maximum, and the output with P below a maximum that lags; the
    outputs are not rounded yet.

    Fast kernels rescale late: their reference is an earlier or a sampled maximum (flash_mma's lazy, sampled,
    speculative; FA4). P of the largest key is then no power of two: it is rounded, its share of the sum is
    not, and where that key dominates the whole row is off by as much. The lag is the one where P of the
    largest key falls in the middle between 1 and the next number, so that rounding errs most.
    """
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    out, lagging = np.empty((2, len(q), v.shape[1]), np.float32)
    lse = np.empty(len(q), np.float32)
    between = np.float32(1 + 2.0 ** -(11 if dtype == "fp16" else 8))
    for block in _blocks(len(q), len(k)):
        # exp2 of scaled scores, as fast kernels do it: how that rounds large scores is honest too.
        scores = _fp16_sums(q[block], k) if accumulate == "fp16" else q[block] @ k.T
        scores = scores * np.float32(scale * math.log2(math.e))
        weights, total, top = _weights(scores, seen[block], np.exp2)
        out[block] = round_to(weights, dtype) @ v / total
        lagging[block] = round_to(weights * between, dtype) @ v / (total * between)
        lse[block] = ((top + np.log2(total)) * np.float32(math.log(2)))[:, 0]
    return out, lse, lagging
