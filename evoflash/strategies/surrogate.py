"""Surrogate lets a Gaussian process learn from every outcome and choose among genomes near the best.

It evaluates none. The model is made again after every few outcomes, from these alone and the seed, so that a
resumed search goes on as an unbroken one does. At a standstill two picks of a batch are a jump and a random
genome, whatever the model says of them: it may be sure of what it never saw. For spaces that name their tile:
others are searched by WholeSpace (whole_space.py).

How a kernel divides its work (tile, blocks on an SM, schedule, splits of the keys: the space's partition)
decides more than its other genes, and few changes of one or two of these lead from one good division to
another. So most of the first picks are divisions that were not tried, and the fastest genome of each division
keeps neighbours on offer, proven or not: a division is judged once its other genes suit it.

Where searches for other problems are known, the model learns what differs from what they say (prior.py), and
is asked as soon as the seeds are proposed: what they prefer comes instead of random genomes.

What the model judges is offered to it: genomes near the best and some far away. What takes long to find
(whether a genome is valid takes up to 0.1 ms) is kept for the next batch. All offers are a function of the
seed and of the outcomes that are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace, Value
from evoflash.strategies.gaussian_process import (
    Covariance,
    Floats,
    Posterior,
    favourite,
    fit,
    posterior,
    some_of,
    targets_of,
    usual_kernel,
)
from evoflash.strategies.model_strategy import ModelStrategy
from evoflash.strategies.neighbourhood import Neighbourhood, values_of
from evoflash.strategies.operators import operators_for
from evoflash.strategies.populations import Population
from evoflash.strategies.prior import Earlier

OPENING = 15  # proposals before the model is asked
OPENING_BESIDE_SEEDS = 6  # the same where there are seeds: random genomes are far worse
SEEDS = 20  # come first at most, a tenth of the default budget; the model may choose the others
UNSURE = 0.3  # the least variance that earlier searches leave, while too few outcomes tell how much it is
FEWEST = 3  # outcomes with a time: fewer teach nothing
BATCH = 5  # outcomes after which the model is made again; so many more for each
EACH = 200  # outcomes there are, for it takes the longer, and each tells less,
ABREAST = (
    16  # or for each so many that are in flight: they come the faster, and know as little of one another
)
LEARNT_FROM, FITTED_TO = 300, 150  # at most so many outcomes: the model, and its kernel
FIRST_FIT = 15  # outcomes when the kernel is fitted first
LATER = 1.25  # times as many for each further fit
ELITES = 6  # proven genomes whose neighbours are offered
OF_A_DIVISION = 3  # of them at most of one division of the work
UNPROVEN = 4  # genomes of other divisions, too slow for a proof, whose neighbours are offered as well
STANDSTILL = 20  # outcomes without a gain
GAIN = 1.001  # times as fast: less is no gain
PAIRS, CHILDREN, POINTS = 60, 15, 100  # offered: jumps from each elite, operators' children, raw points
TILES = 200  # draws of other tiles for each elite; two in three and more of them are not valid
DIVISIONS = 400  # and of other divisions of the work,
KNOWN_DIVISIONS = 150  # beside some of those that one change after another leads to from the seeds
WALKS = 15  # offered where raw points are hardly ever valid
REDRAWN = 8  # batches after which other jumps from the same elites are offered
DRAWS = 64  # of a jump or a walk until one is new
STEPS = 3  # jumps that make a walk
STARTS = 3  # seeds from which divisions of the work are looked for
# A batch's picks, those at a standstill, and those of the first outcomes.
MOVING = "model", "model", "model", "model", "division"
STANDING = "model", "model", "division", "jump", "immigrant"
FIRST = "model", "division", "division", "model", "division"
FIRST_OUTCOMES = 100
_Condition = Callable[[Genome], bool]
Division = tuple[Value | None, ...]  # the values of a partition's genes


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What the picks of one batch depend on."""

    told: Sequence[Evaluation]
    in_flight: tuple[Genome, ...]
    elites: tuple[Genome, ...]  # proven, fastest first
    unproven: tuple[Genome, ...]  # the fastest of divisions of the work that no elite has
    points: tuple[Genome, ...]  # the valid ones of some points of the raw product: none where they are rare
    taken: set[Genome]  # told, in flight or picked before
    rng: np.random.Generator
    drawing: int  # jumps from an elite are the same while this number is


class Offers:
    """What is offered in one space, and single jumps in it that no model is asked about."""

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...]) -> None:
        self._space, self._seed, self._seeds = space, seed, seeds
        self._around = Neighbourhood(space)
        self._operators = operators_for(space)
        self._jumps: dict[tuple[Genome, int], tuple[Genome, ...]] = {}  # from what was an elite
        self._partition = partition_of(space)
        self._known: tuple[Genome, ...] | None = None  # a genome of each division of the work
        self._divisions_of: dict[Genome, tuple[Genome, ...]] = {}

    def all(self, known: BatchContext, elites: Population) -> Iterator[Proposal]:
        """Seeds that were not tried, neighbours of the elites, operators' children and raw points."""
        yield from (Proposal(seed, "seed") for seed in self._seeds)
        for elite in (*known.elites, *known.unproven):
            parents = (elite.id,)
            yield from (Proposal(far, "two_genes", parents) for far in self._far(elite, known))
            yield from (Proposal(near, "one_gene", parents) for near in self._around.one_gene(elite))
        for elite in known.elites:
            parents = (elite.id,)
            yield from (Proposal(other, "division", parents) for other in self._other_divisions(elite))
        yield from self._children(known, elites)
        yield from map(Proposal, known.points)
        if len(known.points) < WALKS:
            walks = (self._walk(known) for _ in range(WALKS))
            yield from (walk for walk in walks if walk is not None)

    def _far(self, genome: Genome, known: BatchContext) -> tuple[Genome, ...]:
        """Jumps from a genome, kept for some time: to check whether one is valid takes some 0.1 ms."""
        which = genome, known.drawing
        if which not in self._jumps:
            rng = np.random.default_rng([self._seed, int(genome.id, 16), known.drawing])
            self._jumps[which] = tuple(self._around.two_genes(genome, rng, count=PAIRS))
        return self._jumps[which]

    def _other_divisions(self, genome: Genome) -> tuple[Genome, ...]:
        """The genome with its work divided otherwise; kept."""
        if not self._partition:
            return ()
        if genome not in self._divisions_of:
            rng = np.random.default_rng([self._seed, int(genome.id, 16), 3])
            around, starts = self._around, self._seeds[:STARTS] or (genome,)
            if self._known is None:
                self._known = around.reachable(starts, self._partition, np.random.default_rng(self._seed))
            some = rng.permutation(len(self._known))[:KNOWN_DIVISIONS]
            known = (around.with_block(genome, self._partition, self._known[at]) for at in some)
            found = [
                *around.block(genome, self._space.blocks[0], rng, draws=TILES),
                *around.some_of_block(genome, self._partition, rng, draws=DIVISIONS),
                *(other for other in known if other is not None),
            ]
            self._divisions_of[genome] = tuple(dict.fromkeys(found))
        return self._divisions_of[genome]

    def _children(self, known: BatchContext, elites: Population) -> Iterator[Proposal]:
        usable = list(self._operators) if elites.elites else []
        for _ in range(CHILDREN):
            if not usable:
                return
            operator = usable[int(known.rng.integers(len(usable)))]
            parents = [elite.genome for elite in elites.parents(operator.arity, known.rng)]
            is_whole = len(parents) == operator.arity
            child = operator.child(parents, self._space, known.rng) if is_whole else None
            if child is None:
                usable.remove(operator)  # its genes are absent, or at their ends
            else:
                yield Proposal(child, operator.name, tuple(parent.id for parent in parents))

    def points(self, rng: np.random.Generator) -> tuple[Genome, ...]:
        """The valid ones of some raw points."""
        drawn = (self._space.draw(rng) for _ in range(POINTS))
        return tuple(point for point in drawn if point is not None and self._space.is_valid(point))

    def jump(self, starts: Sequence[Genome], is_new: _Condition, rng: np.random.Generator) -> Proposal | None:
        """Two genes of one of them changed, whatever the model says."""
        for _ in range(DRAWS if starts else 0):
            start = starts[int(rng.integers(len(starts)))]
            for far in self._around.two_genes(start, rng, count=1):
                if is_new(far):
                    return Proposal(far, "two_genes", (start.id,))
        return None

    def immigrant(self, known: BatchContext) -> Proposal | None:
        """A random genome; where valid ones are rare, several jumps away from one that was told.

        A uniform sample of flash_wgmma takes 0.2 s, ten times what a proposal may.
        """
        point = next((point for point in known.points if point not in known.taken), None)
        return self._walk(known) if point is None else Proposal(point)

    def _walk(self, known: BatchContext) -> Proposal | None:
        starts = [each.genome for each in known.told] or known.elites
        for _ in range(DRAWS if starts else 0):
            start = at = starts[int(known.rng.integers(len(starts)))]
            for _ in range(STEPS):
                at = next(self._around.two_genes(at, known.rng, count=1), at)
            if at not in known.taken:
                return Proposal(at, "walk", (start.id,))
        return None


class Favourites:
    """Gives of what is offered, one after the other, what the model prefers: each as if those before it had
    been tried and found as expected.
    """

    def __init__(
        self,
        pool: Sequence[Proposal],
        expected: Posterior,
        best: float,
        division_of: Callable[[Genome], Division],
        taken: Iterable[Genome],
    ) -> None:
        """`expected` (pool,) in the units of `best`, the best target there is."""
        self._pool, self._expected, self._best, self._division_of = pool, expected, best, division_of
        self._at = {each.genome: at for at, each in enumerate(pool)}
        self._free = np.ones(len(pool), dtype=bool)
        self._divisions = [division_of(each.genome) for each in pool]
        self._tried = {division_of(genome) for genome in taken}

    def next(self, *, of_new_division: bool = False) -> Proposal | None:
        """The favourite of those that are not taken, or of those that divide the work as none that is."""
        among = self._free
        if of_new_division:
            among = among & [division not in self._tried for division in self._divisions]
        if not among.any():
            return None
        at = favourite(self._expected, self._best, among)
        self._expected.assume(at)
        return self._pool[at]

    def take(self, genome: Genome) -> None:
        """Offer it no more."""
        self._tried.add(self._division_of(genome))
        if (at := self._at.get(genome)) is not None:
            self._free[at] = False


class Surrogate(ModelStrategy):
    """Proposes seeds and random genomes first, then what the model prefers."""

    def __init__(
        self,
        space: SearchSpace,
        *,
        seed: int,
        seeds: tuple[Genome, ...] = (),
        first: int = SEEDS,
        earlier: tuple[Earlier, ...] = (),
    ) -> None:
        super().__init__(space, seed=seed, seeds=seeds, first=first, earlier=earlier)
        self._offers = Offers(space, seed=seed, seeds=self._seeds)
        self._kernels: dict[int, Covariance] = {}  # by the number of outcomes that they were fitted to
        # Outcomes that the picks know of. Without earlier searches there are no picks before the first ones.
        self._learnt = -1 if self._earlier else 0
        self._partition = partition_of(space)
        self._divisions: dict[Genome, Division] = {}
        self._elites = Population(cell=self._partition, size=ELITES, per_cell=OF_A_DIVISION)

    def _next(self) -> Proposal | None:
        """A seed, a random genome at first, then the next pick."""
        return self._opening() or self._pick() or self._near_seeds() or self._sample()

    def _opening(self) -> Proposal | None:
        if (seed := self._next_seed()) is not None:
            return seed
        if self._earlier:
            return None  # they tell more than random genomes would
        opening = OPENING_BESIDE_SEEDS if self._seeds else OPENING
        return self._sample() if self._unseen.proposal_count < opening else None

    def _near_seeds(self) -> Proposal | None:
        """A jump from a seed, while more are in flight than the seeds and nothing is learnt: random kernels
        are far worse, and where few are valid one takes 0.2 s to find.
        """
        starts = _fastest(self._told) if self._seeds and self._told else ()
        return self._offers.jump(starts or self._seeds, self._unseen.__contains__, self._unseen.rng())

    def _pick(self) -> Proposal | None:
        most = 1 + len(self._told) // (2 * BATCH)  # the first outcomes tell most
        batch = BATCH * max(1, min(most, max(len(self._told) // EACH, len(self._in_flight) // ABREAST)))
        learnt = len(self._told) // batch * batch
        if learnt > self._learnt:
            for evaluation in self._told[max(0, self._learnt) : learnt]:
                self._elites.add(evaluation)
            known = self._batch_context(self._told[:learnt], drawing=learnt // (REDRAWN * batch))
            self._learnt, self._picks = learnt, self._batches(known)
        return next((proposal for proposal in self._picks if proposal.genome in self._unseen), None)

    def _batch_context(self, told: Sequence[Evaluation], *, drawing: int) -> BatchContext:
        in_flight = tuple(self._in_flight)
        taken = {evaluation.genome for evaluation in told}.union(in_flight)
        rng = np.random.default_rng([self._seed, len(told), 2])
        points = self._offers.points(rng)
        proven = tuple(elite.genome for elite in self._elites.elites) or _fastest(told)
        proven = proven or self._seeds[:ELITES] or points[:ELITES]
        unproven = self._unproven(told, proven)
        return BatchContext(told, in_flight, proven, unproven, points, taken, rng, drawing)

    def _batches(self, known: BatchContext) -> Iterator[Proposal]:
        """Proposals in the order in which they are wanted.

        They depend on `known` alone and not on what was proposed meanwhile: a resumed search makes the same
        ones again and passes over those that it finds in its history.
        """
        fewest = 0 if self._earlier else FEWEST
        if not known.elites or sum(each.learnt_us is not None for each in known.told) < fewest:
            return
        favourites = self._favourites(known)
        kinds = STANDING if stands_still(known.told, STANDSTILL) else MOVING
        for kind in itertools.cycle(FIRST if len(known.told) < FIRST_OUTCOMES else kinds):
            if kind == "division":
                proposal = favourites.next(of_new_division=True) or favourites.next()
            elif kind == "model":
                proposal = favourites.next()
            else:
                is_new = lambda genome: genome not in known.taken  # noqa: E731
                jumped = self._offers.jump(known.elites, is_new, known.rng) if kind == "jump" else None
                proposal = jumped or self._offers.immigrant(known)
            proposal = proposal or self._offers.immigrant(known)
            if proposal is None:
                return
            known.taken.add(proposal.genome)
            favourites.take(proposal.genome)
            yield proposal

    def _favourites(self, known: BatchContext) -> Favourites:
        """What the model makes of all that is offered and not taken."""
        offers = {
            each.genome: each
            for each in self._offers.all(known, self._elites)
            if each.genome not in known.taken
        }
        targets, asked = self._targets(known.told), list(offers)
        trend, learnt = self._trend(known.told, targets), some_of(targets, LEARNT_FROM)
        some = [known.told[at].genome for at in learnt]
        expected = posterior(
            self._kernel(known.told),
            self._features.view,
            self._features.of(some),
            self._beside(trend, targets, learnt),
            self._features.of(asked),
            in_flight=self._features.of(known.in_flight),
        )
        expected.mean += trend.of(asked)
        if self._earlier and len(known.told) < OPENING:
            expected.amplitude = max(expected.amplitude, UNSURE)
        best = float(targets.min()) if len(targets) else float(trend.of(known.elites).min())
        return Favourites(list(offers.values()), expected, best, self._division, known.taken)

    def _division(self, genome: Genome) -> Division:
        """How it divides its work; kept."""
        if genome not in self._divisions:
            self._divisions[genome] = values_of(genome, self._partition)
        return self._divisions[genome]

    def _unproven(self, told: Sequence[Evaluation], proven: Sequence[Genome]) -> tuple[Genome, ...]:
        """The fastest genomes, by a short look, of divisions that no elite has: one of each."""
        found = {self._division(genome): genome for genome in proven}
        timed = [each for each in told if each.learnt_us is not None and not each.duplicate_of]
        for each in sorted((each for each in timed if not each.is_censored), key=_score_us):
            found.setdefault(self._division(each.genome), each.genome)
        return tuple(genome for genome in found.values() if genome not in proven)[:UNPROVEN]

    def _targets(self, told: Sequence[Evaluation]) -> Floats:
        return targets_of([_score_us(each) for each in told], scale=self._scale) if told else np.zeros(0)

    def _kernel(self, told: Sequence[Evaluation]) -> Covariance:
        """Fitted more rarely the more outcomes there are, each time from where the last fit came to."""
        kernel, count = usual_kernel(self._features.views), FIRST_FIT
        while count <= len(told):
            if count not in self._kernels:
                targets = self._targets(told[:count])
                trend, some = self._trend(told[:count], targets), some_of(targets, FITTED_TO)
                rows = self._features.of([told[at].genome for at in some])
                rest = self._beside(trend, targets, some)
                self._kernels[count] = fit(kernel, rows, self._features.view, rest)
            kernel, count = self._kernels[count], int(count * LATER)
        return kernel


def partition_of(space: SearchSpace) -> tuple[str, ...]:
    """The genes that say how the work is divided; where the space does not say, those of its tile."""
    return space.partition or (space.blocks[0] if space.blocks else ())


def _fastest(told: Sequence[Evaluation]) -> tuple[Genome, ...]:
    """Of a family that is too slow for any proof, the fastest as far as they were timed."""
    timed = [each for each in told if each.learnt_us is not None and not each.duplicate_of]
    return tuple(each.genome for each in sorted(timed, key=_score_us)[:ELITES])


def _score_us(evaluation: Evaluation) -> float:
    """Infinite for what failed; a timing that was stopped early counts as what it had come to."""
    us = evaluation.learnt_us
    return np.inf if us is None else us


def stands_still(told: Sequence[Evaluation], standstill: int) -> bool:
    """Whether the newest outcomes have brought no gain."""
    scores = [_score_us(each) if each.is_rankable and not each.is_censored else np.inf for each in told]
    before = min(scores[:-standstill], default=np.inf)
    return len(told) > standstill and before <= GAIN * min(scores)
