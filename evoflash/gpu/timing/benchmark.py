"""Measures one contender, a kernel or a library's, on one workload: its time, the GPU's state meanwhile, and
the energy that a call takes. Judges no output, compares no times, sets no clock.

The code is the same for all contenders; paired.py compares them. How a workload is timed, and for how long,
is in protocols.py. State and energy are read by NVML; nothing depends on them: where NVML is missing, these
figures are absent.
"""

import itertools
import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from evoflash.evaluation import Timing
from evoflash.gpu import launcher
from evoflash.gpu.arena import Arena
from evoflash.gpu.launcher import KernelHungError, LoadedKernel, Stopwatch, alone, settle, wait
from evoflash.gpu.timing.protocols import (
    IDLE_S,
    Pace,
    StoppingRule,
    TimingProtocol,
    enough,
    launches_of,
    protocols_of,
    rounds_synced,
    sets_of,
)
from evoflash.operation import operation_of
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

T = TypeVar("T")
ClockState = tuple[int | None, str]  # SM clock in MHz, throttle reasons in words

# NVML's clocks event reasons. An idle GPU (0x001) is not throttled.
_THROTTLE_BITS = {
    0x002: "applications clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal",
    0x040: "hardware thermal",
    0x080: "power brake",
    0x100: "display clocks",
}
_IDLE = 0x001


def clock_state(pci_bus_id: str) -> ClockState:
    """SM clock in MHz and the throttle reasons now, by NVML; (None, "") where NVML does not answer."""
    try:
        nvml, device = _device(pci_bus_id)
        clock_mhz = int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM))
        reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))
    except Exception:  # no NVML, no permission, a virtual GPU: the time stands, its circumstances are unknown
        return None, ""
    return clock_mhz, throttle_words(reasons)


def energy_counter_mj(pci_bus_id: str) -> int | None:
    """What the whole board has taken since its driver was loaded, in mJ; None where NVML does not say."""
    try:
        nvml, device = _device(pci_bus_id)
        return int(nvml.nvmlDeviceGetTotalEnergyConsumption(device))
    except Exception:  # no NVML, a GPU before Volta, a virtual GPU
        return None


def gpu_uuid(pci_bus_id: str) -> str:
    """The GPU's UUID as nvidia-smi has it; else, without NVML, this machine's name and the GPU's place."""
    try:
        nvml, device = _device(pci_bus_id)
        return str(nvml.nvmlDeviceGetUUID(device))
    except Exception:  # as above
        return f"{platform.node()} {pci_bus_id}"


@lru_cache(maxsize=4)
def _device(pci_bus_id: str) -> tuple[Any, Any]:
    import pynvml

    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)


def throttle_words(reasons: int) -> str:
    """NVML's bits as words; a bit that this list does not know as its number."""
    words = [word for bit, word in _THROTTLE_BITS.items() if reasons & bit]
    unknown = reasons & ~(_IDLE | sum(_THROTTLE_BITS))
    return ", ".join([*words, f"{unknown:#x}"] if unknown else words)


def combined_state(states: Sequence[ClockState]) -> ClockState:
    """The median clock of several moments, every throttle reason, and the clocks' range where they differ."""
    clocks = sorted(clock for clock, _ in states if clock is not None)
    reasons = list(dict.fromkeys(word for _, words in states for word in words.split(", ") if word))
    if not clocks:
        return None, ", ".join(reasons)
    if clocks[0] != clocks[-1]:
        reasons.append(f"clock {clocks[0]}-{clocks[-1]} MHz")
    return clocks[len(clocks) // 2], ", ".join(reasons)


REPLAY_LIMIT_S = 30.0
# Of a replay whose time is known: so many times that, and so long at least.
_HANGS_FROM, _LEAST_LIMIT_S = 100.0, 5.0


class Contender(Protocol):
    """Something that can be timed."""

    @property
    def name(self) -> str: ...

    def graph(self, bench: "Bench", order: Sequence[int]) -> Callable[[], None]:
        """Capture one launch for each entry of `order`, a number of an input set; the result enqueues a
        replay on the bench's stream.
        """
        ...


@runtime_checkable
class Caller(Protocol):
    """A contender that can also be called the way a user's program calls it."""

    def calls(self, bench: "Bench") -> Callable[[int], None]:
        """A function that enqueues one eager call on the bench's stream, on the input set of that number."""
        ...


@dataclass(frozen=True, slots=True)
class KernelContender:
    """A candidate; it writes all outputs while it is timed, as the baselines do."""

    name: str
    kernel: LoadedKernel
    _graphs: dict[tuple["Bench", tuple[int, ...]], Callable[[], None]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def graph(self, bench: "Bench", order: Sequence[int]) -> Callable[[], None]:
        """See Contender. Captured once and kept: what is judged after timing is the graph that was timed."""
        key = bench, tuple(order)
        if key not in self._graphs:
            self._graphs[key] = self.graph_after(bench, order, lambda at: None)
        return self._graphs[key]

    def orders(self, bench: "Bench") -> list[tuple[int, ...]]:
        """Of all graphs that were captured on the bench, and so may have been timed."""
        return [order for on, order in self._graphs if on is bench]

    def graph_after(
        self, bench: "Bench", order: Sequence[int], prepare: Callable[[int], None]
    ) -> Callable[[], None]:
        """As graph(), made anew; before each launch stands what `prepare` enqueues for the number of its
        input set.
        """
        arguments = [arena.packed_arguments(self.kernel) for arena in bench.arenas]

        def enqueue() -> None:
            for at in order:
                prepare(at)
                self.kernel.enqueue_packed(arguments[at])

        return bench.graph_of(enqueue)

    def calls(self, bench: "Bench") -> Callable[[int], None]:
        arguments = [arena.arguments(self.kernel) for arena in bench.arenas]

        def call(at: int) -> None:
            with bench.stream:
                self.kernel.enqueue(arguments[at])

        return call


class Bench:
    """The input sets of one workload on the GPU, and the stream on which everything is timed."""

    def __init__(self, workload: Workload, *, spec: GpuSpec, seed: int) -> None:
        gpu = launcher.present_gpu()
        rng = np.random.default_rng(seed)
        self.workload = workload
        self.protocols = protocols_of(workload, spec)
        self.stream = launcher.new_stream()
        self.pci_bus_id = gpu.pci_bus_id
        clock_state(self.pci_bus_id)  # the first call opens NVML: 50 ms
        sets = operation_of(workload).timed_inputs(workload, sets=sets_of(workload, gpu.l2_bytes), rng=rng)
        self.arenas = [Arena(workload, rng=rng) for _ in sets]
        for arena, inputs in zip(self.arenas, sets, strict=True):
            arena.load(inputs)
        self.walk = self.random_order(np.random.default_rng())

    def graph_of(self, enqueue: Callable[[], None]) -> Callable[[], None]:
        """What it enqueues on the current stream as a graph; the result enqueues a replay on the stream."""
        with self.stream:
            self.stream.begin_capture()
            try:
                enqueue()
            finally:
                graph = self.stream.end_capture()
        graph.upload(self.stream)
        return lambda: graph.launch(self.stream)

    def random_order(self, rng: np.random.Generator) -> list[int]:
        """All input sets, in an order of chance; `walk` is one for as long as the bench lives."""
        return [int(at) for at in rng.permutation(len(self.arenas))]

    def order(self, protocol: TimingProtocol, *, launches: int) -> list[int]:
        """Input sets in launch order, each as often as any other."""
        return [at % len(self.arenas) if protocol.rotate else 0 for at in range(launches)]


def measure(
    contender: Contender, bench: Bench, protocol: TimingProtocol, *, rule: StoppingRule
) -> tuple[Timing, list[float]]:
    """The timing and its samples in us. Raises launcher.KernelHungError or CuPy's errors."""
    rng, name = np.random.default_rng(), contender.name
    samples, timings = time_interleaved([contender], bench, protocol, rule=rule, rng=rng, prefix="")
    return timings[name], samples[name]


def time_interleaved(
    contenders: Sequence[Contender],
    bench: Bench,
    protocol: TimingProtocol,
    *,
    rule: StoppingRule,
    rng: np.random.Generator,
    prefix: str = "final-",
) -> tuple[dict[str, list[float]], dict[str, Timing]]:
    """Samples in us of each contender, taken in turns in an order drawn anew for each round, and its timing
    under `prefix` + the protocol's name.

    Raises launcher.KernelHungError, which names the contender, or CuPy's errors, whichever caused them.
    """
    with alone():
        graphs = {each.name: _with_blame(each.name, capture, each, bench, protocol) for each in contenders}
        samples: dict[str, list[float]] = {name: [] for name in graphs}
        states: dict[str, list[ClockState]] = {name: [] for name in graphs}
        names, started = list(graphs), time.monotonic()
        if names:
            _with_blame(names[0], prepare, graphs[names[0]][0], bench, protocol)
        # Effort counts per contender: more of them take more time, not fewer samples.
        while not all(
            enough(x, rule, elapsed_s=(time.monotonic() - started) / len(names)) for x in samples.values()
        ):
            for name in rng.permutation(names):
                replay, launches = graphs[name]
                last_us = samples[name][-1] * launches if samples[name] else math.inf
                taking = partial(
                    sample, launches=launches, states=states[name], limit_s=replay_limit_s(last_us)
                )
                samples[name].append(_with_blame(name, taking, replay, bench, protocol))
        timings = {
            name: summarise(
                samples[name],
                bench,
                protocol,
                state=combined_state([*states[name], _with_blame(name, state_while, replay, bench)]),
                prefix=prefix,
            )
            for name, (replay, _) in graphs.items()
        }
    return samples, timings


def _with_blame(name: str, function: Callable[..., T], *args: Any) -> T:
    try:
        return function(*args)
    except KernelHungError as hung:
        hung.contender = name
        raise


def replay_limit_s(took_us: float) -> float:
    """How long a replay may take that took so many us before."""
    return min(REPLAY_LIMIT_S, max(_LEAST_LIMIT_S, _HANGS_FROM * 1e-6 * took_us))


def can_be_timed(contender: Contender, protocol: TimingProtocol) -> bool:
    """Whether the contender can be timed so: not all can be called eagerly."""
    return protocol.pace is not Pace.CALL or isinstance(contender, Caller)


def one_by_one(contender: Contender, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
    """Eager calls that walk through the input sets in that order, one at a time."""
    call, sets = cast(Caller, contender).calls(bench), itertools.cycle(order)
    return lambda: call(next(sets))


def capture(contender: Contender, bench: Bench, protocol: TimingProtocol) -> tuple[Callable[[], None], int]:
    """A replay that is long enough to time, warmed up once, and the number of launches in it."""
    if protocol.pace is Pace.CALL:
        call = one_by_one(contender, bench, bench.order(protocol, launches=len(bench.arenas)))
        call()
        wait(bench.stream, limit_s=REPLAY_LIMIT_S)
        return call, 1
    sets = len(bench.arenas) if protocol.rotate else 1
    probe = warm_replay(contender, bench, bench.order(protocol, launches=sets))
    launches = launches_of(protocol, sets=sets, one_us=time_replay(probe, bench) / sets)
    if launches == sets:
        return probe, sets
    return warm_replay(contender, bench, bench.order(protocol, launches=launches)), launches


def warm_replay(contender: Contender, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
    """A replay of a launch for each entry of `order`, run once: the first replay pays for loading."""
    replay = contender.graph(bench, order)
    replay()
    wait(bench.stream, limit_s=REPLAY_LIMIT_S)
    return replay


def prepare(replay: Callable[[], None], bench: Bench, protocol: TimingProtocol) -> None:
    """Bring the GPU into the state that the protocol asks for before its first sample."""
    if protocol.pace is not Pace.SUSTAINED:
        return
    until = time.monotonic() + IDLE_S
    while time.monotonic() < until:
        replay()
        wait(bench.stream, limit_s=REPLAY_LIMIT_S)


def sample(
    replay: Callable[[], None],
    bench: Bench,
    protocol: TimingProtocol,
    *,
    launches: int,
    states: list[ClockState] | None = None,
    limit_s: float = REPLAY_LIMIT_S,
) -> float:
    """One sample, in us per launch; adds the GPU's state meanwhile to `states`."""
    if protocol.pace is Pace.BOOST:
        time.sleep(IDLE_S)
    if protocol.pace is Pace.STEADY:
        replay()
    noted = None if protocol.pace is Pace.CALL else states
    return time_replay(replay, bench, states=noted, limit_s=limit_s) / launches


def time_replay(
    replay: Callable[[], None],
    bench: Bench,
    *,
    states: list[ClockState] | None = None,
    limit_s: float = REPLAY_LIMIT_S,
) -> float:
    """What one replay takes in us; adds the GPU's state meanwhile to `states`."""
    stopwatch = Stopwatch(bench.stream)
    replay()
    if states is not None:  # takes some 4 us, a replay 0.1 ms or more
        states.append(clock_state(bench.pci_bus_id))
    return stopwatch.stop(limit_s=limit_s)


def time_synced(contender: Contender, bench: Bench, protocol: TimingProtocol) -> float:
    """As a sample, in us per launch, but its end is stamped after a wait for the whole device: what a kernel
    left running elsewhere is in it, and some 0.1 ms of the host's over all launches together, of which there
    are enough that this does not count.
    """
    with alone():
        replay, launches = capture(contender, bench, protocol)
        rounds = rounds_synced(time_replay(replay, bench))
        if rounds > 1 and protocol.pace is not Pace.CALL:
            launches *= rounds
            replay = warm_replay(contender, bench, bench.order(protocol, launches=launches))
        stopwatch = Stopwatch(bench.stream)
        replay()
        wait(bench.stream, limit_s=REPLAY_LIMIT_S)
        settle()
        return stopwatch.stop(limit_s=REPLAY_LIMIT_S) / launches


def state_while(replay: Callable[[], None], bench: Bench) -> ClockState:
    """SM clock in MHz and throttle reasons while the contender runs: both change as soon as it stops."""
    for _ in range(3):
        replay()
    state = clock_state(bench.pci_bus_id)
    wait(bench.stream, limit_s=REPLAY_LIMIT_S)
    return state


def summarise(
    samples: Sequence[float], bench: Bench, protocol: TimingProtocol, *, state: ClockState, prefix: str = ""
) -> Timing:
    """Samples in us as a Timing under `prefix` + the protocol's name."""
    p10, median, p90 = (float(x) for x in np.percentile(samples, [10, 50, 90]))
    return Timing(
        workload=str(bench.workload),
        protocol=prefix + protocol.name,
        median_us=median,
        p10_us=p10,
        p90_us=p90,
        n=len(samples),
        sm_clock_mhz=state[0],
        throttle=state[1],
    )


LEAST_S = 2.0  # the counter's steps are 20 to 100 ms apart, and a move is seen within a turn
WARM_S = 0.25
TURN_US = 1e4  # calls between two looks at the counter: each look leaves the GPU idle for some 20 us
_LIMIT_S = 10.0  # for a counter that stands still


def energy_mj(contender: Contender, bench: Bench) -> float | None:
    """Millijoules a call, on inputs from DRAM; None where NVML has no counter, or it stands still."""
    read = partial(energy_counter_mj, bench.pci_bus_id)
    if read() is None:
        return None
    protocol = bench.protocols[0]
    with alone():
        replay, launches = capture(contender, bench, protocol)
        replays = max(1, round(TURN_US / (launches * sample(replay, bench, protocol, launches=launches))))

        def turn() -> int:
            for _ in range(replays):
                replay()
            wait(bench.stream, limit_s=REPLAY_LIMIT_S)
            return replays * launches

        until = time.monotonic() + WARM_S
        while time.monotonic() < until:
            turn()
        return per_call_mj(turn, read, now=time.monotonic)


def per_call_mj(
    turn: Callable[[], int], read: Callable[[], int | None], *, now: Callable[[], float]
) -> float | None:
    """Millijoules a call between two moves of the counter that are at least LEAST_S apart; None without them.

    `turn` makes calls, waits for them and says how many they were; `now` is a clock in seconds.
    """
    last, begun = read(), now()
    first: int | None = None  # what the counter said at its first move
    first_s, calls = 0.0, 0
    while now() - begun < _LIMIT_S:
        made, said = turn(), read()
        calls += made
        if said is None or last is None:
            return None
        if said == last:
            continue
        if first is None:
            first, first_s, calls = said, now(), 0
        elif now() - first_s >= LEAST_S:
            return (said - first) / calls
        last = said
    return None
