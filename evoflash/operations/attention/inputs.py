"""The inputs that find out wrong attention kernels, drawn from a seed of the run. Judges nothing.

Each named input aims at a mistake: see the docstrings. `normal` data is what the pooled error is measured on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import UsageError
from evoflash.numerics import Bits, decode, encode, standard_normal, stream_of
from evoflash.operation import InputNames
from evoflash.operations.attention.workload import AttentionWorkload


def key_of_each_row(workload: AttentionWorkload, rng: np.random.Generator) -> NDArray[np.intp]:
    """A key near a tile edge for each row, its newest visible one, or the first hidden one."""
    last = workload.seq_kv - 1
    multiples = np.arange(0, last + 17, 16)
    edges = np.unique(np.concatenate([multiples - 1, multiples, multiples + 1, [last]]).clip(0, last))
    targets = _one_each(edges, workload.seq_q, rng)
    if workload.causal:
        newest = np.arange(workload.seq_q) + workload.seq_kv - workload.seq_q
        visible = rng.integers(0, newest.clip(0) + 1)  # a target beyond the mask would say nothing
        targets = np.where(targets <= newest, targets, visible)
        kind = rng.integers(0, 3, workload.seq_q)
        targets = np.select([kind == 0, kind == 1], [newest, newest + 1], targets)
    return targets.clip(0, last)


def _one_each(edges: NDArray[np.intp], rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """An edge for each row: all of them, or as many as there are rows, the last key among these."""
    if rows >= len(edges):
        return edges[rng.permutation(rows) % len(edges)]
    chosen = rng.permutation(edges)[:rows]
    if rows > 1 and edges[-1] not in chosen:
        chosen[rng.integers(rows)] = edges[-1]
    return chosen


def late_row(rows: int, rng: np.random.Generator, *, upper: bool) -> int:
    """One of the last quarter of the rows, in that half of 16 rows if there is one."""
    late = np.arange(rows - max(1, rows // 4), rows)
    wanted = late[(late % 16 >= 8) == upper]
    return int(rng.choice(wanted if len(wanted) else late))


Single = NDArray[np.float32]
Inputs = tuple[Single, Single, Single]
_HEAVY = 6  # of a hidden key's score above the visible ones': below what lets P outgrow an old maximum


@dataclass(frozen=True, slots=True, eq=False)
class AttentionInputs:
    """Q (batch, heads, seq_q, head_dim) and K, V (batch, kv_heads, seq_kv, head_dim) as 16-bit patterns."""

    __test__ = False  # to pytest, which takes a class of such a name for a test

    name: str
    q: Bits
    k: Bits
    v: Bits

    @property
    def tensors(self) -> dict[str, Bits]:
        return {"Q": self.q, "K": self.k, "V": self.v}


def draw(name: str, workload: AttentionWorkload, *, seed: int) -> AttentionInputs:
    """The test input of that name, always the same for one workload and seed.

    UsageError for an unknown name.
    """
    if name not in _RECIPES:
        raise UsageError(f"no trial is called '{name}': use {', '.join(_RECIPES)}.")
    rng = stream_of(seed, name, workload)
    q, k, v = _RECIPES[name](workload, rng)
    return AttentionInputs(name, *(encode(x, workload.dtype) for x in (q, k, v)))


def _normal(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """N(0, 1): the ordinary case, whose errors are pooled."""
    w = workload
    query, key = (w.batch, w.heads, w.seq_q, w.head_dim), (w.batch, w.kv_heads, w.seq_kv, w.head_dim)
    q, k, v = (standard_normal(shape, rng) for shape in (query, key, key))
    return q, k, v


def _large_logits(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """Scores of +-100: without the maximum subtracted, fp32 exp overflows, in most long rows."""
    q, k, v = _normal(workload, rng)
    return 30 * q, k, v


def _rising(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """The row maximum rises in every tile, by 64 in all: a skipped or late rescale shows."""
    return _ramp(workload, rng, np.linspace(-1, 1, workload.seq_kv, dtype=np.float32))


def _falling(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """The maximum stands in the first tile: what follows must fade, also when walked backwards."""
    return _ramp(workload, rng, np.linspace(1, -1, workload.seq_kv, dtype=np.float32))


def _ramp(workload: AttentionWorkload, rng: np.random.Generator, height: Single) -> Inputs:
    q, k, v = _normal(workload, rng)
    direction = _signs(rng, (workload.head_dim,))
    steep = np.float32(32 / workload.head_dim**0.5)  # the score moves from -32 to +32 along the keys
    q /= 4  # in place: K may have half a gigabyte
    q += steep * direction
    k /= 4
    k += height[:, None] * direction
    return q, k, v


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Single:
    return rng.choice(np.array([-1, 1], np.float32), shape)


def _needles(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """Each row points at one key near a tile edge, at its newest visible key, or at the first hidden one.

    A dropped tile, tail or diagonal loses the pointed-at row of V; a leaking mask shows the hidden one.
    """
    q, k, v = _normal(workload, rng)
    targets = key_of_each_row(workload, rng)
    for head in range(workload.heads):
        q[:, head] = 4 * k[:, head // workload.gqa_ratio, targets]
    return q, k, v


def _spikes(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """Needles 100 above the rest: a maximum that misses the key pointed at overflows fp32."""
    q, k, v = _needles(workload, rng)
    return q * np.float32(_spike(workload.head_dim) / 4), k, v


def _spike(head_dim: int) -> float:
    """How many times a key makes the query whose score of it stands 128 above the rest's largest, on average.

    Scores of other keys spread by as much as that number: the largest of a row is three times it. At head
    dimension 16 the spike does not stand as far above them: queries and LSE would become too large.
    """
    return 128 / max(2.0, math.sqrt(head_dim) - 3)


def _equal_keys(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """All keys the same: every weight is equal, and the output is the mean of the visible values."""
    q, k, v = _normal(workload, rng)
    return q, np.repeat(k[:, :, :1], workload.seq_kv, axis=2), v


def _ones(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """V = 1: the output is 1 when the weights are normalised."""
    q, k, v = _normal(workload, rng)
    return q, k, np.ones_like(v)


def _ties(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """The largest key stands at several tile edges: a maximum met again is no rise, and its share counts."""
    q, k, v = _normal(workload, rng)
    direction = _signs(rng, (workload.head_dim,))
    edges = np.array([0, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, workload.seq_kv - 1])
    k[:, :, np.unique(edges[edges < workload.seq_kv])] = direction
    return q + np.float32(12 / workload.head_dim**0.5) * direction, k, v


def _sink(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """Key 0 holds most of each row's weight: the other keys, all small, must not be lost."""
    q, k, v = _normal(workload, rng)
    direction = _signs(rng, (workload.head_dim,))
    height = 2 * (np.log(workload.seq_kv) + 2) / workload.head_dim**0.5  # e^2 times the others' weight
    k[:, :, 0] = np.float32(height) * direction
    return q + direction / np.float32(2), k, v


def _zero_queries(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """Q = 0: every visible key counts the same, and the LSE is the logarithm of their number."""
    q, k, v = _normal(workload, rng)
    return np.zeros_like(q), k, v


def _constant_rows(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """One number along each row of Q, K and V: what a wrong stride brings in does not average out."""
    q, k, v = (np.repeat(x[..., :1], workload.head_dim, axis=-1) for x in _normal(workload, rng))
    return q, k, 1 + np.abs(v)


def _saturated_scores(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """A large constant, of either sign, in all scores of a row: softmax does not see it, overflow does."""
    q, k, v = _normal(workload, rng)
    direction = _signs(rng, (workload.head_dim,))
    sign = _signs(rng, (workload.seq_q, 1))
    return q + 8 * sign * direction, k + 8 * direction, v


def _outliers(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """N(0, 1) with one element in a thousand ten times as wide: uneven weights, uneven values."""

    def add_spikes(x: Single) -> Single:
        rare = rng.random(x.shape, dtype=np.float32) < 1e-3
        return x + 10 * rare * rng.standard_normal(x.shape, dtype=np.float32)

    q, k, v = (add_spikes(x) for x in _normal(workload, rng))
    return q, k, v


def _lone_spikes(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """One row of each group of query heads alone outgrows all else, by 100, at one of the last keys it sees.

    What asks only some rows whether their maximum still holds misses it; the other rows are ordinary. It is
    one of the last rows, by turns in the upper and in the lower half of 16, which a thread holds apart.
    """
    w = workload
    q, k, v = _normal(w, rng)
    for batch, group in np.ndindex(w.batch, w.kv_heads):
        row = late_row(w.seq_q, rng, upper=(batch + group) % 2 == 0)
        newest = min(w.seq_kv - 1, row + w.seq_kv - w.seq_q) if w.causal else w.seq_kv - 1
        if newest < 0:
            continue  # the row sees nothing
        key = rng.integers(newest - newest // 8, newest + 1)
        head = group * w.gqa_ratio + rng.integers(w.gqa_ratio)
        q[batch, head, row] = np.float32(_spike(w.head_dim)) * k[batch, group, key]
    return q, k, v


def _zero_keys(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """K is zero at the first key and in two thirds of the keys, V in the rest; by turns, head for head.

    A row of zeros, or a whole tile, is a key as good as any: its score is 0, which counts.
    """
    q, k, v = _normal(workload, rng)
    cut = 2 * workload.seq_kv // 3
    for batch, head in np.ndindex(workload.batch, workload.kv_heads):
        first, second = slice(0, cut), slice(cut, None)
        of_k, of_v = (second, first) if (batch + head) % 2 else (first, second)
        k[batch, head, of_k] = 0
        v[batch, head, of_v] = 0
    k[:, :, 0] = 0
    return q, k, v


def _heavy_hidden_keys(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """A key that a row must not see weighs e^6 times as much as one that it sees: a mask that leaks shows.

    Not more, because kernels that keep an old maximum do rows that outgrow it again, and come out right.
    Visible scores are near -6. Behind the last key kernels find zeros, whose score is 0; under a causal mask
    each row points at the first key that it must not see.
    """
    direction, root = _signs(rng, (workload.head_dim,)), workload.head_dim**0.5
    q, k, v = _normal(workload, rng)
    q, k = (_across(x, direction) / np.float32(2) for x in (q, k))
    if workload.causal:
        hidden = np.arange(workload.seq_q) + workload.seq_kv - workload.seq_q + 1
        rows = np.flatnonzero((hidden >= 0) & (hidden < workload.seq_kv))
        for head in range(workload.heads):
            key = k[:, head // workload.gqa_ratio, hidden[rows]]
            q[:, head, rows] += np.float32(_HEAVY * root) * key / np.sum(key * key, axis=-1, keepdims=True)
    return q - np.float32(_HEAVY / root) * direction, k + direction, v


def _across(x: Single, direction: Single) -> Single:
    """Without its part along a direction of signs."""
    along: Single = x @ (direction / np.float32(len(direction)))
    return x - along[..., None] * direction


def _large_values(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """V near the type's maximum: an output accumulated in 16 bits before the division overflows.

    For bf16, whose range is that of fp32, near what fp32 sums of some thousand undivided terms can hold.
    """
    q, k, v = _normal(workload, rng)
    if workload.dtype == "bf16":
        return q, k, np.float32(2.0**110) * v
    return q, k, (16000 * v).clip(-60000, 60000)


# By how much a row's maximum grows, in powers of two: about what P holds in that type, and what fp32 sums do.
_GROWTHS = {"fp16": (13, 15.9998, 20, 126.5), "bf16": (16.3, 80, 118, 126.5)}
# How far the small weights lie below the one heavy key's, in powers of two: what P of 16 bits can hold.
_DEPTHS = {"fp16": (19, 14), "bf16": (30, 15)}
_LOW = {"fp32": 60000, "fp16": 15000}  # a raw score far below zero, by what the scores are summed in


def _growth(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """One key near the end outgrows all others, whose score is 0, by a power of two, another for each head of
    K: who sets a bound for P, or for its sums, beyond what its type holds lets it overflow.

    One key, because a sum over many shows before a number does; of every second head of K the next one, which
    is another of the two that a thread has side by side.
    """
    w = workload
    q, k, v = _normal(w, rng)
    direction = _signs(rng, (w.head_dim,))
    grown = np.resize(rng.permutation(_GROWTHS[w.dtype]), w.batch * w.kv_heads)
    keys = _grown_keys(w, grown) * direction
    first = max(0, w.seq_kv - 1 - min(w.seq_q, 3))
    q[...], k[...] = direction, 0
    for number, (batch, group) in enumerate(np.ndindex(w.batch, w.kv_heads)):
        is_next = (number + number // len(_GROWTHS[w.dtype])) % 2 == 1
        k[batch, group, min(first + is_next, w.seq_kv - 1)] = keys[number]
    return q, k, (1000 if w.dtype == "bf16" else 1) * v


def _grown_keys(workload: AttentionWorkload, grown: NDArray[np.float64]) -> Single:
    """Keys of one number, but for the last: that makes up for what is rounded off the others."""
    scores = np.log(2) * grown * workload.head_dim**0.5
    each = np.repeat(scores[:, None] / workload.head_dim, workload.head_dim, axis=1).astype(np.float32)
    each = decode(encode(each, workload.dtype), workload.dtype)
    each[:, -1] = scores - each[:, :-1].sum(axis=1, dtype=np.float64)
    return each


def _small_weights(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """One key, the first or the last that all rows see, outweighs each other by a power of two, another for
    each head of K, and its values are zero: the output is what the small weights make of values with a mean.

    Who drops what weighs little, key, tile or split, drops all of it.
    """
    w = workload
    q, k, v = _normal(w, rng)
    direction = _signs(rng, (w.head_dim,))
    q = _across(q / np.float32(4), direction) + direction
    k = _across(k / np.float32(4), direction)
    v += 1
    last = max(0, w.seq_kv - w.seq_q) if w.causal else w.seq_kv - 1
    for number, (batch, group) in enumerate(np.ndindex(w.batch, w.kv_heads)):
        at, depth = (0, last)[number % 2], _DEPTHS[w.dtype][number // 2 % 2]
        k[batch, group, at] = np.float32(depth * np.log(2) / w.head_dim**0.5) * direction
        if w.seq_kv > 1:
            v[batch, group, at] = 0
    return q, k, v


def _low_scores(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """Raw scores near -60000: a hidden key whose score is a large negative number outweighs them all.

    Q and K are multiples of 1/8, so that fp32 holds every sum of their products whatever its order: else one
    chain of additions over the columns is off by more than a threshold allows, and is no mistake.
    """
    q, k, v = _normal(workload, rng)
    far = np.float32((_LOW[workload.accumulate] / workload.head_dim) ** 0.5)
    return _eighths(q - far), _eighths(k + far), v


def _eighths(x: Single) -> Single:
    """Each number as the nearest multiple of 1/8."""
    return np.asarray(np.round(x * np.float32(8)) / np.float32(8), np.float32)


def _tiny_values(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """V of 2^-17, which fp16 has as subnormal numbers alone: they are no zeros."""
    q, k, v = _normal(workload, rng)
    return q, k, np.float32(2.0**-17) * v


def _huge_values(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """V of one sign near the type's largest number, for bf16 what fp32 sums of it hold: a clamp shows."""
    q, k, v = _normal(workload, rng)
    most = 64000.0
    if workload.dtype == "bf16":
        most = 2.0 ** min(120, 125 - math.ceil(math.log2(workload.seq_kv)))
    return q, k, np.float32(most) * (1 + (np.abs(v) / 100).clip(0, 0.02))


def _last_spike(workload: AttentionWorkload, rng: np.random.Generator) -> Inputs:
    """Of all heads and batches one row alone, near the end of the last one, outgrows all else, by 100, at the
    newest key that it sees: who takes piece after piece of work must watch the last one too.
    """
    w = workload
    q, k, v = _normal(w, rng)
    row = max(0, w.seq_q - 4)
    newest = min(w.seq_kv - 1, row + w.seq_kv - w.seq_q) if w.causal else w.seq_kv - 1
    if newest >= 0:
        q[-1, -1, row] = np.float32(_spike(w.head_dim)) * k[-1, -1, newest]
    return q, k, v


_RECIPES: dict[str, Callable[[AttentionWorkload, np.random.Generator], Inputs]] = {
    "normal": _normal,
    "normal-again": _normal,
    "normal-after": _normal,
    "large_logits": _large_logits,
    "rising": _rising,
    "falling": _falling,
    "needles": _needles,
    "spikes": _spikes,
    "ties": _ties,
    "sink": _sink,
    "equal_keys": _equal_keys,
    "zero_queries": _zero_queries,
    "constant_rows": _constant_rows,
    "ones": _ones,
    "saturated": _saturated_scores,
    "outliers": _outliers,
    "large_values": _large_values,
    "lone_spikes": _lone_spikes,
    "zero_keys": _zero_keys,
    "heavy_hidden": _heavy_hidden_keys,
    "growth": _growth,
    "small_weights": _small_weights,
    "low_scores": _low_scores,
    "tiny_values": _tiny_values,
    "huge_values": _huge_values,
    "last_spike": _last_spike,
}

ALL = tuple(name for name in _RECIPES if name != "normal-after")  # for small shapes
# For the benchmark's shape, where a reference is costly: the last two show a key too many or too few among
# thousands, of which ordinary data says nothing.
AT_SIZE = ("normal", "needles", "rising", "heavy_hidden", "small_weights")
NAMES = InputNames(
    small=ALL,
    at_size=AT_SIZE,
    # Ordinary ones, then those that catch a mask, a rescaling, an overflow.
    scheduled=(
        "normal",
        "spikes",
        "saturated",
        "rising",
        "lone_spikes",
        "zero_keys",
        "heavy_hidden",
        "needles",
        "large_logits",
        "falling",
        "outliers",
        "growth",
        "small_weights",
        "last_spike",
    ),
    after_timing="normal-after",
    ordinary=frozenset({"normal", "normal-again", "normal-after"}),
)


def timed_inputs(
    workload: AttentionWorkload, *, sets: int, rng: np.random.Generator
) -> list[AttentionInputs]:
    """That many inputs to be timed on: overlapping windows of one pool of normal numbers, so that every set
    differs. Zeros would run too fast.
    """
    w, step = workload, 4096 + 8
    query, key = (w.batch, w.heads, w.seq_q, w.head_dim), (w.batch, w.kv_heads, w.seq_kv, w.head_dim)

    def pool(shape: tuple[int, ...]) -> list[Bits]:
        size = int(np.prod(shape))
        bits = encode(standard_normal((size + sets * step,), rng), w.dtype)
        return [bits[at * step : at * step + size].reshape(shape) for at in range(sets)]

    windows = zip(pool(query), pool(key), pool(key), strict=True)
    return [AttentionInputs("normal", q, k, v) for q, k, v in windows]
