"""Which kernel of a portfolio computes a shape, by a rule that was learnt from times. Standard library only.

It is copied into exported packages as it stands. It knows no kernel: the rule names kernels by their number,
and the caller does the rest.

A shape falls into a bucket: batch * heads, seq_q and seq_kv each cut down to their first three binary digits,
so that there are four buckets an octave. All shapes of a bucket get the kernel of the measured shape that is
nearest to the bucket's middle, by the octaves between them; where there are measured shapes in the bucket
itself, of one of those. A bucket is decided when it is first asked for, always the same way, and remembered.

Of a linear layer, of which a service meets few shapes again and again, a measured shape gets its own kernel.
"""

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

FALLBACK = -1  # no kernel: the caller computes the shape by other means
VERSION = 1
_DIGITS = 3
Point = tuple[
    tuple[int, ...], tuple[float, ...], int
]  # its bucket's corner, its place in octaves, its kernel
_MOST = 1 << 16  # buckets that are remembered


class Dispatcher:
    """The rule of a portfolio, with the buckets that were decided so far. Threads may share it."""

    def __init__(self, rule: Mapping[str, Any]) -> None:
        """`rule`: `version`; `reach`, in octaves: what is further from every measured shape falls back; and
        `keys`, each with what kernels are compiled for, of attention head_dim, dtype, causal and gqa_ratio,
        and its points: three sizes, of attention batch * heads, seq_q, seq_kv, and the kernel's number.
        """
        if rule.get("version") != VERSION:
            raise ValueError(f"a dispatch rule of version {rule.get('version')}: this code reads {VERSION}.")
        self._reach = float(rule["reach"])
        self._points: dict[tuple[Any, ...], list[Point]] = {}
        self._measured: dict[tuple[Any, ...], int] = {}
        for each in rule["keys"]:
            key = tuple(value for name, value in each.items() if name != "points")
            self._points[key] = [(corner(x[:3]), tuple(map(log2, x[:3])), x[3]) for x in each["points"]]
            self._measured.update({(key, *x[:3]): x[3] for x in each["points"]})
        self._buckets: dict[tuple[Any, ...], int] = {}

    def kernel(self, head_dim: int, dtype: str, causal: bool, shape: tuple[int, int, int, int, int]) -> int:
        """The number of the kernel for shape (batch, heads, kv_heads, seq_q, seq_kv), or FALLBACK.

        dtype: "fp16" or "bf16". A single causal query sees all keys: it is looked up without the mask.
        """
        batch, heads, kv_heads, queries, keys = shape
        rows = batch * heads
        # Written out: a function for the three would take half of all the time.
        s = rows.bit_length() - _DIGITS
        if s > 0:
            rows = rows >> s << s
        s = queries.bit_length() - _DIGITS
        if s > 0:
            queries = queries >> s << s
        s = keys.bit_length() - _DIGITS
        if s > 0:
            keys = keys >> s << s
        bucket = (head_dim, dtype, causal and queries != 1, heads, kv_heads, rows, queries, keys)
        found = self._buckets.get(bucket)
        return self._decide(bucket) if found is None else found

    def find(self, key: tuple[Any, ...], sizes: tuple[int, int, int]) -> int:
        """The number of the kernel for three sizes of what `key` says that kernels are compiled for, in the
        order of the rule; or FALLBACK.
        """
        measured = self._measured.get((key, *sizes))
        if measured is not None:
            return measured
        here = corner(sizes)
        bucket = (key, *here)
        found = self._buckets.get(bucket)
        if found is not None:
            return found
        return FALLBACK if min(here) < 1 else self._decide_among(bucket, key, here)

    def _decide(self, bucket: tuple[Any, ...]) -> int:
        head_dim, dtype, causal, heads, kv_heads, *here = bucket
        if min(heads, kv_heads, *here) < 1 or heads % kv_heads:
            return FALLBACK  # not remembered: what makes no sense may come in any number
        return self._decide_among(bucket, (head_dim, dtype, causal, heads // kv_heads), here)

    def _decide_among(self, bucket: tuple[Any, ...], key: tuple[Any, ...], here: Sequence[int]) -> int:
        if len(self._buckets) >= _MOST:
            self._buckets.clear()
        points = self._points.get(key, ())
        inside = [point for point in points if point[0] == tuple(here)]
        middle = [log2(each + ((1 << max(0, each.bit_length() - _DIGITS)) - 1) / 2) for each in here]
        found = self._buckets[bucket] = nearest(inside or points, middle, self._reach)
        return found


def corner(sizes: Sequence[int]) -> tuple[int, ...]:
    """The least sizes of the bucket that holds these: each cut down to its first three binary digits."""
    shifts = [max(0, size.bit_length() - _DIGITS) for size in sizes]
    return tuple(size >> shift << shift for size, shift in zip(sizes, shifts, strict=True))


def nearest(points: Sequence[Point], at: Sequence[float], reach: float) -> int:
    """The kernel of the point nearest to `at`, the first of equals; FALLBACK where each is out of reach,
    which is counted along the longest side.
    """
    best, found = float("inf"), FALLBACK
    for _, place, kernel in points:
        sides = [abs(a - b) for a, b in zip(place, at, strict=True)]
        away = sum(side * side for side in sides)
        if away < best and max(sides) <= reach:
            best, found = away, kernel
    return found
