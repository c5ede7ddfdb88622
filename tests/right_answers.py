"""A device's reference, run by the emulator on a test input."""

import numpy as np

from evoflash.emulator import launch as emulator
from evoflash.kernels import gxx
from evoflash.operations.expectations import FEW_ROWS, outputs_of, over_rms


def answers_of(reference, workload, trial):
    """Right rows, numbers and what is told of each row, by name."""
    places, rows = reference.blocks(workload), len(reference.rows(workload))
    columns = outputs_of(workload, "rows")[0].shape[-1]
    made = {"right": (rows, columns), "honest": (rows, columns), "per_row": (rows, 5), "numbers": (rows,)}
    library = gxx.build(reference.text, name="reference")
    with emulator.Memory() as memory:
        given = {name: memory.array(name, x.shape, x.dtype, fill=x) for name, x in trial.tensors.items()}
        given["blocks"] = memory.array("blocks", places.shape, np.int32, fill=places)
        for name, shape in made.items():
            kind = np.float64 if name == "numbers" else np.float32
            given[name] = memory.array(name, shape, kind, writable=True, unset=True, fill=np.nan)
        addresses = {name: array.ctypes.data for name, array in given.items()}
        for launch in reference.launches(workload):
            emulation = emulator.run_launch(library, launch, reference.arguments(workload, addresses))
            assert emulation.reports == ()
        return {name: given[name].copy() for name in made}


def assert_told_of_rows(per_row, known):
    """Sums of squares, and the errors of honest arithmetic, as the host has them."""
    squares = (known.right.reshape(len(per_row), -1) ** 2).sum(axis=1)
    np.testing.assert_allclose(per_row[:, 0], squares, rtol=1e-3)
    off, rms = np.abs(known.honest - known.right).reshape(len(per_row), -1), known.scale.rms.reshape(-1)
    honest = max(per_row[:, 1].sum(), per_row[:, 3].sum())
    over = over_rms(np.maximum(per_row[:, 2], per_row[:, 4]), rms).max()
    of_plain, known_of_plain = (over_rms(worst, rms).max() for worst in (per_row[:, 2], off.max(axis=1)))
    assert abs(per_row[:, 1].sum() - (off**2).sum()) <= 0.05 * honest
    assert abs(of_plain - known_of_plain) <= 0.1 * over
    # Of few rows the host allows at least what honest arithmetic usually makes.
    allowed = known.scale
    assert honest <= 1.05 * allowed.honest_squared
    assert over <= 1.1 * allowed.honest_max_over_rms
    if len(per_row) > FEW_ROWS:
        assert allowed.honest_squared <= 1.05 * honest
        assert allowed.honest_max_over_rms <= 1.1 * over
