"""The inputs and shapes that find out wrong linear kernels, drawn from a seed of the run. Judges nothing.

Each named input aims at a mistake: see the docstrings. `normal` data is what the pooled error is measured on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import UsageError
from evoflash.numerics import Bits, encode, standard_normal, stream_of
from evoflash.operation import InputNames
from evoflash.operations.linear import e4m3
from evoflash.operations.linear.workload import BLOCK, LinearKey, LinearWorkload

Single = NDArray[np.float32]

# (n, k) of the shapes that every candidate is checked on, cheapest first: whole blocks of 128 and parts of
# them, fewer columns than a CTA has, a k shorter than a step and one that fills deep rings several times.
# Rows of y are multiples of 16 bytes, as a GPU's comparisons want them; of fewer than 64 numbers the rounding
# to bf16 is now and then off by more than a threshold for many allows.
_CHECKED = ((64, 16), (136, 640), (72, 144), (72, 2064), (392, 272), (256, 4096), (88, 9232))
_HIDDEN = ((900, 700), (136, 9000), (3000, 200))  # the most of n and of k; from half of them on


@dataclass(frozen=True, slots=True, eq=False)
class LinearInputs:
    """X and W as codes of their types, and what belongs to them."""

    __test__ = False  # to pytest, which takes a class of such a name for a test

    name: str
    x: NDArray[Any]
    w: NDArray[Any]
    w_scale: Single | None = None
    x_scale: Single | None = None  # (blocks of k, rows), NaN behind the last row
    bias: Bits | None = None
    residual: Bits | None = None

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        scales = {"SW": self.w_scale, "SX": self.x_scale}
        named = {"X": self.x, "W": self.w, **scales, "B": self.bias, "R": self.residual}
        return {name: tensor for name, tensor in named.items() if tensor is not None}


@dataclass(slots=True)
class _Numbers:
    """What a recipe draws: x, W before its scales, and the scales of its blocks of 128 x 128."""

    x: Single
    w: Single
    scale: Single  # (blocks of n, blocks of k); where W has no scales, or one, it is multiplied into W


def check_workloads(keys: Sequence[LinearKey]) -> tuple[LinearWorkload, ...]:
    """What every candidate is checked on, cheapest first: with as few and as many rows as its class has."""
    return tuple(
        key.workload(key.rows if at % 2 else key.fewest, n, k)
        for at, (n, k) in enumerate(_CHECKED)
        for key in keys
    )


def hidden_workloads(keys: Sequence[LinearKey], *, seed: int) -> tuple[LinearWorkload, ...]:
    """What finalists are checked on before they are promoted, of every kind one for each compile key."""
    rng = np.random.default_rng(seed)

    def one(key: LinearKey, most: tuple[int, int]) -> LinearWorkload:
        n, k = (int(rng.integers(-(-x // 2), x + 1)) for x in most)
        return key.workload(int(rng.integers(key.fewest, key.rows + 1)), -(-n // 8) * 8, -(-k // 16) * 16)

    return tuple(one(key, most) for most in _HIDDEN for key in keys)


def draw(name: str, workload: LinearWorkload, *, seed: int) -> LinearInputs:
    """The test input of that name, always the same for one workload and seed.

    UsageError for an unknown name.
    """
    if name not in _RECIPES:
        raise UsageError(f"no trial is called '{name}': use {', '.join(_RECIPES)}.")
    rng = stream_of(seed, name, workload)
    return _encode(name, workload, _RECIPES[name](workload, rng), rng)


def _encode(name: str, workload: LinearWorkload, numbers: _Numbers, rng: np.random.Generator) -> LinearInputs:
    w = workload
    x, x_scale = _encode_x(numbers.x, workload)
    weights: NDArray[Any]
    if w.weights == "fp8b128":
        weights, scale = e4m3.encode(numbers.w), numbers.scale
    else:
        scaled = numbers.w * of_each_weight(numbers.scale, w)
        one = np.float32(1)
        if w.weights == "fp8t":  # a scale that gives the largest weight a large code
            one = np.float32(2.0 ** np.ceil(np.log2(np.abs(scaled).max() / e4m3.LARGEST)))
        weights = encode(scaled, "bf16") if w.weights == "bf16" else e4m3.encode(scaled / one)
        scale = np.full((1, 1), one, np.float32)
    size = np.float32(_rms(numbers, w) if w.bias or w.residual else 0)
    return LinearInputs(
        name,
        x,
        weights,
        None if w.weights == "bf16" else scale,
        x_scale,
        _something_added((1, w.n), size, rng) if w.bias else None,
        _something_added((w.m, w.n), size, rng) if w.residual else None,
    )


def _something_added(shape: tuple[int, int], size: np.float32, rng: np.random.Generator) -> Bits:
    """What is added to y: nothing to half of the columns that cancel, where it would hide what rounding
    leaves.
    """
    added = size * standard_normal(shape, rng)
    added[:, _BARE] = 0
    return encode(added, "bf16")


_X_UNIT = np.float32(1.3)  # that all scales of x are multiples of: none of them is a power of two


def _encode_x(x: Single, workload: LinearWorkload) -> tuple[NDArray[Any], Single | None]:
    """The bits of x and, of e4m3, its scales: powers of two that give the largest number of each block of a
    row a large code, as a program does that rounds x, times one unit. So numbers that are alike but for a
    power of two keep being so.
    """
    if workload.x == "bf16":
        return encode(x, "bf16"), None
    blocks = workload.x_scale_shape[0]
    padded = np.zeros((workload.m, blocks * BLOCK), np.float32)
    padded[:, : workload.k] = x
    in_blocks = padded.reshape(workload.m, blocks, BLOCK)
    largest = np.abs(in_blocks).max(axis=2)
    power = np.ceil(np.log2(np.where(largest > 0, largest, e4m3.LARGEST) / np.float32(e4m3.LARGEST)))
    step = (np.float32(2) ** power).astype(np.float32)
    codes = e4m3.encode(in_blocks / step[..., None]).reshape(padded.shape)[:, : workload.k]
    return np.ascontiguousarray(codes), _in_memory((_X_UNIT * step).T, workload)


def _in_memory(x_scale: Single, workload: LinearWorkload) -> Single:
    """Scales of x of the rows there are, as they lie in memory: NaN where there is no row."""
    found = np.full(workload.x_scale_shape, np.nan, np.float32)
    found[:, : workload.m] = x_scale
    return found


def of_each_weight(scale: Single, workload: LinearWorkload) -> Single:
    """The scale that multiplies each element of W: (n, k), of those of blocks."""
    rows = np.repeat(scale, BLOCK, axis=0)[: workload.n]
    return np.repeat(rows, BLOCK, axis=1)[:, : workload.k]


def _rms(numbers: _Numbers, workload: LinearWorkload) -> float:
    """About the size of y, so that what is added neither vanishes nor hides it."""
    w = numbers.w[:BLOCK] * of_each_weight(numbers.scale, workload)[:BLOCK]
    return float(np.sqrt(((numbers.x[:4].astype(np.float64) @ w.T) ** 2).mean()))


def _normal(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """N(0, 1) in x, and in W times what fills the codes of e4m3; neighbouring scales up to 4 times apart.

    Some rows of W cancel, see below.
    """
    w = workload
    blocks = -(-w.n // BLOCK), -(-w.k // BLOCK)
    usual = np.float32(2.3e-4 if w.weights == "fp8b128" else 2.0**-12)
    steps = (2.0 ** rng.integers(-1, 2, blocks)).astype(np.float32)
    # Within four standard deviations: rounding to e4m3 would cut off more, and all see W as it is given.
    weights = (100 * standard_normal((w.n, w.k), rng)).clip(-e4m3.LARGEST, e4m3.LARGEST)
    x = standard_normal((w.m, w.k), rng)
    if w.x == "e4m3":  # to what is exact in each block: its scale is no larger than this
        x = e4m3.decode(e4m3.encode(x / _X_STEP)) * _X_STEP
    found = _Numbers(x, weights, usual * steps)
    if w.k >= _LEAST_CANCELLING:
        _cancel_some(found, steps, workload, rng)
    return found


_X_STEP = np.float32(2.0**-6)  # of e4m3, with which 7 standard deviations have a code
_LEAST_CANCELLING = 3 * BLOCK  # of k
_CANCELLING, _BARE = slice(5, None, 8), slice(5, None, 16)  # rows of W, and those to whose y nothing is added


def _cancel_some(found: _Numbers, steps: Single, workload: LinearWorkload, rng: np.random.Generator) -> None:
    """Makes every eighth row of W have three parts whose products add up to nothing: its column of y is what
    rounding leaves of them. Which bits that are goes by the order of the sums, so that partial sums in
    another order, of whoever came first say, show as two runs that differ.

    x has the same numbers in its three parts, each in an order of its own.
    """
    third = workload.k // 3
    orders = [rng.permutation(third) for _ in range(2)]
    for part, order in enumerate(orders, 1):
        found.x[:, part * third : (part + 1) * third] = found.x[:, :third][:, order]
    rows = np.arange(workload.n)[_CANCELLING]
    # Odd multiples of 4: they, their sums, and what scales make of both are numbers of every type of W.
    choice = np.array([sign * size for sign in (-1, 1) for size in (36, 44, 52, 60)], np.float32)
    first, second = (rng.choice(choice, (len(rows), third)) for _ in range(2))
    found.w[rows] = 0
    for part, numbers in enumerate((first, second[:, orders[0]], -(first + second)[:, orders[1]])):
        found.w[rows, part * third : (part + 1) * third] = numbers
    found.w[rows] /= np.repeat(steps[rows // BLOCK], BLOCK, axis=1)[:, : workload.k]


def _far_scales(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """Neighbouring blocks' scales are 2^8 apart, in both directions: a scale of the neighbour shows.

    Their elements are as much smaller, so that no block outweighs the others.
    """
    found = _normal(workload, rng)
    rows, columns = (np.arange(size) for size in found.scale.shape)
    far = np.where(np.add.outer(rows, columns) % 2, np.float32(256), np.float32(1))
    found.w /= of_each_weight(far, workload)
    found.scale *= far
    return found


def _dominant_block(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """One block of k outweighs the others by 2^7, another one for each row of x: one that is left out, or
    taken twice, is all of its row.
    """
    found = _normal(workload, rng)
    blocks = rng.permutation(found.scale.shape[1])
    for row in range(workload.m):
        first = blocks[row % len(blocks)] * BLOCK
        found.x[row, first : first + BLOCK] *= 128
    return found


def _last_columns(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """All that counts stands in the last 16 columns of k: a tail that is dropped is the whole output."""
    found = _normal(workload, rng)
    found.x[:, : workload.k - 16] *= np.float32(2.0**-7)
    return found


def _needles(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """Each row of W has one element that is not zero, near a multiple of 16 or at the end: y copies x's."""
    found = _normal(workload, rng)
    n, k = workload.n, workload.k
    edges = np.unique(np.concatenate([np.arange(0, k + 1, 16) + at for at in (-1, 0, 1)] + [[k - 1]]))
    edges = edges[(edges >= 0) & (edges < k)]
    at = edges[rng.permutation(max(n, len(edges)))[:n] % len(edges)]
    found.w = np.zeros((n, k), np.float32)
    found.w[np.arange(n), at] = rng.choice(np.array([-256, 128, 64, 448], np.float32), n)
    return found


def _rows_apart(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """Each row of x is 16 times as large as the one before, up to 2^28, and again: what leaks from one row
    into another outweighs it.
    """
    found = _normal(workload, rng)
    found.x *= (2.0 ** (4 * (np.arange(workload.m) % 8)))[:, None].astype(np.float32)
    return found


def _columns_apart(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """x is constant along k but for its block, and W's rows differ by their sign and size alone: what is
    counted twice or not at all does not average out.
    """
    found = _normal(workload, rng)
    found.x = np.repeat(np.abs(found.x[:, :1]) + 1, workload.k, axis=1)
    found.w = np.repeat(np.abs(found.w[:, :1]) + 1, workload.k, axis=1)
    return found


def _all_codes(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """Every number of e4m3, its subnormal ones included; small ones alone in every other row. Of x, too,
    where it is of that type.
    """
    found = _normal(workload, rng)
    found.w = _numbers_of_all_codes((workload.n, workload.k), rng)
    if workload.x == "e4m3":
        found.x = _numbers_of_all_codes((workload.m, workload.k), rng)
    return found


def _numbers_of_all_codes(shape: tuple[int, int], rng: np.random.Generator) -> Single:
    codes = rng.integers(0, e4m3.NAN, shape).astype(np.uint8)
    codes[1::2] %= 16
    codes |= rng.integers(0, 2, codes.shape, dtype=np.uint8) << np.uint8(7)
    return e4m3.decode(codes)


def _huge(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """Numbers near the end of bf16's range, which a 16-bit float with a smaller exponent does not hold."""
    found = _normal(workload, rng)
    found.x *= np.float32(2.0**60)
    found.scale *= np.float32(2.0**40)
    return found


def _tiny(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """The same at the other end: y is near 2^-90, and so are the products."""
    found = _normal(workload, rng)
    found.x *= np.float32(2.0**-60)
    found.scale *= np.float32(2.0**-20)
    return found


def _near_zero(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """Every other block of x is as small as BF16's normal numbers get; its scales in W make up for that."""
    found = _normal(workload, rng)
    found.x *= np.float32(2.0**-60)
    for first in range(0, workload.k, 2 * BLOCK):
        found.x[:, first : first + BLOCK] *= np.float32(2.0**-63)
    found.scale[:, ::2] *= np.float32(2.0**63)
    return found


def _uneven_blocks(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """x has blocks 2^40 apart, whose scales in W make up for it: no one factor brings x into fp16's range."""
    found = _normal(workload, rng)
    shift = 2.0 ** rng.integers(-20, 21, found.scale.shape[1])
    found.scale = (found.scale / shift).astype(np.float32)
    found.x = (found.x * np.repeat(shift, BLOCK)[: workload.k]).astype(np.float32)
    return found


def _zero_rows(workload: LinearWorkload, rng: np.random.Generator) -> _Numbers:
    """Rows of zeros, in x every other one, in W those of every third: y is zero there, to the bit."""
    found = _normal(workload, rng)
    found.x[1::2] = 0
    found.w[::3] = 0
    return found


_RECIPES: dict[str, Callable[[LinearWorkload, np.random.Generator], _Numbers]] = {
    "normal": _normal,
    "normal-again": _normal,
    "normal-after": _normal,
    "far_scales": _far_scales,
    "dominant_block": _dominant_block,
    "last_columns": _last_columns,
    "needles": _needles,
    "rows_apart": _rows_apart,
    "columns_apart": _columns_apart,
    "all_codes": _all_codes,
    "huge": _huge,
    "tiny": _tiny,
    "near_zero": _near_zero,
    "uneven_blocks": _uneven_blocks,
    "zero_rows": _zero_rows,
}

# For small shapes. What a GPU makes of numbers near zero was never measured: they are for the emulator alone.
ALL = tuple(name for name in _RECIPES if name not in ("normal-after", "near_zero"))
NAMES = InputNames(
    small=ALL,
    at_size=("normal", "far_scales", "rows_apart"),
    scheduled=tuple(name for name in ALL if name != "normal-again"),
    after_timing="normal-after",
    ordinary=frozenset({"normal", "normal-again", "normal-after"}),
)


def timed_inputs(workload: LinearWorkload, *, sets: int, rng: np.random.Generator) -> list[LinearInputs]:
    """That many inputs to be timed on: overlapping windows of one pool of normal numbers, so that every set
    differs. Zeros would run too fast.
    """
    step = 4096 + 16
    first = _encode("normal", workload, _normal(workload, rng), rng)

    def windows(values: NDArray[Any] | None) -> list[NDArray[Any] | None]:
        if values is None:
            return [None] * sets
        flat = values.reshape(-1)
        pool = np.resize(flat, flat.size + sets * step)  # repeats what it has
        return [pool[at * step : at * step + flat.size].reshape(values.shape) for at in range(sets)]

    of_x = windows(None if first.x_scale is None else first.x_scale[:, : workload.m])
    x_scales = [None if scale is None else _in_memory(scale, workload) for scale in of_x]
    x, w, w_scale, bias, residual = (
        windows(part) for part in (first.x, first.w, first.w_scale, first.bias, first.residual)
    )
    drawn = zip(x, w, w_scale, x_scales, bias, residual, strict=True)
    return [LinearInputs("normal", *tensors) for tensors in drawn]
