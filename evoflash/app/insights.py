"""What a run has learnt of values, failures and operators, in sentences with numbers. Prints nothing.

The numbers come from the run's stored history: by operator, bottleneck, lineage, and value of a gene. A
sentence on a value is said where its 95 % interval leaves 0 out; how many were left unsaid is said too.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evoflash.app.runs import find_run
from evoflash.evaluation import Basis, Evaluation, Proposal, Run
from evoflash.notices import working
from evoflash.problem import canonical
from evoflash.space import Value
from evoflash.specs import canonical_gpu
from evoflash.store.store import Store, best_in, open_store
from evoflash.strategies.gene_effects import GeneEffect, Nogood, effects, nogoods
from evoflash.strategies.operators import diagnosis, gain, is_control

History = list[tuple[Proposal, Evaluation]]


@dataclass(frozen=True, slots=True)
class Child:
    """A proposal that has parents, and how it compares with the fastest of them."""

    operator: str
    bound: str  # what held its first parent back; empty when unknown
    is_control: bool
    is_correct: bool  # and it is no duplicate
    gain: float | None  # natural logarithm of the speed-up; None unless child and parent are both timed
    genome_id: str
    score_us: float | None


@dataclass(frozen=True, slots=True)
class GroupStats:
    """What became of a group of children."""

    name: str
    uses: int
    correct: int
    faster: int  # how many were faster than their fastest parent
    mean_gain: float | None  # mean natural logarithm of the speed-up, over the correct children
    best_us: float | None
    best_id: str


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of the winner's lineage: the operator, and the genes that it changed."""

    genome_id: str
    operator: str
    score_us: float | None
    changes: Mapping[str, tuple[Value | None, Value | None]]  # by gene: before, after; None without the gene


@dataclass(frozen=True, slots=True)
class Insights:
    """A run's operators, the most used first; `lineage` leads from a seed or a sample to the winner."""

    run: Run
    evaluated: int
    is_estimated: bool  # its times are a model's, made here or recorded
    operators: tuple[GroupStats, ...]
    bottlenecks: tuple[GroupStats, ...]
    arms: tuple[GroupStats, ...]
    pairs: tuple[GroupStats, ...]  # "bound: operator"
    lineage: tuple[Generation, ...]
    effects: tuple[GeneEffect, ...] = ()  # of the values of genes, the surest gains first
    nogoods: tuple[Nogood, ...] = ()  # values that fail nearly always

    def as_dict(self) -> dict[str, Any]:
        """Gains are natural logarithms of the speed-up over the parent; ends that nobody knows are None."""
        table = asdict(self) | {"run": self.run.as_dict()}
        for effect in table["effects"]:
            if math.isinf(effect["high"]):
                effect["low"] = effect["high"] = None
        return table


def insights_of(
    db: str, wanted: str | None = None, *, problem: str | None, gpu: str | None, replayed: bool
) -> Insights:
    """As read_insights(), of a database and from what a person writes."""
    with working("counting what the search has learnt"), open_store(db, read_only=True) as store:
        what, spec = canonical(problem), canonical_gpu(gpu)
        return read_insights(store, wanted, problem=what, gpu=spec, replayed=replayed)


def read_insights(
    store: Store,
    wanted: str | None = None,
    *,
    problem: str | None = None,
    gpu: str | None = None,
    replayed: bool = False,
) -> Insights:
    """Those of the run that find_run() finds for the same arguments."""
    run = find_run(store, wanted, problem=problem, gpu=gpu, replayed=replayed)
    history = store.history(run)
    return digest(run, history, best_in(history))


def digest(run: Run, history: History, winner: Evaluation | None) -> Insights:
    """The counts of one run; `winner` is its best kernel."""
    children = _children(run.key.seed, history)
    return Insights(
        run=run,
        evaluated=len(history),
        is_estimated=run.key.basis is Basis.ESTIMATED or any(each.is_estimate for _, each in history),
        operators=_records(children, lambda child: child.operator),
        bottlenecks=_records(children, lambda child: child.bound or "unknown"),
        arms=_records(children, lambda child: "control" if child.is_control else "credit"),
        pairs=_records(children, lambda child: f"{child.bound or 'unknown'}: {child.operator}"),
        lineage=_lineage(history, winner),
        effects=_with_paired_intervals(effects(evaluation for _, evaluation in history)),
        nogoods=nogoods(evaluation for _, evaluation in history),
    )


def _with_paired_intervals(found: Sequence[GeneEffect]) -> tuple[GeneEffect, ...]:
    """The same, those first whose interval is of pairs: kernels that differ in other genes too have none."""
    plain = [each if each.is_paired else replace(each, low=0.0, high=math.inf) for each in found]
    return tuple(sorted(plain, key=lambda each: each.high))


def _children(seed: int, history: History) -> list[Child]:
    """The proposals with parents. Each family's strategy counts its own proposals (see is_control)."""
    outcomes = {proposal.genome.id: evaluation for proposal, evaluation in history}
    positions: dict[str, int] = {}
    children = []
    for proposal, evaluation in history:
        position = positions.get(proposal.genome.family, 0)
        positions[proposal.genome.family] = position + 1
        if proposal.parents:
            parents = [outcomes[parent] for parent in proposal.parents if parent in outcomes]
            children.append(_child(proposal, evaluation, parents, control=is_control(seed, position)))
    return children


def _child(proposal: Proposal, evaluation: Evaluation, parents: list[Evaluation], *, control: bool) -> Child:
    timed = [parent.score_us for parent in parents if parent.is_rankable and parent.score_us]
    own = evaluation.is_correct and not evaluation.duplicate_of
    score_us = evaluation.score_us if own and not evaluation.is_censored else None
    return Child(
        operator=proposal.operator,
        bound=diagnosis(parents[0]) if parents else "",
        is_control=control,
        is_correct=own,
        gain=gain(min(timed), score_us) if timed and score_us else None,
        genome_id=proposal.genome.id,
        score_us=score_us,
    )


def _records(children: Iterable[Child], group: Callable[[Child], str]) -> tuple[GroupStats, ...]:
    groups: dict[str, list[Child]] = {}
    for child in children:
        groups.setdefault(group(child), []).append(child)
    records = [_record(name, members) for name, members in groups.items()]
    return tuple(sorted(records, key=lambda record: (-record.uses, record.name)))


def _record(name: str, children: list[Child]) -> GroupStats:
    gains = [child.gain for child in children if child.gain is not None]
    timed = [(child.score_us, child.genome_id) for child in children if child.score_us is not None]
    best_us, best_id = min(timed, default=(None, ""))
    return GroupStats(
        name=name,
        uses=len(children),
        correct=sum(child.is_correct for child in children),
        faster=sum(log_gain > 0 for log_gain in gains),
        mean_gain=sum(gains) / len(gains) if gains else None,
        best_us=best_us,
        best_id=best_id,
    )


def _lineage(history: History, winner: Evaluation | None) -> tuple[Generation, ...]:
    """From the winner back, always to the fastest parent; the earliest generation comes first."""
    known = {proposal.genome.id: (proposal, evaluation) for proposal, evaluation in history}
    steps: list[Generation] = []
    at = known.get(winner.genome.id) if winner is not None else None
    while at is not None:
        proposal, evaluation = at
        parents = [known[parent] for parent in proposal.parents if parent in known]
        before = min(parents, key=lambda pair: pair[1].score_us or math.inf, default=None)
        changes = {} if before is None else _changes(before[0], proposal)
        steps.append(Generation(proposal.genome.id, proposal.operator, evaluation.score_us, changes))
        at = before
    return tuple(reversed(steps))


def _changes(before: Proposal, after: Proposal) -> dict[str, tuple[Value | None, Value | None]]:
    old, new = before.genome.as_dict(), after.genome.as_dict()
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return {name: (old.get(name), new.get(name)) for name in names}


MOST = 8  # sentences of each kind
FEWEST_USES = 3  # of an operator that is named


def sentences(insights: Insights) -> Iterator[str]:
    """A heading and its lines, for each of the three kinds of which there is something to say."""
    mark = ", by a model's ESTIMATES" if insights.is_estimated else ""
    only = _only_others(insights.effects)
    faster = [each for each in insights.effects if each.high < 1]
    slower = sorted((each for each in insights.effects if each.low > 1), key=lambda each: -each.low)
    said = [effect_words(each, only.get(each)) for each in faster]
    yield from _part(f"Values that were faster{mark}:", said)
    # Of two values the slower one is the other side of the faster.
    said = [effect_words(each) for each in slower if each not in only]
    yield from _part(f"Values that were slower{mark}:", said)
    if unclear := len(insights.effects) - len(faster) - len(slower):
        values = f"{unclear} other values" if unclear > 1 else "1 other value"
        yield f"For {values} no pair of kernels tells faster from slower."
    yield from _part("Values that failed nearly always:", [nogood_words(each) for each in insights.nogoods])
    yield from _part(f"Operators whose children gained most{mark}:", _best_operators(insights.operators))


def _part(heading: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield heading
        yield from (f"  {line}" for line in lines[:MOST])
    if len(lines) > MOST:
        yield f"  and {len(lines) - MOST} more (--json has all)."


def _only_others(effects: Sequence[GeneEffect]) -> dict[GeneEffect, Value]:
    """For values of genes that have two: the other one."""
    genes: defaultdict[tuple[str, str], list[GeneEffect]] = defaultdict(list)
    for each in effects:
        genes[each.family, each.gene].append(each)
    pairs = [values for values in genes.values() if len(values) == 2]
    return {one: other.value for pair in pairs for one, other in (pair, pair[::-1])}


def effect_words(effect: GeneEffect, other: Value | None = None) -> str:
    """One value whose interval is of pairs: how much faster or slower, how sure, from how many kernels.

    `other` is the gene's only other value; None where it has several.
    """
    if effect.ratio < 1:
        change, word = 1 / effect.ratio - 1, "faster"
        low, high = 1 / effect.high - 1, 1 / effect.low - 1 if effect.low else math.inf
    else:
        change, word, low, high = effect.ratio - 1, "slower", effect.low - 1, effect.high - 1
    rest = "other values" if other is None else str(other)
    if other is None:
        kernels = f"{effect.n} kernels, each beside those that differ in this gene alone"
    else:
        kernels = f"{effect.n} pairs that differ in this gene alone"
    value = f"{effect.family}: {_value(effect.gene, effect.value)}"
    return (
        f"{value} instead of {rest}: {100 * change:.1f} % {word} "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f}; {kernels})."
    )


def nogood_words(nogood: Nogood) -> str:
    """Values that do not work together."""
    values = " with ".join(_value(gene, value) for gene, value in nogood.values)
    return (
        f"{nogood.family}: {values} failed in {nogood.failed} of {nogood.of} kernels, mostly {nogood.status}."
    )


def _best_operators(operators: Sequence[GroupStats]) -> list[str]:
    known = [each for each in operators if each.uses >= FEWEST_USES and (each.mean_gain or 0) > 0]
    return [_operator_words(each) for each in sorted(known, key=lambda each: -(each.mean_gain or 0))]


def _operator_words(record: GroupStats) -> str:
    gain = math.expm1(record.mean_gain or 0.0)
    return (
        f"{record.name}: its {record.correct} correct children are {100 * gain:.1f} % faster than their "
        f"parents in the mean; {record.faster} of {record.uses} uses gained."
    )


def _value(gene: str, value: Value) -> str:
    return f"{gene} = {value}"
