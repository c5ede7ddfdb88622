"""Times a kernel by its ratio to another one whose time is known. Decides nothing, which rungs.py does.

Both run in blocks of A B B A (paired.py): whatever clock the GPU is at, and whatever else the machine does,
both have it. The kernel's time is the ratio times the known time of the other, so kernels that were timed
beside the same one compare at once, and no sample has to wait until the GPU has idled. All of them walk
through the bench's input sets in one order, so that the known one is captured once.

How fast each GPU of a run is, is told by the known kernel's own times on it; no time is corrected by that.
"""

import itertools
import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evoflash.evaluation import Timing, score
from evoflash.gpu.launcher import alone
from evoflash.gpu.timing.benchmark import Bench, Contender, combined_state, summarise
from evoflash.gpu.timing.paired import FEWEST, ContenderPair, QuadTimes, RatioInterval, interval, scale
from evoflash.gpu.timing.protocols import SCREENED, Effort, TimingProtocol

_GPU, _ANCHOR, _ANCHOR_US = "gpu_uuid", "anchor", "anchor_us"  # in the environment of an evaluation
FAR = 0.02  # two GPUs of one model are rarely further apart


@dataclass(frozen=True, slots=True)
class GpuFactor:
    """The anchor's times on a GPU over its times on the GPU that has most of them; above 1 it is slower."""

    gpu: str  # UUID
    n: int  # candidates that were timed beside the anchor on it
    median_us: float  # the anchor's there: that of the anchor with most times
    factor: float
    low: float  # of the factor, with 99.8 % confidence; 0 and infinite where times are too few
    high: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what nobody knows is None."""
        return {name: _finite_or_none(value) for name, value in asdict(self).items()}


def _finite_or_none(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def gpu_note(uuid: str) -> dict[str, str]:
    """What an evaluation's environment keeps of the GPU that it was timed on."""
    return {_GPU: uuid}


def anchor_note(anchor: str, found: "RelativeTime") -> dict[str, str]:
    """The same of the anchor's own time, the geometric mean over the workloads; of a single replay, nothing.

    Only times of one anchor by one protocol are compared.
    """
    if math.isnan(found.known_us):
        return {}
    return {_ANCHOR: f"{anchor} {found.timings[0].protocol}", _ANCHOR_US: f"{found.known_us:.6g}"}


def factors(environments: Iterable[Mapping[str, str]]) -> tuple[GpuFactor, ...]:
    """Of every GPU that timed beside an anchor, by UUID; from the environments of a run's evaluations."""
    times: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in environments:
        if _GPU in each and _ANCHOR_US in each:
            times[each[_GPU]][each[_ANCHOR]].append(float(each[_ANCHOR_US]))
    if not times:
        return ()
    counts = Counter({gpu: sum(map(len, mine.values())) for gpu, mine in sorted(times.items())})
    reference = times[counts.most_common(1)[0][0]]
    usual = {anchor: statistics.median(us) for anchor, us in reference.items() if len(us) >= FEWEST}
    return tuple(_factor(gpu, counts[gpu], times[gpu], usual) for gpu in sorted(times))


def _factor(gpu: str, n: int, times: Mapping[str, list[float]], usual: Mapping[str, float]) -> GpuFactor:
    most = max(sorted(times), key=lambda anchor: len(times[anchor]))
    logs = [math.log(us / usual[anchor]) for anchor in times if anchor in usual for us in times[anchor]]
    found = interval(logs)
    middle = math.exp(statistics.median(logs)) if logs else math.nan
    ratio = middle if math.isnan(found.ratio) else found.ratio
    return GpuFactor(gpu, n, statistics.median(times[most]), ratio, found.low, found.high)


def far_apart(found: Iterable[GpuFactor], *, by: float = FAR) -> RatioInterval | None:
    """The slowest GPU's time over the fastest one's, where it is larger than that and the intervals do not
    meet; else None.
    """
    pairs = itertools.permutations(found, 2)
    apart = [(a, b) for a, b in pairs if a.factor > (1 + by) * b.factor and a.low > b.high]
    if not apart:
        return None
    slow, fast = max(apart, key=lambda pair: pair[0].factor / pair[1].factor)
    return RatioInterval(slow.factor / fast.factor, slow.low / fast.high, slow.high / fast.low)


def in_words(found: Iterable[GpuFactor]) -> list[str]:
    """A line for each GPU where there are several, and a warning where two are far apart."""
    gpus = tuple(found)
    if len(gpus) < 2:
        return []
    lines = [_line(each) for each in gpus]
    apart = far_apart(gpus)
    if apart is not None:
        lines.append(
            f"WARNING: one GPU takes {_percent(apart)} longer than another: candidates' times are ratios to "
            "the anchor on their own GPU and allow for that, but see `nvidia-smi -q -d PERFORMANCE`."
        )
    return lines


def _line(each: GpuFactor) -> str:
    said = f"{each.factor:.4f} times the usual time, {each.low:.4f} to {each.high:.4f}"
    if each.high == math.inf:
        said = "too few times to say how fast"
    return f"{each.gpu}: {said} ({each.n} timed beside the anchor, which took {each.median_us:.2f} us)"


def _percent(found: RatioInterval) -> str:
    return f"{100 * (found.ratio - 1):.1f} % ({100 * (found.low - 1):.1f} to {100 * (found.high - 1):.1f} %)"


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

    score_us: RatioInterval
    timings: tuple[Timing, ...]
    known_us: float  # what the known ones took meanwhile, as a score; nan where it was a single replay


def relative_time(
    sides: Sequence[Beside],
    *,
    protocol: TimingProtocol = SCREENED,
    effort: Effort,
    is_clear: Callable[[RatioInterval], bool],
    is_far: Callable[[float], bool] = lambda _: False,
    rng: np.random.Generator,
) -> RelativeTime:
    """Time blocks, one on each workload in turns, until the score's interval says enough at one of the looks.
    Where `is_far` says so of a single replay's score, that is all: its interval is unknown.

    Raises launcher.KernelHungError or CuPy's errors, whichever contender caused them.
    """
    with alone():
        pairs = [
            ContenderPair(
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
            return RelativeTime(RatioInterval(rough_us, 0.0, math.inf), single, math.nan)
        rounds, started = list[list[QuadTimes]](), time.monotonic()
        while True:
            rounds.append([pair.block() for pair in pairs])
            is_last = len(rounds) >= effort.looks[-1] or time.monotonic() - started > effort.max_s
            if len(rounds) in effort.looks or (is_last and len(rounds) > effort.looks[0]):
                found = scale(_ratio(rounds, effort), by=known_us)
                if is_last or is_clear(found):
                    break
    timings = tuple(_timing([each[at] for each in rounds], side, protocol) for at, side in enumerate(sides))
    here_us = score(
        [float(np.median([us for each in rounds for us in each[at].second])) for at in range(len(sides))]
    )
    return RelativeTime(found, timings, here_us)


def _ratio(rounds: Sequence[Sequence[QuadTimes]], effort: Effort) -> RatioInterval:
    """Of the scores, which are geometric means over the workloads."""
    logs = [float(np.mean([block.log_ratio for block in blocks])) for blocks in rounds]
    return interval(logs, alpha=effort.alpha / len(effort.looks))


def _single(pair: ContenderPair, side: Beside, protocol: TimingProtocol) -> Timing:
    us = side.known_us * pair.rough_ratio
    return Timing(str(side.bench.workload), protocol.name, us, None, None, n=1)


def _timing(blocks: Sequence[QuadTimes], side: Beside, protocol: TimingProtocol) -> Timing:
    """The kernel's samples, each as a ratio to the known one's beside it, times the known time."""
    samples = [
        side.known_us * ours / theirs
        for block in blocks
        for ours, theirs in zip(block.first, block.second, strict=True)
    ]
    state = combined_state([block.state for block in blocks])
    return summarise(samples, side.bench, protocol, state=state)
