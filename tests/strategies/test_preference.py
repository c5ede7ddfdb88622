"""The forest is taught ranks, and of genomes that it cannot tell apart only one is tried at a time."""

import numpy as np
import pytest

from evoflash.strategies.forest import grow
from evoflash.strategies.preference import promise, spread, targets_of


def test_targets_tell_the_best_apart_most_and_failures_come_last() -> None:
    targets = targets_of([3.0, 1.0, 2.0, np.inf, np.inf])

    assert targets[1] < targets[2] < targets[0] < targets[3] == targets[4]
    assert targets[2] - targets[1] > targets[0] - targets[2]
    assert targets.mean() == pytest.approx(0.0)
    assert targets_of([1e3 * us for us in (3.0, 1.0, 2.0, np.inf, np.inf)]) == pytest.approx(targets)


def test_of_two_alike_the_second_waits() -> None:
    hopes = np.array([1.0, 0.9, 0.5])
    leaves = np.array([[0, 0, 1], [2, 2, 3]])  # the first two share every leaf
    nobody = np.zeros((2, 0), dtype=np.int64)

    assert list(spread(hopes, leaves, nobody)) == [0, 2, 1]


def test_what_resembles_a_proposal_in_flight_waits() -> None:
    hopes = np.array([1.0, 0.5])
    leaves = np.array([[0, 1], [2, 3]])

    assert next(spread(hopes, leaves, leaves[:, [0]])) == 1


def test_the_best_rows_promise_most_and_bad_ones_nothing() -> None:
    rows = np.arange(100)[:, None]
    targets = targets_of([float(us) for us in range(1, 101)])
    forest = grow(rows, targets, np.random.default_rng(0))

    promised = promise(forest, forest.leaves(np.array([[0], [10], [90]])), targets)

    assert 0.9 < promised[0] == 1.0
    assert promised[0] > promised[1] > promised[2] == 0.0


def test_nothing_offered_promises_nothing() -> None:
    forest = grow(np.zeros((3, 1), dtype=np.int64), np.zeros(3), np.random.default_rng(0))

    assert promise(forest, forest.leaves(np.zeros((0, 1), dtype=np.int64)), np.zeros(3)).shape == (0,)
