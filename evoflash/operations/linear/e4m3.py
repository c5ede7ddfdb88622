"""The 8-bit floats e4m3 as bit patterns, to and from float32. NumPy only; judges nothing.

One sign, four bits of exponent (bias 7), three of fraction; no infinity, and a NaN in two codes, 0x7f and
0xff. The largest number is 448.
"""

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import each_part

Codes = NDArray[np.uint8]
LARGEST = 448.0
NAN = 0x7F


def _numbers() -> NDArray[np.float32]:
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    size = np.where(exponent > 0, (8 + fraction) * 2.0 ** (exponent - 10), fraction * 2.0**-9)
    numbers = np.where(codes & 0x80, -size, size).astype(np.float32)
    numbers[[NAN, 0x80 | NAN]] = np.nan
    return numbers


_OF_CODE = _numbers()
_LEAST_NORMAL = np.float32(2.0**-6)
_SUBNORMAL_STEPS = np.float32(2.0**9)  # in 1: below the least normal number all are as far apart
_BIASES = np.uint32((127 - 7) << 3)  # what float32's exponent is larger by


def decode(codes: Codes) -> NDArray[np.float32]:
    """The float32 values; exact."""
    numbers: NDArray[np.float32] = _OF_CODE[codes]
    return numbers


def encode(x: NDArray[np.float32]) -> Codes:
    """Round to nearest, ties to the even code; what is too large becomes the largest number."""
    numbers = np.ascontiguousarray(x, np.float32).reshape(-1)
    codes = np.empty(numbers.size, np.uint8)

    def encode_part(part: slice) -> None:
        codes[part] = _encode(numbers[part])

    each_part(encode_part, numbers.size)
    return codes.reshape(np.shape(x))


def _encode(x: NDArray[np.float32]) -> Codes:
    size = np.minimum(np.abs(x), np.float32(LARGEST))
    bits = size.view(np.uint32)
    # Rounded in the place where the last bit of the fraction stands; what carries goes to the exponent.
    rounded = (bits + np.uint32(0x7FFFF) + ((bits >> np.uint32(20)) & np.uint32(1))) >> np.uint32(20)
    small = np.rint(size * _SUBNORMAL_STEPS).astype(np.uint32)
    codes = np.where(size < _LEAST_NORMAL, small, rounded - _BIASES)
    signed: Codes = (codes | np.where(np.signbit(x), np.uint32(0x80), np.uint32(0))).astype(np.uint8)
    return signed
