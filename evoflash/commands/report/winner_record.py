"""What a report says of the winner: its lineage, floors, source and checks, as records. Computes nothing.

Times are in microseconds.
"""

from dataclasses import dataclass

from evoflash.space import Value


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
class Floor:
    """A time that one unit of the GPU needs for the work alone; `share` of it in the winner's time."""

    name: str
    us: float
    tflops: float  # at that time
    share: float | None
    says: str


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel's rate on a workload, in TFLOPS of work that cannot be avoided."""

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
    floors: tuple[Floor, ...]
    points: tuple[Point, ...]
    terms: tuple[tuple[str, float], ...]  # of the model for the winner, largest first; empty: not estimated


@dataclass(frozen=True, slots=True)
class Check:
    """An output on one workload compared with the reference, as the run stored it."""

    workload: str
    passed: bool
    rel_l2: float | None
    max_over_rms: float | None
    lse_error: float | None
    honest_ratio: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """What `evoflash check` found in the winner, by line of its source; 0: of no line."""

    severity: str
    kind: str
    line: int
    message: str
    runs: int


@dataclass(frozen=True, slots=True)
class Source:
    """The winner's CUDA for one compile key, and what the compiler made of it."""

    compile_key: str
    text: str
    lines: int
    registers: int | None
    spill_bytes: int | None
    smem_static_bytes: int | None
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """The winner's sources and checks. `emulated` says what the emulator did for this report, or why not."""

    sources: tuple[Source, ...]
    checks: tuple[Check, ...]
    emulated: str
    emulated_runs: int
    found: tuple[Found, ...]
    export: tuple[str, ...]  # commands
    says: str  # why there is no source; empty where there is
