"""How a workload is timed, for how long, and when to stop. Runs nothing; docs/timing.md has the reasons.

A sample is one replay of a CUDA graph of `k` launches between two events, over k. Where the inputs come from:

    cold   the launches walk through copies of the inputs that together fill the L2 at least twice
    hot    every launch reads the same inputs

Beside these amortised times there is one that is not:

    call   one eager call on an idle stream between two events, cold: the host's cost is in it

From about 0.1 ms a launch on, a large GPU flips between its boost clock and its power cap, so long workloads
are timed in two stated states, both cold (their inputs do not stay in the L2 in any case):

    boost       windows of about 10 ms, each after 0.25 s of idling
    sustained   windows of about 10 ms, back to back, after 0.25 s of running

Which of the two a workload gets depends on it and on the GPU alone, so that all its times compare.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evoflash.operation import operation_of
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

# A good kernel reaches half of the floor's rate: from a floor of 50 us on it runs for 0.1 ms or more.
LONG_FLOOR_US = 50.0
WINDOW_US = 1e4
IDLE_S = 0.25
MIN_LAUNCHES = 20
SYNCED_US = 4e3  # of launches, beside which some 0.1 ms of the host's does not count
MAX_SETS = 512


class Pace(StrEnum):
    """What the GPU does between samples."""

    STEADY = "steady"  # short kernels: an untimed replay just before each sample hides the launch latency
    BOOST = "boost"
    SUSTAINED = "sustained"
    CALL = "call"  # no graph: eager calls, one at a time


@dataclass(frozen=True, slots=True)
class TimingProtocol:
    """How to time: the name in the database, where inputs come from, what happens between samples."""

    name: str
    rotate: bool
    pace: Pace


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When to stop: at `rel_error` (the median's standard error over it), else at max_samples or max_s."""

    min_samples: int
    max_samples: int
    rel_error: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a kernel is timed beside another: blocks of about `block_us`, looked at after so many."""

    block_us: float
    looks: tuple[int, ...]
    max_s: float  # for all blocks, once the first look is over
    alpha: float  # the chance that the interval of any of the looks misses the ratio


SHORT = StoppingRule(min_samples=3, max_samples=3, rel_error=1.0, max_s=3.0)
FULL = StoppingRule(min_samples=10, max_samples=60, rel_error=2e-3, max_s=4.0)
# A boost sample costs a quarter of a second of idling, and repeats within 0.3 %.
FULL_BOOST = StoppingRule(min_samples=3, max_samples=6, rel_error=2e-3, max_s=3.0)
FINAL = StoppingRule(min_samples=20, max_samples=120, rel_error=5e-4, max_s=6.0)
# At its power cap the clock itself wanders by some per cent: more samples would not make a median better.
FINAL_SUSTAINED = StoppingRule(min_samples=20, max_samples=40, rel_error=1e-3, max_s=2.0)
FINAL_BOOST = StoppingRule(min_samples=8, max_samples=24, rel_error=1e-3, max_s=2.2)
# Beside a kernel whose time is known (relative.py): a first short timing, and a long workload's full one.
SCREENED = TimingProtocol("screen", True, Pace.STEADY)
RELATIVE = TimingProtocol("cold-relative", True, Pace.STEADY)
SCREEN_EFFORT = Effort(block_us=2e3, looks=(5, 10, 20), max_s=0.5, alpha=0.02)
RELATIVE_EFFORT = Effort(block_us=WINDOW_US / 2, looks=(6, 12, 24), max_s=1.0, alpha=0.02)
CALL = TimingProtocol("call", True, Pace.CALL)
CALLS = StoppingRule(min_samples=100, max_samples=400, rel_error=5e-3, max_s=0.5)  # a sample takes some 50 us


def protocols_of(workload: Workload, spec: GpuSpec) -> tuple[TimingProtocol, ...]:
    """How this workload is timed on that GPU; candidates are ranked by the first protocol."""
    if spec.floor_us(workload.flops, workload.bytes_moved) < LONG_FLOOR_US:
        return TimingProtocol("cold", True, Pace.STEADY), TimingProtocol("hot", False, Pace.STEADY)
    return TimingProtocol("cold-boost", True, Pace.BOOST), TimingProtocol(
        "cold-sustained", True, Pace.SUSTAINED
    )


def rules_of(protocols: Sequence[TimingProtocol]) -> tuple[tuple[TimingProtocol, StoppingRule], ...]:
    """How a search times each candidate: under every protocol; long workloads under the ranked one only."""
    if protocols[0].pace is Pace.BOOST:
        return ((protocols[0], FULL_BOOST),)
    return tuple((protocol, FULL) for protocol in protocols)


def finals_of(protocols: Sequence[TimingProtocol]) -> tuple[tuple[TimingProtocol, StoppingRule], ...]:
    """How finalists are timed: under every protocol, short workloads also call by call."""
    rules = {Pace.BOOST: FINAL_BOOST, Pace.SUSTAINED: FINAL_SUSTAINED}
    timed = tuple((protocol, rules.get(protocol.pace, FINAL)) for protocol in protocols)
    return (*timed, (CALL, CALLS)) if protocols[0].pace is Pace.STEADY else timed


def sets_of(workload: Workload, l2_bytes: int) -> int:
    """How many copies of the inputs hold at least twice the L2; at most 512."""
    tensors = operation_of(workload).tensors(workload)
    set_bytes = sum(spec.size_bytes for spec in tensors if spec.role == "input")
    return min(MAX_SETS, -(-2 * l2_bytes // set_bytes))


def launches_of(protocol: TimingProtocol, *, sets: int, one_us: float) -> int:
    """Launches in a replay: at least 20 where launches are short, about 10 ms of them where they are long;
    always whole rounds through the sets.
    """
    wanted = MIN_LAUNCHES if protocol.pace is Pace.STEADY else round(WINDOW_US / one_us)
    return max(1, -(-wanted // sets)) * sets


def rounds_synced(replay_us: float) -> int:
    """How often a replay's launches are made in a row where the host's latency is timed with them."""
    return max(1, math.ceil(SYNCED_US / replay_us))


def enough(samples: Sequence[float], rule: StoppingRule, *, elapsed_s: float) -> bool:
    if len(samples) < rule.min_samples:
        return False
    if len(samples) >= rule.max_samples or elapsed_s > rule.max_s:
        return True
    return median_error(samples) <= rule.rel_error


def median_error(samples: Sequence[float]) -> float:
    """The median's relative standard error, from the quartiles: a few outliers do not move it."""
    low, middle, high = np.percentile(samples, [25, 50, 75])
    spread = (high - low) / 1.349  # a normal's standard deviation
    return float(1.2533 * spread / np.sqrt(len(samples)) / middle)
