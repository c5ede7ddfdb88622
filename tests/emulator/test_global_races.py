"""Global memory that kernels write, in the emulator: order between threads, blocks and launches."""

import re
from typing import Any

import numpy as np
import pytest
from emulator_faults import WAYS, found, told
from places import KERNELS

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

SOURCE = (KERNELS / "global.cu").read_text()
BLOCKS = 3


def passed(
    fault: int, *, resident: bool = False, unset: bool = True, **way: Any
) -> tuple[Emulation, np.ndarray[Any, Any]]:
    """What `pass` did, and its output."""
    library = build(f"#define FAULT {fault}\n#line 1\n{SOURCE}", name="global")
    launch = LaunchConfig("pass", (BLOCKS, 1, 1), (64, 1, 1), 1024, resident=resident)
    with Memory() as memory:
        scratch = memory.array("workspace", (BLOCKS + 1, 64), np.int32, writable=True, unset=unset, fill=-1)
        out = memory.array("out", (BLOCKS, 64), np.int32, writable=True)
        emulation = run_launch(
            library, launch, [np.uint64(array.ctypes.data) for array in (scratch, out)], **way
        )
        return emulation, out.copy()


def chained(
    fault: int, entries: tuple[str, ...] = ("produce", "consume"), *, dependent: bool = True, **way: Any
) -> list[Emulation]:
    """Launches one after the other, all but the first as early as may be."""
    library = build(f"#define FAULT {fault}\n#line 1\n{SOURCE}", name="global")
    with Memory() as memory:
        scratch = memory.array("workspace", (2, 64), np.int32, writable=True, unset=True, fill=-1)
        out = memory.array("out", (2, 64), np.int32, writable=True)
        pointers = [np.uint64(array.ctypes.data) for array in (scratch, out)]
        arguments = {"produce": [pointers[0], np.int32(5)], "consume": pointers, "idle": []}
        emulations = [
            run_launch(
                library,
                LaunchConfig(entry, (2, 1, 1), (64, 1, 1), 1024, dependent=dependent and number > 0),
                arguments[entry],
                **way,
            )
            for number, entry in enumerate(entries)
        ]
        if not any(emulation.reports for emulation in emulations):
            np.testing.assert_array_equal(out, np.broadcast_to(2 * (np.arange(64) + 5), (2, 64)))
        return emulations


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("fault", [0, 7], ids=["a barrier between", "scratch written again, in order"])
def test_threads_exchange_through_memory_with_a_barrier(fault: int, resident: bool) -> None:
    for way in WAYS:
        emulation, out = passed(fault, resident=resident, **way)
        assert emulation.reports == ()
        np.testing.assert_array_equal(out, np.broadcast_to((np.arange(64) + 1) % 64, (BLOCKS, 64)))


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize(("fault", "kinds", "lines"), told("global_races", sets=("kinds",)))
def test_what_nothing_orders_is_named(fault: int, kinds: set[str], lines: list[str], resident: bool) -> None:
    seen = set()
    for way in WAYS:
        reports = found(passed(fault, resident=resident, **way)[0], SOURCE)
        assert reports, way
        assert {kind for kind, _ in reports} <= kinds
        assert {line for _, line in reports} <= set(lines)
        seen |= {line for _, line in reports}
    assert lines[0] in seen


def test_memory_that_is_set_before_may_be_read() -> None:
    assert passed(5, unset=False)[0].reports == ()


def test_a_race_between_blocks_says_what_orders_them() -> None:
    for seed in range(1, 9):  # one after the other, or some of them at the same time
        report = next(each for each in passed(3, seed=seed)[0].reports if each.kind == "race-global")
        assert re.search(r"by thread \d+ of block \(\d,0,0\); blocks are", report.message)
        assert "by release and acquire only" in report.message
        assert "only if the launch is `resident`" in report.message


@pytest.mark.parametrize("fault", [10, 14], ids=["all wait", "one waits, all wait for it"])
def test_a_dependent_launch_waits_for_what_it_reads(fault: int) -> None:
    for way in WAYS:
        assert [emulation.reports for emulation in chained(fault, **way)] == [(), ()]


def test_a_launch_that_is_not_dependent_need_not_wait() -> None:
    assert [emulation.reports for emulation in chained(12, dependent=False)] == [(), ()]


READS_INPUT = "ef::stg(out + 64 * blockIdx.x + thread, ef::ldg(workspace + 64 * blockIdx.x + thread) * 2);"


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        pytest.param(12, READS_INPUT, id="nobody waits"),
        pytest.param(13, READS_INPUT, id="one thread waits"),
        pytest.param(
            15, "ef::stg((int*)workspace + 64 * blockIdx.x + thread, 0);", id="written before waiting"
        ),
    ],
)
def test_a_dependent_launch_that_does_not_wait_is_named(fault: int, line: str) -> None:
    for way in WAYS:
        first, second = chained(fault, **way)
        assert first.reports == ()
        assert found(second, SOURCE) == {("missing-grid-wait", line)}


def test_a_wait_covers_only_launches_that_have_waited_themselves() -> None:
    """An idle launch between two others ends at once; behind it, the first can still be running."""
    *_, last = chained(10, ("produce", "idle", "consume"))
    assert found(last, SOURCE) == {("missing-grid-wait", READS_INPUT)}
    *_, last = chained(10, ("produce", "produce", "consume"))
    assert last.reports == ()
    _, second, _ = chained(11, ("produce", "produce", "consume"))
    assert found(second, SOURCE) == {
        ("missing-grid-wait", "ef::stg(workspace + 64 * blockIdx.x + threadIdx.x, int(threadIdx.x) + add);")
    }
