"""16-bit floats as bit patterns: rounding to fp16 is NumPy's, bit for bit, however many numbers are tiny."""

import numpy as np
import pytest
from numpy.typing import NDArray

from evoflash.numerics import encode

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
FINITE = HALVES[np.isfinite(HALVES)]
BETWEEN = FINITE[:-1] / 2 + FINITE[1:] / 2  # ties


def by_numpy(x: NDArray[np.floating]) -> NDArray[np.uint16]:
    with np.errstate(all="ignore"):
        return x.astype(np.float16).view(np.uint16)


@pytest.mark.parametrize("numbers", [HALVES, BETWEEN], ids=["halves", "ties"])
@pytest.mark.parametrize("ulps", [-1, 0, 1])
def test_every_number_and_every_tie_of_fp16_and_what_lies_beside_them_is_rounded(
    numbers: NDArray[np.float32], ulps: int
) -> None:
    x = (numbers.view(np.uint32) + np.uint32(ulps & 0xFFFFFFFF)).view(np.float32)
    tiny = x[np.abs(x) < 2.0**-14]

    for each in (x, tiny, -tiny, tiny.reshape(2, -1)):  # few tiny ones, nothing else, more axes
        np.testing.assert_array_equal(encode(each, "fp16"), by_numpy(each))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_infinities_nans_and_doubles_are_rounded_beside_tiny_numbers_without_a_warning(share: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(4096).astype(np.float32)
    x[rng.random(4096) < share] *= np.float32(2.0**-20)
    x[:4] = (np.inf, -np.inf, np.nan, 1e30)

    np.testing.assert_array_equal(encode(x, "fp16"), by_numpy(x))
    doubles = rng.standard_normal(4096) * 2.0**-20
    np.testing.assert_array_equal(encode(doubles, "fp16"), by_numpy(doubles))
