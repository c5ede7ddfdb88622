"""Seconds that a candidate spent on each rung in its GPU process, kept in its environment; measures nothing.

The validator's share is what the smoke test and correctness take of all of it; the rest is timing, and the
check of what was timed.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from evoflash.evaluation import Evaluation, Rung

_VALIDATOR = (Rung.SMOKE, Rung.CORRECTNESS)
_ALL = (*_VALIDATOR, Rung.TIMING)


def charged(environment: Mapping[str, str], seconds: Mapping[Rung, float]) -> dict[str, str]:
    """The environment with seconds added to the rungs': `smoke_s`, `correctness_s`, `timing_s`."""
    added = {f"{rung}_s": f"{_spent(environment, rung) + spent:.4f}" for rung, spent in seconds.items()}
    return {**environment, **added}


def _spent(environment: Mapping[str, str], rung: Rung) -> float:
    return float(environment.get(f"{rung}_s", 0))


def together(environment: Mapping[str, str], earlier: Mapping[str, str]) -> dict[str, str]:
    """The environment of a proof, with the seconds that the candidate's screen took before it."""
    known = {rung: _spent(earlier, rung) for rung in _ALL if f"{rung}_s" in earlier}
    return charged(environment, known)


def seconds_by_rung(evaluation: Evaluation) -> dict[str, float]:
    """Of the rungs that the candidate reached on the GPU; empty where nothing was measured."""
    rungs = (rung for rung in _ALL if f"{rung}_s" in evaluation.environment)
    return {str(rung): _spent(evaluation.environment, rung) for rung in rungs}


def validator_seconds(evaluation: Evaluation) -> float:
    """What the smoke test and correctness took."""
    return sum(_spent(evaluation.environment, rung) for rung in _VALIDATOR)


def describe(evaluations: Iterable[Evaluation]) -> str:
    """One line: the validator's share of the time of what was proven, and what was screened out; or empty."""
    all_of = [e for e in evaluations if f"{Rung.TIMING}_s" in e.environment]
    whole = [e for e in all_of if not e.is_screened]
    words = _proven(whole) if whole else ""
    if screened := [sum(seconds_by_rung(e).values()) for e in all_of if e.is_screened]:
        median_s = statistics.median(screened)
        words += (
            f"{'; ' if words else ''}{len(screened)} too slow for that were screened in {median_s:.2f} s each"
        )
    return words


def _proven(whole: Sequence[Evaluation]) -> str:
    validator = statistics.median(map(validator_seconds, whole))
    total = statistics.median(sum(seconds_by_rung(e).values()) for e in whole)
    share = statistics.median(validator_seconds(e) / sum(seconds_by_rung(e).values()) for e in whole)
    return (
        f"{validator:.2f} s of {total:.2f} s in the GPU process, {share:.0%} (medians of {len(whole)} "
        "candidates that were timed in full)"
    )
