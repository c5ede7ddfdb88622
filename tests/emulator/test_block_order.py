"""The order in which the emulator runs a grid's blocks, and grids of more blocks than it can run."""

from typing import Any

import numpy as np
import pytest
from tables import data, table_of_cases

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

BLOCKS = 12
# Each block notes its turn, and how many are there with it, itself included.
ORDER = data(__file__, "ORDER")
IDLE = '#include "ef.h"\nextern "C" __global__ void idle() {}\nEF_EXPORT_KERNEL(idle)\n'


def turns(schedule: str, seed: int, *, blocks: int = BLOCKS, **launch: Any) -> tuple[list[int], int]:
    """The block that ran first, second ..., and the most that were there at the same time."""
    library = build(ORDER, name="order")
    with Memory() as memory:
        names = ("turns", "most", "counts")
        arrays = [memory.array(name, (blocks,), np.uint32, writable=True) for name in names]
        emulation = run_launch(
            library,
            LaunchConfig("order", (blocks, 1, 1), (32, 1, 1), 0, **launch),
            [np.uint64(array.ctypes.data) for array in arrays],
            schedule=schedule,
            seed=seed,
        )
        assert emulation.reports == ()
        return np.argsort(arrays[0]).tolist(), int(arrays[1][0])


def idle(blocks: int, schedule: str) -> Emulation:
    launch = LaunchConfig("idle", (blocks, 1, 1), (32, 1, 1), 0)
    return run_launch(build(IDLE, name="idle"), launch, [], schedule=schedule, cpu_limit_s=0.3)


def test_blocks_run_one_after_the_other_in_ascending_order_where_threads_do() -> None:
    assert turns("fifo", 1) == (list(range(BLOCKS)), 1)


def test_at_random_blocks_also_run_in_descending_and_in_other_orders_and_some_together() -> None:
    runs = [turns("random", seed) for seed in range(1, 13)]

    assert all(sorted(order) == list(range(BLOCKS)) for order, _ in runs)
    assert {most for _, most in runs} <= {1, 2, 3}
    assert any(most > 1 for _, most in runs)
    last_first = [sum(np.diff(order) < 0) for order, _ in runs]
    assert max(last_first) > BLOCKS / 2 > min(last_first)
    assert len({tuple(order) for order, _ in runs}) > 6


def test_blocks_of_a_cluster_stay_together() -> None:
    for seed in range(1, 9):
        order, most = turns("random", seed, cluster=(4, 1, 1))
        assert sorted(order) == list(range(BLOCKS))
        assert most <= 8  # never all three clusters


@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_a_grid_of_too_many_blocks_ends_with_how_many_have_run(schedule: str) -> None:
    emulation = idle(2_000_000_000, schedule)

    (report,) = emulation.reports
    assert report.kind == "TIMEOUT"
    assert "of the grid's 2000000000 blocks had begun" in report.message
    assert 0 < emulation.counters["ctas"] < 2_000_000_000


KERNEL_OF_128 = data(__file__, "KERNEL_OF_128")


@table_of_cases(tuples=True)
def test_what_no_gpu_launches_is_reported_and_not_run(
    entry: str, grid: tuple[int, int, int], threads: int, smem: int, says: str
) -> None:
    emulation = run_launch(
        build(KERNEL_OF_128, name="bounds"), LaunchConfig(entry, grid, (threads, 1, 1), smem), []
    )

    assert [report.kind for report in emulation.reports] == (["cannot-launch"] if says else [])
    assert all(says in report.message for report in emulation.reports)
