"""Outcomes of earlier searches on near problems, as a model may use them. Knows no store and no problem.

Their times are of other problems. Where some genomes were timed here too, the median ratio brings the others
to this problem's scale; where none was, the best of both are taken to be equals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.space import Genome
from evoflash.strategies.model.features import Floats
from evoflash.strategies.model.gaussian_process import Scale, by_rank, some_of, targets_of

MOST = 40  # outcomes of one search that are kept
DOUBT = 0.2  # noise of an earlier outcome while none of this search is known, as a share of the variance
FEW = 20  # outcomes of this search that have ranks of their own: fewer are ranked with the earlier ones
ENOUGH = 100  # outcomes of this search beside which earlier ones are left out
OUTWEIGHED = 15  # outcomes of this search that double that noise; it grows with their square


@dataclass(frozen=True, slots=True)
class Earlier:
    """One search's genomes and their times in us, infinite for what failed."""

    outcomes: tuple[tuple[Genome, float], ...]

    def best(self, count: int) -> tuple[Genome, ...]:
        """Its fastest genomes, fastest first."""
        timed = sorted((us, at) for at, (_, us) in enumerate(self.outcomes) if us < np.inf)
        return tuple(self.outcomes[at][0] for _, at in timed[:count])


def transfer_genomes(searches: Sequence[Earlier], own: Mapping[Genome, float]) -> list[tuple[Genome, float]]:
    """Genomes of earlier searches that this one has not tried, with the times expected here, the nearest
    search's first; `own` are this search's outcomes.
    """
    found: dict[Genome, float] = {}
    for each in searches if len(own) < ENOUGH else ():
        scale = _scale(each, own)
        kept = some_of(np.array([us for _, us in each.outcomes]), MOST)
        for genome, us in (each.outcomes[at] for at in kept):
            if genome not in own:
                found.setdefault(genome, us * scale)
    return list(found.items())


def _scale(each: Earlier, own: Mapping[Genome, float]) -> float:
    """Times here over times there."""
    both = [(own[genome], us) for genome, us in each.outcomes if genome in own]
    ratios = [here / there for here, there in both if here < np.inf and there < np.inf]
    if ratios:
        return float(np.median(ratios))
    here, there = (min(times, default=np.inf) for times in (own.values(), [us for _, us in each.outcomes]))
    return here / there if here < np.inf and there < np.inf else 1.0


def targets_beside(
    own: Sequence[float], earlier: Sequence[float], scale: Scale = by_rank
) -> tuple[Floats, Floats]:
    """What a model learns of this search's scores, and of earlier ones that were brought here."""
    if len(own) < FEW:
        both = targets_of([*own, *earlier], scale=scale)
        return both[: len(own)], both[len(own) :]
    return targets_of(own, scale=scale), targets_of(earlier, among=own, scale=scale)


def doubts(own: int, earlier: int) -> Floats:
    """(own + earlier,): noise beside the kernel's own, more the more outcomes this search has."""
    return np.concatenate([np.zeros(own), np.full(earlier, DOUBT * (1 + (own / OUTWEIGHED) ** 2))])
