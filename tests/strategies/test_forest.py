"""The forest predicts what it was grown on, and nothing that its rows do not tell apart."""

import numpy as np
import pytest

from evoflash.strategies.forest import Forest, grow


def predicted(forest: Forest, rows: np.ndarray) -> np.ndarray:
    return forest.mean[forest.leaves(rows)].mean(axis=0)


def rows_and_targets(count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Two columns that matter, by their sum and by a cliff, and one that does not."""
    rows = np.random.default_rng(0).integers(0, 8, size=(count, 3))
    return rows, rows[:, 0] + 5.0 * (rows[:, 1] > 3)


def test_it_predicts_rows_that_it_has_not_seen() -> None:
    rows, targets = rows_and_targets(300)
    forest = grow(rows[:200], targets[:200], np.random.default_rng(1))

    errors = predicted(forest, rows[200:]) - targets[200:]

    assert np.sqrt((errors**2).mean()) < 0.3 * targets.std()


def test_a_prediction_is_never_outside_of_the_targets() -> None:
    rows, targets = rows_and_targets()
    forest = grow(rows, targets, np.random.default_rng(1))

    far = predicted(forest, np.array([[-100, -100, 0], [100, 100, 0]]))

    assert targets.min() <= far.min() < far.max() <= targets.max()


def test_the_same_random_stream_grows_the_same_forest() -> None:
    rows, targets = rows_and_targets()
    first, second = (grow(rows, targets, np.random.default_rng(3)) for _ in range(2))

    assert np.array_equal(first.column, second.column)
    assert np.array_equal(first.threshold, second.threshold)
    assert not np.array_equal(first.column, grow(rows, targets, np.random.default_rng(4)).column)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_equal_rows_end_in_the_root_of_each_tree(count: int) -> None:
    rows, targets = np.zeros((count, 4), dtype=np.int64), np.arange(float(count))
    forest = grow(rows, targets, np.random.default_rng(0), trees=5)

    assert np.array_equal(forest.leaves(rows), np.repeat(np.arange(5)[:, None], count, axis=1))


def test_equal_targets_are_not_cut() -> None:
    rows, _ = rows_and_targets()
    forest = grow(rows, np.full(len(rows), 2.5), np.random.default_rng(0), trees=5)

    assert len(forest.column) == 5
    assert predicted(forest, rows) == pytest.approx(2.5)


def test_every_tree_sees_a_sample_of_its_own() -> None:
    rows, targets = rows_and_targets(20)
    forest = grow(rows, targets, np.random.default_rng(0), depth=0, trees=30)

    assert len(np.unique(forest.mean)) > 20
    assert forest.mean.mean() == pytest.approx(targets.mean(), abs=0.3 * targets.std())


def test_no_path_is_longer_than_the_depth() -> None:
    rows, targets = rows_and_targets()
    forest = grow(rows, targets, np.random.default_rng(0), depth=2, trees=5)

    assert len(forest.column) <= 5 * (1 + 2 + 4)
    assert len(forest.column) > 5 * (1 + 2)


def test_no_rows_have_no_leaves() -> None:
    rows, targets = rows_and_targets()
    forest = grow(rows, targets, np.random.default_rng(0), trees=5)

    assert forest.leaves(np.zeros((0, 3), dtype=np.int64)).shape == (5, 0)
