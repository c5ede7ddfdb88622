"""What attention should be, in fp64, and what honest 16-bit arithmetic makes of it; NumPy only, no GPU.

bf16 has no NumPy type: 16-bit tensors travel as uint16 bit patterns (`encode`, `decode`) and are computed on
as float32, which holds both types exactly.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.abi import scale as softmax_scale
from evoflash.problem import Workload

Bits = NDArray[np.uint16]
Floats = NDArray[np.floating[Any]]
Head = Callable[[Floats, Floats, Floats, NDArray[np.intp], float], tuple[Floats, Floats]]

_BLOCK_SCORES = 1 << 22  # scores held at once: 32 MiB in fp64
_FULL_SCORES = 1 << 24  # up to here every row is compared; beyond, a sample
_SAMPLE_HEADS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The compared part of a workload: the product of some heads and some rows, both ascending."""

    heads: NDArray[np.intp]  # batch * heads + head
    rows: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """What errors are measured by; made once, because a trial is held against hundreds of outputs."""

    rms: NDArray[np.float64]  # of each row of the right answer: (heads, rows, 1)
    squared: float  # sum over the right answer
    honest_squared: float  # sum of squared errors of honest arithmetic, of the worse of its two kinds
    honest_max_over_rms: float  # its worst element, over the RMS of its row, again of the worse


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """The right answer at a sample: arrays are (heads, rows, head_dim), that of the LSE (heads, rows)."""

    sample: Sample
    out: NDArray[np.float64]
    lse: NDArray[np.float64]
    honest: NDArray[np.float32]  # the same output in the workload's own precision
    honest_lse: NDArray[np.float32]
    scale: Scale


def encode(x: Floats, dtype: str) -> Bits:
    """Round to nearest even into fp16 or bf16 bit patterns; NaN stays NaN, overflow becomes infinity."""
    if dtype == "fp16":
        with np.errstate(over="ignore"):
            return np.asarray(x).astype(np.float16).view(np.uint16)
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(x, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = (
        (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    ).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)


def decode(bits: Bits, dtype: str) -> NDArray[np.float32]:
    """The float32 values of fp16 or bf16 bit patterns; exact."""
    if dtype == "fp16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


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
    return out.astype(np.float32)


def every_row(workload: Workload) -> Sample:
    """The whole output."""
    return Sample(np.arange(workload.batch * workload.heads), np.arange(workload.seq_q))


def sample(workload: Workload, rng: np.random.Generator) -> Sample:
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


def expect(workload: Workload, q: Bits, k: Bits, v: Bits, *, where: Sample) -> Expected:
    """The right answer and the honest one at a sample of rows, for 16-bit inputs of the workload's shapes."""
    shape = (len(where.heads), len(where.rows), workload.head_dim)
    out, lse = np.empty(shape), np.empty(shape[:2])
    plain, plain_lse = np.empty(shape, np.float32), np.empty(shape[:2], np.float32)
    lagging = np.empty(shape, np.float32)
    seen = visible(where.rows, workload.seq_q, workload.seq_kv, causal=workload.causal)
    factor = softmax_scale(workload)
    for at, flat in enumerate(where.heads):
        batch, head = divmod(int(flat), workload.heads)
        queries = decode(q[batch, head][where.rows], workload.dtype)
        keys = decode(k[batch, head // workload.gqa_ratio], workload.dtype)
        values = decode(v[batch, head // workload.gqa_ratio], workload.dtype)
        out[at], lse[at] = _exact_head(queries, keys, values, seen, factor)
        plain[at], plain_lse[at], lagging[at] = _both_honest(
            queries, keys, values, seen, factor, workload.dtype, workload.accumulate
        )
    return Expected(where, out, lse, plain, plain_lse, _scale(out, plain, lagging))


def _scale(out: NDArray[np.float64], *honest: NDArray[np.float32]) -> Scale:
    rms = np.sqrt((out**2).mean(axis=-1, keepdims=True))
    errors = [np.abs(each - out) for each in honest]
    squared = max(float((error**2).sum()) for error in errors)
    return Scale(
        rms, float((out**2).sum()), squared, max(float(over_rms(error, rms).max()) for error in errors)
    )


def over_rms(error: NDArray[np.float64], rms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Errors over the RMS of their rows; a row that is all zero (nothing visible) allows no error at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = error / rms
    if not rms.all():
        relative = np.where(error == 0, 0.0, relative)
    return relative


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
        return _both_honest(q, k, v, seen, scale, dtype, accumulate)[:2]

    return head


def _both_honest(
    q: Floats, k: Floats, v: Floats, seen: NDArray[np.intp], scale: float, dtype: str, accumulate: str
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Output and LSE with P below the row's maximum, and the output with P below a maximum that lags.

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
        out[block] = _rounded(weights, dtype) @ v / total
        lagging[block] = _rounded(weights * between, dtype) @ v / (total * between)
        lse[block] = ((top + np.log2(total)) * np.float32(math.log(2)))[:, 0]
    return _rounded(out, dtype), lse, _rounded(lagging, dtype)


def _rounded(x: Floats, dtype: str) -> NDArray[np.float32]:
    return decode(encode(x, dtype), dtype)
