"""Is an output right? Checks that need no reference: what changed inputs must, and must not, change.

Each runs the kernel that it is given, touches no GPU itself, and returns one line, empty when all is well.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.problem import Workload
from evoflash.reference import decode
from evoflash.trials import Trial
from evoflash.validator import HONEST_FACTOR, REL_L2, Kernel, Output, error_ratio

_SIGN = np.uint16(0x8000)  # of fp16 and of bf16


def repeats(kernel: Kernel, trial: Trial) -> str:
    """Empty when two runs on the same input agree in every bit; else what differs. Catches races."""
    first, second = kernel(trial), kernel(trial)
    differing = int((first.out != second.out).sum())
    if differing:
        at = np.unravel_index(int((first.out != second.out).argmax()), first.out.shape)
        place = " ".join(f"{name}={i}" for name, i in zip(("b", "h", "row", "col"), at, strict=True))
        return f"two runs on the same input differ in {differing} elements, the first at {place}"
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
    moved = Trial(f"{trial.name} permuted", trial.q, trial.k[:, :, order], trial.v[:, :, order])
    return _moved("permuted keys", kernel(trial), kernel(moved), workload=workload)


def ignores_copies(kernel: Kernel, trial: Trial, *, workload: Workload) -> str:
    """Empty when, without a mask, doubling all keys and values leaves the output as it was, but for rounding.

    The kernel must take inputs of twice the length.
    """
    doubled = Trial(
        f"{trial.name} doubled", trial.q, *(np.concatenate([x, x], axis=2) for x in (trial.k, trial.v))
    )
    return _moved("doubled keys", kernel(trial), kernel(doubled), workload=workload)


def _moved(change: str, before: Output, after: Output, *, workload: Workload) -> str:
    old, new = decode(before.out, workload.dtype).astype(np.float64), decode(after.out, workload.dtype)
    distance = error_ratio(float(((new - old) ** 2).sum()), float((old**2).sum()))
    limit = HONEST_FACTOR * REL_L2[workload.precision]  # both outputs may be off, each in its own direction
    return "" if distance <= limit else f"{change} move the output by rel_l2 {distance:.1e} > {limit:.0e}"
