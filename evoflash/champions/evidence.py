"""What is known of the time of one kernel: measured, archived, estimated. Reads no database.

A measured time goes before the shipped archive's, and that before an estimate, which is then shown beside
them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from evoflash.champions import Champion, champion_today
from evoflash.errors import EvoflashError
from evoflash.evaluation import Basis, Evaluation, was_timed_again
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu


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
