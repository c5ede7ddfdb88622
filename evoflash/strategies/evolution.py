"""Evolution: children of elites by mutation operators that earn their share; some strangers always.

Measures nothing and stores nothing. Operators are the files of mutations/; this module finds them.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import evoflash.mutations
from evoflash.archive import Population
from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.uniform import Unseen

INITIAL = 16  # proposals before the first child
STRANGERS = 0.1  # share of uniform samples afterwards
TRIES = 24  # children that were proposed before, until a stranger is taken instead
FLOOR = 0.05  # an operator's least share: what fails early may help late
RATE = 0.1  # how fast an operator's credit follows its outcomes
REPAIRS = 3  # random steps towards validity


@dataclass(frozen=True, slots=True)
class Operator:
    """A file of mutations/: how many parents it takes, and what it makes of them."""

    name: str
    arity: int
    mutate: Callable[[Sequence[Genome], SearchSpace, np.random.Generator], Genome | None]

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
        found.append(Operator(info.name, module.PARENTS, module.mutate))
    return tuple(found)


class Evolution:
    """Elites of several tiles; operators drawn in proportion to their credit (probability matching)."""

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...] = ()) -> None:
        self._space = space
        self._seeds = tuple(genome for genome in seeds if self._fits(genome))
        self._unseen = Unseen(space, seed=seed)
        # A space declares its tile first. Cells of tiles ended within 1.4 % of the optimum of two made-up
        # kernel spaces after 200 evaluations; cells of words let one tile fill the population: 3 %.
        self._population = Population(cell=space.blocks[0] if space.blocks else ())
        self._operators = operators()
        self._credit = {operator.name: 0.5 for operator in self._operators}
        self._scores_us: dict[str, float] = {}  # correct genomes, by id

    def ask(self) -> Proposal | None:
        """A seed, a child or a stranger."""
        rng = self._unseen.rng()
        proposal = self._seed() or self._child(rng) or self._stranger(rng)
        if proposal is not None:
            self._unseen.take(proposal.genome)
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Let the genome breed if it earned it, and credit the operator that made it."""
        self._unseen.take(proposal.genome)
        if proposal.operator in self._credit:
            gained = self._reward(proposal, evaluation) - self._credit[proposal.operator]
            self._credit[proposal.operator] += RATE * gained
        if evaluation.is_correct and evaluation.score_us is not None and self._fits(proposal.genome):
            self._scores_us[proposal.genome.id] = evaluation.score_us
            self._population.add(evaluation)

    def _reward(self, proposal: Proposal, evaluation: Evaluation) -> float:
        # Faster than the best parent 1, correct 0.2, a duplicate or a failure nothing.
        if not evaluation.is_correct or evaluation.score_us is None or evaluation.duplicate_of:
            return 0.0
        parents = [self._scores_us[parent] for parent in proposal.parents if parent in self._scores_us]
        return 1.0 if parents and evaluation.score_us < min(parents) else 0.2

    def _fits(self, genome: Genome) -> bool:
        # A store may hold genomes of an older version of the family; seeds may ask too much of this GPU.
        try:
            return self._space.genome(genome.as_dict()) == genome and self._space.is_valid(genome)
        except UsageError:
            return False

    def _seed(self) -> Proposal | None:
        return next((Proposal(seed, "seed") for seed in self._seeds if seed in self._unseen), None)

    def _stranger(self, rng: np.random.Generator) -> Proposal | None:
        genome = self._unseen.draw(rng)
        return None if genome is None else Proposal(genome)

    def _child(self, rng: np.random.Generator) -> Proposal | None:
        elites = len(self._population.elites)
        if self._unseen.proposed < INITIAL or not elites or rng.random() < STRANGERS:
            return None
        usable = [operator for operator in self._operators if operator.arity <= elites]
        for _ in range(TRIES):
            operator = self._pick(usable, rng)
            parents = [elite.genome for elite in self._population.parents(operator.arity, rng)]
            child = operator.child(parents, self._space, rng)
            if child is not None and child in self._unseen:
                return Proposal(child, operator.name, tuple(parent.id for parent in parents))
        return None

    def _pick(self, usable: Sequence[Operator], rng: np.random.Generator) -> Operator:
        credit = np.array([self._credit[operator.name] for operator in usable])
        shares = FLOOR + (1 - FLOOR * len(usable)) * credit / credit.sum()
        return usable[int(rng.choice(len(usable), p=shares / shares.sum()))]
