"""Times two contenders in pairs until one is clearly faster, neither can be, or the time is up.

They are timed A B B A on one workload. Here is when to look, when to stop and what the pairs say. A time that
no GPU could reach is found out here as well.

One sample is the logarithm of a ratio of two times taken close together. Their mean without the outer eighths
has a Student interval whose spread is that of the Winsorized samples (Yuen 1974): an interruption that hits
one sample neither moves the ratio nor passes for precision. Whoever looks again and again while samples come
in divides `ALPHA` by the number of looks, which bounds false alarms whatever the order of the samples.
"""

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Timing
from evoflash.gpu.launcher import alone, cupy, wait
from evoflash.gpu.timing.benchmark import (
    REPLAY_LIMIT_S,
    Bench,
    ClockState,
    Contender,
    clock_state,
    combined_state,
    one_by_one,
    replay_limit_s,
    summarise,
    time_replay,
    warm_replay,
)
from evoflash.gpu.timing.protocols import IDLE_S, WINDOW_US, Pace, TimingProtocol
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

ALPHA = 0.002  # of a whole comparison: the chance that its interval misses the ratio
# Two copies of one kernel, loaded apart, came out up to 0.1 % apart in 400 comparisons on an H200
# (docs/timing.md): where code lies is no merit. Below this nothing is called faster.
MINIMAL_EFFECT = 0.003
FEWEST = 5  # samples that an interval is made of
_TRIMMED = 0.125  # of the samples at either end


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """A ratio of times with its interval; (nan, 0, inf) where samples are too few to say."""

    ratio: float
    low: float
    high: float


def interval(log_ratios: Sequence[float], *, alpha: float = ALPHA) -> RatioInterval:
    """The ratio of times and its two-sided interval, missed with probability alpha; none below 5 samples."""
    samples = np.sort(np.asarray(log_ratios, float))
    if len(samples) < FEWEST:
        return RatioInterval(math.nan, 0.0, math.inf)
    cut = int(_TRIMMED * len(samples))
    kept = samples[cut : len(samples) - cut]
    pulled_in = np.clip(samples, kept[0], kept[-1])
    error = math.sqrt(float(((pulled_in - pulled_in.mean()) ** 2).sum()) / (len(kept) * (len(kept) - 1)))
    middle, reach = float(kept.mean()), error * student(alpha, len(kept) - 1)
    return RatioInterval(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def scale(found: RatioInterval, *, by: float) -> RatioInterval:
    """The interval of a ratio as one of times, given the time that it is a ratio to."""
    return RatioInterval(by * found.ratio, by * found.low, by * found.high)


def answer_of(low: float, high: float, *, noise: float) -> str:
    """'faster', 'slower' or 'unclear' of the one whose time stands above the line."""
    if high < 1 - noise:
        return "faster"
    return "slower" if low > 1 + noise else "unclear"


def is_settled(found: RatioInterval, *, noise: float) -> bool:
    """Whether more samples would hardly change the answer: clear, or so narrow that it will not become so."""
    is_narrow = found.low > 1 - noise and found.high < 1 + noise
    return is_narrow or answer_of(found.low, found.high, noise=noise) != "unclear"


@lru_cache(maxsize=256)
def student(alpha: float, freedom: int) -> float:
    """What |t| exceeds with probability alpha, at that many degrees of freedom."""
    low, high = 0.0, -NormalDist().inv_cdf(alpha / 2)
    while _beyond(high, freedom) > alpha:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, freedom) > alpha else (low, middle)
    return high


def _beyond(t: float, freedom: int) -> float:
    """Probability that |t| is larger: the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    start = freedom % 2  # even: powers 0, 2, ...; odd: 1, 3, ...
    term, total = (cosine if start else 1.0), 0.0
    for power in range(start, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    inside = 2 / math.pi * (angle + sine * total) if start else sine * total
    return max(0.0, 1 - inside)


TURN_US = 400.0  # an event and the start of a graph cost some us: they dilute a ratio by 1 % at most
CALL_QUADS = 16


@dataclass(frozen=True, slots=True)
class QuadTimes:
    """Times in us a launch of both contenders, two each for every quad, and the GPU's state meanwhile."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    state: ClockState

    @property
    def log_ratio(self) -> float:
        """Of the first's time to the second's."""
        return float(np.mean(np.log(self.first)) - np.mean(np.log(self.second)))


class ContenderPair:
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
        order = bench.random_order(rng) if order is None else order
        sets = list(order) if protocol.rotate else [0]
        if protocol.pace is Pace.CALL:
            self._replays = [one_by_one(each, bench, sets) for each in (first, second)]
            self._launches, self._quads = 1, CALL_QUADS
            self.rough_ratio, self._limit_s = math.nan, REPLAY_LIMIT_S
        else:
            self._capture((first, second), sets)
        self._events = [cupy().cuda.Event() for _ in range(4 * self._quads + 1)]
        self._prepare()

    def _capture(self, contenders: tuple[Contender, Contender], sets: list[int]) -> None:
        self._replays = [warm_replay(each, self._bench, sets) for each in contenders]
        rounds_us = [time_replay(replay, self._bench) for replay in self._replays]
        self.rough_ratio, round_us = rounds_us[0] / rounds_us[1], max(rounds_us)
        rounds = turn_rounds(round_us)
        if rounds > 1:
            self._replays = [warm_replay(each, self._bench, sets * rounds) for each in contenders]
        self._launches, self._quads = rounds * len(sets), quads_of(rounds * round_us, block_us=self._block_us)
        self._limit_s = replay_limit_s((4 * self._quads + 2) * rounds * round_us)

    def _prepare(self) -> None:
        """Run for a while before the first block of the sustained state."""
        until = time.monotonic() + IDLE_S
        while self._protocol.pace is Pace.SUSTAINED and time.monotonic() < until:
            self.block()

    def block(self) -> QuadTimes:
        """Time one block. Raises as the constructor does."""
        if self._protocol.pace is Pace.BOOST:
            time.sleep(IDLE_S)
        stream, turns = self._bench.stream, quads(self._quads, rng=self._rng)
        for replay in self._replays:  # untimed: wakes the GPU, and the host gets ahead of it
            replay()
        if self._protocol.pace is Pace.CALL:
            wait(stream, limit_s=REPLAY_LIMIT_S)
            times = [time_replay(self._replays[which], self._bench) for which in turns]
            state = clock_state(self._bench.pci_bus_id)
        else:
            times, state = self._in_one_go(turns)
        first, second = (
            tuple(us for us, which in zip(times, turns, strict=True) if which == each) for each in (0, 1)
        )
        return QuadTimes(first, second, state)

    def _in_one_go(self, turns: list[int]) -> tuple[list[float], ClockState]:
        stream = self._bench.stream
        self._events[0].record(stream)
        for which, event in zip(turns, self._events[1:], strict=True):
            self._replays[which]()
            event.record(stream)
        state = clock_state(self._bench.pci_bus_id)  # while all of it runs
        wait(stream, limit_s=self._limit_s)
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


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two contenders timed in turns: first over second. Below 1 the first is faster."""

    first: str
    second: str
    workload: str
    protocol: str
    ratio: float  # of times, from pairs
    low: float  # the ratio's interval; see interval()
    high: float
    noise: float = MINIMAL_EFFECT  # relative; copies of one kernel, loaded apart, differ by as much
    n: int = 0  # pairs, or blocks of pairs
    confidence: float = 1 - ALPHA  # of the interval

    @property
    def answer(self) -> str:
        """'faster', 'slower' or 'unclear', said of the first; unclear never replaces an incumbent."""
        return answer_of(self.low, self.high, noise=self.noise)


OUTLASTED = 1.5  # times what was timed: the host's own latency is below


def compare(
    samples: Mapping[str, Sequence[float]],
    first: str,
    second: str,
    *,
    workload: str,
    protocol: str,
    noise: float = MINIMAL_EFFECT,
) -> PairedComparison:
    """The ratio of two contenders that were sampled in turns, with its interval.

    A round is a pair: what slowed one contender in a round slowed the other.
    """
    a, b = np.asarray(samples[first], float), np.asarray(samples[second], float)
    if len(a) != len(b) or not len(a):
        raise UsageError(f"{first} and {second} were not sampled in turns: compare samples of interleaved().")
    found = interval(np.log(a) - np.log(b))
    return PairedComparison(
        first, second, workload, protocol, found.ratio, found.low, found.high, noise, n=len(a)
    )


def unfinished_work(timing: Timing, synced_us: float) -> str:
    """Empty when a launch takes as long with a wait for the whole device behind it; else one line."""
    if synced_us <= OUTLASTED * timing.median_us:
        return ""
    return (
        f"{timing.median_us:.3f} us timed, {synced_us:.3f} us until the whole device is idle: work goes on "
        "after the end of what is timed"
    )


def beats_physics(timing: Timing, workload: Workload, spec: GpuSpec) -> str:
    """Empty when the time is possible; else one line: it is an error of the measurement, not a record."""
    floor_us = spec.floor_us(workload.flops, workload.bytes_moved)
    if timing.median_us >= floor_us:
        return ""
    return (
        f"{timing.median_us:.3f} us beats physics on {spec.name} ({floor_us:.3f} us for {workload}): the "
        "kernel did not do the work, or the GPU is not the one named"
    )


LOOKS = (5, 7, 10, 20, 40, 80, 160)  # blocks after which the answer may be given
LIMIT_S = 2.0  # everything counts: capturing, idling, running
PREFIX = "pairs-"  # of the protocol


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """A comparison, the two timings that its samples give, and the samples."""

    comparison: PairedComparison
    timings: tuple[Timing, Timing]
    blocks: tuple[QuadTimes, ...] = field(repr=False)
    took_s: float


def run_sequential_test(
    first: Contender,
    second: Contender,
    bench: Bench,
    protocol: TimingProtocol,
    *,
    rng: np.random.Generator,
    noise: float = MINIMAL_EFFECT,
    limit_s: float = LIMIT_S,
) -> SequentialTest:
    """Time the two in pairs. Raises launcher.KernelHungError or CuPy's errors, whichever caused them."""
    with alone():
        started = time.monotonic()
        pair, blocks = ContenderPair(first, second, bench, protocol, rng=rng), list[QuadTimes]()
        block_s = 0.0
        while not is_over(blocks, noise=noise, left_s=started + limit_s - time.monotonic() - block_s):
            began = time.monotonic()
            blocks.append(pair.block())
            block_s = time.monotonic() - began
    found = estimate(blocks)
    comparison = PairedComparison(
        first.name,
        second.name,
        str(bench.workload),
        PREFIX + protocol.name,
        found.ratio,
        found.low,
        found.high,
        noise,
        n=len(blocks),
    )
    timings = tuple(_timing(blocks, bench, protocol, which=which) for which in (0, 1))
    return SequentialTest(comparison, (timings[0], timings[1]), tuple(blocks), time.monotonic() - started)


def is_over(blocks: Sequence[QuadTimes], *, noise: float, left_s: float) -> bool:
    """Whether to stop: settled at a scheduled look, or out of time with enough for one look."""
    if len(blocks) < LOOKS[0]:
        return False
    if left_s < 0 or len(blocks) >= LOOKS[-1]:
        return True
    return len(blocks) in LOOKS and is_settled(estimate(blocks), noise=noise)


def estimate(blocks: Sequence[QuadTimes]) -> RatioInterval:
    """The ratio of the first's time to the second's, as it may be read at each of the looks."""
    return interval([block.log_ratio for block in blocks], alpha=ALPHA / len(LOOKS))


def _timing(blocks: Sequence[QuadTimes], bench: Bench, protocol: TimingProtocol, *, which: int) -> Timing:
    samples = [us for block in blocks for us in (block.first, block.second)[which]]
    state = combined_state([block.state for block in blocks])
    return summarise(samples, bench, protocol, state=state, prefix=PREFIX)
