"""What a strategy has not proposed yet, and the random stream of each proposal. Learns nothing."""

from collections.abc import Iterable

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Proposal
from evoflash.space import Genome, SearchSpace

DRAWS = 64  # all seen already: at least nine tenths of the space are used up, so list it
LISTABLE = 1_000_000  # raw points; about 0.1 ms each


class Unseen:
    """The valid genomes of a space that were not proposed yet, and the random stream of each proposal.

    The stream depends on the seed and on how many were proposed before, so that a resumed run
    proposes as if it had never stopped.
    """

    def __init__(self, space: SearchSpace, *, seed: int) -> None:
        self._space, self._seed = space, seed
        self._proposed: set[Genome] = set()
        self._listed: list[Genome] | None = None

    def __contains__(self, genome: Genome) -> bool:
        return genome not in self._proposed

    @property
    def proposal_count(self) -> int:
        """How many genomes were taken."""
        return len(self._proposed)

    def rng(self) -> np.random.Generator:
        """The random stream of the next proposal."""
        return np.random.default_rng([self._seed, self.proposal_count])

    def take(self, genome: Genome) -> None:
        """Note a genome as proposed; harmless when it was."""
        self._proposed.add(genome)

    def draw(self, rng: np.random.Generator) -> Genome | None:
        """Uniform over what is left; None when nothing is. UsageError when the space was always empty."""
        try:
            for _ in range(DRAWS):
                if (genome := self._space.sample(rng)) in self:
                    return genome
        except UsageError:
            if self._space.cardinality > LISTABLE or not self._list():
                raise
        left = self._listed = [genome for genome in self._list() if genome in self]
        return left[int(rng.integers(len(left)))] if left else None

    def seed(self, seeds: Iterable[Genome]) -> Proposal | None:
        """The first of the seeds that is left."""
        return next((Proposal(seed, "seed") for seed in seeds if seed in self), None)

    def sample(self, rng: np.random.Generator) -> Proposal | None:
        """What draw() gives, as a proposal."""
        genome = self.draw(rng)
        return None if genome is None else Proposal(genome)

    def _list(self) -> list[Genome]:
        if self._listed is None:
            self._listed = list(self._space)
        return self._listed
