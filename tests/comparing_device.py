"""The emulator in the GPU's place where outputs are compared: its memory, and comparisons.cu run by it."""

import numpy as np

from evoflash.emulator import launch as emulator
from evoflash.gpu import comparisons
from evoflash.gpu.comparisons import FIELDS, THREADS, RowComparison, lines
from evoflash.kernels import gxx
from evoflash.launch import LaunchConfig

BLOCKS = 2


class Device:
    """The emulator's memory in the device's place."""

    def __init__(self):
        self.memory, self.count = emulator.Memory(), 0

    def put(self, values):
        """The address of a copy."""
        self.count += 1
        array = self.memory.array(f"in{self.count}", values.shape, values.dtype, fill=values)
        return array.ctypes.data

    def ask(self, made):
        """The answers to comparisons of one kind."""
        table = lines(made)
        is_measured = isinstance(made[0], RowComparison)
        kind, each = (np.float64, BLOCKS * FIELDS) if is_measured else (np.uint32, made[0].answers)
        given = self.memory.array("table", table.shape, np.int64, fill=table)
        answers = self.memory.array("answers", (len(made), each), kind, writable=True, fill=0)
        library = gxx.build(comparisons.SOURCE.read_text(), name="comparisons")
        launch = LaunchConfig(made[0].entry, (BLOCKS, len(made), 1), (THREADS, 1, 1), 0)
        emulation = emulator.run_launch(library, launch, [np.uint64(x.ctypes.data) for x in (given, answers)])
        assert emulation.reports == ()
        return answers.reshape(len(made), BLOCKS, FIELDS) if is_measured else answers.copy()
