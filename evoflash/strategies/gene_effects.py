"""How much faster each value of a gene makes kernels, and which values always fail. Proposes nothing.

A pure function of outcomes; `evoflash insights` prints it. Both are descriptions of what was tried, not
experiments: a search tries good values beside good values.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist, fmean, variance

from evoflash.evaluation import Evaluation, Status
from evoflash.space import Value

FEWEST = 5  # kernels or pairs of kernels that an interval takes
CONFIDENCE = 0.95
BY_CHANCE = 0.01  # the chance that one nogood among all is none
MOSTLY = 0.9  # share of failures that makes a nogood

_Context = tuple[str, str, str, str]  # family, problem, GPU, basis: what is compared
_Gene = tuple[str, str, Value]  # family, gene, value; True and 1 never stand in one gene
_Rule = tuple[str, tuple[tuple[str, Value], ...]]  # family, values


@dataclass(frozen=True, slots=True)
class GeneEffect:
    """Time with a value of a gene over time without it, of one family; below 1 the value is the faster.

    `is_paired`: from pairs of kernels that differ in this gene alone, one ratio for each kernel that has the
    value (`n` of them, each against the mean of its partners). Else from all kernels with the value (`n`) and
    all without, which differ in other genes too. `low` and `high` bound the ratio with 95 % confidence; they
    are 0 and infinite where too few kernels are there.
    """

    family: str
    gene: str
    value: Value
    n: int
    ratio: float
    low: float
    high: float
    is_paired: bool


@dataclass(frozen=True, slots=True)
class Nogood:
    """One or two values of a family that failed in `failed` of `of` kernels; `status` is the usual ending."""

    family: str
    values: tuple[tuple[str, Value], ...]
    failed: int
    of: int
    status: Status


def effects(history: Iterable[Evaluation]) -> tuple[GeneEffect, ...]:
    """The effect of each value of each gene that has at least two, the surest gains first.

    Times are compared within a family, problem, GPU and basis. Duplicates are left out, and lower bounds.
    """
    timed = [
        each
        for each in history
        if each.learnt_us and not (each.duplicate_of or each.is_censored or each.genome.edits)
    ]
    logs = _centred_logs(timed)
    paired, lists = _paired_ratios(timed, logs), _by_value(timed, logs)
    found = []
    for (family, gene), values in lists.items():
        for value, mine in values.items() if len(values) > 1 else ():
            others = [log for other, theirs in values.items() if other != value for log in theirs]
            found.append(_effect((family, gene, value), paired[family, gene, value], mine, others))
    return tuple(sorted(found, key=lambda effect: (effect.high, effect.ratio, effect.family, effect.gene)))


def _by_value(
    timed: Sequence[Evaluation], logs: Sequence[float]
) -> Mapping[tuple[str, str], Mapping[Value, list[float]]]:
    lists: defaultdict[tuple[str, str], defaultdict[Value, list[float]]]
    lists = defaultdict(lambda: defaultdict(list))
    for each, log in zip(timed, logs, strict=True):
        for gene, value in each.genome.values:
            lists[each.genome.family, gene][value].append(log)
    return lists


def _centred_logs(timed: Sequence[Evaluation]) -> list[float]:
    """The logarithm of each time less the mean of its family, problem, GPU and basis."""
    groups: defaultdict[_Context, list[float]] = defaultdict(list)
    logs = [math.log(each.learnt_us or 1.0) for each in timed]
    for each, log in zip(timed, logs, strict=True):
        groups[_context(each)].append(log)
    means = {context: fmean(group) for context, group in groups.items()}
    return [log - means[_context(each)] for each, log in zip(timed, logs, strict=True)]


def _context(each: Evaluation) -> _Context:
    return each.genome.family, each.problem, each.gpu, each.basis


def _paired_ratios(timed: Sequence[Evaluation], logs: Sequence[float]) -> defaultdict[_Gene, list[float]]:
    """For each value the log ratios of kernels that have it over those that differ in its gene alone."""
    alike: defaultdict[tuple[_Context, str, object], list[tuple[Value, float]]] = defaultdict(list)
    for each, log in zip(timed, logs, strict=True):
        for at, (gene, value) in enumerate(each.genome.values):
            rest = each.genome.values[:at] + each.genome.values[at + 1 :]
            alike[_context(each), gene, rest].append((value, log))
    ratios: defaultdict[_Gene, list[float]] = defaultdict(list)
    for (context, gene, _), kernels in alike.items():
        if len(kernels) > 1:
            total = math.fsum(log for _, log in kernels)
            for value, log in kernels:
                partners = (total - log) / (len(kernels) - 1)
                ratios[context[0], gene, value].append(log - partners)
    return ratios


def _effect(
    gene: _Gene, paired: Sequence[float], mine: Sequence[float], others: Sequence[float]
) -> GeneEffect:
    is_paired = len(paired) >= FEWEST
    if is_paired:
        middle, error, freedom = fmean(paired), _error(paired), len(paired) - 1
    else:
        middle, error = fmean(mine) - fmean(others), math.hypot(_error(mine), _error(others))
        freedom = min(len(mine), len(others)) - 1
    reach = error * _student(freedom) if freedom >= FEWEST - 1 else math.inf
    low, high = math.exp(middle - reach), math.exp(middle + reach)
    return GeneEffect(*gene, len(paired if is_paired else mine), math.exp(middle), low, high, is_paired)


def _error(logs: Sequence[float]) -> float:
    """The standard error of the mean."""
    return math.sqrt(variance(logs) / len(logs)) if len(logs) > 1 else math.inf


def _student(freedom: int) -> float:
    """What |t| exceeds in 1 - CONFIDENCE of all cases: Abramowitz and Stegun 26.7.5, 2 % low at 4 degrees."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def nogoods(history: Iterable[Evaluation]) -> tuple[Nogood, ...]:
    """Values, and pairs of values, that fail far more often than the rest, most failures first.

    A pair is named only where neither of its values is a nogood alone. Chance alone would name one in a
    hundred searches at most.
    """
    tried = [each for each in history if not (each.duplicate_of or each.genome.edits)]
    failures, sizes = Counter[str](), Counter[str]()
    for each in tried:
        sizes[each.genome.family] += 1
        failures[each.genome.family] += each.learnt_us is None
    usual = {family: failures[family] / size for family, size in sizes.items()}
    single = _failing(tried, usual, 1, frozenset())
    named = frozenset((nogood.family, nogood.values) for nogood in single)
    found = (*single, *_failing(tried, usual, 2, named))
    return tuple(sorted(found, key=lambda nogood: (-nogood.failed, len(nogood.values), str(nogood.values))))


def _failing(
    tried: Sequence[Evaluation], usual: Mapping[str, float], size: int, named: frozenset[_Rule]
) -> tuple[Nogood, ...]:
    """Nogoods of `size` values; those that have a named one among them are passed over."""
    seen: Counter[_Rule] = Counter()
    ends: defaultdict[_Rule, Counter[Status]] = defaultdict(Counter)
    for each in tried:
        family = each.genome.family
        free = [value for value in each.genome.values if (family, (value,)) not in named]
        for values in combinations(free, size):
            seen[family, values] += 1
            if each.learnt_us is None:
                ends[family, values][each.status] += 1
    return tuple(
        Nogood(*rule, ended.total(), seen[rule], ended.most_common(1)[0][0])
        for rule, ended in ends.items()
        if _is_no_chance(ended.total(), seen[rule], usual[rule[0]], rules=len(seen))
    )


def _is_no_chance(failed: int, of: int, usual: float, *, rules: int) -> bool:
    """Whether so many failures are too many for `rules` looks at kernels of which that share fails."""
    if failed < MOSTLY * of or usual >= 1.0:
        return False
    tail = (math.comb(of, k) * usual**k * (1 - usual) ** (of - k) for k in range(failed, of + 1))
    return math.fsum(tail) * rules < BY_CHANCE
