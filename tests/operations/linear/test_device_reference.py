"""The device's reference of the linear layer, run by the emulator: it gives what the host's gives in fp64."""

from dataclasses import replace

import numpy as np
import pytest

from evoflash.operations.expectations import every_row
from evoflash.operations.linear.inputs import draw
from evoflash.operations.linear.reference import REFERENCE, expect
from evoflash.operations.linear.workload import LinearWorkload
from tests.right_answers import answers_of, assert_told_of_rows


@pytest.mark.parametrize("name", ["normal", "far_scales", "rows_apart"])
@pytest.mark.parametrize(
    "workload",
    [
        LinearWorkload(3, 40, 400, "bf16", bias=True),
        LinearWorkload(9, 136, 272, "fp8b128", residual=True),
        LinearWorkload(33, 24, 400, "fp8b128", x="e4m3"),
        LinearWorkload(1, 8, 16, "fp8t"),
    ],
    ids=str,
)
@pytest.mark.sample(7)
def test_it_gives_what_the_host_gives(workload, name):
    trial = draw(name, workload, seed=3)
    known = expect(workload, trial, where=every_row(workload)).rows["Y"]

    found = answers_of(REFERENCE, workload, trial)
    right = found["right"]

    scale = np.sqrt((known.right[0] ** 2).mean(axis=1, keepdims=True))
    assert (np.abs(right - known.right[0]) < 2e-7 * scale + 1e-7 * np.abs(known.right[0])).all()
    assert_told_of_rows(found["per_row"], known)


def test_what_takes_too_long_on_a_gpu_is_left_to_the_host():
    largest = LinearWorkload(64, 128256, 4096)
    assert REFERENCE.applies(largest)
    assert not REFERENCE.applies(replace(largest, n=1 << 24))
