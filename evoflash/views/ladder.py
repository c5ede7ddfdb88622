"""Shows what `evoflash ladder` found, as a table, the kernels or a bar chart. Evaluates nothing.

matplotlib is asked for only when a chart is wanted: it comes with the extra `plots`.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from evoflash.app.ladder import Climb, LadderResult, RenderedStep
from evoflash.errors import UsageError
from evoflash.estimate_error import error_sentence
from evoflash.evaluation import Basis
from evoflash.extras import install
from evoflash.views import tables
from evoflash.written_files import check_replaceable, write_bytes

_FORMATS = (".svg", ".png")
_STYLES = {"+": "green", "-": "red", "@": "cyan"}  # lines of a diff


def title(climb: Climb) -> str:
    """One line: the problem, the GPU, and whether the times were measured."""
    return f"{climb.problem} on {climb.gpu}, {_basis(climb)}"


def _basis(climb: Climb) -> str:
    if climb.basis is Basis.MEASURED:
        return "measured"
    model = climb.results[0].evaluation.model_version if climb.results else ""
    return f"ESTIMATED by model {model}, not measured".replace("  ", " ")


def _time(result: LadderResult) -> str:
    if result.evaluation.score_us is None or not result.is_correct:
        return ""
    bound = ">= " if result.evaluation.is_censored else ""
    return f"{bound}{_mark(result)}{result.evaluation.score_us:.2f}"


def _status(result: LadderResult) -> str:
    evaluation = result.evaluation
    if result.is_correct:
        return "correct"
    return f"FAILED: {evaluation.status} at {evaluation.rung}: {evaluation.reason}"


def _mark(result: LadderResult) -> str:
    return "~" if result.evaluation.is_estimate else ""


def _factor(result: LadderResult, value: float | None) -> str:
    return "" if value is None else f"{_mark(result)}{value:.2f}x"


def notes(climb: Climb) -> list[str]:
    """How far estimates may be off; nothing where times were measured."""
    if climb.basis is Basis.MEASURED:
        return []
    families = dict.fromkeys(result.step.family for result in climb.results)
    return [error_sentence(climb.gpu, family) for family in families]


def line(result: LadderResult) -> str:
    """A step in one line, for a person who waits."""
    return f"{result.step.name}: {_time(result) + ' us' if result.is_correct else _status(result)}"


def print_table(climb: Climb, console: Console) -> None:
    """Every step: what it changed, its time and speed-ups, TFLOPS, and what became of it."""

    def column(
        name: str, cell: Callable[[LadderResult], str], rank: int = 0, *, prose: int = 0
    ) -> tables.Column:
        return tables.Column(name, tuple(map(cell, climb.results)), rank, not prose, prose)

    columns = [
        replace(column("step", lambda result: result.step.name), is_number=False),
        column("what changed", lambda result: result.step.change, 1, prose=24),
        column("us", _time),
        column("over previous", lambda result: _factor(result, result.over_previous), 2),
        column("over first", lambda result: _factor(result, result.over_first), 3),
        column("TFLOPS", lambda result: _rate(result), 4),
        column("status", _status, 0, prose=12),
    ]
    tables.print_table(columns, console, title=title(climb))
    for line in notes(climb):
        console.print(escape(line), highlight=False)


def _rate(result: LadderResult) -> str:
    return "" if result.tflops is None else f"{_mark(result)}{result.tflops:.2f}"


def print_sources(shown: Sequence[RenderedStep], console: Console) -> None:
    """The whole source where a family begins, elsewhere the diff; coloured on a terminal."""
    for one in shown:
        console.print(Text(f"==== {one.step.name}: {one.step.change}", "bold"), soft_wrap=True)
        lines = one.diff or tuple(one.text.splitlines())
        for line in lines:
            style = _STYLES.get(line[:1], "") if one.diff else ""
            console.print(Text(line, style), soft_wrap=True)
        console.print()


def check_plot(path: Path) -> None:
    """UsageError unless plot() can write there: before anything is evaluated."""
    if path.suffix not in _FORMATS:
        raise UsageError(f"--plot {path}: name a file that ends in {' or '.join(_FORMATS)}.")
    if not path.resolve().parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.resolve().parent}; make it first.")
    check_replaceable(path)
    if find_spec("matplotlib") is None:
        raise UsageError(f"--plot needs matplotlib: {install('plots')}.")


def plot(climb: Climb, path: Path) -> None:
    """Write a bar chart of the steps' times on a log axis to a .svg or .png file."""
    import matplotlib
    from matplotlib.figure import Figure

    # The same steps and times give the same bytes: no date, no random ids.
    with matplotlib.rc_context({"svg.hashsalt": "evoflash", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 0.6 * len(climb.results) + 1.4), layout="constrained")
        _draw(climb, figure.add_subplot())
        picture = io.BytesIO()
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(picture, format=path.suffix[1:], dpi=150, metadata=metadata)
    write_bytes(path, picture.getvalue())


def _draw(climb: Climb, axes: Any) -> None:
    times = [r.evaluation.score_us if r.is_correct else None for r in climb.results]
    shown = [time for time in times if time is not None]
    smallest, largest = min(shown, default=1.0), max(shown, default=10.0)
    left = smallest / 3
    is_estimate = climb.basis is not Basis.MEASURED
    for place, (result, time) in enumerate(zip(climb.results, times, strict=True)):
        if time is None:
            axes.text(left * 1.1, place, f"failed: {result.evaluation.status}", va="center", color="#b00020")
            continue
        axes.barh(
            place,
            time - left,
            left=left,
            color="#4878a8",
            edgecolor="white",
            hatch="//" if is_estimate else "",
        )
        factor = f"  ({_mark(result)}{result.over_first:.1f}x)" if result.over_first else ""
        axes.text(time * 1.05, place, f"{_time(result)} us{factor}", va="center")
    axes.set_xscale("log")
    axes.set_xlim(left, largest * 6)
    axes.set_yticks(range(len(climb.results)), [result.step.name for result in climb.results])
    axes.invert_yaxis()
    axes.set_xlabel("time of one launch, us (log scale); in brackets: times as fast as the first step")
    axes.set_title(title(climb), loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
