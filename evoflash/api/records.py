"""The records that the Python interface returns, which notebooks show as formatted text. Starts no work.

Nothing is read either, but for a kernel's own CUDA, which is rendered when it is asked for.
In their HTML everything that is not ours is escaped.
"""

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from evoflash.app.check.runs import CheckReport, reports_as_dict
from evoflash.app.compare import ComparisonResult, ComparisonRun, PairResult
from evoflash.app.export import cuda_of, request_of, write_page
from evoflash.app.insights import Insights
from evoflash.app.leaderboard import Rankings
from evoflash.app.report.record import Report
from evoflash.app.verify.verdict import Verification
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Basis, Evaluation, Status
from evoflash.space import Value
from evoflash.views import kernel as kernel_report
from evoflash.views import leaderboard as table_report
from evoflash.views.check import print_reports
from evoflash.views.insights import print_insights
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import as_text, four_digits
from evoflash.views.verify import print_verdict

if TYPE_CHECKING:
    from evoflash.champions import Champion


@dataclass(frozen=True, repr=False)
class Kernel:
    """One kernel, on one problem and one GPU: what it is, whether it is right, how fast it is.

    `evaluation` is the whole record: builds, verdicts, timings.
    """

    evaluation: Evaluation
    archived: "Champion | None" = None  # of the archive, checked here and not timed: what it was elsewhere

    @property
    def id(self) -> str:
        """The genome's id, 16 hexadecimal digits."""
        return self.evaluation.genome.id

    @property
    def family(self) -> str:
        """The name of its kernel family."""
        return self.evaluation.genome.family

    @property
    def values(self) -> Mapping[str, Value]:
        """The value of each gene."""
        return MappingProxyType(self.evaluation.genome.as_dict())

    @property
    def problem(self) -> str:
        """What it computes, as the database writes it: `b=1,h=8,...`."""
        return self.evaluation.problem

    @property
    def gpu(self) -> str:
        """The GPU that it is compiled for."""
        return self.evaluation.gpu

    @property
    def status(self) -> Status:
        """`correct`, or the way in which it failed; `reason` has the words."""
        return self.evaluation.status

    @property
    def is_correct(self) -> bool:
        """Whether it passed every check."""
        return self.evaluation.is_correct

    @property
    def reason(self) -> str:
        """Why it failed; empty where it is correct."""
        return self.evaluation.reason

    @property
    def time_us(self) -> float | None:
        """Microseconds a call, the geometric mean over the problem's workloads; None where it failed.

        Look at `basis` before you compare: estimates are no measurements. None, too, for a kernel of the
        archive that was not timed here: `archived.us` is what it took where it was measured.
        """
        return self.evaluation.score_us

    @property
    def basis(self) -> Basis:
        """Where the time is from: `measured`, `estimated` by a model or `replayed` from a record.

        `estimated` without a time: checked by the emulator alone.
        """
        return self.evaluation.basis

    @property
    def time(self) -> str:
        """The time in words, with a mark where it is no measurement: `~12.92 us ESTIMATED by ...`."""
        if self.archived is not None:
            return self.archived.time
        return self.evaluation.time

    @cached_property
    def cuda(self) -> str:
        """The kernel as one complete .cu file, as `evoflash export` writes it.

        UsageError where the problem's workloads need differently compiled kernels.
        """
        return self.cuda_with_prefix(None)

    def cuda_with_prefix(self, prefix: str | None) -> str:
        """As `cuda`, with C names that begin with the prefix, so that several files make one program."""
        return cuda_of(replace(request_of(self.evaluation, prefix), evaluation=self.evaluation))

    def __repr__(self) -> str:
        """In a line: id, family, problem, GPU, status and time."""
        return (
            f"<Kernel {self.id} {self.family} for {self.problem} on {self.gpu}: {self.status}, {self.time}>"
        )

    def __str__(self) -> str:
        """What `evoflash best` prints of it."""
        if self.archived is not None:
            return kernel_report.describe_archived(self.archived, self.evaluation)
        return kernel_report.brief(self.evaluation)

    def _repr_html_(self) -> str:
        return _kernel_html(self)


@dataclass(frozen=True)
class Ranking:
    """Correct kernels on one problem and one GPU, fastest first, all with times of one kind."""

    title: str
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]  # as `evoflash leaderboard` prints them


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """Correct kernels, fastest first; measured and estimated ones in rankings of their own."""

    table: Rankings

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dict for each row, by column, times in us: what a data frame takes."""
        return self.table.as_dicts()

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """One for each problem, GPU and kind of time."""
        return tuple(Ranking(*parts) for parts in table_report.rankings_in_words(self.table))

    def __len__(self) -> int:
        return len(self.table.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __repr__(self) -> str:
        """How many kernels are on it; `str` has the tables."""
        return f"<Leaderboard of {len(self)} kernels>"

    def __str__(self) -> str:
        """What `evoflash leaderboard` prints."""
        return as_text(lambda console: table_report.print_table(self.table, console))

    @property
    def markdown(self) -> str:
        """The rankings as Markdown tables."""
        return table_report.as_markdown(self.table)

    def _repr_html_(self) -> str:
        return _leaderboard_html(self)


@dataclass(frozen=True)
class SearchResult:
    """What a search came to: its best kernel, where there is one, and what the run has spent."""

    best: Kernel | None
    spent: int  # evaluations, those of earlier calls included
    is_interrupted: bool = False  # by Ctrl-C or the notebook's stop button; the same call continues
    report: str = ""  # what `evoflash search` prints at its end

    def __str__(self) -> str:
        """What `evoflash search` prints at its end."""
        return self.report or f"no correct kernel among {self.spent} evaluations"

    def _repr_html_(self) -> str:
        return _search_result_html(self)


@dataclass(frozen=True)
class Step:
    """One more evaluation of a search: what a progress callback is given."""

    spent: int  # evaluations of the run so far, this one included
    budget: int | None  # None where the search is limited by time alone
    kernel: Kernel
    best: Kernel | None  # the best correct one so far

    def __str__(self) -> str:
        """`12/200: ~14.28 us ESTIMATED by model 4, not measured`; the time is the best one's."""
        of = "" if self.budget is None else f"/{self.budget}"
        return f"{self.spent}{of}: {self.best.time if self.best else 'no correct kernel yet'}"


Progress = Callable[[Step], object]


class _ShownAsText:
    """What a notebook shows as its own text, in lines of its own."""

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.25;overflow-x:auto">{escape(str(self))}</pre>'


@dataclass(frozen=True, repr=False)
class Table(_ShownAsText):
    """Rows as `evoflash ... --json` has them: dicts by column, times in us. `frame()` makes a data frame."""

    rows: tuple[dict[str, Any], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All that any row has, in the order in which they come first."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def frame(self) -> Any:
        """A pandas.DataFrame with a line for each row. UsageError where pandas is not installed."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise UsageError(
                "pandas is not installed: pip install pandas, or take `rows`, a dict for each."
            ) from None
        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, at: int) -> dict[str, Any]:
        return self.rows[at]

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"

    def __str__(self) -> str:
        """The columns whose cells are single values, as text."""
        flat = [name for name in self.columns if not any(_is_nested(row.get(name)) for row in self.rows)]
        cells = [tuple(_cell(row.get(name)) for row in self.rows) for name in flat]
        columns = [
            Column(name, texts, is_number=False)
            for name, texts in zip(flat, cells, strict=True)
            if any(texts)
        ]
        return as_text(lambda console: print_table(columns, console)) if columns else "no rows"


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list | tuple)


def _cell(value: object) -> str:
    return "" if value is None else four_digits(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True, repr=False)
class RunInsights(_ShownAsText):
    """What a run has learnt; `found` has its operators, bottlenecks, lineage and the effects of values."""

    found: Insights

    def as_dict(self) -> dict[str, Any]:
        """What `evoflash insights --json` prints."""
        return self.found.as_dict()

    def __repr__(self) -> str:
        return f"<RunInsights of run {self.found.run.id}, {self.found.evaluated} evaluations>"

    def __str__(self) -> str:
        """What `evoflash insights` prints."""
        return as_text(lambda console: print_insights(self.found, console))


@dataclass(frozen=True, repr=False)
class RunReport:
    """A run's report: its figures by `as_dict()`, and the page that `evoflash report` writes as `html`."""

    found: Report

    def as_dict(self) -> dict[str, Any]:
        """What `evoflash report --json` writes."""
        known: dict[str, Any] = json.loads(json.dumps(self.found.as_dict()))
        return known

    @property
    def html(self) -> str:
        """The page, which needs no other file."""
        from evoflash.views.html.report import html

        return html(self.as_dict())

    def write(self, path: str | Path) -> None:
        """Write the page. UsageError where the path cannot be written."""
        write_page(Path(path), self.html)

    def __repr__(self) -> str:
        return f"<RunReport of run {self.found.run.id}>"


@dataclass(frozen=True, repr=False)
class KernelCheck(_ShownAsText):
    """What a kernel does wrong; a report for each way in which its problem compiles it."""

    reports: tuple[CheckReport, ...]

    @property
    def errors(self) -> int:
        """Findings that make the kernel wrong."""
        return sum(report.errors for report in self.reports)

    @property
    def warnings(self) -> int:
        """Findings that make it slow, or that may be meant."""
        return sum(report.warnings for report in self.reports)

    def as_dict(self) -> dict[str, Any]:
        """What `evoflash check --json` prints."""
        return reports_as_dict(self.reports)

    def __repr__(self) -> str:
        return f"<KernelCheck: {self.errors} errors, {self.warnings} warnings>"

    def __str__(self) -> str:
        """What `evoflash check` prints."""
        return as_text(lambda console: print_reports(self.reports, console))


@dataclass(frozen=True, repr=False)
class KernelVerification(_ShownAsText):
    """Whether a claim about a kernel is true here; `found` has the claim and what was found."""

    found: Verification

    @property
    def answer(self) -> str:
        """`confirmed`, `not confirmed` or `cannot be compared`."""
        return str(self.found.verdict.answer)

    def as_dict(self) -> dict[str, Any]:
        """What `evoflash verify --json` prints."""
        return self.found.as_dict()

    def __repr__(self) -> str:
        return f"<KernelVerification: {self.answer}>"

    def __str__(self) -> str:
        """What `evoflash verify` prints."""
        return as_text(lambda console: print_verdict(self.found, console))


@dataclass(frozen=True)
class KernelComparison(_ShownAsText):
    """Which of two kernels is faster on this machine's GPU, by workload and protocol."""

    run: ComparisonRun
    outcome: ComparisonResult

    @property
    def results(self) -> tuple[PairResult, ...]:
        """For each workload and protocol the ratio of the times, its interval and the answer."""
        return self.outcome.results

    def __str__(self) -> str:
        """What `evoflash compare` prints."""
        return kernel_report.describe_comparison(self.run, self.outcome)


_SOURCE = "evoflash-source"  # the CSS class that our colours are confined to


def _kernel_html(shown: Kernel) -> str:
    """Verdict, time with its mark, values, and the source, folded."""
    evaluation = shown.evaluation
    rows = {
        "kernel": f"{shown.id}, {shown.family}",
        "problem": f"{shown.problem} on {shown.gpu}",
        "verdict": f"{shown.status}" + (f": {shown.reason}" if shown.reason else ""),
        "checked": kernel_report.describe_checks(evaluation.verdicts).removeprefix("checked").strip(),
        "time": shown.time,
        "values": " ".join(f"{name}={value}" for name, value in shown.values.items()),
    }
    return _definitions(rows) + _source(shown)


def _leaderboard_html(shown: Leaderboard) -> str:
    if not len(shown):
        return "<p>No correct kernel is stored for this.</p>"
    return "".join(map(_ranking, shown.rankings))


def _search_result_html(shown: SearchResult) -> str:
    ended = "interrupted after" if shown.is_interrupted else "ended after"
    head = f"<p>Search {ended} {shown.spent} evaluations.</p>"
    return head + (_kernel_html(shown.best) if shown.best else "<p>No kernel was correct.</p>")


def _ranking(shown: Ranking) -> str:
    head = _row(shown.columns, "th")
    body = "".join(_row(cells, "td") for cells in shown.cells)
    return (
        f"<table><caption>{escape(shown.title)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"
    )


def _definitions(rows: dict[str, str]) -> str:
    return f"<table>{''.join(_row(row, 'td') for row in rows.items())}</table>"


def _row(cells: Iterable[str], tag: str) -> str:
    style = 'style="text-align:left"'
    return f"<tr>{''.join(f'<{tag} {style}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _source(shown: Kernel) -> str:
    try:
        text = shown.cuda
    except EvoflashError as error:  # several kernels, or a family that is gone: the record is shown without
        return f"<p>{escape(str(error))}</p>"
    summary = f"{text.count(chr(10))} lines of CUDA"
    return f"<details><summary>{summary}</summary>{_highlight_cuda(text)}</details>"


def _highlight_cuda(cuda: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import CudaLexer

    colours = HtmlFormatter(cssclass=_SOURCE)
    styles = colours.get_style_defs(f".{_SOURCE}")
    return f"<style>{styles}</style>{highlight(cuda, CudaLexer(), colours)}"
