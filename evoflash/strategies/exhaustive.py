"""Proposes every valid genome once, in the order of the space. Learns nothing; for small spaces.

In a large one it is still honest: it tries the first corner of the space as long as the budget lasts.
"""

from collections.abc import Iterator

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace


class Exhaustive:
    """Proposes the valid genomes in their order; seeds and the random seed change nothing."""

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...] = ()) -> None:
        self._left: Iterator[Genome] = iter(space)
        self._proposed: set[Genome] = set()

    def ask(self) -> Proposal | None:
        """The next genome; None after the last."""
        genome = next((genome for genome in self._left if genome not in self._proposed), None)
        if genome is None:
            return None
        self._proposed.add(genome)
        return Proposal(genome, "exhaustive")

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Only that the genome was proposed matters."""
        self._proposed.add(proposal.genome)
