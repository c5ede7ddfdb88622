"""Trials of arithmetic on one thread's registers, element by element over many inputs. Runs none.

Conversions see all 65,536 values of 16 bits and the floats around every rounding edge; what is exact sees
random bits and all triples of special values; approximations see floats of every exponent, and their errors
are measured.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from evoflash.launch import LaunchConfig
from evoflash.trust.conformance.cases import (
    UNWRITTEN,
    Array,
    Bound,
    Case,
    Kind,
    Label,
    Module,
    Pointer,
    Primitive,
    Trial,
    primitives,
    to_bits,
    value_of,
)

SOURCE = Path(__file__).with_name("kernels") / "arithmetic.cu"
THREADS = 256
A_THREAD = 16  # elements
_MANTISSAS = 1 << 19  # approximations: inputs of each of two kinds
_SMALLEST_NORMAL = 2.0**-126
_LOW_EXPONENT, _HIGH_EXPONENT = -126, 127
_SPECIAL = (
    *(0.0, 1.0, 2.0, 0.5, 1.5, 3.0, 65504.0, 65520.0, 2.0**-24, 2.0**-14),
    *(3.4028234663852886e38, _SMALLEST_NORMAL, 2.0**-149, 2.0**-127, float("inf"), float("nan")),
)


def modules(arch: str) -> Iterator[Module]:
    """The module: one text with every kernel of arithmetic."""
    chosen = [
        (entry, case)
        for entry in primitives()
        if entry.file == "ef_math.h" and entry.runs_on(arch)
        for case in entry.cases()
    ]
    source = SOURCE.read_text(encoding="utf-8")
    labels = tuple(Label.of(*each) for each in chosen)
    yield Module("arithmetic", source, labels, lambda: (_trial(entry, case) for entry, case in chosen))


def _trial(entry: Primitive, case: Case) -> Trial:
    dtype = str(case.modes.get("dtype", ""))
    inputs = _inputs(entry.name, dtype)
    count = len(inputs[0])
    blocks = count // (THREADS * A_THREAD)
    outputs = 2 if entry.name == "unpack2" else 1
    return Trial(
        cases=(Label.of(entry, case),),
        launches=(LaunchConfig(f"all_{entry.name}_{dtype}".rstrip("_"), (blocks, 1, 1), (THREADS, 1, 1), 0),),
        arguments=(Pointer("a"), Pointer("b"), Pointer("c"), Pointer("out")),
        inputs=dict(zip("abc", inputs, strict=True)),
        results={"out": np.full((outputs, count), UNWRITTEN, np.uint32)},
        kind=_kind(entry.name, dtype),
        expected=_expected_results(entry.name, dtype, *inputs),
        bound=_BOUNDS.get(entry.name),
    )


def _kind(name: str, dtype: str) -> Kind:
    if name in ("from_f32", "pack2"):
        return "f16" if dtype == "f16" else "bf16"
    return "f32"


def _expected_results(name: str, dtype: str, a: Array, b: Array, c: Array) -> dict[str, Array]:
    """NumPy's results; none for approximations (see Bound) and for fma, which NumPy has not."""
    x, y, z = (words.view(np.float32) for words in (a, b, c))
    low, high = (a & 0xFFFF).astype(np.uint16), (a >> 16).astype(np.uint16)
    with np.errstate(all="ignore"):
        found: dict[str, Callable[[], Array]] = {
            "fmax": lambda: _larger(x, y),
            "mul": lambda: x * y + z,
            "sub": lambda: x * y - z,
            "neg_inf": lambda: np.full(a.shape, -np.inf, np.float32),
            "to_f32": lambda: value_of(low, dtype),
            "unpack2": lambda: np.stack([value_of(low, dtype), value_of(high, dtype)]),
            "from_f32": lambda: to_bits(x, dtype).astype(np.uint32),
            "pack2": lambda: to_bits(x, dtype) | to_bits(y, dtype).astype(np.uint32) << 16,
        }
        return {"out": np.atleast_2d(found[name]()).view(np.uint32)} if name in found else {}


def _larger(x: Array, y: Array) -> Array:
    """PTX's max: a number wins against a NaN, +0 against -0."""
    plain = np.fmax(x, y)
    both_zero = (x == 0) & (y == 0)
    zero = np.where(np.signbit(x) & np.signbit(y), np.float32(-0.0), np.float32(0.0))
    return np.where(both_zero, zero, plain)


def _inputs(name: str, dtype: str) -> tuple[Array, Array, Array]:
    if name in _BOUNDS:
        words = spread(name)
        return words, words, words
    if name in ("to_f32", "unpack2"):
        low = np.arange(65536, dtype=np.uint32)
        words = low | np.random.default_rng(3).permutation(low) << 16
        return words, words, words
    if name in ("from_f32", "pack2"):
        words = edges(dtype)
        return words, np.roll(words, 12345), words
    return random_and_special()


@cache
def random_and_special() -> tuple[Array, Array, Array]:
    """Triples of floats' bits: every triple of special values with either sign, then random ones."""
    signed = np.array([*_SPECIAL, *(-x for x in _SPECIAL)], np.float32).view(np.uint32)
    special = np.array(list(product(signed, signed, signed)), np.uint32).T
    count = 16 * THREADS * A_THREAD
    rng = np.random.default_rng(2)
    rest = rng.integers(0, 1 << 32, (3, count - special.shape[1]), dtype=np.uint32)
    # Half of them are of similar size, so that a sum is more than its larger term.
    near = rng.uniform(-4, 4, rest.shape).astype(np.float32).view(np.uint32)
    rest[:, ::2] = near[:, ::2]
    a, b, c = np.concatenate([special, rest], axis=1)
    return a, b, c


def edges(dtype: str) -> Array:
    """Floats at and around every value of 16 bits and every point half way to the next; specials behind."""
    words = np.arange(65536, dtype=np.uint32)
    at = value_of(words.astype(np.uint16), dtype).view(np.uint32)
    half = np.uint32(1 << (15 if dtype == "bf16" else 12))
    tiny = np.random.default_rng(4).integers(0, 1 << 32, 65536, dtype=np.uint32)
    return np.concatenate(
        [at, at + half, at + half - 1, at + half + 1, at - 1, at + 1, _halfway_small(), tiny]
    )


def _halfway_small() -> Array:
    """Half way between subnormal f16, where the step is 2^-24 whatever the exponent, and a bit beside it."""
    halfway = ((np.arange(1024) + 0.5) * 2.0**-24).astype(np.float32).view(np.uint32)
    near = np.concatenate([halfway, halfway - 1, halfway + 1])
    near = np.concatenate([near, near | np.uint32(1 << 31)])
    return np.resize(near, 65536).astype(np.uint32)


# ---- approximations


@cache
def spread(name: str) -> Array:
    """2^20 floats' bits: half random mantissas at every exponent, half where kernels use the function."""
    rng = np.random.default_rng(5)
    exponents = np.resize(np.arange(_LOW_EXPONENT, _HIGH_EXPONENT + 1), _MANTISSAS)
    wide = np.ldexp(rng.uniform(1, 2, _MANTISSAS).astype(np.float32), exponents).astype(np.float32)
    low, high = {"ex2": (-150.0, 130.0), "lg2": (0.25, 4.0), "rcp": (1.0, 2.0)}[name]
    used = rng.uniform(low, high, _MANTISSAS).astype(np.float32)
    if name != "lg2":
        wide[::2] *= -1
    special = np.array([*_SPECIAL, *(-x for x in _SPECIAL)], np.float32)
    values = np.concatenate([wide, used])
    values[: len(special)] = special
    return values.view(np.uint32)


def flush_subnormals(values: Array) -> Array:
    """What .ftz does to a subnormal float."""
    return np.where(np.abs(values) < _SMALLEST_NORMAL, np.copysign(0.0, values), values)


_ULPS = {entry.name: entry.ulp for entry in primitives() if entry.compare == "ulp"}
_BOUNDS = {
    "ex2": Bound(lambda x: np.exp2(flush_subnormals(x)), _ULPS["ex2"]),
    "lg2": Bound(lambda x: np.log2(flush_subnormals(x)), _ULPS["lg2"], flat=(0.5, 2.0)),
    "rcp": Bound(lambda x: 1.0 / flush_subnormals(x), _ULPS["rcp"]),
}
