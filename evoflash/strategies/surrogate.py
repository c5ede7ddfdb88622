"""Surrogate: a forest learns from every outcome and chooses among genomes near the best; it evaluates none.

The forest is grown again after every few outcomes, from these alone and the seed, so that a resumed search
goes on as an unbroken one does. Beside what the forest chooses there are always two-gene jumps: where every
change of one gene is for the worse, a forest that has seen only those has no reason to leave.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.evolution import operators
from evoflash.strategies.forest import grow
from evoflash.strategies.neighbourhood import Neighbourhood
from evoflash.strategies.population import Population
from evoflash.strategies.preference import promise, spread, targets_of
from evoflash.strategies.unseen import Unseen

OPENING = 15  # proposals before the forest is asked
SEEDS = 20  # at most so many come first, a tenth of the default budget; the forest may choose the others
FEWEST = 3  # correct outcomes: fewer teach nothing
BATCH = 5  # outcomes after which the forest is grown again
ELITES = 8  # genomes whose neighbours are offered
PAIRS, CHILDREN, POINTS = 100, 15, 150  # offered: jumps from each elite, operators' children, raw points
STANDSTILL = 10  # outcomes without a gain
GAIN = 1.001  # times as fast: less is no gain
MOVING = ("forest", "forest", "forest", "forest", "jump")  # a batch's picks
STANDING = ("forest", "jump", "jump", "immigrant", "immigrant")  # the same at a standstill
CYCLES = 4  # batches of picks that one forest gives, for many may be in flight
DRAWS = 64  # of a jump until one is new
STEPS = 3  # jumps that make a walk


@dataclass(frozen=True, slots=True)
class _Known:
    """What the picks of one batch depend on."""

    told: Sequence[Evaluation]
    in_flight: tuple[Genome, ...]
    elites: Population
    points: tuple[Genome, ...]  # the valid ones of some points of the raw product: none where they are rare
    taken: set[Genome]  # told, in flight or picked before
    rng: np.random.Generator


class Surrogate:
    """Proposes seeds and random genomes first, then what the forest prefers, with jumps between."""

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...] = ()) -> None:
        self._space, self._seed = space, seed
        self._seeds = tuple(genome for genome in seeds if self._fits(genome))
        self._unseen = Unseen(space, seed=seed)
        self._around = Neighbourhood(space)
        self._operators = operators()
        self._jumps: dict[Genome, tuple[Genome, ...]] = {}  # from what was an elite
        self._told: list[Evaluation] = []
        self._in_flight: dict[Genome, None] = {}  # in the order of asking
        self._learnt = 0  # outcomes that the picks know of
        self._picks: Iterator[Proposal] = iter(())

    def ask(self) -> Proposal | None:
        """A seed, a random genome at first, then the next pick; None when nothing new is left."""
        proposal = self._opening() or self._pick() or self._sample()
        if proposal is not None:
            self._unseen.take(proposal.genome)
            self._in_flight[proposal.genome] = None
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Remember the outcome; the forest is grown when it is needed."""
        self._unseen.take(proposal.genome)
        self._in_flight.pop(proposal.genome, None)
        if self._fits(proposal.genome):
            self._told.append(evaluation)

    def _fits(self, genome: Genome) -> bool:
        # A store may hold genomes of an older version of the family; seeds may ask too much of this GPU.
        try:
            return self._space.genome(genome.as_dict()) == genome and self._space.is_valid(genome)
        except UsageError:
            return False

    def _opening(self) -> Proposal | None:
        for seed in self._seeds[:SEEDS]:
            if seed in self._unseen:
                return Proposal(seed, "seed")
        return self._sample() if self._unseen.proposed < OPENING else None

    def _sample(self) -> Proposal | None:
        genome = self._unseen.draw(self._unseen.rng())
        return None if genome is None else Proposal(genome)

    def _pick(self) -> Proposal | None:
        learnt = len(self._told) // BATCH * BATCH
        if learnt != self._learnt:
            self._learnt, self._picks = learnt, self._batches(self._known(self._told[:learnt]))
        return next((proposal for proposal in self._picks if proposal.genome in self._unseen), None)

    def _known(self, told: Sequence[Evaluation]) -> _Known:
        # A space declares its tile first: elites of several tiles, as evolution has them.
        elites = Population(cell=self._space.blocks[0] if self._space.blocks else (), size=ELITES)
        for evaluation in told:
            elites.add(evaluation)
        in_flight = tuple(self._in_flight)
        taken = {evaluation.genome for evaluation in told}.union(in_flight)
        rng = np.random.default_rng([self._seed, len(told), 2])
        return _Known(told, in_flight, elites, tuple(self._points(rng)), taken, rng)

    def _batches(self, known: _Known) -> Iterator[Proposal]:
        """Proposals in the order in which they are wanted.

        They depend on `known` alone and not on what was proposed meanwhile: a resumed search makes the same
        ones again and passes over those that it finds in its history.
        """
        if not known.elites.elites or sum(map(_is_timed, known.told)) < FEWEST:
            return
        preferred = self._preferred(known)
        for kind in itertools.chain(*[STANDING if _stands_still(known.told) else MOVING] * CYCLES):
            if kind == "forest":
                proposal = next((each for each in preferred if each.genome not in known.taken), None)
            else:
                proposal = self._jump(known) if kind == "jump" else self._immigrant(known)
            if proposal is not None:
                known.taken.add(proposal.genome)
                yield proposal

    def _preferred(self, known: _Known) -> Iterator[Proposal]:
        """What is offered, the forest's favourite first."""
        offers = {each.genome: each for each in self._offers(known) if each.genome not in known.taken}
        pool = list(offers.values())
        targets = targets_of([_score_us(evaluation) for evaluation in known.told])
        forest = grow(self._around.rows([each.genome for each in known.told]), targets, known.rng)
        leaves = forest.leaves(self._around.rows(list(offers)))
        promised = promise(forest, leaves, targets)
        promised += 1e-6 * known.rng.random(len(pool))  # equals come in any order
        beside = forest.leaves(self._around.rows(known.in_flight))
        return (pool[at] for at in spread(promised, leaves, beside))

    def _offers(self, known: _Known) -> Iterator[Proposal]:
        """Seeds that were not tried, neighbours of the elites, operators' children and raw points."""
        yield from (Proposal(seed, "seed") for seed in self._seeds)
        for elite in known.elites.elites:
            parents = (elite.genome.id,)
            yield from (Proposal(far, "two_genes", parents) for far in self._far(elite.genome))
            yield from (Proposal(near, "one_gene", parents) for near in self._around.one_gene(elite.genome))
        yield from self._children(known)
        yield from map(Proposal, known.points)

    def _far(self, genome: Genome) -> tuple[Genome, ...]:
        """Jumps from a genome, drawn once: to check whether one is valid takes some 0.1 ms."""
        if genome not in self._jumps:
            rng = np.random.default_rng([self._seed, int(genome.id, 16)])
            self._jumps[genome] = tuple(self._around.two_genes(genome, rng, count=PAIRS))
        return self._jumps[genome]

    def _children(self, known: _Known) -> Iterator[Proposal]:
        usable = list(self._operators)
        for _ in range(CHILDREN):
            if not usable:
                return
            operator = usable[int(known.rng.integers(len(usable)))]
            parents = [elite.genome for elite in known.elites.parents(operator.arity, known.rng)]
            is_whole = len(parents) == operator.arity
            child = operator.child(parents, self._space, known.rng) if is_whole else None
            if child is None:
                usable.remove(operator)  # its genes are absent, or at their ends
            else:
                yield Proposal(child, operator.name, tuple(parent.id for parent in parents))

    def _points(self, rng: np.random.Generator) -> Iterator[Genome]:
        points = (self._space.draw(rng) for _ in range(POINTS))
        return (point for point in points if point is not None and self._space.is_valid(point))

    def _jump(self, known: _Known) -> Proposal | None:
        """Two genes of an elite changed, whatever the forest says."""
        for _ in range(DRAWS):
            elites = known.elites.elites
            start = elites[int(known.rng.integers(len(elites)))].genome
            for far in self._around.two_genes(start, known.rng, count=1):
                if far not in known.taken:
                    return Proposal(far, "two_genes", (start.id,))
        return None

    def _immigrant(self, known: _Known) -> Proposal | None:
        """A random genome; where valid ones are rare, several jumps away from one that was told.

        A uniform sample of flash_wgmma takes 0.2 s, ten times what a proposal may.
        """
        point = next((point for point in known.points if point not in known.taken), None)
        return self._walk(known) if point is None else Proposal(point)

    def _walk(self, known: _Known) -> Proposal | None:
        start = at = known.told[int(known.rng.integers(len(known.told)))].genome
        for _ in range(STEPS):
            at = next(self._around.two_genes(at, known.rng, count=1), at)
        return None if at in known.taken else Proposal(at, "walk", (start.id,))


def _is_timed(evaluation: Evaluation) -> bool:
    return evaluation.is_correct and evaluation.score_us is not None


def _score_us(evaluation: Evaluation) -> float:
    """Infinite for what failed; a timing that was stopped early counts as what it had come to."""
    us = evaluation.score_us
    return us if evaluation.is_correct and us is not None else np.inf


def _stands_still(told: Sequence[Evaluation]) -> bool:
    """Whether the newest outcomes have brought no gain."""
    scores = [np.inf if evaluation.is_censored else _score_us(evaluation) for evaluation in told]
    before = min(scores[:-STANDSTILL], default=np.inf)
    return len(told) > STANDSTILL and before <= GAIN * min(scores)
