"""The 8-bit floats e4m3 as bit patterns, to and from float32. NumPy only; judges nothing.

One sign, four bits of exponent (bias 7), three of fraction; no infinity, and a NaN in two codes, 0x7f and
0xff. The largest number is 448.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
_POSITIVE = _OF_CODE[:NAN]  # ascending
_BETWEEN = (_POSITIVE[:-1].astype(np.float64) + _POSITIVE[1:]) / 2


def decode(codes: Codes) -> NDArray[np.float32]:
    """The float32 values; exact."""
    numbers: NDArray[np.float32] = _OF_CODE[codes]
    return numbers


def encode(x: NDArray[np.floating[Any]]) -> Codes:
    """Round to nearest, ties to the even code; what is too large becomes the largest number."""
    size = np.abs(np.asarray(x, np.float64))
    below = np.searchsorted(_BETWEEN, size, side="left")  # at a tie, the lower code
    is_tie = (below < len(_BETWEEN)) & (size == _BETWEEN[np.minimum(below, len(_BETWEEN) - 1)])
    codes = below + (is_tie & (below % 2 == 1))
    signed: Codes = (codes | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)
    return signed
