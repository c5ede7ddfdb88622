"""Compares searches that were repeated with several seeds, by their best times so far. Evaluates no kernel.

A repeated search are the runs that differ in their seed alone. Two of them are compared where both have
spent as much, seed by seed: the ratio of their best times, and a test of whether it is 1.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from evoflash.app.runs import find_run
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, Run, faster
from evoflash.notices import working
from evoflash.store.store import Store, open_store

_MOST_EXACT = 12  # pairs, up to which every choice of signs is counted
_FLIPS = 20_000  # random choices of signs beyond that


@dataclass(frozen=True, slots=True)
class Repeat:
    """One run: its best correct time in us after each evaluation, infinite before there is one."""

    run: int
    seed: int
    best_us: tuple[float, ...]

    @property
    def evaluations(self) -> int:
        """Distinct kernels."""
        return len(self.best_us)


@dataclass(frozen=True, slots=True)
class RepeatedSearch:
    """The runs of one search with their seeds, in the order of these."""

    run: Run  # one of them, which says what was searched
    repeats: tuple[Repeat, ...]
    is_estimate: bool

    @property
    def name(self) -> str:
        """The search, as `evoflash runs` names it, and which runs it has."""
        runs = ", ".join(str(each.run) for each in self.repeats)
        return f"{self.run.key.search_name} (run{'s' * (len(self.repeats) > 1)} {runs})"

    @property
    def evaluations(self) -> int:
        """As many as every run has spent."""
        return min(each.evaluations for each in self.repeats)

    def quartiles(self, after: int) -> tuple[float, float, float]:
        """Of the runs' best times after so many evaluations; infinite where too few runs have one."""
        found = np.array([each.best_us[after - 1] for each in self.repeats])
        low, middle, high = np.quantile(found, (0.25, 0.5, 0.75), method="inverted_cdf")
        return float(low), float(middle), float(high)

    def as_dict(self) -> dict[str, Any]:
        """Each run's curve, and the quartiles after each evaluation; None where there is no time yet."""
        key = self.run.key
        runs = [asdict(each) | {"best_us": list(map(_finite_or_none, each.best_us))} for each in self.repeats]
        bands = [[_finite_or_none(us) for us in self.quartiles(n)] for n in range(1, self.evaluations + 1)]
        return {
            **key.as_dict() | {"seed": [each.seed for each in self.repeats]},
            "estimated": self.is_estimate,
            "runs": runs,
            "quartiles_us": bands,
        }


def _finite_or_none(us: float) -> float | None:
    return us if math.isfinite(us) else None


@dataclass(frozen=True, slots=True)
class SearchComparison:
    """Two repeated searches after as many evaluations; `pairs` are of the seeds that both have."""

    first: RepeatedSearch
    second: RepeatedSearch
    evaluations: int
    pairs: tuple[tuple[int, float, float], ...]  # seed, and the best time in us of either
    ratio: float | None  # geometric mean of the first's time over the second's; None without a pair
    p_value: float | None  # how likely one so far from 1 is by chance; None with fewer than two pairs

    @property
    def least_p(self) -> float:
        """The smallest that so many pairs can have."""
        return 2.0 ** (1 - len(self.pairs))

    def as_dict(self) -> dict[str, Any]:
        pairs = [{"seed": seed, "first_us": one, "second_us": other} for seed, one, other in self.pairs]
        both = {"first": self.first.as_dict(), "second": self.second.as_dict()}
        known = {"evaluations": self.evaluations, "ratio": self.ratio, "p_value": self.p_value}
        return {**both, **known, "pairs": pairs}


def compare_runs(db: str, first: str, second: str) -> SearchComparison:
    """Two searches of a database, each named by one of its runs, with all the seeds that each has.

    Where both name the same search it is those two runs alone. UsageError where they searched for different
    things, NoKernelError where one has evaluated nothing.
    """
    with working("reading the runs' histories"), open_store(db, read_only=True) as store:
        one, other = find_run(store, first), find_run(store, second)
        for run in (one, other):
            if not run.key.is_search:
                raise UsageError(
                    f"run {run.id} is of {run.key.strategy}, which is no search: compare two searches."
                )
        for name in ("problem", "gpu", "basis"):
            mine, theirs = getattr(one.key, name), getattr(other.key, name)
            if mine != theirs:
                raise UsageError(
                    f"run {one.id} has the {name} {mine}, run {other.id} {theirs}: compare runs of one."
                )
        if one.id == other.id:
            raise UsageError(f"both are run {one.id}: name two runs.")
        is_same = _search_of(one) == _search_of(other)
        return compare(*(repeated_search(store, run, alone=is_same) for run in (one, other)))


def repeated_search(
    store: Store, run: Run, *, seeds: Iterable[int] | None = None, alone: bool = False
) -> RepeatedSearch:
    """The search of a run with every seed that it was made with, or with these; `alone`: the run by itself.

    Of several runs of one seed it is the newest that has an outcome, or the run itself.
    """
    wanted, begun = None if seeds is None else set(seeds), store.runs_with_outcomes()
    chosen = {run.key.seed: run}
    for each in [] if alone else store.runs():
        is_asked = wanted is None or each.key.seed in wanted
        if is_asked and each.id in begun and _search_of(each) == _search_of(run):
            chosen.setdefault(each.key.seed, each)
    if run.id not in begun:
        raise NoKernelError(f"run {run.id} has evaluated nothing yet: continue it, or name another run.")
    histories = {each.id: store.history(each) for _, each in sorted(chosen.items())}
    repeats = [Repeat(each.id, seed, curve(histories[each.id])) for seed, each in sorted(chosen.items())]
    is_estimate = any(evaluation.is_estimate for rows in histories.values() for _, evaluation in rows)
    return RepeatedSearch(run, tuple(repeats), is_estimate or run.key.basis is Basis.ESTIMATED)


def _search_of(run: Run) -> tuple[object, ...]:
    return replace(run.key, seed=0), run.gpu_hash


def curve(history: Sequence[tuple[Proposal, Evaluation]]) -> tuple[float, ...]:
    """The best correct time in us after each evaluation that counts."""
    best, found = None, []
    for _, evaluation in history:
        if not evaluation.duplicate_of:
            best = faster(best, evaluation)
            found.append(math.inf if best is None or best.score_us is None else best.score_us)
    return tuple(found)


def compare(first: RepeatedSearch, second: RepeatedSearch) -> SearchComparison:
    """After as many evaluations as every one of the runs has."""
    after = min(first.evaluations, second.evaluations)
    mine, theirs = ({each.seed: each.best_us[after - 1] for each in one.repeats} for one in (first, second))
    if len(mine) == len(theirs) == 1:  # two runs by themselves are a pair whatever their seeds
        theirs = dict(zip(mine, theirs.values(), strict=True))
    pairs = [(seed, us, theirs[seed]) for seed, us in mine.items() if seed in theirs]
    timed = [pair for pair in pairs if all(map(math.isfinite, pair[1:]))]
    logs = [math.log(one / other) for _, one, other in timed]
    ratio = math.exp(sum(logs) / len(logs)) if logs else None
    return SearchComparison(
        first, second, after, tuple(timed), ratio, sign_flip_test(logs) if len(logs) > 1 else None
    )


def sign_flip_test(differences: Sequence[float]) -> float:
    """How likely a mean so far from 0 is where each difference is as likely to have the other sign.

    That is the share of all choices of signs, or of many random ones, whose mean is as far from 0.
    """
    found = np.array(differences)
    if len(found) <= _MOST_EXACT:
        signs, more = np.array(list(product((-1.0, 1.0), repeat=len(found)))), 0
    else:
        signs, more = np.random.default_rng(0).choice((-1.0, 1.0), size=(_FLIPS, len(found))), 1
    extreme = np.abs((signs * found).mean(axis=1)) >= abs(found.mean()) - 1e-12
    return float((more + extreme.sum()) / (more + len(signs)))


def checkpoints(evaluations: int) -> tuple[int, ...]:
    """Where a table shows a curve: 1, 2, 5, 10, 20, 50 ..., and its end."""
    steps = [digit * 10**power for power in range(10) for digit in (1, 2, 5)]
    near = [each for each in steps if each < evaluations]
    return (*near, evaluations)
