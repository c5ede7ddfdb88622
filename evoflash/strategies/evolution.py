"""Evolution: children of elites by mutation operators that earn their share; random immigrants among them.

Measures nothing and stores nothing. Operators are the files of mutations/; this module finds them.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import evoflash.mutations
from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.operator_credit import Credit, Trait, diagnosis, is_control, reward
from evoflash.strategies.population import Elite, Population
from evoflash.strategies.unseen import Unseen

INITIAL = 16  # proposals before the first child where there are no seeds to breed from
IMMIGRANTS = 0.1  # share of uniform samples afterwards
IMMIGRANTS_BESIDE_SEEDS = 0.05  # the same where seeds are the better beginning
TRIES = 24  # children that were proposed before, until a random immigrant is taken instead
REPAIRS = 3  # random steps towards validity


@dataclass(frozen=True, slots=True)
class Operator:
    """A file of mutations/: how many parents it takes, what it makes of them, and what it says of itself."""

    name: str
    arity: int
    mutate: Callable[[Sequence[Genome], SearchSpace, np.random.Generator], Genome | None]
    trait: Trait = field(default_factory=Trait)

    def child(self, parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
        """A valid genome that is none of its parents, repaired if need be; None when there is none."""
        child = self.mutate(parents, space, rng)
        for _ in range(REPAIRS):
            if child is None or space.is_valid(child):
                break
            child = _towards_valid(child, parents, space, rng)
        return None if child is None or child in parents or not space.is_valid(child) else child


def _towards_valid(
    genome: Genome, parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator
) -> Genome:
    near = [other for other in space.neighbours(genome) if other not in parents]
    if near:
        return near[int(rng.integers(len(near)))]
    name, value = genome.values[int(rng.integers(len(genome.values)))]
    others = space.param(name).neighbours(value) or (value,)
    return space.genome({**genome.as_dict(), name: others[int(rng.integers(len(others)))]})


def operators() -> tuple[Operator, ...]:
    """Every operator in mutations/, by name. UsageError when a file there is not one."""
    found = []
    for info in sorted(pkgutil.iter_modules(evoflash.mutations.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"evoflash.mutations.{info.name}")
        if not callable(getattr(module, "mutate", None)) or getattr(module, "PARENTS", 0) not in (1, 2):
            raise UsageError(
                f"mutations/{info.name}.py is no operator: give it PARENTS = 1 (or 2) and "
                "mutate(parents, space, rng), or remove it."
            )
        trait = Trait(getattr(module, "PRIOR", 1.0), tuple(getattr(module, "BOTTLENECKS", ())))
        found.append(Operator(info.name, module.PARENTS, module.mutate, trait))
    return tuple(found)


class Evolution:
    """Elites of several tiles; operators drawn by what is expected of them."""

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...] = ()) -> None:
        self._space, self._seed = space, seed
        self._seeds = tuple(genome for genome in seeds if self._fits(genome))
        self._unseen = Unseen(space, seed=seed)
        # A space declares its tile first. Cells of tiles ended within 1.4 % of the optimum of two made-up
        # kernel spaces after 200 evaluations; cells of words let one tile fill the population: 3 %.
        self._population = Population(cell=space.blocks[0] if space.blocks else ())
        self._operators = operators()
        self._credit = Credit({operator.name: operator.trait for operator in self._operators})
        self._scores_us: dict[str, float] = {}  # correct genomes, by id
        self._bounds: dict[str, str] = {}  # the bottleneck of each
        self._failed: set[Genome] = set()

    def ask(self) -> Proposal | None:
        """A seed, a child or a random immigrant."""
        rng = self._unseen.rng()
        proposal = self._next_seed() or self._child(rng) or self._random_immigrant(rng)
        if proposal is not None:
            self._unseen.take(proposal.genome)
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Let the genome breed if it earned it, and credit the operator that made it."""
        self._unseen.take(proposal.genome)
        self._learn(proposal, evaluation)
        if not evaluation.is_correct or evaluation.score_us is None:
            self._failed.add(proposal.genome)
        elif self._fits(proposal.genome):
            self._scores_us[proposal.genome.id] = evaluation.score_us
            self._bounds[proposal.genome.id] = diagnosis(evaluation)
            self._population.add(evaluation)

    def _learn(self, proposal: Proposal, evaluation: Evaluation) -> None:
        if not proposal.parents:
            return
        timed = [self._scores_us[parent] for parent in proposal.parents if parent in self._scores_us]
        bound = self._bounds.get(proposal.parents[0], "")
        earned = reward(evaluation, min(timed, default=None))
        self._credit.learn(self._space.family, bound, proposal.operator, earned)

    def _fits(self, genome: Genome) -> bool:
        # A store may hold genomes of an older version of the family; seeds may ask too much of this GPU.
        try:
            return self._space.genome(genome.as_dict()) == genome and self._space.is_valid(genome)
        except UsageError:
            return False

    def _next_seed(self) -> Proposal | None:
        return next((Proposal(seed, "seed") for seed in self._seeds if seed in self._unseen), None)

    def _random_immigrant(self, rng: np.random.Generator) -> Proposal | None:
        genome = self._unseen.draw(rng)
        return None if genome is None else Proposal(genome)

    def _child(self, rng: np.random.Generator) -> Proposal | None:
        breeding = self._breeding()
        share = IMMIGRANTS_BESIDE_SEEDS if self._seeds else IMMIGRANTS
        if not breeding or rng.random() < share:
            return None
        control = is_control(self._seed, self._unseen.proposed)
        usable, tries = list(self._operators), 0
        while usable and tries < TRIES:
            parents = [elite.genome for elite in breeding.parents(2, rng)]
            operator = self._pick(usable, parents, rng, control=control)
            parents = parents[: operator.arity]
            child = operator.child(parents, self._space, rng) if len(parents) == operator.arity else None
            if child is None:
                usable.remove(
                    operator
                )  # the genome lacks its genes, or they stand at the end of their values
            elif child in self._unseen:
                return Proposal(child, operator.name, tuple(parent.id for parent in parents))
            tries += child is not None
        return None

    def _breeding(self) -> Population | None:
        """Who may have children now: elites, or the seeds that have not failed while nothing is timed yet."""
        if self._population.elites and (self._seeds or self._unseen.proposed >= INITIAL):
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
        if control:
            return usable[int(rng.integers(len(usable)))]
        bound = self._bounds.get(parents[0].id, "")
        shares = self._credit.shares(self._space.family, bound, [operator.name for operator in usable])
        return usable[int(rng.choice(len(usable), p=shares))]
