"""The order in which the emulator runs a block's threads: at times a warp stays behind all others."""

import numpy as np
import pytest
from tables import data

from evoflash.emulator.launch import Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

WARPS, ROUNDS = 4, 16
OTHERS = (WARPS - 1) * ROUNDS
# Each warp notes how many rounds all warps together had been through when it came to its first one.
ROUNDS_OF_WARPS = data(__file__, "ROUNDS_OF_WARPS")


def first_rounds(schedule: str, seed: int) -> list[int]:
    library = build(ROUNDS_OF_WARPS, name="rounds")
    with Memory() as memory:
        arrays = [memory.array(name, (WARPS,), np.uint32, writable=True) for name in ("first", "count")]
        for array in arrays:
            array[...] = 0
        pointers = [np.uint64(array.ctypes.data) for array in arrays]
        launch = LaunchConfig("rounds", (1, 1, 1), (32 * WARPS, 1, 1), 0)
        emulation = run_launch(library, launch, pointers, schedule=schedule, seed=seed)
        assert emulation.reports == ()
        assert arrays[1][0] == WARPS * ROUNDS
        return arrays[0].tolist()


@pytest.fixture(scope="module")
def drawn() -> list[list[int]]:
    return [first_rounds("random", seed) for seed in range(48)]


@pytest.mark.parametrize("warp", range(WARPS))
def test_the_random_schedule_holds_each_warp_back_until_no_other_can_go_on(
    warp: int, drawn: list[list[int]]
) -> None:
    assert any(first[warp] == OTHERS for first in drawn)


def test_at_times_it_holds_nobody_back(drawn: list[list[int]]) -> None:
    assert any(max(first) < OTHERS // 2 for first in drawn)


def test_the_other_schedule_never_does() -> None:
    assert max(first_rounds("fifo", 1)) < OTHERS // 2
