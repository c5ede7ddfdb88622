"""Shared memory's shadow keeps 16 bytes in one record while it can: accesses of all sizes are told apart."""

import re
from typing import Any

import numpy as np
import pytest
from places import KERNELS

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


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(1, {("uninit-shared", 10)}, id="one granule was never written"),
        pytest.param(2, {("race-RAW", 6)}, id="one granule was written since the barrier"),
        pytest.param(3, {("race-WAR", 12)}, id="a small write after a large read"),
        pytest.param(4, {("race-WAR", 12)}, id="one of many large reads comes without a barrier"),
        pytest.param(5, {("race-WAR", 0)}, id="a large write after small reads"),
        pytest.param(6, {("mbarrier-as-data", 0)}, id="over an mbarrier"),
        pytest.param(7, {("race-RAW", 14)}, id="a large write after small ones"),
        pytest.param(8, {("async-not-waited", 8)}, id="four bytes under way"),
        pytest.param(9, {("race-WAR", 12)}, id="a small write after the third large read"),
    ],
)
def test_a_fault_is_found_where_it_is(case: int, expected: set[tuple[str, int]]) -> None:
    assert findings(case, schedule="fifo", delivery="lazy") == expected
