"""Reads stored runs from Python: what they evaluated, learnt and report. Evaluates nothing."""

from pathlib import Path
from typing import TYPE_CHECKING

from evoflash.api.records import RunInsights, RunReport, Table
from evoflash.api.words import text_of_problem
from evoflash.app import recordings
from evoflash.app.insights import insights_of
from evoflash.app.repeats import SearchComparison
from evoflash.app.repeats import compare_runs as compare_searches
from evoflash.app.report.collect import report as report_on
from evoflash.app.runs import evaluations_of_run, list_runs
from evoflash.paths import default_database
from evoflash.problem import Problem

if TYPE_CHECKING:
    from evoflash.replay.recorded_space import Recording

RunName = int | str  # a run's number, or its name


def runs(*, every: bool = False, db: str | None = None) -> Table:
    """The searches of a database, newest first: what `evoflash runs --json` prints, a row for each.

    `every` adds the runs of commands that evaluate a kernel which they are given. StoreError where there is
    no database.

    >>> import evoflash
    >>> evoflash.runs()[-1]["gpu"]
    'l4'
    """
    found = list_runs(db or default_database(), every=every)
    return Table(tuple(found.as_dict()["runs"]))


def evaluations(
    run: RunName | None = None,
    *,
    problem: str | Problem | None = None,
    gpu: str | None = None,
    db: str | None = None,
) -> Table:
    """All that a run evaluated, in its order: correct, screened, failed and duplicate kernels.

    A row for each has the genome's id, family and values (`values`, and each gene as `gene.NAME`), the
    operator and the parents, status, rung and reason, the time in us with its basis and model, the compiler's
    registers, spills and shared memory, and what the kernel duplicates. By default it is the newest search,
    of `problem` and `gpu` where these are given. NoKernelError where no search fits.

    >>> import evoflash
    >>> [row["status"] for row in evoflash.evaluations(gpu="l4")][:1]
    ['correct']
    """
    where = db or default_database()
    return Table(evaluations_of_run(where, _name(run), problem=text_of_problem(problem), gpu=gpu))


def insights(
    run: RunName | None = None,
    *,
    problem: str | Problem | None = None,
    gpu: str | None = None,
    replayed: bool = False,
    db: str | None = None,
) -> RunInsights:
    """What a run has learnt of operators, values and failures, as `evoflash insights` shows it.

    By default the newest search, with `replayed` the newest on a recorded space. NoKernelError where no
    search fits.

    >>> import evoflash
    >>> evoflash.insights(gpu="l4").found.evaluated > 0
    True
    """
    where = db or default_database()
    found = insights_of(where, _name(run), problem=text_of_problem(problem), gpu=gpu, replayed=replayed)
    return RunInsights(found)


def report(
    run: RunName | None = None,
    path: str | Path | None = None,
    *,
    retime: bool = False,
    check: bool = False,
    price_per_hour: float | None = None,
    db: str | None = None,
) -> RunReport:
    """A run's report: `as_dict()` has every figure of it, `html` is the page, which `path` is written to.

    By default it is of the newest search. `retime` times the winner's lineage again on its GPU, `check` runs
    the winner in the emulator again. DeviceError where that is not possible.

    >>> import evoflash
    >>> evoflash.report().as_dict()["run"]["gpu"]
    'l4'
    """
    where = db or default_database()
    found = RunReport(
        report_on(where, _name(run), is_retimed=retime, is_checked=check, price_per_hour=price_per_hour)
    )
    if path is not None:
        found.write(path)
    return found


def record(
    path: str | Path,
    *,
    problem: str | Problem | None = None,
    gpu: str | None = None,
    run: RunName | None = None,
    family: str | None = None,
    estimated: bool = False,
    db: str | None = None,
) -> "Recording":
    """Write outcomes as a recorded space, as `evoflash record` does, for `replay` and other tuners.

    Those of a problem on a GPU, or of one run; `.gz` compresses. `estimated` writes a model's times, marked
    so. UsageError where it is not said what, or of which of several families.

    >>> import evoflash
    >>> made = evoflash.record("mission.json", run=1, family="flash_wmma", estimated=True)
    >>> made.space.family
    'flash_wmma'
    """
    where = db or default_database()
    return recordings.record(
        where,
        Path(path),
        problem=text_of_problem(problem),
        gpu=gpu,
        run=_name(run),
        family=family,
        estimated=estimated,
    )


def compare_runs(first: RunName, second: RunName, *, db: str | None = None) -> SearchComparison:
    """Two searches over their seeds, each named by one of its runs, as `evoflash runs compare` does.

    `ratio` is the first's best time over the second's after `evaluations`, the geometric mean of `pairs` of
    equal seeds, and `p_value` how likely one so far from 1 is by chance. UsageError where the two searched
    for different things.

    >>> import evoflash
    >>> evoflash.compare_runs(1, 2).ratio  # doctest: +SKIP
    1.08
    """
    return compare_searches(db or default_database(), str(first), str(second))


def _name(run: RunName | None) -> str | None:
    return None if run is None else str(run)
