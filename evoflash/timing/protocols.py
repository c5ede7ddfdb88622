"""How a workload is timed, for how long, and when to stop; runs nothing. docs/timing.md has the reasons.

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

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evoflash.gpu import GpuSpec
from evoflash.operation import Workload
from evoflash.operations import operation_of

# A good kernel reaches half of the floor's rate: from a floor of 50 us on it runs for 0.1 ms or more.
LONG_FLOOR_US = 50.0
WINDOW_US = 1e4
IDLE_S = 0.25
MIN_LAUNCHES = 20
MAX_SETS = 512


class Pace(StrEnum):
    """What the GPU does between samples."""

    STEADY = "steady"  # short kernels: an untimed replay just before each sample hides the launch latency
    BOOST = "boost"
    SUSTAINED = "sustained"
    CALL = "call"  # no graph: eager calls, one at a time


@dataclass(frozen=True, slots=True)
class Way:
    """One way of timing: its name in the database, where inputs come from, what happens between samples."""

    protocol: str
    rotate: bool
    pace: Pace


@dataclass(frozen=True, slots=True)
class Effort:
    """When to stop: at `rel_error` (standard error of the median over it), else at max_samples or max_s."""

    min_samples: int
    max_samples: int
    rel_error: float
    max_s: float


SHORT = Effort(min_samples=3, max_samples=3, rel_error=1.0, max_s=3.0)
FULL = Effort(min_samples=10, max_samples=60, rel_error=2e-3, max_s=4.0)
# A boost sample costs a quarter of a second of idling, and repeats within 0.3 %.
ONE = Effort(min_samples=1, max_samples=1, rel_error=1.0, max_s=3.0)
FULL_BOOST = Effort(min_samples=3, max_samples=6, rel_error=2e-3, max_s=3.0)
FINAL = Effort(min_samples=20, max_samples=120, rel_error=5e-4, max_s=6.0)
CALL = Way("call", True, Pace.CALL)
CALLS = Effort(min_samples=100, max_samples=400, rel_error=5e-3, max_s=0.5)  # a sample takes some 50 us


def ways_of(workload: Workload, spec: GpuSpec) -> tuple[Way, ...]:
    """How this workload is timed on that GPU; the first way is what candidates are ranked by."""
    if spec.floor_us(workload.flops, workload.bytes_moved) < LONG_FLOOR_US:
        return Way("cold", True, Pace.STEADY), Way("hot", False, Pace.STEADY)
    return Way("cold-boost", True, Pace.BOOST), Way("cold-sustained", True, Pace.SUSTAINED)


def efforts_of(ways: Sequence[Way]) -> tuple[tuple[Way, Effort], ...]:
    """How a search times each candidate: short workloads in every way, long ones in the ranked one only."""
    if ways[0].pace is Pace.BOOST:
        return ((ways[0], FULL_BOOST),)
    return tuple((way, FULL) for way in ways)


def finals_of(ways: Sequence[Way]) -> tuple[tuple[Way, Effort], ...]:
    """How finalists are timed: in every way, short workloads also call by call."""
    timed = tuple((way, FINAL) for way in ways)
    return (*timed, (CALL, CALLS)) if ways[0].pace is Pace.STEADY else timed


def sets_of(workload: Workload, l2_bytes: int) -> int:
    """How many copies of the inputs hold at least twice the L2; at most 512."""
    tensors = operation_of(workload).tensors(workload)
    set_bytes = sum(spec.size_bytes for spec in tensors if spec.role == "input")
    return min(MAX_SETS, -(-2 * l2_bytes // set_bytes))


def launches_of(way: Way, *, sets: int, one_us: float) -> int:
    """Launches in a replay: at least 20 where launches are short, about 10 ms of them where they are long;
    always whole rounds through the sets.
    """
    wanted = MIN_LAUNCHES if way.pace is Pace.STEADY else round(WINDOW_US / one_us)
    return max(1, -(-wanted // sets)) * sets


def enough(samples: Sequence[float], effort: Effort, *, elapsed_s: float) -> bool:
    """Whether to stop sampling."""
    if len(samples) < effort.min_samples:
        return False
    if len(samples) >= effort.max_samples or elapsed_s > effort.max_s:
        return True
    return median_error(samples) <= effort.rel_error


def median_error(samples: Sequence[float]) -> float:
    """The median's relative standard error, from the quartiles: a few outliers do not move it."""
    low, middle, high = np.percentile(samples, [25, 50, 75])
    spread = (high - low) / 1.349  # a normal's standard deviation
    return float(1.2533 * spread / np.sqrt(len(samples)) / middle)
