"""What is told of right outputs: how far honest arithmetic may be off."""

import numpy as np
import pytest

from evoflash.operations.expectations import expected_rows

COLUMNS, STEP = 64, 2.0**-10  # from one number of fp16 to the next, above 1


def honest_of(rows, right, unrounded):
    shape = 1, rows, COLUMNS
    made = expected_rows(np.full(shape, right), np.full(shape, unrounded, np.float32), dtype="fp16")
    return np.sqrt(made.scale.honest_squared / (rows * COLUMNS)), made.honest[0, 0, 0]


def test_a_rounding_that_undoes_the_error_before_it_does_not_shrink_what_is_allowed_of_few_rows():
    right, before = 1 + 0.1 * STEP, 1 + 0.49 * STEP
    for rows in (1, 64):
        allowed, rounded = honest_of(rows, right, before)
        assert rounded == 1.0
        assert allowed == pytest.approx(STEP * np.hypot(0.39, 12**-0.5), rel=1e-3)
    assert honest_of(65, right, before)[0] == pytest.approx(0.1 * STEP, rel=1e-3)


def test_of_few_rows_an_element_may_be_off_by_half_a_step_beside_what_it_was_before():
    shape, right = (1, 1, COLUMNS), 1 + 0.1 * STEP
    made = expected_rows(np.full(shape, right), np.full(shape, 1 + 0.3 * STEP, np.float32), dtype="fp16")
    assert made.scale.honest_max_over_rms == pytest.approx(0.7 * STEP, rel=1e-3)


def test_a_rounding_that_is_worse_than_usual_counts_as_it_is():
    assert honest_of(1, 1.0, 1 + 0.51 * STEP)[0] == pytest.approx(STEP, rel=1e-6)


def test_what_needs_no_rounding_is_allowed_none():
    assert honest_of(1, 1 + STEP, 1 + STEP)[0] == 0.0
