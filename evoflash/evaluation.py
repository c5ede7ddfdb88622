"""The records of what became of a genome: build, verdict, timings, status. Measures and judges nothing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from evoflash.estimate_error import error_in_words, likely_us
from evoflash.problem import has_lse
from evoflash.space import Genome
from evoflash.workload import CompileKey


class Status(StrEnum):
    """How a candidate ended, in Kernel Tuner T4's words."""

    CORRECT = "correct"
    CONSTRAINTS = "constraints"
    COMPILE = "compile"
    RUNTIME = "runtime"
    TIMEOUT = "timeout"
    CORRECTNESS = "correctness"
    UNMEASURED = "unmeasured"  # right, but the GPU was too busy for its time to be trusted
    # right at a first look and too slow to be worth the whole proof: never shown as correct
    SCREENED = "screened"


class Rung(StrEnum):
    """Where on the ladder of evaluation a candidate stopped, cheapest first."""

    CHECKS = "checks"
    RENDER = "render"
    COMPILE = "compile"
    PREFLIGHT = "preflight"  # the emulator
    SMOKE = "smoke"  # first launch on the GPU, poisoned buffers and guard bands
    CORRECTNESS = "correctness"
    TIMING = "timing"
    DONE = "done"

    @property
    def levels_missing(self) -> float:
        """How far it is from beyond the last one."""
        return float(len(Rung) - list(Rung).index(self))


class Basis(StrEnum):
    """Where a time comes from; bases never share a ranking."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A genome rendered for one compile key; the same bytes go to NVRTC and to g++."""

    genome: Genome
    compile_key: CompileKey
    source: str
    source_sha: str  # over the text and the device headers


@dataclass(frozen=True, slots=True)
class Build:
    """What the compiler made of a candidate. `ok` is False when it refused; `log` then says why."""

    genome_id: str
    compile_key: CompileKey
    source_sha: str
    cubin_key: str  # source_sha, arch, flags and the full NVRTC version
    text_sha: str = ""  # the machine code alone; equal text_sha and equal launches = the same kernel
    ok: bool = True
    registers: int = 0
    spill_bytes: int = 0  # stores plus loads, as ptxas counts them
    stack_bytes: int = 0
    smem_static_bytes: int = 0
    compile_s: float = 0.0
    warnings: tuple[str, ...] = ()  # ptxas C75xx and the like
    log: str = ""
    cubin_path: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An output compared with the reference, the worst over the trials of one workload."""

    workload: str
    passed: bool
    rel_l2: float
    max_over_rms: float
    lse_error: float
    honest_ratio: float  # rel_l2 over that of an honest computation in the same precision
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one workload under one protocol, in microseconds per launch sequence."""

    workload: str
    protocol: str  # "cold", "hot", "final-cold", "final-hot", "screen", "model"
    median_us: float
    p10_us: float | None  # None where one number is all there is: an estimate, a single look
    p90_us: float | None
    n: int  # samples; 0 for an estimate
    censored: bool = False  # stopped early as hopeless: median_us is a lower bound
    sm_clock_mhz: int | None = None
    throttle: str = ""
    terms: Mapping[str, float] = field(default_factory=dict)  # an estimate's terms in us, by name
    # of a launch sequence, by timing/benchmark.py; None where it was not measured
    energy_mj: float | None = None

    @property
    def spread_us(self) -> tuple[float, float] | None:
        """From p10 to p90; None where there is none."""
        return None if self.p10_us is None or self.p90_us is None else (self.p10_us, self.p90_us)


# A score stands for the first of these protocols that was timed ("boost", "relative": timing/protocols.py).
MODEL = "model"
SCORED = ("final-cold", "final-cold-boost", "cold-relative", "cold", "cold-boost", MODEL)
FINAL = frozenset(SCORED[:2])


JUDGED = "judged"  # in an evaluation's environment: how an edited text was judged, in words


def score(times_us: Sequence[float]) -> float:
    """The geometric mean over the workloads, in us: what candidates are ranked by."""
    return math.exp(sum(map(math.log, times_us)) / len(times_us))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One genome on one problem and one GPU: how far it came, and how fast it was."""

    genome: Genome
    problem: str
    gpu: str
    basis: Basis
    status: Status
    rung: Rung
    reason: str = ""
    builds: tuple[Build, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    timings: tuple[Timing, ...] = ()
    score_us: float | None = None  # geometric mean over the workloads; None unless correct or screened
    bound: str = ""  # the term that the performance model names as limiting
    model_version: str = ""  # set on estimates
    duplicate_of: str = ""  # genome id with the same machine code and launches; costs no budget
    environment: Mapping[str, str] = field(default_factory=dict)  # versions, seconds, JUDGED

    @property
    def is_correct(self) -> bool:
        return self.status is Status.CORRECT

    @property
    def is_estimate(self) -> bool:
        """Whether its times are a model's: made here, or replayed from a recording of estimates."""
        return self.basis is Basis.ESTIMATED or (self.basis is Basis.REPLAYED and self.model_version != "")

    @property
    def is_screened(self) -> bool:
        return self.status is Status.SCREENED

    @property
    def time(self) -> str:
        """The time that ranks it in words: where it comes from, and its mark where it was not measured."""
        if self.score_us is None:
            return "none"
        is_replay = self.basis is Basis.REPLAYED
        if self.is_estimate:
            bound = f", bound by {self.bound}" if self.bound else ""
            likely = " (likely {:.3g} to {:.3g} us)".format(*self.likely_us) if self.likely_us else ""
            by = f"ESTIMATED by model {self.model_version}, not measured{likely}"
            replayed = ", replayed from a recording" if is_replay else ""
            unproven = ", not proven to be right" if self.is_screened else ""
            return f"~{self.score_us:.2f} us {by}{replayed}{bound}{unproven}"
        if is_replay:
            return f"{self.score_us:.2f} us replayed from a recording, not measured here"
        unproven = ", by a short look: not proven to be right" if self.is_screened else ""
        return f"{self.score_us:.2f} us {self.basis}{unproven}"

    @property
    def likely_us(self) -> tuple[float, float] | None:
        """Of an estimate: nine of ten kernels of its family and of this estimate took a time between these,
        in us. None of a measured time, and where nothing was measured of the family.
        """
        return likely_us(self.genome.family, self.model_version, self.score_us)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the compiler's logs; the genome as its id, its family and its values; of an estimate
        how far the model is off, in words.
        """
        fields = asdict(self) | {"likely_us": self.likely_us, "likely_from": None}
        if self.model_version:
            fields["likely_from"] = error_in_words(self.gpu, self.genome.family, self.model_version)
        values = self.genome.as_dict()
        fields["genome"] = {"id": self.genome.id, "family": self.genome.family, "values": values}
        if self.genome.edits:
            edits = [{"search": before, "replace": after} for before, after in self.genome.edits]
            fields["genome"] |= {"edits": edits, "edited": self.genome.root.id}
        for build in fields["builds"]:
            del build["log"]
        for verdict in fields["verdicts"]:
            if not has_lse(verdict["workload"]):
                verdict["lse_error"] = None
        return fields

    @property
    def learnt_us(self) -> float | None:
        """What strategies may learn from: the time of a correct or a screened genome, None where it failed.

        A screened genome was not proven: it must never be what a search reports, ranks or exports.
        """
        return self.score_us if self.is_correct or self.is_screened else None

    @property
    def is_rankable(self) -> bool:
        """Whether strategies may rank its time beside those of proven kernels: it is one, or it was screened
        and its time is a model's, which a proof would not have changed. A screen's measurement is too short.
        """
        return self.is_correct or (self.is_screened and self.is_estimate)

    @property
    def is_censored(self) -> bool:
        return any(timing.censored for timing in self.timings)


def was_timed_again(evaluation: Evaluation) -> bool:
    """Whether it was a finalist: its score is then the re-timed one."""
    return any(timing.protocol in FINAL for timing in evaluation.timings)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A genome that a strategy asks for, and where it comes from."""

    genome: Genome
    operator: str = "sample"
    parents: tuple[str, ...] = ()  # genome ids


@dataclass(frozen=True, slots=True)
class Baseline:
    """A library's kernel timed by the same code in the same run as the candidates."""

    name: str  # "sdpa_flash" ...
    problem: str
    gpu: str
    timings: tuple[Timing, ...]
    score_us: float
    environment: Mapping[str, str] = field(default_factory=dict)


ALL_SEEDS = -1
EDITS_SOURCE = "+source"  # the end of a language model's name in a run's key where it edits texts
# Strategies of runs that are no search: commands store what they evaluate as runs of their own.
NO_SEARCHES = frozenset({"remeasure", "baselines", "archive", "evaluate", "verify"})


@dataclass(frozen=True, slots=True)
class RunKey:
    """What makes two searches the same search: repeating one continues it."""

    problem: str  # canonical, str(Problem)
    gpu: str
    basis: Basis
    strategy: str
    seed: int
    preset: str = ""  # of evolution; empty: none
    population: str = ""  # that stands in place of the preset's; empty: none
    from_archive: bool = False  # starts from the shipped archive
    without_transfer: bool = False  # may not learn from earlier searches, though its strategy could
    most_seeds: int = ALL_SEEDS  # of a family's hand-written kernels
    family: str = ""  # the only one that it searches; empty: all that fit
    llm: str = ""  # the language model and its preset, or the run whose one is repeated; empty: none

    @property
    def search_name(self) -> str:
        """The strategy with all that sets the search apart, as people are shown it: `surrogate+archive`.

        db/leaderboard.sql writes the same.
        """
        strategy = ":".join(filter(None, (self.strategy, self.preset, self.population)))
        archive, alone = "+archive" * self.from_archive, "-transfer" * self.without_transfer
        seeds = "" if self.most_seeds == ALL_SEEDS else f"-seeds={self.most_seeds}"
        llm = f"+llm={self.llm}" if self.llm else ""
        return f"{strategy}{archive}{alone}{seeds}{llm}" + (f"/{self.family}" if self.family else "")

    @property
    def edits_source(self) -> bool:
        """Whether its language model edits texts of kernels, and no genes; of a repetition nobody knows."""
        return self.llm.endswith(EDITS_SOURCE)

    @property
    def is_search(self) -> bool:
        """Whether a strategy chose its kernels, and not a person who asked for single ones."""
        return self.strategy not in NO_SEARCHES

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with the name of the search as its strategy."""
        known = {name: getattr(self, name) for name in ("problem", "gpu", "basis")}
        return known | {"strategy": self.search_name, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run that another one learns from, told from the others of its GPU and basis in every database."""

    problem: str
    search_name: str
    seed: int
    created: str
    outcomes: int  # how many of its first ones are used


@dataclass(frozen=True, slots=True)
class RunStart:
    """What a run began with; a search that is continued goes on with the same."""

    archive: tuple[str, ...] = ()  # ids of the shipped kernels that it started from
    learns_from: tuple[EarlierRun, ...] = ()  # the nearest first
    learns_from_shipped: tuple[str, ...] = ()  # the problems of shipped searches, the nearest first
    ahead: int | None = None  # proposals in flight, where a number was asked for
    machines: str = ""  # where it worked, in words; empty: on this machine
    llm_trials: int = 0  # proposals that a language model and its control may take without having earned them


@dataclass(frozen=True, slots=True)
class Run:
    """One search. `id` is the number that people are shown; `number` counts the runs of one key, from 1, and
    is more than 1 after --fresh and merging.
    """

    id: int
    key: RunKey
    number: int
    gpu_hash: str
    budget: int
    created: str  # UTC, ISO 8601
    name: str = ""  # given by `evoflash runs rename`
    start: RunStart = RunStart()
    objectives: str = ""  # that were asked for last, with commas between; empty: never others than latency
    ended: str = ""  # what ended its newest search: "budget", "time", "until", "space"; empty: it was stopped
    ends: str = ""  # when the time limit of its newest search ends, UTC, ISO 8601; empty: it has none
    final_pairs: tuple[Mapping[str, Any], ...] = ()  # each a PairedComparison of gpu/timing, the winner first
    argv: tuple[str, ...] = ()
    evoflash_version: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)  # the machine, versions, the driver

    @property
    def made_with(self) -> dict[str, str]:
        """What decided which kernels it found, beside its key: versions, operators and extensions with their
        digests, entries of the archive that it started from, runs that it learnt from.
        """
        known = {name: self.environment.get(name, "") for name in ("versions", "operators", "extensions")}
        learnt = [f"{each.search_name} seed {each.seed} of {each.problem}" for each in self.start.learns_from]
        if shipped := self.start.learns_from_shipped:
            learnt.append(f"{len(shipped)} shipped searches, the nearest for {shipped[0]}")
        known |= {"archive": ", ".join(self.start.archive), "learns_from": "; ".join(learnt)}
        return {name: words for name, words in known.items() if words}

    def as_dict(self) -> dict[str, Any]:
        rest = {name: getattr(self, name) for name in ("gpu_hash", "budget", "created")}
        return {"id": self.id, "key": self.key.as_dict(), "attempt": self.number, **rest}


def faster(best: Evaluation | None, other: Evaluation) -> Evaluation | None:
    """The better of the two; only a correct one wins, and a lower bound loses to any finished timing."""
    timed = [e for e in (best, other) if e is not None and e.is_correct and e.score_us is not None]
    return min(timed, key=lambda e: (e.is_censored, e.score_us), default=None)
