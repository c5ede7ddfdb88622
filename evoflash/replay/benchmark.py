"""Runs strategies and rivals on recorded spaces, many seeds each, in parallel processes. Prints nothing.

It returns curves, scores and paired tests. The score P is comparison.py's: 0 is what random search is
expected to find, 1 the optimum. A pair of contenders is compared over the same seeds. Each run is a pure
function of its seed.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evoflash.isolation import IsolatedPool
from evoflash.replay import contenders
from evoflash.replay.comparison import (
    StrategyScore,
    best_so_far,
    draws_us,
    random_expectation,
    scores_of,
    standing,
)
from evoflash.replay.kernel_tuner import read_recording
from evoflash.replay.recorded_space import Recording, SpaceSummary

FLIPS = 20_000  # random signs of the differences, for the test of a pair
RUN_LIMIT_S = 1800.0  # of one seed
_SEEDS_OF_A_CALL = 5


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """What one contender came to on one space, over its seeds."""

    standing: StrategyScore
    median: float  # of P
    below_random: float  # share of the seeds with P below 0
    cpu_ms: float  # for each evaluation: proposing, the loop and the look-up
    scores: tuple[float, ...]  # P of each seed
    quartiles: tuple[tuple[float, float, float], ...]  # of best over optimum after 1, 2, ... evaluations
    difference: float | None = None  # of mean P to the reference's; None for the reference itself
    p_value: float | None = None  # of that difference, by paired()

    @property
    def name(self) -> str:
        return self.standing.strategy


@dataclass(frozen=True, slots=True)
class Space(SpaceSummary):
    """A recorded space, and how each contender did there, best mean first."""

    file: str
    budget: int
    expected: tuple[float, ...]  # best over optimum that random search is expected to have
    rows: tuple[BenchmarkRow, ...]


@dataclass(frozen=True, slots=True)
class Runs:
    """What some seeds of a contender found, and the CPU seconds that it took."""

    found_us: tuple[tuple[float, ...], ...]
    cpu_s: float
    failed: str = ""  # why a rival of another package could not run


def run_seeds(path: Path, contender: str, budget: int, seeds: Sequence[int]) -> Runs:
    """In a process of its own: one run for each seed."""
    recording = _recording(path)
    started = time.process_time()
    try:
        found = tuple(tuple(contenders.run_contender(recording, contender, budget, seed)) for seed in seeds)
    except Exception as error:
        if not contenders.is_rival(contender):
            raise
        return Runs((), 0.0, failed=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    return Runs(found, time.process_time() - started)


@lru_cache(maxsize=4)
def _recording(path: Path) -> Recording:
    return read_recording(path)


def benchmark(
    paths: Sequence[Path],
    names: Sequence[str],
    *,
    budget: int,
    seeds: Sequence[int],
    reference: str,
    jobs: int,
    done: Callable[[str], None] = lambda _: None,
) -> Generator[Space, None, None]:
    """Every contender on every space with every seed, a space at a time; `done` hears of each that has ended.

    UsageError for a file that is no record, or that has nothing correct. `reference` is one of the names.
    """
    recordings = {path: read_recording(path) for path in paths}
    budgets = {path: min(budget, len(draws_us(recording))) for path, recording in recordings.items()}
    calls = [tuple(seeds[at : at + _SEEDS_OF_A_CALL]) for at in range(0, len(seeds), _SEEDS_OF_A_CALL)]
    with IsolatedPool(jobs) as pool:
        futures = {
            (path, name): [
                pool.submit(run_seeds, path, name, budgets[path], part, timeout_s=RUN_LIMIT_S * len(part))
                for part in calls
            ]
            for path in paths
            for name in names
        }
        for path, recording in recordings.items():
            rows = []
            for name in names:
                endings = [future.result() for future in futures[path, name]]
                runs = [ending.value or Runs((), 0.0, failed=ending.reason) for ending in endings]
                if failed := next((part.failed for part in runs if part.failed), ""):
                    done(f"{path.name}: {name} is left out: {failed}")
                else:
                    rows.append(_row(recording, name, budgets[path], runs))
                    done(f"{path.name}: {name}: mean P {rows[-1].standing.score:+.2f}")
            yield _space(path, recording, budgets[path], _with_differences(rows, reference))


def _row(recording: Recording, name: str, budget: int, runs: Sequence[Runs]) -> BenchmarkRow:
    times_us = recording.scores_us
    found = [each for part in runs for each in part.found_us]
    best_us = best_so_far(found, budget, worst_us=times_us[-1])
    expected_us = random_expectation(draws_us(recording), budget)
    scores = scores_of(best_us, expected_us, times_us[0])
    quartiles = np.quantile(best_us / times_us[0], (0.25, 0.5, 0.75), axis=0).T
    return BenchmarkRow(
        standing(name, best_us, expected_us, times_us[0]),
        float(np.median(scores)),
        float((scores < 0).mean()),
        1e3 * sum(part.cpu_s for part in runs) / max(1, sum(map(len, found))),
        tuple(map(float, scores)),
        tuple((float(low), float(middle), float(high)) for low, middle, high in quartiles),
    )


def _with_differences(rows: Sequence[BenchmarkRow], reference: str) -> Iterator[BenchmarkRow]:
    """The rows, best mean first, each with its difference to the reference's."""
    beside = next((row for row in rows if row.name == reference), None)
    for row in sorted(rows, key=lambda row: -row.standing.score):
        if beside is None or row is beside:
            yield row
        else:
            difference, p_value = paired_test(row.scores, beside.scores)
            yield replace(row, difference=difference, p_value=p_value)


def paired_test(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The mean difference of P over the same seeds, and how likely one so far from 0 is by chance.

    That is the share of random signs of the differences whose mean is as far from 0, on both sides.
    """
    differences = np.array(one) - np.array(other)
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(FLIPS, len(differences)))
    extreme = np.abs((signs * differences).mean(axis=1)) >= abs(differences.mean()) - 1e-12
    return float(differences.mean()), float((1 + extreme.sum()) / (1 + FLIPS))


def _space(path: Path, recording: Recording, budget: int, rows: Iterator[BenchmarkRow]) -> Space:
    expected_us: NDArray[np.float64] = random_expectation(draws_us(recording), budget)
    summary = recording.summary
    return Space(
        **asdict(summary),
        file=path.name,
        budget=budget,
        expected=tuple(map(float, expected_us / summary.optimum_us)),
        rows=tuple(rows),
    )
