"""Shared memory's shadow keeps 16 bytes in one record while it can: accesses of all sizes are told apart."""

import re
from typing import Any

import numpy as np
import pytest
from places import KERNELS
from tables import table_of_cases

from evoflash.emulator.launch import EmulatorReport, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

TEXT = (KERNELS / "granules.cu").read_text()


def reports(case: int, **choices: Any) -> tuple[EmulatorReport, ...]:
    with Memory() as memory:
        out = memory.array("out", (64,), np.uint32, writable=True)
        library = build(f"#define CASE {case}\n#line 1\n{TEXT}", name="granules")
        launch = LaunchConfig("granules", (1, 1, 1), (64, 1, 1), 1024)
        return run_launch(library, launch, [np.uint64(out.ctypes.data)], **choices).reports


def findings(case: int, **choices: Any) -> set[tuple[str, int]]:
    """Kinds, and the offsets in shared memory that their messages name."""
    found = set()
    for report in reports(case, **choices):
        offset = re.search(r"shared offset (\d+)", report.message)
        assert offset
        found.add((report.kind, int(offset.group(1))))
    return found


@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_small_and_large_accesses_in_turns_are_right(schedule: Any) -> None:
    assert reports(0, schedule=schedule) == ()


@table_of_cases()
def test_a_fault_is_found_where_it_is(case: int, kind: str, offset: int) -> None:
    assert findings(case, schedule="fifo", delivery="lazy") == {(kind, offset)}
