"""Two contenders timed in pairs until one is clearly faster, neither can be, or the time is up.

The clock is in abba.py, the statistics in intervals.py; here is when to look and when to stop.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evoflash.evaluation import Timing
from evoflash.timing import clocks
from evoflash.timing.abba import Block, Pair
from evoflash.timing.benchmark import Bench, Contender, summarise
from evoflash.timing.intervals import ALPHA, MINIMAL_EFFECT, Interval, interval, is_settled
from evoflash.timing.pair import Comparison
from evoflash.timing.protocols import TimingProtocol

LOOKS = (5, 7, 10, 20, 40, 80, 160)  # blocks after which the answer may be given
LIMIT_S = 2.0  # everything counts: capturing, idling, running
PREFIX = "pairs-"  # of the protocol


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """A comparison, the two timings that its samples give, and the samples."""

    comparison: Comparison
    timings: tuple[Timing, Timing]
    blocks: tuple[Block, ...] = field(repr=False)
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
    started = time.monotonic()
    pair, blocks = Pair(first, second, bench, protocol, rng=rng), list[Block]()
    block_s = 0.0
    while not is_over(blocks, noise=noise, left_s=started + limit_s - time.monotonic() - block_s):
        began = time.monotonic()
        blocks.append(pair.block())
        block_s = time.monotonic() - began
    found = estimate(blocks)
    comparison = Comparison(
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


def is_over(blocks: Sequence[Block], *, noise: float, left_s: float) -> bool:
    """Whether to stop: settled at a scheduled look, or out of time with enough for one look."""
    if len(blocks) < LOOKS[0]:
        return False
    if left_s < 0 or len(blocks) >= LOOKS[-1]:
        return True
    return len(blocks) in LOOKS and is_settled(estimate(blocks), noise=noise)


def estimate(blocks: Sequence[Block]) -> Interval:
    """The ratio of the first's time to the second's, as it may be read at each of the looks."""
    return interval([block.log_ratio for block in blocks], alpha=ALPHA / len(LOOKS))


def _timing(blocks: Sequence[Block], bench: Bench, protocol: TimingProtocol, *, which: int) -> Timing:
    samples = [us for block in blocks for us in (block.first, block.second)[which]]
    state = clocks.over([block.state for block in blocks])
    return summarise(samples, bench, protocol, state=state, prefix=PREFIX)
