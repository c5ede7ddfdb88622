"""Is an output right? Checks that need no reference: what changed inputs must, and must not, change.

Each runs the kernel that it is given, touches no GPU itself, and returns one line, empty when all is well.
Where both outputs are rounded, they may differ by twice the gate; each may be off in its own direction.
That the weights sum to one is a trial (`ones`), and so is one dominating key at every tile edge (`needles`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.problem import Workload
from evoflash.validation.inputs import Trial
from evoflash.validation.reference import Floats, decode, encode, over_rms, visible
from evoflash.validation.thresholds import gates_of
from evoflash.validation.validator import Kernel, Output, error_ratio

_SIGN = np.uint16(0x8000)  # of fp16 and of bf16
_BOTH = 2  # outputs that are off


def repeats(kernel: Kernel, trial: Trial) -> str:
    """Empty when two runs on the same input agree in every bit; else what differs. Catches races."""
    first, second = kernel(trial), kernel(trial)
    differing = int((first.out != second.out).sum())
    if differing:
        at = np.unravel_index(int((first.out != second.out).argmax()), first.out.shape)
        place = " ".join(f"{name}={i}" for name, i in zip(("b", "h", "row", "col"), at, strict=True))
        return f"two runs on the same input differ in {differing} elements, the first at {place}"
    return ""


def averages_without_queries(kernel: Kernel, trial: Trial, *, workload: Workload) -> str:
    """Empty when Q = 0 gives the mean of the visible values: every key is counted, once. Needs no exp."""
    zero = Trial(f"{trial.name} without queries", np.zeros_like(trial.q), trial.k, trial.v)
    values = np.repeat(decode(trial.v, workload.dtype), workload.gqa_ratio, axis=1).astype(np.float64)
    sums = np.concatenate([np.zeros_like(values[:, :, :1]), values.cumsum(axis=2)], axis=2)
    seen = visible(np.arange(workload.seq_q), workload.seq_q, workload.seq_kv, causal=workload.causal)
    means = sums[:, :, seen] / np.maximum(seen, 1)[:, None]
    return moved("queries of zero: against the mean of V", means, kernel(zero), workload=workload)


def is_linear_in_values(kernel: Kernel, trial: Trial, *, workload: Workload, rng: np.random.Generator) -> str:
    """Empty when the outputs of V's rows in two parts, zeros in the place of the others, add up to that of V.

    Catches what depends on the values: a tile skipped for its zeros, a maximum over V, a result kept.
    """
    in_first = rng.random((workload.seq_kv, 1)) < 0.5
    parts = (np.where(in_first, trial.v, np.uint16(0)), np.where(in_first, np.uint16(0), trial.v))
    first, second = (Trial(f"{trial.name}, part of V", trial.q, trial.k, part) for part in parts)
    total = _values(kernel(first), workload) + _values(kernel(second), workload)
    return moved("V in two parts", kernel(trial), total, workload=workload)


def ignores_shifts(kernel: Kernel, trial: Trial, *, workload: Workload, rng: np.random.Generator) -> str:
    """Empty when one vector added to all keys leaves the output as it was: a row's scores shift together.

    Keys are put on a grid first, on which 16 bits hold the sum exactly.
    """
    shift = rng.choice(np.array([-2, 2], np.float32), workload.head_dim)
    grid = np.round(decode(trial.k, workload.dtype) * 32).clip(-60, 60) / 32
    given, shifted = (
        Trial(f"{trial.name}, keys {word}", trial.q, encode(keys, workload.dtype), trial.v)
        for word, keys in (("on a grid", grid), ("shifted", grid + shift))
    )
    return moved("shifted keys", kernel(given), kernel(shifted), workload=workload)


def keeps_heads_apart(kernel: Kernel, trial: Trial, *, workload: Workload, rng: np.random.Generator) -> str:
    """Empty when batches and key/value heads, with their queries, may change places: outputs go along."""
    w = workload
    batches, groups = rng.permutation(w.batch), rng.permutation(w.kv_heads)
    heads = (groups[:, None] * w.gqa_ratio + np.arange(w.gqa_ratio)).reshape(-1)
    places = np.ix_(batches, heads), np.ix_(batches, groups)
    q, k, v = trial.q[places[0]], trial.k[places[1]], trial.v[places[1]]
    after = kernel(Trial(f"{trial.name}, heads exchanged", q, k, v))
    before = _values(kernel(trial), w)[places[0]]
    return moved("exchanged batches and heads", before, after, workload=w)


def shares_keys_in_groups(kernel: Kernel, trial: Trial, *, workload: Workload) -> str:
    """Empty when each query head reads the keys and values of its own group: where all groups have those of
    one, the query heads of that one give what they gave before. GQA is MHA with repeated keys and values.
    """
    before = _values(kernel(trial), workload)
    for group in range(workload.kv_heads):
        k, v = (np.repeat(x[:, group : group + 1], workload.kv_heads, axis=1) for x in (trial.k, trial.v))
        after = _values(kernel(Trial(f"{trial.name}, keys of group {group}", trial.q, k, v)), workload)
        own = slice(group * workload.gqa_ratio, (group + 1) * workload.gqa_ratio)
        change = f"keys of group {group} in all groups"
        if reason := moved(change, before[:, own], after[:, own], workload=workload):
            return reason
    return ""


def hides_the_future(kernel: Kernel, trial: Trial, *, workload: Workload) -> str:
    """Empty when, under a causal mask, negating keys and values changes no bit of a row that cannot see them
    and does change every row that can; else what went wrong. For ordinary data of up to a few thousand
    keys: further out a single key may be rounded away.
    """
    before = kernel(trial)
    for cut in _cuts(workload.seq_kv):
        k, v = trial.k.copy(), trial.v.copy()
        k[:, :, cut:] ^= _SIGN
        v[:, :, cut:] ^= _SIGN
        after = kernel(Trial(f"{trial.name} with keys changed from {cut} on", trial.q, k, v))
        first_seeing = max(0, cut - (workload.seq_kv - workload.seq_q))
        blind, seeing = slice(None, first_seeing), slice(first_seeing, None)
        if (before.out[:, :, blind] != after.out[:, :, blind]).any():
            row = int((before.out[:, :, blind] != after.out[:, :, blind]).any(axis=(0, 1, 3)).argmax())
            return f"causal: row {row} changes with keys from {cut} on, which it must not see"
        unchanged = (before.out[:, :, seeing] == after.out[:, :, seeing]).all(axis=(0, 1, 3))
        if unchanged.any():
            return f"causal: row {first_seeing + int(unchanged.argmax())} ignores keys from {cut} on"
    return ""


def _cuts(seq_kv: int) -> Sequence[int]:
    wanted = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, seq_kv // 2, seq_kv - 1}
    return sorted(cut for cut in wanted if 0 < cut < seq_kv)


def ignores_order(kernel: Kernel, trial: Trial, *, workload: Workload, rng: np.random.Generator) -> str:
    """Empty when, without a mask, permuting keys with their values leaves the output as it was, but for
    rounding; else how far it moved.
    """
    order = rng.permutation(workload.seq_kv)
    other = Trial(f"{trial.name} permuted", trial.q, trial.k[:, :, order], trial.v[:, :, order])
    return moved("permuted keys", kernel(trial), kernel(other), workload=workload)


def ignores_copies(kernel: Kernel, trial: Trial, *, workload: Workload) -> str:
    """Empty when, without a mask, the first half of the keys and values counts the same alone, the others out
    of every row's sight, and with a copy of itself in the second half's place.

    Out of sight: their scores are 128 below the rest, because all queries lean in one direction and these
    keys in the opposite one. A kernel that takes another length is not needed.
    """
    w, half = workload, workload.seq_kv // 2
    if not half:
        return ""
    lean = np.float32(4 * (2 / w.head_dim**0.5) ** 0.5)
    first = (x[:, :, :half] for x in (trial.k, trial.v))
    q = encode(decode(trial.q, w.dtype) + lean, w.dtype)
    tail = w.seq_kv - half
    far = encode(np.full((w.batch, w.kv_heads, tail, w.head_dim), -lean * 4), w.dtype)
    k, v = next(first), next(first)
    copied = np.concatenate([k, k, far[:, :, : tail - half]], axis=2)
    alone = Trial(f"{trial.name}, half", q, np.concatenate([k, far], axis=2), trial.v)
    twice = Trial(
        f"{trial.name}, half twice", q, copied, np.concatenate([v, v, trial.v[:, :, 2 * half :]], axis=2)
    )
    return moved("doubled keys", kernel(alone), kernel(twice), workload=w)


def _values(output: Output, workload: Workload) -> NDArray[np.float32]:
    return decode(output.out, workload.dtype)


def moved(change: str, before: Output | Floats, after: Output | Floats, *, workload: Workload) -> str:
    """Empty when two outputs agree but for rounding; else how far one moved, or where one element did."""
    old, new = (_values(x, workload) if isinstance(x, Output) else x for x in (before, after))
    error, gates = np.abs(new.astype(np.float64) - old), gates_of(workload)
    distance = error_ratio(float((error**2).sum()), float((old.astype(np.float64) ** 2).sum()))
    if not distance <= _BOTH * gates.rel_l2:
        return f"{change}: the output moves by rel_l2 {distance:.1e} > {_BOTH * gates.rel_l2:.0e}"
    rms = np.sqrt((old.astype(np.float64) ** 2).mean(axis=-1, keepdims=True))
    relative = over_rms(error, rms)
    if not (relative <= _BOTH * gates.max_over_rms).all():
        b, h, row, col = np.unravel_index(int(relative.argmax()), relative.shape)
        size = f"{relative.max():.1e} > {_BOTH * gates.max_over_rms:.0e} of its row's RMS"
        return f"{change}: an element moves by {size}: b={b} h={h} row={row} col={col}"
    return ""
