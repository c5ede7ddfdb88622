"""The device's reference of the linear layer, run by the emulator: it gives what the host's gives in fp64."""

from dataclasses import replace

import numpy as np
import pytest

from evoflash.emulator import launch as emulator
from evoflash.kernels import gxx
from evoflash.operations.expectations import every_row
from evoflash.operations.linear.inputs import draw
from evoflash.operations.linear.reference import REFERENCE, expect
from evoflash.operations.linear.workload import LinearWorkload


def asked(workload, trial):
    """Right rows, and what is told of each row."""
    places, shape = REFERENCE.blocks(workload), (workload.m, workload.n)
    library = gxx.build(REFERENCE.source.read_text(), name="reference")
    with emulator.Memory() as memory:
        given = {name: memory.array(name, x.shape, x.dtype, fill=x) for name, x in trial.tensors.items()}
        given["blocks"] = memory.array("blocks", places.shape, np.int32, fill=places)
        for name, size in {"right": shape, "honest": shape, "per_row": (workload.m, 5)}.items():
            given[name] = memory.array(name, size, np.float32, writable=True, unset=True, fill=np.nan)
        addresses = {name: array.ctypes.data for name, array in given.items()}
        for launch in REFERENCE.launches(workload):
            emulation = emulator.run_launch(library, launch, REFERENCE.arguments(workload, addresses))
            assert emulation.reports == ()
        return given["right"].copy(), given["per_row"].copy()


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
def test_it_gives_what_the_host_gives(workload, name):
    trial = draw(name, workload, seed=3)
    known = expect(workload, trial, where=every_row(workload)).rows["Y"]

    right, per_row = asked(workload, trial)

    scale = np.sqrt((known.right[0] ** 2).mean(axis=1, keepdims=True))
    assert (np.abs(right - known.right[0]) < 2e-7 * scale + 1e-7 * np.abs(known.right[0])).all()
    np.testing.assert_allclose(per_row[:, 0], (known.right[0] ** 2).sum(axis=1), rtol=1e-3)
    assert per_row[:, 1].sum() == pytest.approx(known.scale.honest_squared, rel=0.05)
    over = per_row[:, 2] / known.scale.rms.reshape(-1)
    assert over.max() == pytest.approx(known.scale.honest_max_over_rms, rel=0.1)


def test_what_takes_too_long_on_a_gpu_is_left_to_the_host():
    largest = LinearWorkload(64, 128256, 4096)
    assert REFERENCE.applies(largest)
    assert not REFERENCE.applies(replace(largest, n=1 << 24))
