"""Evolution makes children of the best genomes by mutation operators, and random genomes among them.

Operators earn their share by what they brought. At a standstill more genomes are random, or change two genes
at once. A preset says what else proposals may know: the effects of genes, and values that always fail. It has
learnt these from outcomes, and they tell which child is worth trying. Without a preset proposals know the
credit that operators earned. Measures and stores nothing.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace, Value
from evoflash.strategies.gene_effects import GeneEffect, effects, nogoods
from evoflash.strategies.operators import Credit, Operator, diagnosis, is_control, operators_for, reward
from evoflash.strategies.populations import POPULATIONS, Elite, Parents, Population, make_population
from evoflash.strategies.unseen import Unseen

REFRESHED = 20  # outcomes after which effects are computed again
DOUBT = 5  # kernels or pairs after which half of an effect is believed


class Insight:
    """Effects and nogoods of what was told."""

    def __init__(self) -> None:
        self._told: list[Evaluation] = []
        self._learnt = 0
        self._gains: dict[tuple[str, Value], float] = {}
        self._nogoods: list[frozenset[tuple[str, Value]]] = []

    def tell(self, evaluation: Evaluation) -> None:
        """Remember an outcome."""
        self._told.append(evaluation)

    def favourite(self, parent: Genome, children: Sequence[Genome]) -> Genome:
        """The child whose new genes promise most; one that must fail only where all must. At least one."""
        self._refresh()
        own = set(parent.values)
        return min(children, key=lambda child: (self._fails(child), self._change(own, child)))

    def _refresh(self) -> None:
        learnt = len(self._told) // REFRESHED * REFRESHED
        if learnt != self._learnt:
            self._learnt, told = learnt, self._told[:learnt]
            self._gains = {(effect.gene, effect.value): _shrunk_gain(effect) for effect in effects(told)}
            self._nogoods = [frozenset(nogood.values) for nogood in nogoods(told)]

    def _fails(self, genome: Genome) -> bool:
        values = set(genome.values)
        return any(nogood <= values for nogood in self._nogoods)

    def _change(self, own: set[tuple[str, Value]], child: Genome) -> float:
        new = set(child.values)
        after, before = (sum(self._gains.get(each, 0.0) for each in part) for part in (new - own, own - new))
        return after - before


def _shrunk_gain(effect: GeneEffect) -> float:
    return math.log(effect.ratio) * effect.n / (effect.n + DOUBT)


TRIALS, OF_THE_PAPER = 45, 5  # evaluations; genomes in its population of elites
DEFAULT_SIZE = 8


@dataclass(frozen=True, slots=True)
class Preset:
    """Which information evolution uses, and how it keeps its parents."""

    uses_insights: bool
    uses_solutions: bool
    population: str
    size: int = DEFAULT_SIZE


_PRESETS = {
    "free": Preset(uses_insights=False, uses_solutions=False, population="single"),
    "insight": Preset(uses_insights=True, uses_solutions=False, population="single"),
    "solution": Preset(uses_insights=False, uses_solutions=True, population="elites"),
    "full": Preset(uses_insights=True, uses_solutions=True, population="elites"),
}
PRESETS = (*_PRESETS, *(f"{name}-{TRIALS}" for name in _PRESETS))


def preset_of(name: str, population: str = "") -> Preset:
    """The preset of that name, with another population if one is named. UsageError for unknown names."""
    base = name.removesuffix(f"-{TRIALS}")
    if name not in PRESETS:
        raise UsageError(f"no preset is called '{name}': use {' or '.join(PRESETS)}.")
    if population and population not in POPULATIONS:
        raise UsageError(f"no population is called '{population}': use {' or '.join(POPULATIONS)}.")
    found = _PRESETS[base]
    size = OF_THE_PAPER if name != base else found.size
    return Preset(found.uses_insights, found.uses_solutions, population or found.population, size)


def trials_of(name: str | None) -> int | None:
    """The budget that comes with a preset; None where it has none."""
    return TRIALS if name and name.endswith(f"-{TRIALS}") else None


def strategy_name(strategy: str, preset: str | None, population: str | None) -> str:
    """The strategy's name with its preset and population, as make_strategy takes it. UsageError where a
    strategy has none, or a population stands without a preset.
    """
    if preset is None and population is None:
        return strategy
    if strategy != "evolution":
        raise UsageError(f"--preset and --population are for --strategy evolution, not for {strategy}.")
    if preset is None:
        raise UsageError("--population goes with a preset: add --preset full, or another.")
    preset_of(preset, population or "")
    return ":".join(filter(None, (strategy, preset, population)))


INITIAL = 16  # proposals before the first child where there are no seeds to breed from
IMMIGRANTS = 0.1  # share of uniform samples afterwards
IMMIGRANTS_BESIDE_SEEDS = 0.05  # the same where seeds are the better beginning
STANDSTILL = 15  # outcomes without a gain
GAIN = 1.001  # times as fast: less is no gain
STANDING_IMMIGRANTS, STANDING_JUMPS = 0.2, 0.4  # shares at a standstill
JUMP = "two_genes"  # the operator of the jumps
CHILDREN = 3  # of which the one that effects and nogoods favour is proposed
TRIES = 24  # children that were proposed before, until a random immigrant is taken instead


class Evolution:
    """Operators drawn by what is expected of them change genomes that are among the best."""

    def __init__(
        self,
        space: SearchSpace,
        *,
        seed: int,
        seeds: tuple[Genome, ...] = (),
        preset: str = "",
        population: str = "",
    ) -> None:
        self._space, self._seed = space, seed
        self._seeds = tuple(genome for genome in seeds if genome in space)
        self._unseen = Unseen(space, seed=seed)
        self._preset = preset_of(preset or "full", population)
        # A space declares its tile first. Cells of tiles ended within 1.4 % of the optimum of two made-up
        # kernel spaces after 200 evaluations; cells of words let one tile fill the population: 3 %.
        tile = space.blocks[0] if space.blocks else ()
        self._population = make_population(self._preset.population, cell=tile, size=self._preset.size)
        self._operators = tuple(each for each in operators_for(space) if _is_allowed(each, self._preset))
        self._credit = Credit({operator.name: operator.trait for operator in self._operators})
        self._insight = Insight() if preset and self._preset.uses_insights else None
        self._scores_us: dict[str, float] = {}  # correct genomes, by id
        self._bounds: dict[str, str] = {}  # the bottleneck of each
        self._failed: set[Genome] = set()
        self._best_us, self._since = np.inf, 0  # outcomes since the last gain

    def ask(self) -> Proposal | None:
        """A seed, a child or a random immigrant."""
        rng = self._unseen.rng()
        proposal = self._unseen.seed(self._seeds) or self._child(rng) or self._unseen.sample(rng)
        if proposal is not None:
            self._unseen.take(proposal.genome)
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Let the genome breed if it earned it, and credit the operator that made it."""
        self._unseen.take(proposal.genome)
        self._learn(proposal, evaluation)
        if self._insight is not None:
            self._insight.tell(evaluation)
        if not evaluation.is_rankable or evaluation.score_us is None:
            self._failed.add(proposal.genome)
        elif proposal.genome in self._space:
            self._scores_us[proposal.genome.id] = evaluation.score_us
            self._bounds[proposal.genome.id] = diagnosis(evaluation)
            self._population.add(evaluation, proposal.parents)
        self._count(evaluation)

    def _count(self, evaluation: Evaluation) -> None:
        self._since += 1
        us = evaluation.score_us
        if evaluation.is_rankable and not evaluation.is_censored and us and us * GAIN < self._best_us:
            self._best_us, self._since = us, 0

    @property
    def _stands_still(self) -> bool:
        return self._since > STANDSTILL and self._unseen.proposal_count > INITIAL + STANDSTILL

    def _learn(self, proposal: Proposal, evaluation: Evaluation) -> None:
        if not proposal.parents:
            return
        timed = [self._scores_us[parent] for parent in proposal.parents if parent in self._scores_us]
        bound = self._bounds.get(proposal.parents[0], "")
        earned = reward(evaluation, min(timed, default=None))
        self._credit.learn(self._space.family, bound, proposal.operator, earned)

    def _child(self, rng: np.random.Generator) -> Proposal | None:
        breeding = self._breeding()
        share = IMMIGRANTS_BESIDE_SEEDS if self._seeds else IMMIGRANTS
        share = STANDING_IMMIGRANTS if self._stands_still else share
        if not breeding or rng.random() < share:
            return None
        control = is_control(self._seed, self._unseen.proposal_count)
        if self._insight is None:
            return next(self._children(breeding, rng, control=control), None)
        litter = list(itertools.islice(self._children(breeding, rng, control=control), CHILDREN))
        if not litter:
            return None
        parent = next(e.genome for e in breeding.elites if e.genome.id == litter[0].parents[0])
        favourite = self._insight.favourite(parent, [child.genome for child in litter])
        return next(child for child in litter if child.genome == favourite)

    def _children(self, breeding: Parents, rng: np.random.Generator, *, control: bool) -> Iterator[Proposal]:
        """New ones, each of an operator and of parents of its own."""
        usable, tries = list(self._operators), 0
        jumps = [each for each in self._operators if each.name == JUMP]
        while usable and tries < TRIES:
            parents = [elite.genome for elite in breeding.parents(2, rng)]
            if self._stands_still and jumps and not control and rng.random() < STANDING_JUMPS:
                operator = jumps[0]
            else:
                operator = self._pick(usable, parents, rng, control=control)
            parents = parents[: operator.arity]
            child = operator.child(parents, self._space, rng) if len(parents) == operator.arity else None
            if child is None:  # the genome lacks its genes, or they stand at the end of their values
                usable = [each for each in usable if each is not operator]
                jumps = [each for each in jumps if each is not operator]
            elif child in self._unseen:
                yield Proposal(child, operator.name, tuple(parent.id for parent in parents))
            tries += child is not None

    def _breeding(self) -> Parents | None:
        """Who may have children now: elites, or the seeds that have not failed while nothing is timed yet."""
        if self._population.elites and (self._seeds or self._unseen.proposal_count >= INITIAL):
            return self._population
        waiting = [Elite(seed, float("inf")) for seed in self._seeds if seed not in self._failed]
        return Population(elites=waiting) if waiting else None

    def _pick(
        self,
        usable: Sequence[Operator],
        parents: Sequence[Genome],
        rng: np.random.Generator,
        *,
        control: bool,
    ) -> Operator:
        if control or not self._preset.uses_insights:
            return usable[int(rng.integers(len(usable)))]
        bound = self._bounds.get(parents[0].id, "")
        shares = self._credit.shares(self._space.family, bound, [operator.name for operator in usable])
        return usable[int(rng.choice(len(usable), p=shares))]


def _is_allowed(operator: Operator, preset: Preset) -> bool:
    if operator.arity > 1 and not preset.uses_solutions:
        return False
    return operator.is_general or preset.uses_insights
