"""16-bit floats as bit patterns, and large arrays in parts: the same bits, whatever the number of threads."""

import os

import numpy as np
import pytest
from numpy.typing import NDArray

from evoflash import numerics
from evoflash.operations.attention.operation import OPERATION
from evoflash.operations.attention.workload import parse_workload

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
        np.testing.assert_array_equal(numerics.encode(each, "fp16"), by_numpy(each))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_infinities_nans_and_doubles_are_rounded_beside_tiny_numbers_without_a_warning(share: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(4096).astype(np.float32)
    x[rng.random(4096) < share] *= np.float32(2.0**-20)
    x[:4] = (np.inf, -np.inf, np.nan, 1e30)

    np.testing.assert_array_equal(numerics.encode(x, "fp16"), by_numpy(x))
    doubles = rng.standard_normal(4096) * 2.0**-20
    np.testing.assert_array_equal(numerics.encode(doubles, "fp16"), by_numpy(doubles))


@pytest.fixture
def small_parts(monkeypatch):
    """As if arrays were large."""
    monkeypatch.setattr(numerics, "PART", 64)


def drawn(size=1000, seed=3):
    return numerics.standard_normal((size // 10, 10), np.random.default_rng(seed))


def test_what_fits_one_part_is_what_the_generator_draws():
    wanted = np.random.default_rng(3).standard_normal((100, 10), dtype=np.float32)
    assert np.array_equal(drawn(), wanted)


def test_numbers_do_not_depend_on_the_number_of_threads(small_parts, monkeypatch):
    several = drawn()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert np.array_equal(drawn(), several)
    assert abs(several.mean()) < 0.1 < 0.9 < several.std() < 1.1
    assert len(np.unique(several)) > 990, "no part repeats another"


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_encoding_in_parts_changes_no_bit(dtype, monkeypatch):
    numbers = np.random.default_rng(0).standard_normal((3, 7, 50)).astype(np.float32)[:, ::-1]
    numbers[0, 0, :5] = np.nan, np.inf, 1e9, 1e-7, -0.0
    whole = numerics.encode(numbers, dtype)
    monkeypatch.setattr(numerics, "PART", 64)
    assert np.array_equal(numerics.encode(numbers, dtype), whole)


def test_an_error_in_a_part_is_raised(small_parts):
    with pytest.raises(ZeroDivisionError):
        numerics.each_part(lambda part: 1 / (part.start - 64), 256)


@pytest.mark.parametrize("text", ["b=2,h=4,hkv=2,sq=3,skv=40,d=16,causal", "b=1,h=3,hkv=1,sq=1,skv=70,d=16"])
def test_right_answers_do_not_depend_on_threads(text, monkeypatch):
    from evoflash.operations.attention import reference

    workload = parse_workload(text)
    inputs = OPERATION.draw("needles", workload, seed=1)
    where = OPERATION.sample(workload, np.random.default_rng(0))
    one = OPERATION.expect(workload, inputs, where=where)
    monkeypatch.setattr(reference, "PART", 1)
    other = OPERATION.expect(workload, inputs, where=where)
    assert np.array_equal(one.rows["O"].right, other.rows["O"].right)
    assert np.array_equal(one.numbers["LSE"].right, other.numbers["LSE"].right)
