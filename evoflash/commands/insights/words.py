"""What a run has learnt in sentences with numbers: values, what always fails, operators. Counts nothing.

A sentence on a value is said where its 95 % interval leaves 0 out; how many were left unsaid is said too.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from evoflash.commands.insights.digest import Insights, Record
from evoflash.space import Value
from evoflash.strategies.model.gene_effects import GeneEffect, Nogood

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
        yield f"Of {unclear} other values it is unclear whether they are faster or slower."
    yield from _part("Values that failed nearly always:", [nogood_words(each) for each in insights.nogoods])
    yield from _part("Operators whose children gained most:", _best_operators(insights.operators))


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
    """One value: how much faster or slower, how sure, from how many kernels of which kind.

    `other` is the gene's only other value; None where it has several.
    """
    if effect.ratio < 1:
        change, word = 1 / effect.ratio - 1, "faster"
        low, high = 1 / effect.high - 1, 1 / effect.low - 1 if effect.low else math.inf
    else:
        change, word, low, high = effect.ratio - 1, "slower", effect.low - 1, effect.high - 1
    rest = "other values" if other is None else str(other)
    if not effect.is_paired:
        kernels = f"{effect.n} kernels beside all others, which differ in other genes too"
    elif other is None:
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


def _best_operators(operators: Sequence[Record]) -> list[str]:
    known = [each for each in operators if each.uses >= FEWEST_USES and (each.mean_gain or 0) > 0]
    return [_operator_words(each) for each in sorted(known, key=lambda each: -(each.mean_gain or 0))]


def _operator_words(record: Record) -> str:
    gain = math.expm1(record.mean_gain or 0.0)
    return (
        f"{record.name}: its {record.correct} correct children are {100 * gain:.1f} % faster than their "
        f"parents in the mean; {record.faster} of {record.uses} uses gained."
    )


def _value(gene: str, value: Value) -> str:
    return f"{gene} = {value}"
