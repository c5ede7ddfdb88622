"""What is known of the time of one kernel, and how far the performance model is off. Reads no database.

A measured time goes before the shipped archive's, and that before an estimate, which is then shown beside
them: how far it is off is all that a machine without a GPU can know of the model.
"""

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from evoflash.champions import Champion, champion_today, champions
from evoflash.errors import EvoflashError
from evoflash.evaluation import Basis, Evaluation, was_timed_again
from evoflash.operation import DEFAULT
from evoflash.paths import CHAMPIONS
from evoflash.perf_model import model_version
from evoflash.problem import Problem, operation_in, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu

ESTIMATES = "_estimates.json"


@dataclass(frozen=True, slots=True)
class KnownTimes:
    """Of one kernel, problem and GPU; None where nothing is known of the kind."""

    measured: Evaluation | None = None
    archived: Champion | None = None
    estimated: Evaluation | None = None

    @property
    def measured_us(self) -> float | None:
        """The time that a GPU took: this database's, else the archive's."""
        if self.measured is not None:
            return self.measured.score_us
        return self.archived.us if self.archived else None

    @property
    def us(self) -> float | None:
        """The time that counts; an estimate's only where nothing was measured."""
        return self.measured_us or (self.estimated.score_us if self.estimated else None)

    @property
    def time(self) -> str:
        """That time in words, with where it is from."""
        if self.measured is not None:
            return self.measured.time
        return self.archived.time if self.archived else self.estimated.time if self.estimated else "none"

    @property
    def calibration(self) -> str:
        """How far the model is off for this kernel, in words; empty without both times."""
        mine, model = self.measured_us, self.estimated.score_us if self.estimated else None
        return f"the model says ~{model:.2f} us, {percent_of(model / mine)}" if mine and model else ""


def known_times(
    genome: Genome, problem: Problem | str, gpu: GpuSpec | str, evaluations: Iterable[Evaluation] = ()
) -> KnownTimes:
    """What those evaluations and the archive say of exactly this; the rest of the evaluations is left out."""
    where = (str(problem), gpu if isinstance(gpu, str) else gpu.name)
    own = [each for each in evaluations if each.genome == genome and (each.problem, each.gpu) == where]
    timed = [each for each in own if each.is_correct and each.score_us and not each.is_censored]
    measured = [each for each in timed if each.basis is Basis.MEASURED]
    return KnownTimes(
        min(measured, key=lambda each: (not was_timed_again(each), each.score_us), default=None),
        archived_kernel(genome, *where),
        next((each for each in timed if each.basis is Basis.ESTIMATED), None),
    )


def archived_kernel(genome: Genome, problem: str, gpu: str) -> Champion | None:
    """The archive's entry for the problem, where it is this very kernel."""
    known = archived_for(problem, gpu)
    return known if known is not None and known.genome == genome else None


def archived_for(problem: str, gpu: str) -> Champion | None:
    """The archive's entry for the problem, where it still is a kernel; None for what is not ours."""
    try:
        return champion_today(parse_problem(problem), load_gpu(gpu))
    except EvoflashError:  # of a recording, of an operation or a GPU that is gone
        return None


def percent_of(ratio: float) -> str:
    """`22 % more`, of an estimate over a measured time."""
    return f"{abs(100 * (ratio - 1)):.0f} % {'more' if ratio >= 1 else 'less'}"


# ---- how far the model is off


@dataclass(frozen=True, slots=True)
class ModelError:
    """The model's estimates of archived kernels, each for its problem, over what was measured."""

    gpu: str
    model_version: str
    ratios: tuple[float, ...]  # estimate over measured time, in ascending order

    @property
    def median(self) -> float:
        """Of these ratios."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> float:
        """The factor within which two thirds of the ratios are of their median: two estimates that are
        nearer to one another do not tell which kernel is the faster.
        """
        apart = sorted(abs(math.log(ratio / self.median)) for ratio in self.ratios)
        return math.exp(apart[math.ceil(len(apart) * 2 / 3) - 1])

    def in_words(self, gpu: str) -> str:
        """What is known of it, for who reads an estimate for `gpu`."""
        low, high = (f"{100 * (ratio - 1):+.0f}" for ratio in (self.ratios[0], self.ratios[-1]))
        known = (
            f"of {len(self.ratios)} archived kernels of {self.gpu} the model says {percent_of(self.median)} "
            f"than was measured in the median ({low} to {high} %); it cannot rank masks or shapes"
        )
        return known if gpu == self.gpu else f"for {gpu} nothing was measured; {known}"


@cache
def model_error(gpu: str) -> ModelError | None:
    """As shipped for today's model: the GPU's own, else the first that is known; None where none is."""
    own, rest = CHAMPIONS / f"{gpu}{ESTIMATES}", sorted(CHAMPIONS.glob(f"*{ESTIMATES}"))
    path = own if own.exists() else next(iter(rest), None)
    if path is None:
        return None
    said = json.loads(path.read_text(encoding="utf-8"))
    name = path.name.removesuffix(ESTIMATES)
    measured = {each.problem: each.us for each in champions(name)}
    ratios = sorted(us / measured[what] for what, us in said["estimates_us"].items() if what in measured)
    if said["model_version"] != model_version() or not ratios:
        return None
    return ModelError(name, said["model_version"], tuple(ratios))


def error_in_words(gpu: str, problem: str) -> tuple[str, ...]:
    """A sentence for who reads an estimate for the problem on the GPU; none where nothing is known."""
    if _has_unmeasured_kernels(problem):
        what = operation_in(problem).name
        return (f"no {what} kernel was measured, on {gpu} or elsewhere: how far the model is off is unknown",)
    known = model_error(gpu)
    return () if known is None else (known.in_words(gpu),)


def error_for(gpu: str, problem: str) -> ModelError | None:
    """How far the model is off for kernels of the problem's operation; None where that is not known."""
    return None if _has_unmeasured_kernels(problem) else model_error(gpu)


def _has_unmeasured_kernels(problem: str) -> bool:
    """Whether the problem is of an operation that no archive has a kernel of."""
    try:
        return operation_in(problem).name != DEFAULT
    except EvoflashError:  # of a recording of another program
        return False


def has_order(estimates: Sequence[float], gpu: str, problem: str) -> bool:
    """Whether the model can tell the slowest of these from the fastest: not where they are equal, nor where
    they are nearer to one another than the model's error, nor where that is not known.
    """
    known = error_for(gpu, problem)
    return known is not None and max(estimates) > min(estimates) * known.spread


@dataclass(frozen=True, slots=True)
class EstimateTies:
    """How many estimates cannot be told from the fastest one of their problem and GPU."""

    us: float  # the fastest
    equal: int  # others with the same estimate, to the four digits that are shown
    near: int  # others that are nearer to it than the model's error
    error: float | None  # the factor below which the model has no order; None where it is not known
    unproven: int = 0  # of the others: screened, not proven to be right

    @property
    def says(self) -> tuple[str, ...]:
        """In sentences; none where the fastest stands alone."""
        return self.in_words()

    def in_words(self, which: str = "") -> tuple[str, ...]:
        """As `says`; `which` kernels were looked at, where these are not all, as ` shown`."""
        found = []
        if self.equal:
            kernels = (
                f"{self.equal} other kernels{which} tie" if self.equal > 1 else f"1 other kernel{which} ties"
            )
            found.append(f"{kernels} with the fastest: equal estimates of ~{self.us:.4g} us.")
        if self.near and self.error:
            word = "more" if self.equal else "others" if self.near > 1 else "other"
            more = f"{self.near} {word}{which}"
            nearer = f"{more} {'are' if self.near > 1 else 'is'} nearer to the fastest than the model's error"
            found.append(f"{nearer}, {100 * (self.error - 1):.0f} %: the model does not order these.")
        if self.error is None:
            found.append("The model's error is unknown: estimates near one another are no order.")
        if self.unproven:
            were = "were" if self.unproven > 1 else "was"
            found.append(
                f"{self.unproven} of these {were} screened, not proven right; no leaderboard has them."
            )
        return tuple(found)


def ties(
    estimates: Sequence[float], gpu: str, problem: str, *, unproven: Sequence[float] = ()
) -> EstimateTies | None:
    """Among these, in us and in any order, of different kernels; None where there is none. `unproven` are
    those of them that belong to screened kernels.
    """
    if not estimates:
        return None
    best, known = min(estimates), error_for(gpu, problem)
    reach = best * (known.spread if known else 1.0)
    equal = sum(f"{each:.4g}" == f"{best:.4g}" for each in estimates) - 1
    within = sum(each <= reach for each in estimates) - 1
    screened = sum(each <= reach or f"{each:.4g}" == f"{best:.4g}" for each in unproven)
    return EstimateTies(best, equal, max(within - equal, 0), known.spread if known else None, screened)
