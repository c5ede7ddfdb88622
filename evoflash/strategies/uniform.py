"""Draws genomes uniformly, without replacement: the control that shows what a search adds. Learns nothing."""

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.unseen import Unseen


class Uniform:
    """Proposes each valid genome once, in uniformly random order; seeds are not used."""

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...] = ()) -> None:
        self._unseen = Unseen(space, seed=seed)

    def ask(self) -> Proposal | None:
        """The next genome of the random order."""
        proposal = self._unseen.sample(self._unseen.rng())
        if proposal is not None:
            self._unseen.take(proposal.genome)
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Only that the genome was proposed matters."""
        self._unseen.take(proposal.genome)
