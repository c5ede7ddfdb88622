"""What happened to 16 bytes is kept in one record while that can be: accesses of all sizes are told apart."""

import re
from typing import Any

import numpy as np
import pytest
from places import KERNELS
from tables import table_of_cases

from evoflash.emulator.launch import EmulatorReport, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

TEXTS = {name: (KERNELS / f"{name}.cu").read_text() for name in ("granules", "global_granules")}
SET_BYTES = 132  # of the workspace


def reports(name: str, case: int, **choices: Any) -> tuple[EmulatorReport, ...]:
    with Memory() as memory:
        out = memory.array("out", (64,), np.uint32, writable=True)
        given = [np.uint64(out.ctypes.data)]
        if name == "global_granules":
            unset = {"unset": True, "set_bytes": SET_BYTES}
            workspace = memory.array("workspace", (256,), np.uint8, writable=True, **unset)
            given.append(np.uint64(workspace.ctypes.data))
        library = build(f"#define CASE {case}\n#line 1\n{TEXTS[name]}", name=name)
        launch = LaunchConfig(name, (1, 1, 1), (64, 1, 1), 1024)
        return run_launch(library, launch, given, **choices).reports


def findings(name: str, case: int, **choices: Any) -> set[tuple[str, int]]:
    """Kinds, and the offsets in memory that their messages name."""
    found = set()
    for report in reports(name, case, **choices):
        offset = re.search(r"(?:shared offset|of byte) (\d+)", report.message)
        assert offset
        found.add((report.kind, int(offset.group(1))))
    return found


@pytest.mark.parametrize("schedule", ["fifo", "random"])
@pytest.mark.parametrize(("name", "case"), [("granules", 0), ("global_granules", 0), ("global_granules", 10)])
def test_small_and_large_accesses_in_turns_are_right(name: str, case: int, schedule: Any) -> None:
    assert reports(name, case, schedule=schedule) == ()


@table_of_cases()
def test_a_fault_in_shared_memory_is_found_where_it_is(case: int, kind: str, offset: int) -> None:
    assert findings("granules", case, schedule="fifo", delivery="lazy") == {(kind, offset)}


@table_of_cases()
def test_a_fault_in_global_memory_is_found_where_it_is(case: int, kind: str, offset: int) -> None:
    assert findings("global_granules", case, schedule="fifo", delivery="lazy") == {(kind, offset)}
