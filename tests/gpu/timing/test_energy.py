"""Energy a call: counted between moves of a counter that lags, moves seldom, or is not there."""

from dataclasses import dataclass, field

import pytest

from evoflash.gpu.timing.benchmark import LEAST_S, per_call_mj

CALLS, TURN_S, WATTS = 100, 0.01, 300.0


@dataclass
class Board:
    """A board at constant power, whose counter moves every `step_s` to what was taken until then."""

    step_s: float = 0.1
    now_s: float = 0.037
    reads: list[int] = field(default_factory=list)

    def now(self) -> float:
        return self.now_s

    def turn(self) -> int:
        self.now_s += TURN_S
        return CALLS

    def read(self) -> int:
        moves = self.now_s // self.step_s
        self.reads.append(round(1e3 * WATTS * moves * self.step_s))
        return self.reads[-1]


@pytest.mark.parametrize("step_s", [0.02, 0.1, 0.25])
def test_the_energy_of_a_call_is_power_times_its_time_within_a_turn_of_the_window(step_s) -> None:
    board = Board(step_s)
    found = per_call_mj(board.turn, board.read, now=board.now)

    assert found == pytest.approx(1e3 * WATTS * TURN_S / CALLS, rel=2 * TURN_S / LEAST_S)


def test_it_is_counted_between_two_moves_at_least_that_far_apart() -> None:
    board = Board()
    per_call_mj(board.turn, board.read, now=board.now)

    assert board.now_s >= LEAST_S + board.step_s
    assert board.reads[-1] != board.reads[-2]


def test_a_counter_that_stands_still_says_nothing_after_a_while() -> None:
    board = Board(step_s=1e9)
    assert per_call_mj(board.turn, board.read, now=board.now) is None
    assert board.now_s < 60


def test_a_counter_that_goes_away_says_nothing() -> None:
    board = Board()
    assert per_call_mj(board.turn, lambda: None, now=board.now) is None
