"""The reference of the device, run by the emulator: it gives what the host's gives in fp64."""

import numpy as np
import pytest

from evoflash.emulator import launch as emulator
from evoflash.kernels import gxx
from evoflash.launch import LaunchConfig
from evoflash.operation import Sample
from evoflash.operations.attention import reference as device_reference
from evoflash.operations.attention.inputs import draw
from evoflash.operations.attention.reference import REFERENCE, expect
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import every_row


def asked(workload, trial):
    """Right rows, numbers and what is told of each row."""
    places, rows = device_reference.blocks(workload), device_reference.rows(workload)
    library = gxx.build(REFERENCE.source.read_text(), name="reference")
    with emulator.Memory() as memory:
        given = {name: memory.array(name, x.shape, x.dtype, fill=x) for name, x in trial.tensors.items()}
        given["blocks"] = memory.array("blocks", places.shape, np.int32, fill=places)
        shapes = {"right": (len(rows), workload.head_dim), "numbers": (len(rows),), "per_row": (len(rows), 5)}
        for name, shape in shapes.items():
            kind = np.float64 if name == "numbers" else np.float32
            given[name] = memory.array(name, shape, kind, writable=True, unset=True, fill=np.nan)
        addresses = {name: array.ctypes.data for name, array in given.items()}
        launch = LaunchConfig(REFERENCE.entry, (len(places), 1, 1), (REFERENCE.threads, 1, 1), 0)
        emulation = emulator.run_launch(library, launch, device_reference.arguments(workload, addresses))
        assert emulation.reports == ()
        return [given[name].copy() for name in shapes]


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
@pytest.mark.sample(6)
def test_it_gives_what_the_host_gives(workload, name):
    trial = draw(name, workload, seed=3)
    expected = expect(workload, trial, where=every_row(workload))
    right, numbers, per_row = asked(workload, trial)
    known, lse = expected.rows["O"], expected.numbers["LSE"].right.reshape(-1)
    of_rows = known.right.reshape(right.shape)
    scale = np.sqrt((of_rows**2).mean())
    np.testing.assert_allclose(right, of_rows, atol=2e-5 * scale, rtol=2e-5)
    np.testing.assert_allclose(numbers, lse, atol=2e-5, rtol=1e-6)
    np.testing.assert_allclose(per_row[:, 0], (of_rows**2).sum(axis=1), rtol=1e-3)
    honest = max(per_row[:, 1].sum(), per_row[:, 3].sum())
    assert honest == pytest.approx(known.scale.honest_squared, rel=0.05)
    worst = np.maximum(per_row[:, 2], per_row[:, 4])
    over = np.divide(worst, known.scale.rms.reshape(-1), out=np.zeros_like(worst), where=worst > 0)
    assert over.max() == pytest.approx(known.scale.honest_max_over_rms, rel=0.1)


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
    right, numbers, _ = asked(workload, trial)
    heads, at = np.divmod(rows, 150)
    for head in range(3):
        where = Sample(np.array([head]), at[heads == head])
        expected = expect(workload, trial, where=where)
        np.testing.assert_allclose(right[heads == head], expected.rows["O"].right[0], atol=1e-6)
        np.testing.assert_allclose(numbers[heads == head], expected.numbers["LSE"].right[0], atol=1e-5)
