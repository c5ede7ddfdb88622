"""Proposes a fixed list of genomes, in order. It searches nothing.

`remeasure` and the archive take their genomes to the GPU by it.
"""

from collections.abc import Sequence

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome


class FixedList:
    """A strategy that proposes a fixed list; `operator` says where it is from."""

    def __init__(self, genomes: Sequence[Genome], operator: str) -> None:
        self._left, self._operator = list(reversed(genomes)), operator

    def ask(self) -> Proposal | None:
        """The next of the list."""
        return Proposal(self._left.pop(), self._operator) if self._left else None

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Nothing to learn."""
