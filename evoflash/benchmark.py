"""Times a kernel, or a library's, on one workload: the same code for both.

Judges no output, and compares no times: comparison.py does.

A sample is one replay of a CUDA graph of `k` launches between two events, over k. Where the inputs come from:
    cold   the launches walk through copies of the inputs that together fill the L2 at least twice
    hot    every launch reads the same inputs
From about 0.1 ms a launch on, a large GPU flips between its boost clock and its power cap, so long workloads
are timed in two stated states, both cold (their inputs do not stay in the L2 in any case):
    boost       windows of about 10 ms, each after 0.25 s of idling
    sustained   windows of about 10 ms, back to back, after 0.25 s of running
Which of the two a workload gets depends on it and on the GPU alone, so that all its times compare.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from evoflash import launcher
from evoflash.clocks import clock_state
from evoflash.evaluation import Timing
from evoflash.gpu import GpuSpec
from evoflash.launcher import LoadedKernel, Stopwatch, wait
from evoflash.memory import Arena
from evoflash.problem import Workload
from evoflash.reference import encode
from evoflash.trials import Trial

# A good kernel reaches half of the floor's rate: from a floor of 50 us on it runs for 0.1 ms or more.
LONG_FLOOR_US = 50.0
WINDOW_US = 1e4
IDLE_S = 0.25
MIN_LAUNCHES = 20
MAX_SETS = 512
REPLAY_LIMIT_S = 30.0
_GUARD_BYTES = 4096  # there are hundreds of sets


class Pace(StrEnum):
    """What the GPU does between samples."""

    STEADY = "steady"  # short kernels: an untimed replay just before each sample hides the launch latency
    BOOST = "boost"
    SUSTAINED = "sustained"


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


class Contender(Protocol):
    """Something that can be timed."""

    @property
    def name(self) -> str:
        """Its name in reports."""
        ...

    def graph(self, bench: "Bench", order: Sequence[int]) -> Callable[[], None]:
        """Capture one launch for each entry of `order`, a number of an input set; the result enqueues a
        replay on the bench's stream.
        """
        ...


@dataclass(frozen=True, slots=True)
class KernelContender:
    """A candidate; it writes the LSE while it is timed, as the baselines do."""

    name: str
    kernel: LoadedKernel

    def graph(self, bench: "Bench", order: Sequence[int]) -> Callable[[], None]:
        """See Contender."""
        scratch = self.kernel.workspace_bytes
        arguments = [arena.arguments(want_lse=True, workspace_bytes=scratch) for arena in bench.arenas]
        with bench.stream:
            bench.stream.begin_capture()
            try:
                for at in order:
                    self.kernel.enqueue(arguments[at])
            finally:
                graph = bench.stream.end_capture()
        graph.upload(bench.stream)
        return lambda: graph.launch(bench.stream)


class Bench:
    """The input sets of one workload on the GPU, and the stream on which everything is timed."""

    def __init__(self, workload: Workload, *, spec: GpuSpec, seed: int) -> None:
        gpu = launcher.present_gpu()
        rng = np.random.default_rng(seed)
        self.workload = workload
        self.ways = ways_of(workload, spec)
        self.stream = launcher.new_stream()
        self.pci_bus_id = gpu.pci_bus_id
        trials = _windows(workload, sets=sets_of(workload, gpu.l2_bytes), rng=rng)
        self.arenas = [Arena(workload, rng=rng, guard_bytes=_GUARD_BYTES) for _ in trials]
        for arena, trial in zip(self.arenas, trials, strict=True):
            arena.load(trial)

    def order(self, way: Way, *, launches: int) -> list[int]:
        """Input sets in launch order, each as often as any other."""
        return [at % len(self.arenas) if way.rotate else 0 for at in range(launches)]


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


def sets_of(workload: Workload, l2_bytes: int) -> int:
    """How many copies of Q, K, V hold at least twice the L2; at most 512."""
    rows = workload.heads * workload.seq_q + 2 * workload.kv_heads * workload.seq_kv
    return min(MAX_SETS, -(-2 * l2_bytes // (2 * workload.batch * rows * workload.head_dim)))


def _windows(workload: Workload, *, sets: int, rng: np.random.Generator) -> list[Trial]:
    # Overlapping windows of one pool of normal numbers: every set differs, and zeros would run too fast.
    w, step = workload, 4096 + 8
    query, key = (w.batch, w.heads, w.seq_q, w.head_dim), (w.batch, w.kv_heads, w.seq_kv, w.head_dim)

    def pool(shape: tuple[int, ...]) -> list[Any]:
        size = int(np.prod(shape))
        bits = encode(rng.standard_normal(size + sets * step, dtype=np.float32), w.dtype)
        return [bits[at * step : at * step + size].reshape(shape) for at in range(sets)]

    return [Trial("normal", q, k, v) for q, k, v in zip(pool(query), pool(key), pool(key), strict=True)]


def measure(
    contender: Contender, bench: Bench, way: Way, *, effort: Effort, prefix: str = ""
) -> tuple[Timing, list[float]]:
    """The timing and its samples in us. Raises launcher.KernelHungError or CuPy's errors."""
    replay, launches = capture(contender, bench, way)
    samples: list[float] = []
    started = time.monotonic()
    prepare(replay, bench, way)
    while not enough(samples, effort, elapsed_s=time.monotonic() - started):
        samples.append(sample(replay, bench, way, launches=launches))
    return summarise(samples, bench, way, state=state_while(replay, bench), prefix=prefix), samples


def capture(contender: Contender, bench: Bench, way: Way) -> tuple[Callable[[], None], int]:
    """A replay that is long enough to time, warmed up once, and the number of launches in it."""
    sets = len(bench.arenas) if way.rotate else 1
    probe = contender.graph(bench, bench.order(way, launches=sets))
    probe()
    wait(bench.stream, limit_s=REPLAY_LIMIT_S)  # the first replay pays for loading
    one_us = _timed_us(probe, bench) / sets
    launches = launches_of(way, sets=sets, one_us=one_us)
    if launches == sets:
        return probe, sets
    replay = contender.graph(bench, bench.order(way, launches=launches))
    replay()
    wait(bench.stream, limit_s=REPLAY_LIMIT_S)
    return replay, launches


def launches_of(way: Way, *, sets: int, one_us: float) -> int:
    """Launches in a replay: at least 20 where launches are short, about 10 ms of them where they are long;
    always whole rounds through the sets.
    """
    wanted = MIN_LAUNCHES if way.pace is Pace.STEADY else round(WINDOW_US / one_us)
    return max(1, -(-wanted // sets)) * sets


def prepare(replay: Callable[[], None], bench: Bench, way: Way) -> None:
    """Bring the GPU into the state that the way asks for before its first sample."""
    if way.pace is not Pace.SUSTAINED:
        return
    until = time.monotonic() + IDLE_S
    while time.monotonic() < until:
        replay()
        wait(bench.stream, limit_s=REPLAY_LIMIT_S)


def sample(replay: Callable[[], None], bench: Bench, way: Way, *, launches: int) -> float:
    """One sample, in us per launch."""
    if way.pace is Pace.BOOST:
        time.sleep(IDLE_S)
    if way.pace is Pace.STEADY:
        replay()
    return _timed_us(replay, bench) / launches


def _timed_us(replay: Callable[[], None], bench: Bench) -> float:
    stopwatch = Stopwatch(bench.stream)
    replay()
    return stopwatch.stop(limit_s=REPLAY_LIMIT_S)


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


def state_while(replay: Callable[[], None], bench: Bench) -> tuple[int | None, str]:
    """SM clock in MHz and throttle reasons while the contender runs: both change as soon as it stops."""
    clock_state(bench.pci_bus_id)  # the first call opens NVML
    for _ in range(3):
        replay()
    state = clock_state(bench.pci_bus_id)
    wait(bench.stream, limit_s=REPLAY_LIMIT_S)
    return state


def summarise(
    samples: Sequence[float], bench: Bench, way: Way, *, state: tuple[int | None, str], prefix: str = ""
) -> Timing:
    """Samples in us as a Timing under `prefix` + the way's protocol."""
    p10, median, p90 = (float(x) for x in np.percentile(samples, [10, 50, 90]))
    return Timing(
        workload=str(bench.workload),
        protocol=prefix + way.protocol,
        median_us=median,
        p10_us=p10,
        p90_us=p90,
        n=len(samples),
        sm_clock_mhz=state[0],
        throttle=state[1],
    )
