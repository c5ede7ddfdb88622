"""Shows a search's progress on stderr, on a terminal as a chart and a line with a bar. Decides nothing.

Where stderr is no terminal, a line is written now and then. The chart of characters is of the best so far.
The line is as wide as the terminal: what matters least is left out, no figure is cut. At 80 characters all of
it is there but for what was not correct.
"""

import math
import sys
import textwrap
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.progress import Progress as Bar
from rich.progress import ProgressColumn, Task
from rich.text import Text

from evoflash.app.search.limits import Limits
from evoflash.champions.evidence import archived_kernel
from evoflash.evaluation import Basis, Evaluation, Proposal, faster
from evoflash.settings import is_on

ROWS, LONGEST, NARROWEST = 3, 60, 36  # lines; columns at most; the narrowest terminal that gets one
_EIGHTHS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"  # an eighth of a line's height each
_ASCII = "    ..::#"

Best = tuple[int, float]  # after so many evaluations the best time became so many us


def chart(
    best: Sequence[Best], spent: int, total: int | None, width: int, *, mark: str = "", is_ascii: bool = False
) -> list[str]:
    """Lines of a chart of the best time by evaluations, logarithmic, behind its first and its last time.

    It is as long as the budget (`total`), and filled as far as `spent`; as long as what was spent where there
    is no budget. Empty where the best never changed, or where there is no room. `mark` stands before a time.
    """
    if len(best) < 2 or width < NARROWEST:
        return []
    labels = [f"{mark}{best[0][1]:.2f}", *[""] * (ROWS - 2), f"{mark}{best[-1][1]:.2f}"]
    wide = max(map(len, labels))
    columns = min(width - wide - 2, LONGEST)
    heights = [_height(best, column, columns, spent, total or spent) for column in range(columns)]
    signs = _ASCII if is_ascii else _EIGHTHS
    rows = []
    for row in range(ROWS):
        below = 8 * (ROWS - 1 - row)
        filled = "".join(signs[min(max(height - below, 0), 8)] for height in heights)
        rows.append(f"{labels[row]:>{wide}} {filled}".rstrip())
    return rows


def _height(best: Sequence[Best], column: int, columns: int, spent: int, total: int) -> int:
    """Eighths of a line that a column is high: one for the best of all, 0 where there is none."""
    begins, ends = total * column / columns, total * (column + 1) / columns
    known = [us for evaluations, us in best if evaluations <= ends]
    if begins >= spent or not known:
        return 0
    first, last = best[0][1], best[-1][1]
    return 1 + round((8 * ROWS - 1) * math.log(known[-1] / last) / math.log(first / last))


_LINE_EVERY_S = 10.0
_COLUMNS = 80  # of a stream that is no terminal
_SHORTEST_BAR, _LONGEST_BAR, _BAR_RANK = 6, 30, 4
_RECENT = 60  # evaluations whose rate is shown
_FEWEST = 8  # from which on it is: the first ones wait for processes to start


class Progress:
    """What a person sees while a search runs; a context manager, so that the terminal is given back."""

    def __init__(
        self, title: str, basis: Basis, limits: Limits, history: Sequence[tuple[Proposal, Evaluation]]
    ) -> None:
        """`history` is what the run had before this process began."""
        self._basis, self._limits, self._title = basis, limits, title
        self._best: Evaluation | None = None
        self._seed: Evaluation | None = None  # the best of what the search started from
        self._measured_seed = ""
        self._counts: Counter[str] = Counter()
        self._said: Counter[str] | None = None  # the counts of the last line
        self._quiet = is_on("quiet")
        console = self._console = Console(stderr=True, quiet=self._quiet)
        self._curve: list[Best] = []
        self._bar = _Bar(self._chart, _Line(self._pieces, console), console)
        self._is_terminal = console.is_terminal
        self._task = self._bar.add_task("", total=limits.budget)
        self._begun = self._last_line = time.monotonic()
        self._times: deque[float] = deque(maxlen=_RECENT)
        for proposal, evaluation in history:
            self._count(proposal, evaluation)

    def __enter__(self) -> "Progress":
        self.say(self._title)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing; on a plain stream say the last state."""
        self._bar.stop()
        if not self._is_terminal:
            self._lines()

    def show(self, proposal: Proposal, evaluation: Evaluation) -> None:
        self._count(proposal, evaluation)
        if not evaluation.duplicate_of:
            self._times.append(time.monotonic())
        self._bar.update(self._task, completed=self._spent_count)
        if not self._is_terminal and time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._lines()

    def say(self, message: str) -> None:
        """A line above the bar."""
        if not self._quiet:
            self._bar.console.print(f"evoflash: {message}", highlight=False, soft_wrap=True)

    @property
    def _spent_count(self) -> int:
        return self._counts.total() - self._counts["duplicate"]

    def _count(self, proposal: Proposal, evaluation: Evaluation) -> None:
        self._counts["duplicate" if evaluation.duplicate_of else str(evaluation.status)] += 1
        better = faster(self._best, evaluation)
        if better is not self._best and better is not None and better.score_us:
            self._curve.append((self._spent_count, better.score_us))
        self._best = better
        if proposal.operator == "seed" and (seed := faster(self._seed, evaluation)) is not self._seed:
            self._seed, self._measured_seed = seed, self._measured_time(seed)

    def _chart(self) -> Text:
        """As wide as the terminal, at most; no line where there is nothing to draw."""
        mark, width, ascii_only = self._mark, self._console.width - 1, self._console.options.ascii_only
        drawn = chart(
            self._curve, self._spent_count, self._limits.budget, width, mark=mark, is_ascii=ascii_only
        )
        return Text("\n".join(drawn), no_wrap=True, overflow="crop")

    @property
    def _mark(self) -> str:
        return "~" if self._basis is Basis.ESTIMATED else ""

    def _words(self) -> str:
        """All of it, for a stream that is no terminal."""
        count, best, seed, left, rate, ended = (piece.text for piece in self._pieces())
        pace, times = ", ".join(filter(None, (rate, left))), ", ".join(filter(None, (best, seed)))
        return "; ".join(filter(None, (f"{count} {pace}".strip(), times, ended)))

    def _pieces(self) -> tuple["Piece", ...]:
        """How many; the best and where it began; time left and rate; what was not correct."""
        proven, screened = self._counts["correct"], self._counts["screened"]
        failed = self._spent_count - proven - screened
        ended = [f"{n} {word}" for n, word in ((screened, "screened"), (failed, "failed")) if n]
        of = "" if self._limits.budget is None else f"/{self._limits.budget}"
        rate, left = self._pace()
        return (
            Piece(f"{self._spent_count}{of}", 0),
            Piece(self._time("best", self._best, " us"), 1),
            Piece(self._time("seed", self._seed) + self._measured_seed, 3),
            Piece(left, 2),
            Piece(rate, 4),
            Piece(", ".join(ended), 5),
        )

    def _pace(self) -> tuple[str, str]:
        """Evaluations a second, and the time left, in words; empty where they are not known."""
        now = time.monotonic()
        if len(self._times) < _FEWEST:
            return "", ""
        rate = (len(self._times) - 1) / max(now - self._times[0], 1e-9)
        ends = [] if self._limits.budget is None else [(self._limits.budget - self._spent_count) / rate]
        if self._limits.seconds is not None:
            ends.append(self._limits.seconds - (now - self._begun))
        return f"at {rate:.1f}/s", f"{_clock(min(ends))} left" if ends else ""

    def _measured_time(self, seed: Evaluation | None) -> str:
        """What the archive measured of the seed, where its time here is an estimate."""
        known = seed and archived_kernel(seed.genome, seed.problem, seed.gpu)
        return f" ({known.us:.2f} measured)" if known and self._basis is Basis.ESTIMATED else ""

    def _time(self, word: str, evaluation: Evaluation | None, unit: str = "") -> str:
        if evaluation is None:
            return ""
        return f"{word} {self._mark}{evaluation.score_us:.2f}{unit}"

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


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the line; the one of the highest rank is left out first, rank 0 never."""

    text: str
    rank: int


def fit_line(pieces: Sequence[Piece], width: int) -> str:
    """The pieces that stand in so many characters, in their order, none of them cut."""
    shown = [piece for piece in pieces if piece.text]
    while len(text := "  ".join(piece.text for piece in shown)) > width and len(shown) > 1:
        shown.remove(max(shown, key=lambda piece: piece.rank))
    return text


def draw_bar(share: float | None, room: int, *, is_ascii: bool = False) -> tuple[str, str]:
    """The bar's done and open part for the room left beside the words; two empty ones where it is too small.

    They differ without colour, too. `share` is None where nobody knows how much there is.
    """
    length = min(room, _LONGEST_BAR)
    if length < _SHORTEST_BAR or share is None:
        return "", ""
    done = int(length * min(1.0, share))
    full, empty = "#-" if is_ascii else "\u2501\u2500"
    return full * done, empty * (length - done)


class _Bar(Bar):
    """A chart above the line; nothing where there is no terminal."""

    def __init__(self, drawing: Callable[[], Text], line: ProgressColumn, console: Console) -> None:
        self._drawing = drawing
        super().__init__(line, console=console, disable=not console.is_terminal)

    def get_renderables(self) -> Iterable[RenderableType]:
        """The chart, made anew each time as the line is, then the line."""
        drawn = self._drawing()  # asked for once before the console is ours: the drawing has its own
        if drawn.plain:
            yield drawn
        yield from super().get_renderables()


class _Line(ProgressColumn):
    """The whole line. It is made anew each time it is drawn, so that it follows the terminal's width."""

    def __init__(self, pieces: Callable[[], Sequence[Piece]], console: Console) -> None:
        super().__init__()
        self._pieces, self._console = pieces, console

    def render(self, task: Task) -> Text:
        width = self._console.width - 1  # the last column stays free: some terminals wrap there
        share, pieces = task.completed / task.total if task.total else None, self._pieces()
        words = fit_line(pieces, width if share is None else width - _SHORTEST_BAR - 2)
        if len(words) > width - _SHORTEST_BAR - 2 or not all(
            p.text in words for p in pieces if p.rank < _BAR_RANK
        ):
            words = fit_line(pieces, width)  # the times are worth more than the bar
        ascii_only = self._console.options.ascii_only
        done, rest = draw_bar(share, width - len(words) - 2, is_ascii=ascii_only)
        between = "  " if done or rest else ""
        return Text.assemble(
            (done, "bar.complete"), (rest, "bar.back"), between, words, no_wrap=True, overflow="crop"
        )
