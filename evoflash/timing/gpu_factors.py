"""How fast each GPU of a run is, told by the anchor's own times on it; corrects no time and times nothing.

A candidate's time is the anchor's time multiplied by their ratio on one GPU (relative.py), so what makes a
GPU slow is not in it. The anchor's absolute times show how slow it is: a GPU that throttles, or is shared.
"""

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from evoflash.timing.intervals import FEWEST, Interval, interval

if TYPE_CHECKING:
    from evoflash.timing.relative import RelativeTime

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
        return {name: _known(value) for name, value in asdict(self).items()}


def _known(value: Any) -> Any:
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


def far_apart(found: Iterable[GpuFactor], *, by: float = FAR) -> Interval | None:
    """The slowest GPU's time over the fastest one's, where it is larger than that and the intervals do not
    meet; else None.
    """
    pairs = itertools.permutations(found, 2)
    apart = [(a, b) for a, b in pairs if a.factor > (1 + by) * b.factor and a.low > b.high]
    if not apart:
        return None
    slow, fast = max(apart, key=lambda pair: pair[0].factor / pair[1].factor)
    return Interval(slow.factor / fast.factor, slow.low / fast.high, slow.high / fast.low)


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
    said = "too few times to say how fast" if each.high == math.inf else _as_factor(each)
    return f"{each.gpu}: {said} ({each.n} timed beside the anchor, which took {each.median_us:.2f} us)"


def _as_factor(each: GpuFactor) -> str:
    return f"{each.factor:.4f} times the usual time, {each.low:.4f} to {each.high:.4f}"


def _percent(found: Interval) -> str:
    return f"{100 * (found.ratio - 1):.1f} % ({100 * (found.low - 1):.1f} to {100 * (found.high - 1):.1f} %)"
