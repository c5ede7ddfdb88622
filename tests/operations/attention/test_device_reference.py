"""The reference of the device, run by the emulator: it gives what the host's gives in fp64."""

import numpy as np
import pytest

from evoflash.operations.attention import reference as device_reference
from evoflash.operations.attention.inputs import draw
from evoflash.operations.attention.reference import REFERENCE, expect
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.workload import Sample
from tests.right_answers import answers_of, assert_told_of_rows


@pytest.mark.parametrize("name", ["normal", "needles", "rising"])
@pytest.mark.parametrize(
    "workload",
    [
        AttentionWorkload(1, 2, 1, 37, 70, 64),
        AttentionWorkload(2, 2, 2, 20, 33, 32, "bf16", causal=True),
        AttentionWorkload(1, 1, 1, 40, 20, 256, causal=True),  # rows that see nothing
        AttentionWorkload(1, 1, 1, 1, 65, 16, "bf16"),
    ],
    ids=str,
)
@pytest.mark.sample(4)
def test_it_gives_what_the_host_gives(workload, name):
    trial = draw(name, workload, seed=3)
    expected = expect(workload, trial, where=every_row(workload))
    found = answers_of(REFERENCE, workload, trial)
    right, numbers = found["right"], found["numbers"]
    known, lse = expected.rows["O"], expected.numbers["LSE"].right.reshape(-1)
    of_rows = known.right.reshape(right.shape)
    scale = np.sqrt((of_rows**2).mean())
    np.testing.assert_allclose(right, of_rows, atol=2e-5 * scale, rtol=2e-5)
    np.testing.assert_allclose(numbers, lse, atol=2e-5, rtol=1e-6)
    assert_told_of_rows(found["per_row"], known)


def test_a_large_workload_is_sampled_in_every_head_and_at_all_offsets():
    workload = AttentionWorkload(2, 16, 4, 32768, 32768, 128)
    rows = device_reference.rows(workload)
    heads, at = np.divmod(rows, 32768)
    assert len(rows) < 32 * 32768 // 8
    assert set(heads) == set(range(32))
    assert len(np.unique(at // 16)) > 32
    assert len(np.unique(rows)) == len(rows)
    stored = device_reference.blocks(workload)
    assert (rows[stored[:, 2]] == stored[:, 0] * 32768 + stored[:, 1]).all()


def test_a_sample_of_rows_is_right(monkeypatch):
    monkeypatch.setattr(device_reference, "_MOST", 1 << 17)
    workload = AttentionWorkload(1, 3, 1, 150, 90, 64)
    rows = device_reference.rows(workload)
    assert len(rows) < 450
    trial = draw("normal", workload, seed=3)
    found = answers_of(REFERENCE, workload, trial)
    right, numbers = found["right"], found["numbers"]
    heads, at = np.divmod(rows, 150)
    for head in range(3):
        where = Sample(np.array([head]), at[heads == head])
        expected = expect(workload, trial, where=where)
        np.testing.assert_allclose(right[heads == head], expected.rows["O"].right[0], atol=1e-6)
        np.testing.assert_allclose(numbers[heads == head], expected.numbers["LSE"].right[0], atol=1e-5)
