"""Searching from Python, and asking a database what it knows. The commands' modules do the work."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from evoflash.api.records import Kernel, Leaderboard, Progress, SearchResult, Step
from evoflash.commands import kernel_report
from evoflash.commands.best import answer
from evoflash.commands.evaluate import run as evaluating
from evoflash.commands.evaluate.subject import Subject, of_name
from evoflash.commands.leaderboard import several
from evoflash.commands.leaderboard.pareto import objectives_of
from evoflash.commands.leaderboard.table import Only, since_of
from evoflash.commands.options import DEFAULT_STRATEGY
from evoflash.commands.search import plan as planning
from evoflash.commands.search import run as running
from evoflash.commands.search.limits import Limits
from evoflash.commands.search.limits import limits as limits_of
from evoflash.commands.search.machines import Asked, machines
from evoflash.evaluation import Basis, Evaluation, Proposal
from evoflash.gpu import known_name
from evoflash.paths import default_database
from evoflash.problem import Problem, canonical
from evoflash.search import faster
from evoflash.space import Value
from evoflash.store.store import open_store

_ARGV = ("python",)  # what a run that was begun from Python has in place of a command line


def search(
    problem: str | Problem = "mission",
    *,
    gpu: str | None = None,
    budget: int | None = None,
    minutes: float | None = None,
    until: float | None = None,
    strategy: str = DEFAULT_STRATEGY,
    family: str | None = None,
    seed: int = 0,
    evaluator: str | None = None,
    archive: bool = True,
    transfer: bool = True,
    seeds: int | None = None,
    objective: str | None = None,
    fresh: bool = False,
    db: str | None = None,
    progress: Progress | None = None,
    gpus: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    tls: str | Path | None = None,
    ahead: int | None = None,
) -> SearchResult:
    """Search for the fastest kernel and store every outcome; the same call again continues to its budget.

    `gpu` is a known GPU's name, by default the one that is present; elsewhere kernels are checked by the CPU
    emulator and times are estimated. The search ends at `budget` distinct kernels (200 where no limit is
    given), after `minutes`, or at a kernel that reaches the share `until` of the physical floor. `family`
    keeps to one kernel family, `seeds` starts from so many hand-written kernels of each, `objective`
    ("latency,registers") adds that Pareto front of the run to the result's report, `evaluator` is `gpu` or
    `emulated`, `db` a path or an SQLAlchemy URL.
    `gpus` ("all", "0,1"), `workers` (processes without a GPU) or `scheduler` (a Dask scheduler's address,
    with the folder `tls` of its certificate) say where to work, as the command's options of these names do;
    `ahead` is how many proposals are in flight. `gpus` sets CUDA_VISIBLE_DEVICES of this process.
    `progress` is called with a Step after each evaluation. Ctrl-C, or a notebook's stop button, ends the
    search and keeps what it has: the result says `is_interrupted`.

    Worker processes import the calling script, so a script calls this under `if __name__ == "__main__":`.
    UsageError for what makes no sense, DeviceError where the GPU or a compiler is missing, StoreError where
    the database cannot be used.

    >>> import evoflash
    >>> result = evoflash.search("mission", gpu="l4", family="flash_wmma", budget=2)
    >>> result.spent, result.best.is_correct, str(result.best.basis)
    (2, True, 'estimated')
    """
    limits = limits_of(budget, None, minutes, until)
    planned = partial(
        planning.plan,
        gpu=gpu,
        problem=str(problem),
        strategy=strategy,
        seed=seed,
        family=family,
        evaluator=evaluator,
        archive=archive,
        transfer=transfer,
        seeds=seeds,
        objective=objective,
    )
    where, plan = db or default_database(), None
    asked = Asked(gpus, workers, scheduler, None if tls is None else Path(tls), ahead, evaluator)

    def watch(
        title: str, basis: Basis, limits: Limits, history: Sequence[tuple[Proposal, Evaluation]]
    ) -> _Heard:
        return _Heard(progress, limits, history)

    try:
        with machines(asked, lambda present: planned(present=present)) as (plan, found):
            result = running.run(
                plan, where, limits=limits, fresh=fresh, argv=_ARGV, watch=watch, machines=found
            )
    except KeyboardInterrupt:
        if plan is None:  # before there was a search: a GPU of a scheduler was waited for
            raise
        return _kept(plan, where)
    return _result(result, is_interrupted=False)


def _result(result: running.SearchResult, *, is_interrupted: bool) -> SearchResult:
    if result.best is None:
        return SearchResult(None, result.spent, is_interrupted)
    said = kernel_report.describe_result(result, as_json=False)
    return SearchResult(Kernel(result.best), result.spent, is_interrupted, said)


def _kept(plan: planning.Plan, db: str) -> SearchResult:
    """What the plan's newest run has in the database; nothing where it was not begun."""
    with open_store(db) as store:
        run = next((run for run in store.runs() if run.key == plan.key), None)
        kept = running.SearchResult(None, 0)
        if run is not None:
            kept = running.result_of(store, run)
    return _result(kept, is_interrupted=True)


class _Heard:
    """Hands a search's evaluations to a callback, as steps."""

    def __init__(
        self, progress: Progress | None, limits: Limits, history: Sequence[tuple[Proposal, Evaluation]]
    ) -> None:
        self._progress, self._budget = progress, limits.budget
        self._best: Evaluation | None = None
        self._spent = 0
        for _, evaluation in history:
            self._count(evaluation)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """One more evaluation."""
        self._count(evaluation)
        if self._progress is not None:
            best = Kernel(self._best) if self._best else None
            self._progress(Step(self._spent, self._budget, Kernel(evaluation), best))

    def say(self, message: str) -> None:
        """What is being done now is not told: a callback hears of evaluations."""

    def _count(self, evaluation: Evaluation) -> None:
        self._best = faster(self._best, evaluation)
        self._spent += not evaluation.duplicate_of


def best(
    problem: str | Problem | None = None,
    *,
    gpu: str | None = None,
    archive: bool | None = None,
    db: str | None = None,
) -> Kernel:
    """The best kernel known: the database's, measured if there is one, else estimated, and marked so.

    By default of the newest problem and GPU in the database. Where it has none for `problem`, the shipped
    archive may; `archive` True asks the archive alone, False never. Its kernel is checked and timed where
    its GPU is, and stored; elsewhere the emulator checks it, and it has `archived`, a time of another
    machine, in place of `time_us`. NoKernelError where none is known, StoreError without a database.

    >>> import evoflash
    >>> kernel = evoflash.best("mission", gpu="l4")
    >>> kernel.time_us > 0, kernel.time.startswith("~")
    (True, True)
    """
    where = db or default_database()
    known = answer.best(where, problem=_text(problem), gpu=gpu, archive=archive, argv=_ARGV)
    return Kernel(known.evaluation, known.archived)


def leaderboard(
    problem: str | Problem | None = None,
    *,
    gpu: str | None = None,
    family: str | None = None,
    run: int | None = None,
    since: str | None = None,
    objective: str | None = None,
    top: int = 20,
    db: str | Sequence[str] | None = None,
) -> Leaderboard:
    """The `top` fastest correct kernels of each problem, GPU and kind of time; all of them by default.

    `family`, `run` (its number) and `since` (a date, or a date and a time, in UTC) leave the others out
    before they are ranked. `objective` ("latency,registers") keeps the Pareto front of each ranking in these
    alone. Several databases in `db` are ranked together, and a row's `database` says where it is from.
    UsageError for no date and for an unknown objective, StoreError where there is no database.

    >>> import evoflash
    >>> [row["rank"] for row in evoflash.leaderboard("mission", gpu="l4", top=1)]
    [1]
    """
    only = Only(family, run, None if since is None else since_of(since))
    databases = [db] if isinstance(db, str) else list(db or [default_database()])
    fronts = () if objective is None else objectives_of(objective)
    wanted, where = canonical(_text(problem)), known_name(gpu)
    table, _ = several.leaderboard(
        databases, objectives=fronts, problem=wanted, gpu=where, only=only, top=top
    )
    return Leaderboard(table)


def evaluate(
    what: str | Path | Kernel,
    values: Mapping[str, Value] | None = None,
    *,
    problem: str | Problem | None = None,
    gpu: str | None = None,
    evaluator: str | None = None,
    db: str | None = None,
) -> Kernel:
    """Check and time one given genome, and store the outcome; one that fails is a Kernel with its reason.

    `what` is a family's name together with `values` (the first value of each gene that is left out), an id
    or its first digits, a JSON file, an exported .cu file, or a Kernel. `problem` and `gpu` override what
    it was made for. Measured where the GPU is present, else checked by the emulator and estimated.
    UsageError for values that are not valid together.

    >>> import evoflash
    >>> kernel = evoflash.evaluate("flash_wmma", {}, gpu="l4")
    >>> str(kernel.status), kernel.family
    ('correct', 'flash_wmma')
    """
    where = db or default_database()
    text = _text(problem)
    if isinstance(what, Kernel):
        known = what
        subject = Subject(known.family, known.values, text or known.problem, gpu or known.gpu)
    elif values is not None:
        subject = Subject(str(what), values, text or "mission", gpu)
    else:
        subject = of_name(str(what), problem=text, gpu=gpu, db=where)
    return Kernel(evaluating.evaluate(subject, evaluator, where, argv=_ARGV).evaluation)


def _text(problem: str | Problem | None) -> str | None:
    return None if problem is None else str(problem)
