"""An operation's kernel that computes right answers, as a record; gpu_process/batched/ runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # NumPy takes a tenth of a second to load: records alone do without it
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class DeviceReference:
    """A kernel that computes what is right: one output of rows in fp32, one of numbers in fp64, and of each
    row the sum of squares, and of two kinds of honest arithmetic the squared errors' sum and the largest one.
    """

    source: Path  # on the ef:: layer
    entry: str
    threads: int  # of a block
    output: str  # the names of the tensors
    numbers: str
    applies: Callable[[Any], bool]  # to a workload
    blocks: Callable[[Any], NDArray[np.int32]]  # a line for each block, which the kernel reads
    rows: Callable[[Any], NDArray[np.intp]]  # that it stores, counted through all groups: all, or a sample
    # (workload, addresses: of the inputs, and of blocks, right, numbers, per_row) -> arguments of a launch
    arguments: Callable[[Any, Mapping[str, int]], tuple[np.generic, ...]]
