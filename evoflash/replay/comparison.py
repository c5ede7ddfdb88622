"""Compares search strategies on a recorded space, without a GPU, by their curves and a score.

The score is the auto-tuning community's (F. Willemsen et al., "A methodology for comparing optimization
algorithms for auto-tuning", Future Generation Computer Systems 159, 2024;
github.com/AutoTuningAssociation/autotuning_methodology): P = (S - F) / (S - optimum), where F is the best
time that a strategy has found after k evaluations and S what random search is expected to have found: 0 is
random, 1 the optimum, below 0 worse than random. Three things differ from their package. The window of
evaluations is fixed (WINDOW_START to the budget) where theirs depends on the space, S is exact where theirs
rounds, and a failed configuration counts as the slowest valid one in S as in F, since it costs an evaluation
in both.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.replay.recorded_space import Recording, ReplayedEvaluator, SpaceSummary
from evoflash.search import search
from evoflash.strategies import check_strategy, known_strategies, make_strategy

WINDOW_START = 20  # P is the mean over the evaluations from here to the budget
NEAR = 1.05  # times the optimum: close enough to call it found
RESAMPLES = 1000  # of the repeats, for the interval of P

Curves = NDArray[np.float64]  # (repeats, budget): the best time in us after each evaluation

Quartiles = tuple[tuple[float, float, float], ...]  # of the repeats, after 1, 2, ... evaluations


@dataclass(frozen=True, slots=True)
class StrategyScore:
    """How one strategy did on one recorded space, over its repeats."""

    strategy: str
    best_over_optimum: float  # median over the repeats, at the end of the budget
    score: float  # P
    score_low: float  # 95 % of the bootstrapped means lie between low and high
    score_high: float
    near_share: float  # of the repeats that came within 5 % of the optimum
    near_after: int | None  # median evaluations until then; None when most repeats never did


@dataclass(frozen=True, slots=True)
class StrategyComparison(SpaceSummary):
    """Every strategy's standing on one recorded space, and what random search is expected to do."""

    budget: int
    repeats: int
    seed: int
    ahead: int
    standings: tuple[StrategyScore, ...]
    random: StrategyScore  # computed exactly, without a run
    # By strategy the best over the optimum after 1, 2, ... evaluations; of random search its expectation.
    curves: Mapping[str, Quartiles] = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)  # operators and extensions, with digests

    @property
    def window_start(self) -> int:
        """The evaluation from which on the score is a mean."""
        return min(WINDOW_START, self.budget)

    def as_dict(self) -> dict[str, Any]:
        """Times in us, `best_over_optimum` a median, `near` within 5 % of the optimum."""
        return asdict(self)


class _Notebook:
    """A store of one run, in memory."""

    def __init__(self) -> None:
        self.rows: list[tuple[Proposal, Evaluation]] = []

    def history(self, run: None) -> list[tuple[Proposal, Evaluation]]:
        return self.rows

    def spent_budget(self, run: None) -> int:
        return len(self.rows)

    def add_all(self, run: None, outcomes: Sequence[tuple[Proposal, Evaluation]]) -> None:
        self.rows += outcomes


def parse_strategies(names: str) -> tuple[str, ...]:
    """`all`, or names with commas between -> strategy names. UsageError for an unknown one."""
    if names == "all":
        return known_strategies()
    wanted = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in wanted:
        if name.partition(":")[0] in known_strategies():
            check_strategy(name)  # evolution:full has a preset behind its name
        else:
            known = ", ".join(known_strategies())
            raise UsageError(f"no strategy is called '{name}': use all or some of {known}.")
    return wanted


def compare(
    recording: Recording,
    strategies: Sequence[str],
    *,
    budget: int,
    repeats: int,
    seed: int = 0,
    ahead: int = 1,
) -> StrategyComparison:
    """Run each strategy `repeats` times, with the seeds from `seed` on; UsageError for a hopeless record."""
    if budget < 1 or repeats < 1 or ahead < 1:
        raise UsageError("give whole numbers from 1 up for --budget, --repeats and --ahead.")
    every_us, optimum_us = draws_us(recording), recording.scores_us[0]
    budget = min(budget, len(every_us))
    expected = random_expectation(every_us, budget)
    found = {name: curves(recording, name, budget, repeats, seed, ahead) for name in strategies}
    standings = tuple(standing(name, best_us, expected, optimum_us) for name, best_us in found.items())
    random = _random_standing(every_us, expected)
    return StrategyComparison(
        **asdict(recording.summary),
        budget=budget,
        repeats=repeats,
        seed=seed,
        ahead=ahead,
        standings=standings,
        random=random,
        curves={
            name: quartiles(best_us, optimum_us)
            for name, best_us in {**found, random.strategy: expected[None, :]}.items()
        },
    )


def draws_us(recording: Recording) -> NDArray[np.float64]:
    """What a draw from the record comes to, ascending, in us: what failed counts as the slowest time.

    UsageError where nothing was correct.
    """
    times_us = recording.scores_us
    if not times_us:
        raise UsageError(f"no configuration of {recording.problem} was correct: there is no optimum to find.")
    failed = len(recording.space.genomes) - len(times_us)
    return np.array(times_us + [times_us[-1]] * failed)


def curves(
    recording: Recording, strategy: str, budget: int, repeats: int, seed: int = 0, ahead: int = 1
) -> Curves:
    """The best time so far of each repeat, in us; until something is correct, the slowest recorded time."""
    repeated = (replay_times(recording, strategy, budget, seed + i, ahead) for i in range(repeats))
    return best_so_far([list(scores) for scores in repeated], budget, worst_us=recording.scores_us[-1])


def best_so_far(found_us: Sequence[Sequence[float]], budget: int, *, worst_us: float) -> Curves:
    """The curves of repeats whose evaluations found these times, infinite where they failed."""
    rows = [np.array(scores[:budget], dtype=np.float64) for scores in found_us]
    # A strategy that finds nothing new ends early and keeps its best.
    padded = [np.pad(row, (0, budget - len(row)), constant_values=math.inf) for row in rows]
    return np.minimum(np.minimum.accumulate(np.stack(padded), axis=1), worst_us)


def quartiles(best_us: Curves, optimum_us: float) -> Quartiles:
    """Of the best over the optimum, after each evaluation."""
    rows = np.quantile(best_us / optimum_us, (0.25, 0.5, 0.75), axis=0).T
    return tuple((float(low), float(middle), float(high)) for low, middle, high in rows)


def replay_times(
    recording: Recording, strategy: str, budget: int, seed: int, ahead: int = 1
) -> Iterator[float]:
    """What each evaluation of one run came to, in us; infinite where it failed, was a lower bound, or was not
    proven to be right.
    """
    notebook = _Notebook()
    proposes = make_strategy(strategy, recording.space, seed=seed)
    search(proposes, ReplayedEvaluator(recording, ahead=ahead), notebook, None, budget=budget)
    for _, evaluation in notebook.rows:
        us = evaluation.score_us
        yield us if us is not None and evaluation.is_correct and not evaluation.is_censored else math.inf


def random_expectation(every_us: NDArray[np.float64], budget: int) -> NDArray[np.float64]:
    """Expected best of k draws without replacement for k = 1..budget; `every_us` ascends.

    Exact: the best of k draws is the i-th fastest or slower when none of them is among the i fastest.
    """
    steps = np.diff(every_us, prepend=0.0)
    return np.array([float(slower @ steps) for slower in _slower(len(every_us), budget)])


def _slower(size: int, budget: int) -> Iterator[NDArray[np.float64]]:
    """For k = 1..budget: the chance that the best of k draws has rank i or worse, for i = 0..size-1."""
    rank = np.arange(size)
    chance = np.ones(size)
    for drawn in range(budget):
        chance = chance * np.maximum(size - rank - drawn, 0) / (size - drawn)
        yield chance


def standing(
    strategy: str, best_us: Curves, expected_us: NDArray[np.float64], optimum_us: float
) -> StrategyScore:
    """What the curves of a strategy's repeats come to."""
    rng = np.random.default_rng(0)
    picks = rng.integers(len(best_us), size=(RESAMPLES, len(best_us)))
    per_repeat = scores_of(best_us, expected_us, optimum_us)
    low, high = np.quantile(per_repeat[picks].mean(axis=1), [0.025, 0.975])
    near = best_us <= NEAR * optimum_us
    after = np.where(near.any(axis=1), near.argmax(axis=1) + 1, math.inf)
    median = float(np.median(after))
    return StrategyScore(
        strategy,
        float(np.median(best_us[:, -1])) / optimum_us,
        float(per_repeat.mean()),
        float(low),
        float(high),
        float(near.any(axis=1).mean()),
        None if math.isinf(median) else math.ceil(median),
    )


def scores_of(best_us: Curves, expected_us: NDArray[np.float64], optimum_us: float) -> NDArray[np.float64]:
    """P of each repeat."""
    return np.array([_score(curve, expected_us, optimum_us) for curve in best_us])


def _score(best_us: NDArray[np.float64], expected_us: NDArray[np.float64], optimum_us: float) -> float:
    first = min(WINDOW_START, len(expected_us)) - 1
    room = expected_us[first:] - optimum_us
    # Where random search has surely found the optimum there is nothing left to score.
    scored = room > 1e-9 * optimum_us
    if not scored.any():
        return 0.0
    return float(((expected_us[first:] - best_us[first:])[scored] / room[scored]).mean())


def _random_standing(every_us: NDArray[np.float64], expected_us: NDArray[np.float64]) -> StrategyScore:
    size, budget = len(every_us), len(expected_us)
    near = int(np.searchsorted(every_us, NEAR * every_us[0], side="right"))
    hit = [1.0 - float(slower[near]) if near < size else 1.0 for slower in _slower(size, budget)]
    after = next((k for k, chance in enumerate(hit, 1) if chance >= 0.5), None)
    best = float(expected_us[-1] / every_us[0])
    return StrategyScore("random, expected", best, 0.0, 0.0, 0.0, hit[-1], after)
