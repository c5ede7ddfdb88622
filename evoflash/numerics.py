"""16-bit floats as bit patterns, to and from float32, and which are not finite. NumPy only; judges nothing.

bf16 has no NumPy type: 16-bit tensors travel as uint16 bit patterns and are computed on as float32, which
holds both types exactly. Large arrays are made in parts by several threads, the same whatever their number.
Random numbers are drawn here, too.
"""

import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
PART = 1 << 22  # numbers


def each_part(of_part: Callable[[slice], object], size: int) -> None:
    """Call the function with every part of an array of that size; an error of any of them is raised."""
    each(of_part, [slice(begin, min(begin + PART, size)) for begin in range(0, size, PART)])


def each(of_one: Callable[[T], object], all_of_them: Sequence[T], *, threads: int | None = None) -> None:
    """Call the function with each of them, several at a time: a thread a core, or as many as are asked for.
    An error of any of them is raised.
    """
    at_once = min(len(all_of_them), len(os.sched_getaffinity(0)), threads or len(all_of_them))
    if at_once < 2:
        for one in all_of_them:
            of_one(one)
        return
    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(of_one, one) for one in all_of_them]:
            done.result()


def stream_of(seed: int, *words: object) -> np.random.Generator:
    """Random numbers that are the same whenever seed and words are, on every machine."""
    return np.random.default_rng([seed, *(zlib.crc32(str(word).encode()) for word in words)])


def other_order(count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """An order of so many things in which, if they are several, they do not all stay where they are."""
    order = rng.permutation(count)
    return np.roll(order, 1) if (order == np.arange(count)).all() else order


def standard_normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """N(0, 1) in fp32. What fits one part is what the generator itself would draw."""
    size = int(np.prod(shape))
    if size <= PART:
        return rng.standard_normal(shape, dtype=np.float32)
    numbers, streams = np.empty(size, np.float32), rng.spawn(-(-size // PART))
    each_part(
        lambda part: streams[part.start // PART].standard_normal(out=numbers[part], dtype=np.float32), size
    )
    return numbers.reshape(shape)


Bits = NDArray[np.uint16]
# How tensors of each type travel: floats of 8 and 16 bits as patterns.
ARRAY_TYPES: dict[str, Any] = {
    "e4m3": np.uint8,
    "fp16": np.uint16,
    "bf16": np.uint16,
    "fp32": np.float32,
    "int32": np.int32,
}
Floats = NDArray[np.floating[Any]]

_LEAST_NORMAL = np.float32(2.0**-14)  # of fp16
_FEW = 16  # one in so many costs less than a second way
_BITS_OF_HALF = np.uint32(0x3F000000)  # of 0.5 in float32


def encode(x: Floats, dtype: str) -> Bits:
    """Round to nearest even into fp16 or bf16 bit patterns; NaN stays NaN, overflow becomes infinity."""
    if np.size(x) <= PART:
        return _encode(x, dtype)
    numbers, bits = np.ascontiguousarray(x).reshape(-1), np.empty(np.size(x), np.uint16)

    def encode_part(part: slice) -> None:
        bits[part] = _encode(numbers[part], dtype)

    each_part(encode_part, numbers.size)
    return bits.reshape(np.shape(x))


def _encode(x: Floats, dtype: str) -> Bits:
    if dtype == "fp16":
        return _half(np.asarray(x))
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(x, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = (
        (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    ).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)


def _half(x: Floats) -> Bits:
    """Bit patterns of fp16. NumPy raises the processor's underflow flag for one number after another, which
    costs ten times what all else does: what would raise it, most weights of a softmax, goes another way.
    """
    size = np.abs(x)
    small = size < _LEAST_NORMAL
    with np.errstate(over="ignore", invalid="ignore"):
        if x.dtype != np.float32 or _FEW * np.count_nonzero(small) < x.size:
            return x.astype(np.float16).view(np.uint16)
        bits = np.where(small, np.float32(0), x).astype(np.float16).view(np.uint16)
        # At 0.5 float32's last place is that of fp16's subnormal numbers: the sum is rounded as they are.
        counted = ((size + np.float32(0.5)).view(np.uint32) - _BITS_OF_HALF).astype(np.uint16)
    signed = np.where(np.signbit(x), counted | np.uint16(0x8000), counted)
    return np.where(small, signed, bits)


def decode(bits: Bits, dtype: str) -> NDArray[np.float32]:
    """The float32 values of fp16 or bf16 bit patterns; exact."""
    if dtype == "fp16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_to(x: Floats, dtype: str) -> NDArray[np.float32]:
    """The nearest numbers of a 16-bit type, as float32."""
    return decode(encode(x, dtype), dtype)


def is_non_finite(bits: Bits, dtype: str) -> NDArray[np.bool_]:
    """Where 16-bit patterns are NaN or infinite: the exponent is all ones."""
    exponent = np.uint16(0x7C00 if dtype == "fp16" else 0x7F80)
    found: NDArray[np.bool_] = (bits & exponent) == exponent
    return found
