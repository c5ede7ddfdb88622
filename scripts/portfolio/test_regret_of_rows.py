"""Which times of two records stand beside one another."""

import numpy as np
import pytest

from evoflash.app.portfolio.choice import choose
from scripts.portfolio.regret_of_rows import LATER, class_of, join_records, least_worst
from scripts.portfolio.row_classes import KERNELS
from scripts.records import read_record

LAYERS = read_record(LATER)["us"]


@pytest.mark.parametrize("layer", LAYERS)
def test_where_a_class_is_new_only_kernels_that_were_compiled_for_it_count(layer):
    table = join_records(layer)
    known = dict(zip(table.rows, np.isfinite(table.regret), strict=True))

    for m, row in LAYERS[layer].items():
        if class_of(int(m)) in (24, 40, 48):
            named = {name[:6] for name in row if name.endswith(f"<={class_of(int(m))}")}
            kernels = {name for name, found in zip(table.kernels, known[int(m)], strict=True) if found}
            assert kernels == named <= set(KERNELS)
    assert all(found.any() for found in known.values())
    assert sum(table.weights) == pytest.approx(64)


@pytest.mark.parametrize("layer", LAYERS)
def test_no_choice_by_the_mean_has_a_lesser_worst_than_the_least_or_a_greater_mean_by_far(layer):
    table = join_records(layer)
    by_mean, by_worst = choose(table.regret, table.weights, 3), least_worst(table, 3)

    assert by_mean.uncovered == by_worst.uncovered == 0
    assert by_worst.worst <= by_mean.worst
    assert by_mean.mean <= by_worst.mean + 0.002
