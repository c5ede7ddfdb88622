"""How far each family's estimates are from measured times, and which estimates are a tie. Estimates nothing.

estimate_error.toml is made by `python -m scripts.model.error`: kernels that a GPU timed, of several problems,
beside what today's performance model says of each.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class EstimateError:
    """Of one family: the measured time of a kernel over its estimate, over kernels that a GPU timed."""

    family: str
    kernels: int
    problems: int
    gpus: tuple[str, ...]  # where they were timed
    median: float
    low: float  # a twentieth of the ratios is below
    high: float  # a twentieth of the ratios is above
    spread: float  # of two thirds of a problem's ratios from their median: what is nearer has no order
    tau: float  # Kendall's, of the kernels of a problem, the mean over problems
    held_out: int = 0  # problems that this is the mean over, if the model's constants were fitted to none

    def likely_us(self, estimate_us: float) -> tuple[float, float]:
        """Between which times nine of ten such kernels are, in us."""
        return estimate_us * self.low, estimate_us * self.high

    def in_words(self, gpu: str) -> str:
        """What is known of it, for who reads an estimate for `gpu`."""
        where = f" on {self.held_out} held-out problems" if self.held_out else ""
        known = (
            f"of {self.kernels} {self.family} kernels, measured on {' and '.join(self.gpus)}, nine of ten "
            f"took {self.low:.2f} to {self.high:.2f} times their estimate, the median {self.median:.2f} "
            f"times; Kendall's tau within a problem {self.tau:.2f}{where}"
        )
        return known if gpu in self.gpus else f"for {gpu} nothing was measured; {known}"


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def known_model_version() -> str:
    """The performance model's version that the table is of."""
    return str(_table()["model_version"])


def estimate_error(family: str, model_version: str | None = None) -> EstimateError | None:
    """As shipped; None for a family of which nothing was measured, and for estimates of another model."""
    row = _table()["family"].get(family)
    if row is None or model_version not in (None, known_model_version()):
        return None
    return EstimateError(family, **{**row, "gpus": tuple(row["gpus"])})


def likely_us(
    family: str, model_version: str | None, estimate_us: float | None
) -> tuple[float, float] | None:
    """Between which times nine of ten kernels of that estimate are, in us. None of what is no estimate, which
    has no model, and where nothing was measured of the family.
    """
    known = estimate_error(family, model_version) if model_version and estimate_us else None
    return known.likely_us(estimate_us) if known and estimate_us else None


def error_in_words(gpu: str, family: str, model_version: str | None = None) -> str:
    """For who reads an estimate of the family's kernel on the GPU, by that version of the model."""
    if family not in _table()["family"]:
        return f"no {family} kernel was measured, on {gpu} or elsewhere: how far the model is off is unknown"
    known = estimate_error(family, model_version)
    if known is None:
        return f"how far estimates are off is known of model {known_model_version()}, not of {model_version}"
    return known.in_words(gpu)


def error_sentence(gpu: str, family: str, model_version: str | None = None) -> str:
    """The same as a sentence of its own."""
    words = error_in_words(gpu, family, model_version)
    return f"{words[0].upper()}{words[1:]}."


def has_order(estimates: Sequence[float], family: str) -> bool:
    """Whether the model can tell the slowest of these from the fastest: not where they are equal, nor where
    they are nearer to one another than the model's error, nor where that is not known.
    """
    known = estimate_error(family)
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


def ties(estimates: Sequence[float], family: str, *, unproven: Sequence[float] = ()) -> EstimateTies | None:
    """Among these, in us and in any order, of different kernels; None where there is none. `family` is the
    fastest one's; `unproven` are those of them that belong to screened kernels.
    """
    if not estimates:
        return None
    best, known = min(estimates), estimate_error(family)
    reach = best * (known.spread if known else 1.0)
    equal = sum(f"{each:.4g}" == f"{best:.4g}" for each in estimates) - 1
    within = sum(each <= reach for each in estimates) - 1
    screened = sum(each <= reach or f"{each:.4g}" == f"{best:.4g}" for each in unproven)
    return EstimateTies(best, equal, max(within - equal, 0), known.spread if known else None, screened)
