"""Blocks of a cluster in the emulator: others' shared memory, the cluster's barrier, who ends too early."""

import re
from typing import Any

import numpy as np
import pytest
from emulator_faults import WAYS, found, told
from places import KERNELS

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

SOURCE = (KERNELS / "cluster.cu").read_text()


def cluster(
    fault: int, *, size: int = 2, clusters: int = 1, resident: bool = False, **way: Any
) -> tuple[Emulation, np.ndarray[Any, Any]]:
    """What the kernel with that fault did, and its output: 64 numbers for each block."""
    library = build(f"#define FAULT {fault}\n#line 1\n{SOURCE}", name="cluster")
    blocks = size * clusters
    launch = LaunchConfig(
        "cluster", (blocks, 1, 1), (64, 1, 1), 1024, cluster=(size, 1, 1), resident=resident
    )
    with Memory() as memory:
        out = memory.array("out", (blocks, 64), np.int32, writable=True)
        emulation = run_launch(library, launch, [np.uint64(out.ctypes.data)], **way)
        return emulation, out.copy()


def sums(size: int) -> np.ndarray[Any, Any]:
    threads = np.arange(64)
    return sum(100 * rank + threads for rank in range(size))


@pytest.mark.parametrize("fault", [0, 4], ids=["cluster_sync", "arrive, work, wait"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_blocks_read_one_anothers_shared_memory(fault: int, size: int) -> None:
    for way in WAYS:
        emulation, out = cluster(fault, size=size, **way)
        assert emulation.reports == ()
        np.testing.assert_array_equal(out, np.broadcast_to(sums(size), (size, 64)))


@pytest.mark.parametrize("fault", [0, 4, 20], ids=["cluster_sync", "arrive, work, wait", "st.async"])
def test_lanes_that_leave_the_clusters_barrier_one_by_one_are_counted_as_their_warp(fault: int) -> None:
    emulation, _ = cluster(fault)
    # Warp by warp: either block reads from both; where they send, the first one reads what it got from both.
    assert emulation.counters["lds"] == (4 if fault == 20 else 8)
    assert emulation.counters["sts"] == 4


@pytest.mark.parametrize("resident", [False, True])
def test_each_cluster_of_a_grid_is_its_own(resident: bool) -> None:
    for way in WAYS[::3]:
        emulation, out = cluster(0, size=2, clusters=3, resident=resident, **way)
        assert emulation.reports == ()
        np.testing.assert_array_equal(out, np.broadcast_to(sums(2), (6, 64)))


def test_the_barrier_does_not_wait_for_threads_that_have_ended() -> None:
    for way in WAYS:
        emulation, out = cluster(15, **way)
        assert emulation.reports == ()
        np.testing.assert_array_equal(out[:, :32], np.broadcast_to(sums(2)[:32], (2, 32)))


@pytest.mark.parametrize("fault", [20, 23], ids=["st.async and an mbarrier", "plain stores and a barrier"])
def test_blocks_store_to_another_ones_shared_memory(fault: int) -> None:
    for way in WAYS:
        emulation, out = cluster(fault, **way)
        assert emulation.reports == ()
        # Block 0's thread t adds up what thread t % 32 of either half of each block has sent there.
        half = np.arange(64) // 32 * 32 + np.arange(64) % 32
        np.testing.assert_array_equal(out[0], sum(100 * rank + half for rank in range(2)))
        assert not out[1].any()


@pytest.mark.parametrize(
    ("fault", "must", "may"),
    told(
        "cluster",
        sets=(
            "may",
            "must",
        ),
    ),
)
@pytest.mark.sample(6)
def test_a_fault_is_named_on_its_line_under_every_schedule(
    fault: int, must: set[tuple[str, str]], may: set[str]
) -> None:
    for way in WAYS:
        reports = found(cluster(fault, **way)[0], SOURCE)
        assert must <= reports, way
        assert {kind.partition("-")[0] for kind, _ in reports - must} <= may, way


@pytest.mark.parametrize(("fault", "kinds"), told("cluster_races", sets=("kinds",)))
def test_a_race_over_anothers_memory_is_found_from_either_side(fault: int, kinds: set[str]) -> None:
    for way in WAYS:
        reports = found(cluster(fault, **way)[0], SOURCE)
        assert reports
        assert {kind for kind, _ in reports} <= kinds


def test_a_deadlock_tells_which_blocks_have_not_come() -> None:
    (report,) = cluster(7)[0].reports
    assert report.kind == "DEADLOCK"
    assert "the cluster's barrier: 96 of 128 threads have come; of block 1: 32 of 64" in report.message
    assert "threads 0-31 of block 1: bar_sync" in report.message


def test_a_remote_access_names_both_blocks() -> None:
    (report,) = cluster(13)[0].reports
    assert re.search(r"thread \d+ of block [01] reaches into the shared memory of block [01]", report.message)
