"""Times a kernel by its ratio to another one whose time is known; decides nothing, rungs.py does.

Both run in blocks of A B B A (abba.py): whatever clock the GPU is at, and whatever else the machine does,
both have it. The kernel's time is the ratio times the known time of the other, so kernels that were timed
beside the same one compare at once, and no sample has to wait until the GPU has idled. All of them walk
through the bench's input sets in one order, so that the known one is captured once.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.cuda.sharing import alone
from evoflash.evaluation import Timing, score
from evoflash.timing import clocks
from evoflash.timing.abba import Block, Pair
from evoflash.timing.benchmark import Bench, Contender, summarise
from evoflash.timing.intervals import Interval, interval, scaled
from evoflash.timing.protocols import SCREENED, Effort, TimingProtocol


@dataclass(frozen=True, slots=True)
class Beside:
    """A kernel and the known one on one workload, and the known one's time in us."""

    contender: Contender
    known: Contender
    known_us: float
    bench: Bench


@dataclass(frozen=True, slots=True)
class RelativeTime:
    """The score in us with its interval, and a timing for each workload."""

    score_us: Interval
    timings: tuple[Timing, ...]
    known_us: float  # what the known ones took meanwhile, as a score; nan where it was a single replay


def relative_time(
    sides: Sequence[Beside],
    *,
    protocol: TimingProtocol = SCREENED,
    effort: Effort,
    is_clear: Callable[[Interval], bool],
    is_far: Callable[[float], bool] = lambda _: False,
    rng: np.random.Generator,
) -> RelativeTime:
    """Time blocks, one on each workload in turns, until the score's interval says enough at one of the looks.
    Where `is_far` says so of a single replay's score, that is all: its interval is unknown.

    Raises launcher.KernelHungError or CuPy's errors, whichever contender caused them.
    """
    with alone():
        return _relative_time(sides, protocol, effort, is_clear, is_far, rng)


def _relative_time(
    sides: Sequence[Beside],
    protocol: TimingProtocol,
    effort: Effort,
    is_clear: Callable[[Interval], bool],
    is_far: Callable[[float], bool],
    rng: np.random.Generator,
) -> RelativeTime:
    pairs = [
        Pair(
            each.contender,
            each.known,
            each.bench,
            protocol,
            rng=rng,
            block_us=effort.block_us,
            order=each.bench.walk,
        )
        for each in sides
    ]
    known_us = score([each.known_us for each in sides])
    rough_us = known_us * score([pair.rough_ratio for pair in pairs])
    if is_far(rough_us):
        single = tuple(_single(pair, side, protocol) for pair, side in zip(pairs, sides, strict=True))
        return RelativeTime(Interval(rough_us, 0.0, math.inf), single, math.nan)
    rounds, started = list[list[Block]](), time.monotonic()
    while True:
        rounds.append([pair.block() for pair in pairs])
        is_last = len(rounds) >= effort.looks[-1] or time.monotonic() - started > effort.max_s
        if len(rounds) in effort.looks or (is_last and len(rounds) > effort.looks[0]):
            found = scaled(_ratio(rounds, effort), by=known_us)
            if is_last or is_clear(found):
                break
    timings = tuple(_timing([each[at] for each in rounds], side, protocol) for at, side in enumerate(sides))
    here_us = score([_known_us([each[at] for each in rounds]) for at in range(len(sides))])
    return RelativeTime(found, timings, here_us)


def _known_us(blocks: Sequence[Block]) -> float:
    return float(np.median([us for block in blocks for us in block.second]))


def _ratio(rounds: Sequence[Sequence[Block]], effort: Effort) -> Interval:
    """Of the scores, which are geometric means over the workloads."""
    logs = [float(np.mean([block.log_ratio for block in blocks])) for blocks in rounds]
    return interval(logs, alpha=effort.alpha / len(effort.looks))


def _single(pair: Pair, side: Beside, protocol: TimingProtocol) -> Timing:
    us = side.known_us * pair.rough_ratio
    return Timing(str(side.bench.workload), protocol.name, us, us, us, n=1)


def _timing(blocks: Sequence[Block], side: Beside, protocol: TimingProtocol) -> Timing:
    """The kernel's samples, each as a ratio to the known one's beside it, times the known time."""
    samples = [
        side.known_us * ours / theirs
        for block in blocks
        for ours, theirs in zip(block.first, block.second, strict=True)
    ]
    state = clocks.over([block.state for block in blocks])
    return summarise(samples, side.bench, protocol, state=state)
