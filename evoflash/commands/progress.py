"""Shows a search's progress on stderr: a Rich bar on a terminal, a line now and then elsewhere."""

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from evoflash.evaluation import Basis, Evaluation, Proposal
from evoflash.search import faster

_LINE_EVERY_S = 10.0


class Progress:
    """What a person sees while a search runs; a context manager, so that the terminal is given back."""

    def __init__(
        self, title: str, basis: Basis, budget: int, history: Sequence[tuple[Proposal, Evaluation]]
    ) -> None:
        """`history` is what the run had before this process began."""
        self._basis, self._budget, self._title = basis, budget, title
        self._best: Evaluation | None = None
        self._counts: Counter[str] = Counter()
        self._quiet = bool(os.environ.get("EVOFLASH_QUIET"))
        console = Console(stderr=True, quiet=self._quiet)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[best]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._is_terminal = console.is_terminal
        self._task = self._bar.add_task(title, total=budget, best="")
        self._last_line = time.monotonic()
        for _, evaluation in history:
            self._count(evaluation)

    def __enter__(self) -> "Progress":
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing; on a plain stream say the last state."""
        self._bar.stop()
        if not self._is_terminal:
            self._line()

    def show(self, _: Proposal, evaluation: Evaluation) -> None:
        """One more evaluation."""
        self._count(evaluation)
        if not self._is_terminal and time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._line()

    def say(self, message: str) -> None:
        """A line above the bar."""
        if not self._quiet:
            self._bar.console.print(f"evoflash: {message}", highlight=False, soft_wrap=True)

    @property
    def _spent(self) -> int:
        return self._counts.total() - self._counts["duplicate"]

    def _count(self, evaluation: Evaluation) -> None:
        self._counts["duplicate" if evaluation.duplicate_of else str(evaluation.status)] += 1
        self._best = faster(self._best, evaluation)
        self._bar.update(self._task, completed=self._spent, best=self._summary())

    def _summary(self) -> str:
        failed = self._spent - self._counts["correct"]
        words = [self._best_words()] if self._best else []
        if failed:
            words.append(f"{failed} failed")
        return ", ".join(words)

    def _best_words(self) -> str:
        assert self._best is not None
        mark = "~" if self._basis is Basis.ESTIMATED else ""
        kind = str(self._basis)
        return f"best {mark}{self._best.score_us:.2f} us {kind}"

    def _line(self) -> None:
        self._last_line = time.monotonic()
        if not self._quiet:
            counts = ", ".join(f"{n} {word}" for word, n in self._counts.most_common())
            best = f"; {self._best_words()}" if self._best else ""
            print(
                f"evoflash: {self._title}: {self._spent}/{self._budget} ({counts}){best}",
                file=sys.stderr,
                flush=True,
            )
