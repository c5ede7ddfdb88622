"""Shows a search's progress on stderr: a Rich bar on a terminal, lines now and then elsewhere. 80 columns."""

import sys
import textwrap
import time
from collections import Counter, deque
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column

from evoflash.commands.search.limits import Limits
from evoflash.evaluation import Basis, Evaluation, Proposal
from evoflash.search import faster
from evoflash.settings.values import is_on

_LINE_EVERY_S = 10.0
_COLUMNS = 80
_RECENT = 60  # evaluations whose rate is shown: the first ones wait for processes to start


class Progress:
    """What a person sees while a search runs; a context manager, so that the terminal is given back."""

    def __init__(
        self, title: str, basis: Basis, limits: Limits, history: Sequence[tuple[Proposal, Evaluation]]
    ) -> None:
        """`history` is what the run had before this process began."""
        self._basis, self._limits, self._title = basis, limits, title
        self._best: Evaluation | None = None
        self._seed: Evaluation | None = None  # the best of what the search started from
        self._counts: Counter[str] = Counter()
        self._said: Counter[str] | None = None  # the counts of the last line
        self._quiet = is_on("quiet")
        console = Console(stderr=True, quiet=self._quiet)
        self._bar = Bar(
            BarColumn(bar_width=5),
            TextColumn("{task.fields[words]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=console,
            disable=not console.is_terminal,
        )
        self._is_terminal = console.is_terminal
        self._task = self._bar.add_task("", total=limits.budget, words="")
        self._begun = self._last_line = time.monotonic()
        self._times: deque[float] = deque([self._begun], maxlen=_RECENT)
        for proposal, evaluation in history:
            self._count(proposal, evaluation)

    def __enter__(self) -> "Progress":
        """Start drawing."""
        self.say(self._title)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing; on a plain stream say the last state."""
        self._bar.stop()
        if not self._is_terminal:
            self._lines()

    def show(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """One more evaluation."""
        self._count(proposal, evaluation)
        if not evaluation.duplicate_of:
            self._times.append(time.monotonic())
        self._bar.update(self._task, completed=self._spent, words=self._words())
        if not self._is_terminal and time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._lines()

    def say(self, message: str) -> None:
        """A line above the bar."""
        if not self._quiet:
            self._bar.console.print(f"evoflash: {message}", highlight=False, soft_wrap=True)

    @property
    def _spent(self) -> int:
        return self._counts.total() - self._counts["duplicate"]

    def _count(self, proposal: Proposal, evaluation: Evaluation) -> None:
        self._counts["duplicate" if evaluation.duplicate_of else str(evaluation.status)] += 1
        self._best = faster(self._best, evaluation)
        if proposal.operator == "seed":
            self._seed = faster(self._seed, evaluation)

    def _words(self) -> str:
        """How many; rate and time left; the times; what was not correct."""
        proven, screened = self._counts["correct"], self._counts["screened"]
        failed = self._spent - proven - screened
        ended = [f"{n} {word}" for n, word in ((screened, "screened"), (failed, "failed")) if n]
        of = "" if self._limits.budget is None else f"/{self._limits.budget}"
        words = (f"{self._spent}{of} {self._pace()}".strip(), self._best_words(), ", ".join(ended))
        return "; ".join(filter(None, words))

    def _pace(self) -> str:
        now = time.monotonic()
        rate = (len(self._times) - 1) / max(now - self._times[0], 1e-9)
        if not rate:
            return ""
        ends = [] if self._limits.budget is None else [(self._limits.budget - self._spent) / rate]
        if self._limits.seconds is not None:
            ends.append(self._limits.seconds - (now - self._begun))
        left = f", {_clock(min(ends))} left" if ends else ""
        return f"at {rate:.1f}/s{left}"

    def _best_words(self) -> str:
        if self._best is None:
            return ""
        mark = "~" if self._basis is Basis.ESTIMATED else ""
        seed = f", seed {mark}{self._seed.score_us:.2f}" if self._seed else ""
        return f"best {mark}{self._best.score_us:.2f} us{seed}"

    def _lines(self) -> None:
        self._last_line = time.monotonic()
        if self._quiet or self._said == self._counts:
            return
        self._said = self._counts.copy()
        text = textwrap.fill(f"evoflash: {self._words()}", _COLUMNS, subsequent_indent="    ")
        print(text, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    """`0:07`, `12:30` or `1:02:03`."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
