"""mbarriers in the emulator: phases, parities, what passes with them, and every way to misuse one."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from emulator_faults import told
from places import KERNELS

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

SOURCE = (KERNELS / "mbarrier.cu").read_text()
POLICIES = tuple(product(("eager", "lazy", "random"), ("fifo", "random")))
RING_SUM = sum(range(6))  # over the ring's six fillings


def launch(number: int, **choices: Any) -> tuple[Emulation, np.ndarray[Any, Any]]:
    library = build(f"#define FAULT {number}\n#line 1\n{SOURCE}", name="mbarrier")
    with Memory() as memory:
        given = memory.array("in", (4096,), np.int32, fill=np.arange(4096))
        result = memory.array("out", (64,), np.int32, writable=True)
        pointers = [np.uint64(array.ctypes.data) for array in (given, result)]
        emulation = run_launch(
            library, LaunchConfig("mbarriers", (1, 1, 1), (64, 1, 1), 4096), pointers, **choices
        )
        return emulation, result.copy()


def line_of(wanted: str) -> int:
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if wanted in line)


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(0, [RING_SUM * (31 - lane) for lane in range(32)], id="ring, wait"),
        pytest.param(1, [RING_SUM * (31 - lane) for lane in range(32)], id="ring, try"),
        pytest.param(2, [RING_SUM * (31 - lane) for lane in range(32)], id="ring, test"),
        pytest.param(18, [4 * (31 - lane) for lane in range(32)], id="cp.async, counted"),
        pytest.param(19, [4 * (31 - lane) for lane in range(32)], id="cp.async, noinc"),
        pytest.param(29, [4 * (31 - lane) for lane in range(32)], id="cp.async, waited for as well"),
        pytest.param(32, [4 * (31 - lane) for lane in range(32)], id="cp.async, waited for and written over"),
        pytest.param(24, [7] * 32, id="several arrivals at once, made again"),
        pytest.param(37, [2, 4] + [0] * 30, id="two readers in turn"),
        pytest.param(39, [0] * 8 + [1] + [0] * 23, id="phases known by another barrier"),
    ],
)
@pytest.mark.sample(48)
def test_a_right_kernel_is_not_reported(
    number: int, expected: list[int], delivery: str, schedule: str, seed: int
) -> None:
    emulation, result = launch(number, delivery=delivery, schedule=schedule, seed=seed)
    assert emulation.reports == ()
    assert result[32:].tolist() == expected


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
def test_a_try_ends_in_vain_when_nobody_else_can_go_on(delivery: str, schedule: str) -> None:
    emulation, result = launch(25, delivery=delivery, schedule=schedule)
    assert emulation.reports == ()
    assert result[0] == 1


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize(("number", "kind", "at"), told("mbarrier"))
def test_misuse_is_reported_with_its_line(
    number: int, kind: str, at: str, delivery: str, schedule: str
) -> None:
    emulation, _ = launch(number, delivery=delivery, schedule=schedule)
    assert (kind, line_of(at)) in {(report.kind, report.line) for report in emulation.reports}


def test_a_use_that_nothing_orders_after_the_making_is_a_race() -> None:
    (report,) = launch(9, schedule="fifo")[0].reports
    assert (report.kind, report.line) == ("mbarrier-init-race", line_of("// its use"))
    assert report.line2 == line_of("// not ordered before")


@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_the_wrong_parity_passes_too_early_or_hangs(schedule: str) -> None:
    kinds = {report.kind for report in launch(17, schedule=schedule)[0].reports}
    assert kinds & {"race-RAW", "race-WAR", "DEADLOCK", "mbarrier-lapped", "uninit-shared"}


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize("number", [33, 34], ids=["tests", "tries"])
def test_a_loop_that_counts_its_tests_gives_up_before_the_phase_has_ended(
    number: int, delivery: str, schedule: str
) -> None:
    kinds = {report.kind for report in launch(number, delivery=delivery, schedule=schedule)[0].reports}
    assert kinds & {"race-RAW", "race-WAR", "uninit-shared"}


def test_a_waiting_thread_that_is_lapped_is_reported() -> None:
    (report,) = launch(5, schedule="fifo")[0].reports
    assert (report.kind, report.line) == ("mbarrier-lapped", line_of("// two phases pass") + 3)
    assert "parity 0 of phase 0" in report.message
    assert "phase 2 has parity 0" in report.message


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize(("number", "at"), [(35, "// thread 32 sees every"), (36, "// all see every phase")])
def test_a_wait_that_may_take_a_phase_for_one_two_before_it_is_reported(
    number: int, at: str, delivery: str, schedule: str
) -> None:
    reports = launch(number, delivery=delivery, schedule=schedule)[0].reports
    assert {report.kind for report in reports} <= {"mbarrier-phase-race", "mbarrier-lapped"}
    assert reports
    assert {report.line for report in reports} & {line_of(at), line_of("// of the slot")}


def test_a_barrier_is_not_invalidated_while_somebody_waits() -> None:
    (report,) = launch(22, schedule="fifo")[0].reports
    assert (report.kind, report.line) == ("mbarrier-inval", line_of("// somebody waits"))
    assert "1 threads wait" in report.message


@pytest.mark.parametrize(("delivery", "schedule"), POLICIES)
@pytest.mark.parametrize("number", [10, 11, 12, 21])
def test_a_hang_is_called_quickly_and_tells_the_barriers_state(
    number: int, delivery: str, schedule: str
) -> None:
    emulation, _ = launch(number, delivery=delivery, schedule=schedule)
    (report,) = emulation.reports
    assert report.kind == "DEADLOCK"
    made = line_of("mbar_init(full, FAULT == 21") if number == 21 else line_of("// hangs")
    missing = "32 of 64 arrivals missing" if number == 21 else "1 of 2 arrivals missing"
    assert f"shared offset 0, made at line {made}: phase 0 has parity 0, {missing}" in report.message
    assert "waits for parity 0" in report.message
    assert emulation.seconds < 1


def test_a_loop_that_also_polls_memory_is_called_a_hang_too() -> None:
    emulation, _ = launch(28)
    assert {report.kind for report in emulation.reports} <= {"DEADLOCK", "LIVELOCK"}
    assert emulation.reports
    assert emulation.seconds < 1


def test_operations_are_counted() -> None:
    # Four barriers made, 6 x 32 arrivals at full and 6 at empty; the consumers pass 6 phases, the producers
    # 4: their first two waits are for no phase at all.
    counters = launch(0)[0].counters
    assert counters["mbarrier"] == 4 + 6 * 32 + 6 + 6 + 4
