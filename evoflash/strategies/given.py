"""Proposes a fixed list, in order: what `remeasure` takes to the GPU. It searches nothing."""

from collections.abc import Sequence

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome


class Given:
    """A strategy that proposes a fixed list."""

    def __init__(self, genomes: Sequence[Genome]) -> None:
        self._left = list(reversed(genomes))

    def ask(self) -> Proposal | None:
        """The next of the list."""
        return Proposal(self._left.pop(), "remeasure") if self._left else None

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Nothing to learn."""
