"""The records that a report is made of. Computes nothing.

The HTML page has no other source: every number of the page is a field here, ratios and shares too. Times are
in microseconds.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evoflash.app.model_credit import ModelCredit
from evoflash.evaluation import Verdict
from evoflash.gpu.timing.relative import GpuFactor
from evoflash.space import Value
from evoflash.strategies.gene_effects import GeneEffect, Nogood


@dataclass(frozen=True, slots=True)
class Hop:
    """A generation of the winner's lineage, from the first on.

    `change` is its time over that of the hop before. The fields that begin with `again` are from timing all
    hops in turns for this report: None where that was not asked for.
    """

    id: str
    family: str
    operator: str
    genes: tuple[tuple[str, Value | None, Value | None], ...]  # gene, before, after; None without the gene
    us: float | None
    change: float | None
    bound: str
    again_us: float | None
    again_change: float | None
    again_low: float | None
    again_high: float | None
    again_answer: str  # "faster", "slower" or "unclear", said of this hop against the one before


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A candidate that differs from the winner in one gene alone; `over_best`: its time over the winner's."""

    id: str
    gene: str
    value: Value
    best_value: Value
    us: float | None
    over_best: float | None
    status: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """How the winner came about, what its values are worth, and both in sentences."""

    hops: tuple[Hop, ...]
    retimed: str  # how, or why not
    neighbours: tuple[Neighbour, ...]
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RooflineBound:
    """A time that one unit of the GPU needs for the work alone; `share` of it in the winner's time."""

    name: str
    us: float
    tflops: float  # at that time
    share: float | None
    says: str


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel's rate on a workload, in TFLOPS as the field counts them."""

    name: str
    kind: str  # "winner", "seed" or "baseline"
    us: float
    tflops: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """One workload on the GPU's rooflines. `intensity` is FLOPs for each byte that must be moved."""

    workload: str
    flops: int
    bytes_moved: int
    intensity: float
    fits_l2: bool
    peak_tflops: float  # of the tensor units, at boost clock
    mma_tflops: float  # of the same through mma.sync
    dram_gbps: float
    floors: tuple[RooflineBound, ...]
    points: tuple[Point, ...]
    terms: tuple[tuple[str, float], ...]  # of the model for the winner, largest first; empty: not estimated
    guess: str  # what the model says bounds the winner; empty: it was not asked
    # the winner's launches, LaunchCounters.as_dict(); empty: not read
    counters: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SourceFinding:
    """What `evoflash check` found in the winner, by line of its source; 0: of no line."""

    severity: str
    kind: str
    line: int
    message: str
    runs: int


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """The winner's CUDA for one compile key, and what the compiler made of it."""

    compile_key: str
    text: str
    lines: int
    registers: int | None
    spill_bytes: int | None
    smem_static_bytes: int | None
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WinnerKernel:
    """The winner's sources and checks. `emulated` says what the emulator did for this report, or why not."""

    sources: tuple[CompiledSource, ...]
    checks: tuple[Verdict, ...]  # as the run stored them; what an operation does not have is no number
    emulated: str
    emulated_runs: int
    found: tuple[SourceFinding, ...]
    export: tuple[str, ...]  # commands
    says: str  # why there is no source; empty where there is


FORMAT = 2  # of the JSON; another one has other fields


@dataclass(frozen=True, slots=True)
class About:
    """The run, and where its times come from."""

    id: int
    name: str  # empty: none was given
    problem: str
    gpu: str
    basis: str
    is_estimate: bool  # its times are a model's, made here or recorded
    times: str  # in words: "measured", "estimated by model 4, not measured"
    strategy: str
    seed: int
    attempt: int  # more than 1: begun again, with --fresh
    budget: int  # 0: no number was asked for
    state: str  # "running", "finished" or "stopped"
    evaluated: int  # without duplicates
    correct: int
    screened: int
    failed: int
    duplicates: int
    begun: str  # UTC, ISO 8601
    newest: str
    command: str  # that repeats or continues it
    evoflash_version: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The winner's time over another's, timed in turns; below 1 the winner is faster."""

    other: str
    is_baseline: bool
    workload: str
    protocol: str
    ratio: float
    low: float
    high: float
    confidence: float
    n: int
    answer: str  # "faster", "slower" or "unclear", said of the winner


@dataclass(frozen=True, slots=True)
class Tie:
    """A kernel that cannot be told apart from the winner; a screened one was not proven to be right."""

    id: str
    family: str
    us: float
    status: str = "correct"


@dataclass(frozen=True, slots=True)
class VerdictOn:
    """The winner, how sure its time is, and its ties; `says` is the same in sentences."""

    id: str
    family: str
    values: Mapping[str, Value]
    us: float
    p10_us: float | None  # None: its time has no spread
    p90_us: float | None
    n: int
    protocol: str
    is_final: bool  # timed again in turns with the other finalists
    tflops: float | None
    seed_us: float | None  # the fastest of what the search started from
    over_seed: float | None  # the seed's time over the winner's; None where one is measured and one is not
    measured_us: float | None  # where its own time is an estimate and the archive measured this very kernel
    seed_measured_us: float | None  # likewise of the seed
    likely_us: tuple[float, float] | None  # between which nine of ten kernels of its estimate are
    pairs: tuple[PairedRatio, ...]
    ties: tuple[Tie, ...]
    has_known_error: bool  # whether it is known how far two times have to be apart to be an order
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BestSoFar:
    """After `evaluations` of a run (from 1, duplicates not counted) its best time became `us`."""

    evaluations: int
    us: float
    id: str


@dataclass(frozen=True, slots=True)
class RandomRun:
    """A random search of the same problem, GPU and kind of time."""

    run: int
    seed: int
    evaluated: int
    best: tuple[BestSoFar, ...]


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The best so far, beside what the search started from and beside random searches."""

    evaluated: int
    best: tuple[BestSoFar, ...]
    seeds: int
    seed_us: float | None
    random: tuple[RandomRun, ...]
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A candidate in the order of its evaluation; times of a wrong one are None."""

    n: int
    id: str
    family: str
    us: float | None
    over_best: float | None  # its time over the winner's
    status: str
    rung: str
    reason: str
    operator: str
    parents: tuple[str, ...]
    registers: int | None
    spill_bytes: int | None
    bound: str
    protocol: str
    is_lower_bound: bool  # its timing was stopped early: it takes at least `us`
    duplicate_of: str
    measured_us: float | None = None  # by the archive, where `us` is an estimate of this very kernel


@dataclass(frozen=True, slots=True)
class Rejection:
    """Candidates that stopped on a rung with a status; `reasons` are the commonest, with their counts."""

    rung: str
    status: str
    count: int
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class RungCount:
    """How many candidates were on a rung, how many of them it rejected, and how many it left as too slow to
    be proven: these passed no rung above.
    """

    rung: str
    reached: int
    rejected: int
    screened: int = 0


@dataclass(frozen=True, slots=True)
class Peer:
    """A library's kernel, timed in the same run; `over_best` is its time over the winner's."""

    name: str
    us: float
    p10_us: float | None
    p90_us: float | None
    n: int
    protocol: str
    over_best: float | None
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A kernel and its figures, in the order of the objectives."""

    id: str
    family: str
    figures: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Front:
    """The correct kernels that no other equals in both objectives and beats in one; and the others."""

    objectives: tuple[str, str]
    units: tuple[str, str]
    points: tuple[FrontPoint, ...]
    others: tuple[FrontPoint, ...]


@dataclass(frozen=True, slots=True)
class ReportedCost:
    """What the run took. Minutes are None for a run of an evoflash that did not note them."""

    wall_s: float | None  # from its beginning to its newest outcome, pauses included
    gpu_minutes: float | None  # for which the search had the GPU; 0 without one
    cpu_minutes: float | None  # of all cores together
    price_per_hour: float | None  # of the GPU, as it was given
    price: float | None
    rungs_s: Mapping[str, float]  # what candidates took in the GPU process; empty where nothing was measured
    compile_s: float  # NVRTC, of all builds together


@dataclass(frozen=True, slots=True)
class Report:
    """Everything; parts are None or empty where the run has nothing for them."""

    format: int
    made: str  # UTC, ISO 8601
    made_by: str  # evoflash's version
    run: About
    verdict: VerdictOn | None
    progress: SearchProgress
    candidates: tuple[CandidateRow, ...]
    effects: tuple[GeneEffect, ...]
    nogoods: tuple[Nogood, ...]
    learnt: tuple[str, ...]  # effects, nogoods and operators in sentences
    lineage: Lineage
    rooflines: tuple[Roofline, ...]
    reached: tuple[RungCount, ...]
    rejections: tuple[Rejection, ...]
    peers: tuple[Peer, ...]
    fronts: tuple[Front, ...]
    kernel: WinnerKernel | None
    cost: ReportedCost
    gpus: tuple[GpuFactor, ...] = ()  # empty where nothing was timed beside an anchor
    gpus_say: tuple[str, ...] = ()
    language_model: ModelCredit | None = None  # what it brought, beside its control; None: there was none
    language_model_says: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """All of it. A number that nobody knows (not finite) is None."""
        found: dict[str, Any] = _json_safe(asdict(self))
        return found


def short(value: float) -> str:
    """Four digits, and never an exponent above 1000; a whole number whole."""
    if isinstance(value, int) or abs(value) >= 999.95:
        return f"{value:,.0f}"
    return f"{value:#.4g}".removesuffix(".")


def _json_safe(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _json_safe(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json_safe(each) for each in value]
    return value
