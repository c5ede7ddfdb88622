"""What must, and must not, change between attention's outputs of changed inputs; needs no reference.

Each relation runs the kernel that it is given, touches no GPU itself, and returns one line, empty when all is
well. That the weights sum to one is a test input (`ones`), and so is one dominating key at every tile edge
(`needles`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.attention.inputs import TestInput
from evoflash.attention.reference import visible
from evoflash.attention.workload import Workload
from evoflash.operation import Kernel, Output
from evoflash.validation.bits import Floats, decode, encode
from evoflash.validation.metamorphic import moved

_STREAM = 0x4F52  # a random stream of its own
_SIGN = np.uint16(0x8000)  # of fp16 and of bf16


def complaint(run: Kernel, inputs: TestInput, workload: Workload, *, seed: int) -> str:
    """The first complaint of the relations, the cheapest of them first; empty when they have none."""
    given: dict[str, Any] = {"workload": workload}
    drawn = given | {"rng": np.random.default_rng([seed, _STREAM])}
    general = (
        lambda: averages_without_queries(run, inputs, **given),
        lambda: keeps_heads_apart(run, inputs, **drawn),
        lambda: is_linear_in_values(run, inputs, **drawn),
        lambda: ignores_shifts(run, inputs, **drawn),
        lambda: shares_keys_in_groups(run, inputs, **given),
    )
    unmasked = (
        lambda: ignores_order(run, inputs, **drawn),
        lambda: ignores_copies(run, inputs, **given),
    )
    causal = (lambda: hides_the_future(run, inputs, **given),)
    relations = (*general, *(causal if workload.causal else unmasked))
    return next((said for relation in relations if (said := relation())), "")


def averages_without_queries(kernel: Kernel, inputs: TestInput, *, workload: Workload) -> str:
    """Empty when Q = 0 gives the mean of the visible values: every key is counted, once. Needs no exp."""
    zero = TestInput(f"{inputs.name} without queries", np.zeros_like(inputs.q), inputs.k, inputs.v)
    values = np.repeat(decode(inputs.v, workload.dtype), workload.gqa_ratio, axis=1).astype(np.float64)
    sums = np.concatenate([np.zeros_like(values[:, :, :1]), values.cumsum(axis=2)], axis=2)
    seen = visible(np.arange(workload.seq_q), workload.seq_q, workload.seq_kv, causal=workload.causal)
    means = sums[:, :, seen] / np.maximum(seen, 1)[:, None]
    return _moved("queries of zero: against the mean of V", means, kernel(zero), workload=workload)


def is_linear_in_values(
    kernel: Kernel, inputs: TestInput, *, workload: Workload, rng: np.random.Generator
) -> str:
    """Empty when the outputs of V's rows in two parts, zeros in the place of the others, add up to that of V.

    Catches what depends on the values: a tile skipped for its zeros, a maximum over V, a result kept.
    """
    in_first = rng.random((workload.seq_kv, 1)) < 0.5
    parts = (np.where(in_first, inputs.v, np.uint16(0)), np.where(in_first, np.uint16(0), inputs.v))
    first, second = (TestInput(f"{inputs.name}, part of V", inputs.q, inputs.k, part) for part in parts)
    total = _values(kernel(first), workload) + _values(kernel(second), workload)
    return _moved("V in two parts", kernel(inputs), total, workload=workload)


def ignores_shifts(kernel: Kernel, inputs: TestInput, *, workload: Workload, rng: np.random.Generator) -> str:
    """Empty when one vector added to all keys leaves the output as it was: a row's scores shift together.

    Keys are put on a grid first, on which 16 bits hold the sum exactly.
    """
    shift = rng.choice(np.array([-2, 2], np.float32), workload.head_dim)
    grid = np.round(decode(inputs.k, workload.dtype) * 32).clip(-60, 60) / 32
    given, shifted = (
        TestInput(f"{inputs.name}, keys {word}", inputs.q, encode(keys, workload.dtype), inputs.v)
        for word, keys in (("on a grid", grid), ("shifted", grid + shift))
    )
    return _moved("shifted keys", kernel(given), kernel(shifted), workload=workload)


def keeps_heads_apart(
    kernel: Kernel, inputs: TestInput, *, workload: Workload, rng: np.random.Generator
) -> str:
    """Empty when batches and key/value heads, with their queries, may change places: outputs go along."""
    w = workload
    batches, groups = rng.permutation(w.batch), rng.permutation(w.kv_heads)
    heads = (groups[:, None] * w.gqa_ratio + np.arange(w.gqa_ratio)).reshape(-1)
    places = np.ix_(batches, heads), np.ix_(batches, groups)
    q, k, v = inputs.q[places[0]], inputs.k[places[1]], inputs.v[places[1]]
    after = kernel(TestInput(f"{inputs.name}, heads exchanged", q, k, v))
    before = _values(kernel(inputs), w)[places[0]]
    return _moved("exchanged batches and heads", before, after, workload=w)


def shares_keys_in_groups(kernel: Kernel, inputs: TestInput, *, workload: Workload) -> str:
    """Empty when each query head reads the keys and values of its own group: where all groups have those of
    one, the query heads of that one give what they gave before. GQA is MHA with repeated keys and values.
    """
    before = _values(kernel(inputs), workload)
    for group in range(workload.kv_heads):
        k, v = (np.repeat(x[:, group : group + 1], workload.kv_heads, axis=1) for x in (inputs.k, inputs.v))
        after = _values(kernel(TestInput(f"{inputs.name}, keys of group {group}", inputs.q, k, v)), workload)
        own = slice(group * workload.gqa_ratio, (group + 1) * workload.gqa_ratio)
        change = f"keys of group {group} in all groups"
        if reason := _moved(change, before[:, own], after[:, own], workload=workload):
            return reason
    return ""


def hides_the_future(kernel: Kernel, inputs: TestInput, *, workload: Workload) -> str:
    """Empty when, under a causal mask, negating keys and values changes no bit of a row that cannot see them
    and does change every row that can; else what went wrong. For ordinary data of up to a few thousand
    keys: further out a single key may be rounded away.
    """
    before = kernel(inputs)
    for cut in _cuts(workload.seq_kv):
        k, v = inputs.k.copy(), inputs.v.copy()
        k[:, :, cut:] ^= _SIGN
        v[:, :, cut:] ^= _SIGN
        after = kernel(TestInput(f"{inputs.name} with keys changed from {cut} on", inputs.q, k, v))
        changed = before.tensors["O"] != after.tensors["O"]
        first_seeing = max(0, cut - (workload.seq_kv - workload.seq_q))
        blind, seeing = changed[:, :, :first_seeing], changed[:, :, first_seeing:]
        if blind.any():
            row = int(blind.any(axis=(0, 1, 3)).argmax())
            return f"causal: row {row} changes with keys from {cut} on, which it must not see"
        unchanged = ~seeing.any(axis=(0, 1, 3))
        if unchanged.any():
            return f"causal: row {first_seeing + int(unchanged.argmax())} ignores keys from {cut} on"
    return ""


def _cuts(seq_kv: int) -> Sequence[int]:
    wanted = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, seq_kv // 2, seq_kv - 1}
    return sorted(cut for cut in wanted if 0 < cut < seq_kv)


def ignores_order(kernel: Kernel, inputs: TestInput, *, workload: Workload, rng: np.random.Generator) -> str:
    """Empty when, without a mask, permuting keys with their values leaves the output as it was, but for
    rounding; else how far it moved.
    """
    order = rng.permutation(workload.seq_kv)
    other = TestInput(f"{inputs.name} permuted", inputs.q, inputs.k[:, :, order], inputs.v[:, :, order])
    return _moved("permuted keys", kernel(inputs), kernel(other), workload=workload)


def ignores_copies(kernel: Kernel, inputs: TestInput, *, workload: Workload) -> str:
    """Empty when, without a mask, the first half of the keys and values counts the same alone, the others out
    of every row's sight, and with a copy of itself in the second half's place.

    Out of sight: their scores are 128 below the rest, because all queries lean in one direction and these
    keys in the opposite one. A kernel that takes another length is not needed.
    """
    w, half = workload, workload.seq_kv // 2
    if not half:
        return ""
    lean = np.float32(4 * (2 / w.head_dim**0.5) ** 0.5)
    first = (x[:, :, :half] for x in (inputs.k, inputs.v))
    q = encode(decode(inputs.q, w.dtype) + lean, w.dtype)
    tail = w.seq_kv - half
    far = encode(np.full((w.batch, w.kv_heads, tail, w.head_dim), -lean * 4), w.dtype)
    k, v = next(first), next(first)
    copied = np.concatenate([k, k, far[:, :, : tail - half]], axis=2)
    alone = TestInput(f"{inputs.name}, half", q, np.concatenate([k, far], axis=2), inputs.v)
    twice = TestInput(
        f"{inputs.name}, half twice", q, copied, np.concatenate([v, v, inputs.v[:, :, 2 * half :]], axis=2)
    )
    return _moved("doubled keys", kernel(alone), kernel(twice), workload=w)


def _values(output: Output, workload: Workload) -> NDArray[np.float32]:
    return decode(output.tensors["O"], workload.dtype)


def _moved(change: str, before: Output | Floats, after: Output | Floats, *, workload: Workload) -> str:
    """As metamorphic.moved(), of outputs or of O's numbers."""
    old, new = (x if isinstance(x, Output) else {"O": x} for x in (before, after))
    return moved(change, old, new, workload=workload)
