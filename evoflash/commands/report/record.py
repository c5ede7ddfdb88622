"""What a report says, as records, and their JSON: the page has no other source. Computes nothing.

Every number of the page is a field here, ratios and shares too. Times are in microseconds.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evoflash.commands.report.winner_record import Kernel, Lineage, Roofline
from evoflash.space import Value
from evoflash.strategies.model.gene_effects import GeneEffect, Nogood
from evoflash.timing.gpu_factors import GpuFactor

FORMAT = 1  # of the JSON; another one has other fields


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
    number: int
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
class Pair:
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
    """A kernel that cannot be told apart from the winner."""

    id: str
    family: str
    us: float


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
    over_seed: float | None  # the seed's time over the winner's
    pairs: tuple[Pair, ...]
    ties: tuple[Tie, ...]
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
class Progress:
    """The best so far, beside what the search started from and beside random searches."""

    evaluated: int
    best: tuple[BestSoFar, ...]
    seeds: int
    seed_us: float | None
    random: tuple[RandomRun, ...]
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
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


@dataclass(frozen=True, slots=True)
class Rejection:
    """Candidates that stopped on a rung with a status; `reasons` are the commonest, with their counts."""

    rung: str
    status: str
    count: int
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """How many candidates came to a rung, and how many of them it rejected."""

    rung: str
    reached: int
    rejected: int


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
class Cost:
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
    progress: Progress
    candidates: tuple[Row, ...]
    effects: tuple[GeneEffect, ...]
    nogoods: tuple[Nogood, ...]
    learnt: tuple[str, ...]  # effects, nogoods and operators in sentences
    lineage: Lineage
    rooflines: tuple[Roofline, ...]
    reached: tuple[Reached, ...]
    rejections: tuple[Rejection, ...]
    peers: tuple[Peer, ...]
    fronts: tuple[Front, ...]
    kernel: Kernel | None
    cost: Cost
    gpus: tuple[GpuFactor, ...] = ()  # empty where nothing was timed beside an anchor
    gpus_say: tuple[str, ...] = ()


def as_json(report: Report) -> str:
    """One object. A number that nobody knows (not finite) is null."""
    return json.dumps(_known(asdict(report)), indent=1, allow_nan=False)


def _known(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _known(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_known(each) for each in value]
    return value
