"""What must, and must not, change between attention's outputs of changed inputs. Needs no reference.

Each function draws the changed inputs and says what must hold; validation/metamorphic.py runs a kernel on
them and looks. That the weights sum to one is a test input (`ones`), and so is one dominating key at every
tile edge (`needles`).
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import decode, encode, other_order
from evoflash.operations.attention.inputs import AttentionInputs
from evoflash.operations.attention.reference import visible
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.workload import Reach, Relation, Rows

_STREAM = 0x4F52  # a random stream of its own
_GROUPS = 4  # of which each query head's own keys are asked
_SIGN = np.uint16(0x8000)  # of fp16 and of bf16


def relations(
    inputs: AttentionInputs, workload: AttentionWorkload, *, seed: int
) -> Iterator[Relation | Reach]:
    """All that hold for the workload, the cheapest first. `inputs` are ordinary data."""
    rng = np.random.default_rng([seed, _STREAM])
    yield averages_without_queries(inputs, workload=workload)
    yield keeps_heads_apart(inputs, workload=workload, rng=rng)
    yield is_linear_in_values(inputs, workload=workload, rng=rng)
    yield ignores_shifts(inputs, workload=workload, rng=rng)
    yield from shares_keys_in_groups(inputs, workload=workload)
    if workload.causal:
        yield from hides_the_future(inputs, workload=workload)
    else:
        yield ignores_order(inputs, workload=workload, rng=rng)
        yield from ignores_copies(inputs, workload=workload)


def averages_without_queries(inputs: AttentionInputs, *, workload: AttentionWorkload) -> Relation:
    """Q = 0 gives the mean of the visible values: every key is counted, once. Needs no exp."""
    zero = AttentionInputs(f"{inputs.name} without queries", np.zeros_like(inputs.q), inputs.k, inputs.v)
    values = np.repeat(decode(inputs.v, workload.dtype), workload.gqa_ratio, axis=1).astype(np.float64)
    sums = np.concatenate([np.zeros_like(values[:, :, :1]), values.cumsum(axis=2)], axis=2)
    seen = visible(np.arange(workload.seq_q), workload.seq_q, workload.seq_kv, causal=workload.causal)
    means = sums[:, :, seen] / np.maximum(seen, 1)[:, None]
    known = {"O": means.reshape(-1, workload.head_dim)}
    return Relation("queries of zero: against the mean of V", known, Rows((zero,)))


def is_linear_in_values(
    inputs: AttentionInputs, *, workload: AttentionWorkload, rng: np.random.Generator
) -> Relation:
    """The outputs of V's rows in two parts, zeros in the place of the others, add up to that of V.

    Catches what depends on the values: a tile skipped for its zeros, a maximum over V, a result kept.
    """
    in_first = rng.random((workload.seq_kv, 1)) < 0.5
    parts = (np.where(in_first, inputs.v, np.uint16(0)), np.where(in_first, np.uint16(0), inputs.v))
    first, second = (AttentionInputs(f"{inputs.name}, part of V", inputs.q, inputs.k, part) for part in parts)
    return Relation("V in two parts", Rows((inputs,)), Rows((first, second)))


def ignores_shifts(
    inputs: AttentionInputs, *, workload: AttentionWorkload, rng: np.random.Generator
) -> Relation:
    """One vector added to all keys leaves the output as it was: a row's scores shift together.

    Keys are put on a grid first, on which 16 bits hold the sum exactly.
    """
    shift = rng.choice(np.array([-2, 2], np.float32), workload.head_dim)
    grid = np.round(decode(inputs.k, workload.dtype) * 32).clip(-60, 60) / 32
    given, shifted = (
        AttentionInputs(f"{inputs.name}, keys {word}", inputs.q, encode(keys, workload.dtype), inputs.v)
        for word, keys in (("on a grid", grid), ("shifted", grid + shift))
    )
    return Relation("shifted keys", Rows((given,)), Rows((shifted,)))


def keeps_heads_apart(
    inputs: AttentionInputs, *, workload: AttentionWorkload, rng: np.random.Generator
) -> Relation:
    """Batches and key/value heads, with their queries, may change places: outputs go along, but for rounding,
    since where a head stands may say how blocks that share all keys divide its own.
    """
    w = workload
    batches, groups = other_order(w.batch, rng), other_order(w.kv_heads, rng)
    heads = (groups[:, None] * w.gqa_ratio + np.arange(w.gqa_ratio)).reshape(-1)
    places = np.ix_(batches, heads), np.ix_(batches, groups)
    q, k, v = inputs.q[places[0]], inputs.k[places[1]], inputs.v[places[1]]
    exchanged = AttentionInputs(f"{inputs.name}, heads exchanged", q, k, v)
    moved = _row_numbers(w)[places[0]].reshape(-1)
    change = "exchanged batches and heads"
    return Relation(change, Rows((inputs,), moved), Rows((exchanged,)))


def _row_numbers(workload: AttentionWorkload) -> NDArray[np.intp]:
    """O's rows, counted through: (batch, heads, seq_q)."""
    shape = workload.batch, workload.heads, workload.seq_q
    return np.arange(np.prod(shape)).reshape(shape)


def shares_keys_in_groups(inputs: AttentionInputs, *, workload: AttentionWorkload) -> Iterator[Relation]:
    """Each query head reads the keys and values of its own group: where all groups have those of one, the
    query heads of that one give what they gave before. GQA is MHA with repeated keys and values.

    Asked of the first, the last and a few groups between.
    """
    for group in np.unique(np.linspace(0, workload.kv_heads - 1, _GROUPS).round().astype(int)):
        k, v = (np.repeat(x[:, group : group + 1], workload.kv_heads, axis=1) for x in (inputs.k, inputs.v))
        shared = AttentionInputs(f"{inputs.name}, keys of group {group}", inputs.q, k, v)
        own = slice(group * workload.gqa_ratio, (group + 1) * workload.gqa_ratio)
        rows = _row_numbers(workload)[:, own].reshape(-1)
        yield Relation(f"keys of group {group} in all groups", Rows((inputs,), rows), Rows((shared,), rows))


def hides_the_future(inputs: AttentionInputs, *, workload: AttentionWorkload) -> Iterator[Reach]:
    """Under a causal mask, negating keys and values changes no bit of a row that cannot see them and does
    change every row that can. For ordinary data of up to a few thousand keys: further out a single key may be
    rounded away.
    """
    for cut in _cuts(workload.seq_kv):
        k, v = inputs.k.copy(), inputs.v.copy()
        k[:, :, cut:] ^= _SIGN
        v[:, :, cut:] ^= _SIGN
        changed = AttentionInputs(f"{inputs.name} with keys changed from {cut} on", inputs.q, k, v)
        first_seeing = max(0, cut - (workload.seq_kv - workload.seq_q))
        yield Reach("causal", f"keys from {cut} on", inputs, changed, first_seeing)


def _cuts(seq_kv: int) -> Sequence[int]:
    wanted = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, seq_kv // 2, seq_kv - 1}
    return sorted(cut for cut in wanted if 0 < cut < seq_kv)


def ignores_order(
    inputs: AttentionInputs, *, workload: AttentionWorkload, rng: np.random.Generator
) -> Relation:
    """Without a mask, permuting keys with their values leaves the output as it was, but for rounding."""
    order = rng.permutation(workload.seq_kv)
    other = AttentionInputs(f"{inputs.name} permuted", inputs.q, inputs.k[:, :, order], inputs.v[:, :, order])
    return Relation("permuted keys", Rows((inputs,)), Rows((other,)))


def ignores_copies(inputs: AttentionInputs, *, workload: AttentionWorkload) -> Iterator[Relation]:
    """Without a mask, the first half of the keys and values counts the same alone, the others out of every
    row's sight, and with a copy of itself in the second half's place. Nothing for a single key.

    Out of sight: their scores are 128 below the rest, because all queries lean in one direction and these
    keys in the opposite one. A kernel that takes another length is not needed.
    """
    w, half = workload, workload.seq_kv // 2
    if not half:
        return
    lean = np.float32(4 * (2 / w.head_dim**0.5) ** 0.5)
    k, v = (x[:, :, :half] for x in (inputs.k, inputs.v))
    q = encode(decode(inputs.q, w.dtype) + lean, w.dtype)
    tail = w.seq_kv - half
    far = encode(np.full((w.batch, w.kv_heads, tail, w.head_dim), -lean * 4), w.dtype)
    copied = np.concatenate([k, k, far[:, :, : tail - half]], axis=2)
    alone = AttentionInputs(f"{inputs.name}, half", q, np.concatenate([k, far], axis=2), inputs.v)
    twice = AttentionInputs(
        f"{inputs.name}, half twice", q, copied, np.concatenate([v, v, inputs.v[:, :, 2 * half :]], axis=2)
    )
    yield Relation("doubled keys", Rows((alone,)), Rows((twice,)))
