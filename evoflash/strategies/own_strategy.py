"""Loads and runs search strategies of the user's own. What they do wrong ends in one line.

A file strategies/<name>.py of an extension folder defines `strategy(space, *, seed, seeds)`, which returns an
object with the methods `ask` and `tell` of search.Strategy. Proposes nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoflash import extensions as own_code
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace

if TYPE_CHECKING:
    from evoflash.search import Strategy


def make_own(path: Path, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...]) -> Strategy:
    """The strategy of a file on a space. UsageError where the file does not import, or defines none."""
    make = load(path)
    with _blame(path):
        made = make(space, seed=seed, seeds=seeds)
    if not all(callable(getattr(made, method, None)) for method in ("ask", "tell")):
        raise UsageError(f"{path}: strategy() must return an object with the methods ask and tell.")
    return OwnStrategy(made, path, space)


def load(path: Path) -> Callable[..., Any]:
    """The function `strategy` of a file. UsageError where the file does not import, or defines none."""
    module = own_code.load(path, f"evoflash_own_strategies.{path.stem}")
    make: Callable[..., Any] | None = getattr(module, "strategy", None)
    if not callable(make):
        raise UsageError(f"{path} is no strategy: define strategy(space, *, seed, seeds) in it.")
    return make


class OwnStrategy:
    """A user's strategy, held to what a search relies on: new, valid genomes of the space, or None."""

    def __init__(self, strategy: Strategy, path: Path, space: SearchSpace) -> None:
        self._strategy, self._path, self._space = strategy, path, space
        self._known: set[Genome] = set()

    def ask(self) -> Proposal | None:
        """Its proposal. UsageError where it raises, or proposes what no strategy may."""
        with _blame(self._path):
            proposal = self._strategy.ask()
        if proposal is None:
            return None
        if wrong := self._wrong(proposal):
            raise UsageError(f"{self._path}: ask() returned {wrong}; mend it, the search then continues.")
        self._known.add(proposal.genome)
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Let it learn. UsageError where it raises."""
        self._known.add(proposal.genome)
        with _blame(self._path):
            self._strategy.tell(proposal, evaluation)

    def _wrong(self, proposal: object) -> str:
        if not isinstance(proposal, Proposal) or not isinstance(proposal.genome, Genome):
            return f"{str(proposal)[:60]!r}, which is neither a Proposal of a genome nor None"
        genome = proposal.genome
        if not self._space.has_point(genome):
            return "a genome of another space: make it by space.genome(values)"
        if not self._space.is_valid(genome):
            return f"a genome that fails {', '.join(self._space.violations(genome))}: see space.is_valid"
        return f"{genome.id} again: each genome may be asked for once" if genome in self._known else ""


@contextmanager
def _blame(path: Path) -> Iterator[None]:
    try:
        yield
    except EvoflashError:
        raise
    except Exception as error:
        said = own_code.mistake(error, path)
        raise UsageError(f"{said}; mend the strategy, the same command then continues.") from None
