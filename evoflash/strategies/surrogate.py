"""Surrogate: a forest learns what was evaluated and chooses among genomes near the best; it evaluates nothing.

The forest is grown again after every few outcomes, from these alone and the seed, so that a resumed search goes
on as an unbroken one does. It predicts ranks, so that neither the unit nor a few very slow kernels matter; what
failed has the last rank.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.evolution import operators
from evoflash.strategies.forest import Forest, grow
from evoflash.strategies.neighbourhood import Neighbourhood
from evoflash.strategies.population import Population
from evoflash.strategies.unseen import Unseen

OPENING = 15  # proposals before the model is asked
SEEDS = 20  # at most so many open the search: a tenth of the default budget; the others are offered to the model
FEWEST = 3  # correct outcomes: fewer teach nothing
BATCH = 5  # outcomes after which the forest is grown again
ELITES = 5  # whose neighbours are offered to the model
PAIRS, CHILDREN, POINTS = 100, 30, 300  # offered: two-gene jumps of each elite, children, raw points
STANDSTILL = 15  # outcomes without a gain
GAIN = 1.001  # times as fast: less counts as no gain
MOVING, STANDING = ("model",) * 4 + ("jump",), ("model", "jump", "jump", "sample", "sample")
CYCLES = 4  # of these before the forest is older than it should be, when many proposals are in flight
GOOD = 0.2  # share of the outcomes that count as good
FLATNESS = 0.02  # added to a rank from 0 to 1 before its logarithm
DRAWS = 64

Floats = NDArray[np.float64]


class Surrogate:
    """Proposes seeds, random genomes, and from then on what the model prefers, with jumps among it."""

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...] = ()) -> None:
        self._space, self._seed = space, seed
        self._seeds = tuple(genome for genome in seeds if self._fits(genome))
        self._unseen = Unseen(space, seed=seed)
        self._operators = operators()
        self._told: list[Evaluation] = []
        self._in_flight: dict[Genome, None] = {}
        self._around = Neighbourhood(space)
        self._learnt = 0  # outcomes that the picks know
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
        waiting = (Proposal(seed, "seed") for seed in self._seeds[:SEEDS] if seed in self._unseen)
        if (seed := next(waiting, None)) is not None:
            return seed
        return self._sample() if self._unseen.proposed < OPENING else None

    def _sample(self) -> Proposal | None:
        genome = self._unseen.draw(self._unseen.rng())
        return None if genome is None else Proposal(genome)

    def _pick(self) -> Proposal | None:
        learnt = len(self._told) // BATCH * BATCH
        if learnt != self._learnt:
            self._learnt = learnt
            self._picks = self._choose(self._told[:learnt], tuple(self._in_flight))
        return next((proposal for proposal in self._picks if proposal.genome in self._unseen), None)

    def _choose(self, told: list[Evaluation], in_flight: tuple[Genome, ...]) -> Iterator[Proposal]:
        """Proposals in the order in which they are wanted; all that they depend on is given or constant."""
        if sum(_score_us(evaluation) < np.inf for evaluation in told) < FEWEST:
            return
        rng = np.random.default_rng([self._seed, len(told), 2])
        elites = Population(cell=self._space.blocks[0] if self._space.blocks else (), size=ELITES)
        for evaluation in told:
            elites.add(evaluation)
        if not elites.elites:
            return
        taken = {evaluation.genome for evaluation in told} | set(in_flight)
        ranked = self._ranked(told, in_flight, self._pool(elites, taken, rng), rng)
        best = elites.elites[0].genome.id
        ways: dict[str, Callable[[], Proposal | None]] = {
            "model": lambda: next((p for p in ranked if p.genome not in taken), None),
            "near": lambda: self._nearest(best, taken),
            "jump": lambda: self._jump(elites, taken, rng),
            "sample": lambda: self._draw(taken, rng),
        }
        for way in itertools.chain.from_iterable([STANDING if _stands(told) else MOVING] * CYCLES):
            if (proposal := ways[way]()) is not None:
                taken.add(proposal.genome)
                yield proposal

    def _pool(self, elites: Population, taken: set[Genome], rng: np.random.Generator) -> list[Proposal]:
        """What the model chooses from: each genome once, none of those taken."""
        offered: dict[Genome, Proposal] = {}
        for proposal in self._offers(elites, rng):
            if proposal.genome not in taken:
                offered.setdefault(proposal.genome, proposal)
        return list(offered.values())

    def _offers(self, elites: Population, rng: np.random.Generator) -> Iterator[Proposal]:
        yield from (Proposal(seed, "seed") for seed in self._seeds)
        for elite in elites.elites:
            parents = (elite.genome.id,)
            yield from (Proposal(near, "one_gene", parents) for near in self._around.one_gene(elite.genome))
            jumps = self._around.two_genes(elite.genome, rng, count=PAIRS)
            yield from (Proposal(far, "two_genes", parents) for far in jumps)
        yield from self._children(elites, rng)
        for _ in range(POINTS):
            point = self._space.draw(rng)
            if point is not None and self._space.is_valid(point):
                yield Proposal(point)

    def _children(self, elites: Population, rng: np.random.Generator) -> Iterator[Proposal]:
        usable = list(self._operators)
        for _ in range(CHILDREN):
            if not usable:
                return
            operator = usable[int(rng.integers(len(usable)))]
            parents = [elite.genome for elite in elites.parents(operator.arity, rng)]
            whole = len(parents) == operator.arity
            child = operator.child(parents, self._space, rng) if whole else None
            if child is None:
                usable.remove(operator)  # its genes are absent, or at their ends
            else:
                yield Proposal(child, operator.name, tuple(parent.id for parent in parents))

    def _ranked(
        self,
        told: list[Evaluation],
        in_flight: tuple[Genome, ...],
        pool: list[Proposal],
        rng: np.random.Generator,
    ) -> Iterator[Proposal]:
        """The pool, best first; what resembles an earlier one or one in flight comes later."""
        if not pool:
            return
        targets = targets_of([_score_us(evaluation) for evaluation in told])
        forest = grow(self._around.rows([evaluation.genome for evaluation in told]), targets, rng)
        leaves = forest.leaves(self._around.rows([proposal.genome for proposal in pool]))
        beside = forest.leaves(self._around.rows(in_flight))
        hopes = promise(forest, leaves, good=float(np.quantile(targets, GOOD)))
        hopes += 1e-6 * rng.random(len(pool))  # among equals, anyone
        self._hopes = sorted(((-float(h), at) for at, h in enumerate(hopes)))
        self._pooled = pool
        yield from (pool[at] for at in spread(hopes, leaves, beside))

    def _nearest(self, best, taken):
        for _, at in getattr(self, "_hopes", ()):
            p = self._pooled[at]
            if p.operator == "one_gene" and p.parents[0] == best and p.genome not in taken:
                return p
        return None

    def _jump(self, elites: Population, taken: set[Genome], rng: np.random.Generator) -> Proposal | None:
        for _ in range(DRAWS):
            elite = elites.elites[int(rng.integers(len(elites.elites)))].genome
            for far in self._around.two_genes(elite, rng, count=1):
                if far not in taken:
                    return Proposal(far, "two_genes", (elite.id,))
        return None

    def _draw(self, taken: set[Genome], rng: np.random.Generator) -> Proposal | None:
        # Not from what is unseen: the picks of a resumed search would then depend on where it was resumed.
        drawn = (self._space.sample(rng) for _ in range(DRAWS))
        return next((Proposal(genome) for genome in drawn if genome not in taken), None)


def targets_of(scores_us: list[float]) -> Floats:
    """What the forest learns, from 0 mean: the logarithm of each rank, so that the best are told apart most."""
    scores = np.array(scores_us)
    ranks = np.searchsorted(np.sort(scores), scores, side="right") - 1
    logs: Floats = np.log(ranks / len(scores) + FLATNESS)
    return logs - logs.mean()


def promise(forest: Forest, leaves: NDArray[np.int64], *, good: float) -> Floats:
    """From 0 to 1: by how much each genome is expected to be better than `good`, over all trees."""
    hopes: Floats = np.maximum(good - forest.mean[leaves], 0.0).mean(axis=0)
    return hopes / max(float(hopes.max()), 1e-12)


def spread(hopes: Floats, leaves: NDArray[np.int64], beside: NDArray[np.int64]) -> Iterator[int]:
    """Positions by hope, less the mean share of trees that put the genome into a leaf with those before it."""
    likeness, count = np.zeros(len(hopes)), beside.shape[1]
    for at in range(count):
        likeness += (leaves == beside[:, [at]]).mean(axis=0)
    left = hopes.copy()
    for _ in range(len(hopes)):
        at = int(np.argmax(left - likeness / max(1, count)))
        yield at
        left[at] = -np.inf
        likeness += (leaves == leaves[:, [at]]).mean(axis=0)
        count += 1


def _score_us(evaluation: Evaluation) -> float:
    """Infinite for what failed; a timing that was stopped early counts as what it had come to."""
    timed = evaluation.is_correct and evaluation.score_us is not None
    return evaluation.score_us if timed and evaluation.score_us is not None else np.inf


def _stands(told: list[Evaluation]) -> bool:
    """Whether the newest outcomes have brought no gain."""
    scores = [_score_us(e) if not e.is_censored else np.inf for e in told]
    before, now = min(scores[:-STANDSTILL], default=np.inf), min(scores, default=np.inf)
    return len(told) > STANDSTILL and before <= now * GAIN
