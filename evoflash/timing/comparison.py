"""What times say: a pair timed in turns, a time that cannot be.

The clock itself is in benchmark.py. Nothing here replaces an incumbent; see search.py.
"""

import time
from collections.abc import Mapping, Sequence

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Timing
from evoflash.gpu import GpuSpec
from evoflash.operation import Workload
from evoflash.timing import intervals
from evoflash.timing.benchmark import Bench, Contender, capture, prepare, sample, state_while, summarise
from evoflash.timing.clocks import ClockState, over
from evoflash.timing.pair import Comparison
from evoflash.timing.protocols import StoppingRule, TimingProtocol, enough

OUTLASTED = 1.5  # times what was timed: the host's own latency is below


def interleaved(
    contenders: Sequence[Contender],
    bench: Bench,
    protocol: TimingProtocol,
    *,
    rule: StoppingRule,
    rng: np.random.Generator,
) -> tuple[dict[str, list[float]], dict[str, Timing]]:
    """Samples in us of each contender, taken in turns in an order drawn anew for each round, and its timing.

    Raises launcher.KernelHungError or CuPy's errors, whichever contender caused them.
    """
    graphs = {contender.name: capture(contender, bench, protocol) for contender in contenders}
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    states: dict[str, list[ClockState]] = {name: [] for name in graphs}
    names, started = list(graphs), time.monotonic()
    if names:
        prepare(graphs[names[0]][0], bench, protocol)
    # Effort counts per contender: more of them take more time, not fewer samples.
    while not all(
        enough(x, rule, elapsed_s=(time.monotonic() - started) / len(names)) for x in samples.values()
    ):
        for name in rng.permutation(names):
            replay, launches = graphs[name]
            samples[name].append(sample(replay, bench, protocol, launches=launches, states=states[name]))
    timings = {
        name: summarise(
            samples[name],
            bench,
            protocol,
            state=over([*states[name], state_while(replay, bench)]),
            prefix="final-",
        )
        for name, (replay, _) in graphs.items()
    }
    return samples, timings


def compare(
    samples: Mapping[str, Sequence[float]],
    first: str,
    second: str,
    *,
    workload: str,
    protocol: str,
    noise: float = intervals.MINIMAL_EFFECT,
) -> Comparison:
    """The ratio of two contenders that were sampled in turns, with its interval.

    A round is a pair: what slowed one contender in a round slowed the other.
    """
    a, b = np.asarray(samples[first], float), np.asarray(samples[second], float)
    if len(a) != len(b) or not len(a):
        raise UsageError(f"{first} and {second} were not sampled in turns: compare samples of interleaved().")
    found = intervals.interval(np.log(a) - np.log(b))
    return Comparison(first, second, workload, protocol, found.ratio, found.low, found.high, noise, n=len(a))


def left_running(timing: Timing, synced_us: float) -> str:
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
