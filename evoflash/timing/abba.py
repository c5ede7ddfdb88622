"""Two contenders on one workload, timed A B B A; judges nothing, intervals.py does.

A turn is a replay of a contender's CUDA graph: whole rounds through the input sets, 0.4 ms or more. A quad is
four turns, A B B A or B A A B: what drifts evenly, as the clock under a power cap does, cancels in its ratio.
A block is quads for about 10 ms without a pause between them, so that all of its turns see one state of the
GPU; where single calls are timed, a turn is a call on an idle stream, and a block 16 quads. Both contenders
walk through the same input sets in the same order, which is drawn anew for each pair unless it is given.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.cuda.launcher import Stopwatch, cupy, wait
from evoflash.timing.benchmark import REPLAY_LIMIT_S, Bench, Contender, one_by_one
from evoflash.timing.clocks import ClockState, clock_state
from evoflash.timing.protocols import IDLE_S, WINDOW_US, Pace, TimingProtocol

TURN_US = 400.0  # an event and the start of a graph cost some us: they dilute a ratio by 1 % at most
CALL_QUADS = 16


@dataclass(frozen=True, slots=True)
class Block:
    """Times in us a launch of both contenders, two each for every quad, and the GPU's state meanwhile."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    state: ClockState

    @property
    def log_ratio(self) -> float:
        """Of the first's time to the second's."""
        return float(np.mean(np.log(self.first)) - np.mean(np.log(self.second)))


class Pair:
    """Two contenders captured over the same input sets, and warmed up.

    `rough_ratio`: of the first's time to the second's in one replay each; nan where single calls are timed.
    """

    def __init__(
        self,
        first: Contender,
        second: Contender,
        bench: Bench,
        protocol: TimingProtocol,
        *,
        rng: np.random.Generator,
        block_us: float = WINDOW_US,
        order: Sequence[int] | None = None,
    ) -> None:
        """Raises launcher.KernelHungError or CuPy's errors, whichever contender caused them.

        `block_us` is about what a block takes; it is never shorter than a quad. `order` is that of the input
        sets where they rotate.
        """
        self._block_us = block_us
        self._bench, self._protocol, self._rng = bench, protocol, rng
        order = bench.shuffled(rng) if order is None else order
        sets = list(order) if protocol.rotate else [0]
        if protocol.pace is Pace.CALL:
            self._replays = [one_by_one(each, bench, sets) for each in (first, second)]
            self._launches, self._quads = 1, CALL_QUADS
            self.rough_ratio = math.nan
        else:
            self._capture((first, second), sets)
        self._events = [cupy().cuda.Event() for _ in range(4 * self._quads + 1)]
        self._prepare()

    def _capture(self, contenders: tuple[Contender, Contender], sets: list[int]) -> None:
        self._replays = [self._warm(each, sets) for each in contenders]
        rounds_us = [self._timed_us(replay) for replay in self._replays]
        self.rough_ratio, round_us = rounds_us[0] / rounds_us[1], max(rounds_us)
        rounds = turn_rounds(round_us)
        if rounds > 1:
            self._replays = [self._warm(each, sets * rounds) for each in contenders]
        self._launches, self._quads = rounds * len(sets), quads_of(rounds * round_us, block_us=self._block_us)

    def _warm(self, contender: Contender, order: list[int]) -> Callable[[], None]:
        replay = contender.graph(self._bench, order)
        replay()
        wait(self._bench.stream, limit_s=REPLAY_LIMIT_S)  # the first replay pays for loading
        return replay

    def _timed_us(self, replay: Callable[[], None]) -> float:
        stopwatch = Stopwatch(self._bench.stream)
        replay()
        return stopwatch.stop(limit_s=REPLAY_LIMIT_S)

    def _prepare(self) -> None:
        """Run for a while before the first block of the sustained state."""
        until = time.monotonic() + IDLE_S
        while self._protocol.pace is Pace.SUSTAINED and time.monotonic() < until:
            self.block()

    def block(self) -> Block:
        """Time one block. Raises as the constructor does."""
        if self._protocol.pace is Pace.BOOST:
            time.sleep(IDLE_S)
        stream, turns = self._bench.stream, quads(self._quads, rng=self._rng)
        for replay in self._replays:  # untimed: wakes the GPU, and the host gets ahead of it
            replay()
        if self._protocol.pace is Pace.CALL:
            wait(stream, limit_s=REPLAY_LIMIT_S)
            times = [self._timed_us(self._replays[which]) for which in turns]
            state = clock_state(self._bench.pci_bus_id)
        else:
            times, state = self._in_one_go(turns)
        first, second = (
            tuple(us for us, which in zip(times, turns, strict=True) if which == each) for each in (0, 1)
        )
        return Block(first, second, state)

    def _in_one_go(self, turns: list[int]) -> tuple[list[float], ClockState]:
        stream = self._bench.stream
        self._events[0].record(stream)
        for which, event in zip(turns, self._events[1:], strict=True):
            self._replays[which]()
            event.record(stream)
        state = clock_state(self._bench.pci_bus_id)  # while all of it runs
        wait(stream, limit_s=REPLAY_LIMIT_S)
        elapsed = cupy().cuda.get_elapsed_time
        return [
            float(elapsed(before, after)) * 1e3 / self._launches
            for before, after in itertools.pairwise(self._events)
        ], state


def turn_rounds(round_us: float) -> int:
    """Rounds through the input sets in one turn."""
    return max(1, -(-int(TURN_US) // max(1, int(round_us))))


def quads_of(turn_us: float, *, block_us: float = WINDOW_US) -> int:
    """Quads in a block of about 10 ms, or of `block_us`."""
    return max(1, round(block_us / (4 * turn_us)))


def quads(count: int, *, rng: np.random.Generator) -> list[int]:
    """Whose turn it is: A B B A or B A A B, as chance has it, for each quad."""
    return [which for a in rng.integers(0, 2, count) for which in (int(a), 1 - int(a), 1 - int(a), int(a))]
