"""Searches, asks for the best kernels, evaluates and exports from Python. app/ does the work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, overload

from evoflash.api.records import Kernel, Leaderboard, Progress, SearchResult, Step
from evoflash.api.words import text_of_problem
from evoflash.app import best as answer
from evoflash.app import evaluate as evaluating
from evoflash.app.evaluate import GenomeRequest, of_name
from evoflash.app.export import write_evaluated
from evoflash.app.judge.answer import KernelAnswer
from evoflash.app.judge.foreign import JudgeOptions, Stage, is_foreign, judge_file
from evoflash.app.leaderboard import ranked_kernels
from evoflash.app.recordings import compare_strategies
from evoflash.app.search import plan as planning
from evoflash.app.search import session as running
from evoflash.app.search.language_model import language_model
from evoflash.app.search.limits import Limits
from evoflash.app.search.limits import limits as limits_of
from evoflash.app.search.machines import MachineOptions, machines
from evoflash.app.search.many import by_weight
from evoflash.app.shape_files import WeightedProblem, read_problems
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, faster
from evoflash.paths import default_database
from evoflash.problem import Problem, parse_problem
from evoflash.settings import DEFAULT_STRATEGY
from evoflash.space import Value
from evoflash.views import kernel as kernel_report
from evoflash.written_files import replacing

if TYPE_CHECKING:
    from evoflash.replay.comparison import StrategyComparison

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
    llm: str | None = None,
    llm_url: str | None = None,
    llm_key_env: str | None = None,
    llm_prompt: str | None = None,
    llm_replay: str | None = None,
    llm_source: bool = False,
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
    `llm` is a language model at `llm_url` that may propose edits beside the strategy; the other arguments
    that begin so are the command's options of these names.
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
        llm=language_model(llm, llm_url, llm_key_env, llm_prompt, llm_replay, source=llm_source),
    )
    where, plan = db or default_database(), None
    asked = MachineOptions(gpus, workers, scheduler, None if tls is None else Path(tls), ahead, evaluator)

    def watch(
        title: str, basis: Basis, limits: Limits, history: Sequence[tuple[Proposal, Evaluation]]
    ) -> _Listener:
        return _Listener(progress, limits, history)

    try:
        with machines(asked, lambda present: planned(present=present)) as (plan, found):
            result = running.run_search(
                plan, where, limits=limits, fresh=fresh, argv=_ARGV, watch=watch, machines=found
            )
    except KeyboardInterrupt:
        if plan is None:  # before there was a search: a GPU of a scheduler was waited for
            raise
        return _result(running.stored_result(plan, where), is_interrupted=True)
    return _result(result, is_interrupted=False)


def _result(result: running.RunResult, *, is_interrupted: bool) -> SearchResult:
    if result.best is None:
        return SearchResult(None, result.spent, is_interrupted)
    said = kernel_report.describe_result(result)
    return SearchResult(Kernel(result.best), result.spent, is_interrupted, said)


class _Listener(running.NotesOnly):
    """Hands a search's evaluations to a callback, as steps."""

    def __init__(
        self, progress: Progress | None, limits: Limits, history: Sequence[tuple[Proposal, Evaluation]]
    ) -> None:
        self._progress, self._budget = progress, limits.budget
        self._best: Evaluation | None = None
        self._spent = 0
        for _, evaluation in history:
            self._count(evaluation)

    def show(self, proposal: Proposal, evaluation: Evaluation) -> None:
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
    run: int | str | None = None,
    db: str | None = None,
) -> Kernel:
    """The best kernel known: the database's, measured if there is one, else estimated, and marked so.

    By default of the newest problem and GPU in the database. Where it has none for `problem`, the shipped
    archive may; `archive` True asks the archive alone, False never, and `run` (a number or a name) asks that
    run alone. The archive's kernel is checked and timed where
    its GPU is, and stored; elsewhere the emulator checks it, and it has `archived`, a time of another
    machine, in place of `time_us`. NoKernelError where none is known, StoreError without a database.

    >>> import evoflash
    >>> kernel = evoflash.best("mission", gpu="l4")
    >>> kernel.time_us > 0, kernel.time.startswith("~")
    (True, True)
    """
    where = db or default_database()
    within = None if run is None else str(run)
    known = answer.best(
        where, problem=text_of_problem(problem), gpu=gpu, archive=archive, argv=_ARGV, run=within
    )
    return Kernel(known.evaluation, known.archived)


def leaderboard(
    problem: str | Problem | None = None,
    *,
    gpu: str | None = None,
    family: str | None = None,
    run: int | str | None = None,
    since: str | None = None,
    objective: str | None = None,
    top: int = 20,
    db: str | Sequence[str] | None = None,
) -> Leaderboard:
    """The `top` fastest correct kernels of each problem, GPU and kind of time; all of them by default.

    `family`, `run` (its number or name) and `since` (a date, or a date and a time, in UTC) leave the others
    out before they are ranked. `objective` ("latency,registers") keeps the Pareto front of each ranking in
    these alone. Several databases in `db` are ranked together, and a row's `database` says where it is from.
    UsageError for no date and for an unknown objective, StoreError where there is no database.

    >>> import evoflash
    >>> [row["rank"] for row in evoflash.leaderboard("mission", gpu="l4", top=1)]
    [1]
    """
    databases = [db] if isinstance(db, str) else list(db or [default_database()])
    table, _ = ranked_kernels(
        databases,
        problem=text_of_problem(problem),
        gpu=gpu,
        family=family,
        run=None if run is None else str(run),
        since=since,
        objective=objective,
        top=top,
    )
    return Leaderboard(table)


def evaluate(
    what: str | Path | Kernel,
    values: Mapping[str, Value] | None = None,
    *,
    problem: str | Problem | None = None,
    gpu: str | None = None,
    evaluator: str | None = None,
    stage: Stage = "time",
    seed: int | None = None,
    timeout: float = 120.0,
    unsafe: bool = False,
    header: str | Path | None = None,
    db: str | None = None,
) -> Kernel | KernelAnswer:
    """Check and time one given genome, and store the outcome; one that fails is a Kernel with its reason.

    `what` is a family's name together with `values` (the first value of each gene that is left out), an id
    or its first digits, a JSON file, an exported .cu file, or a Kernel. `problem` and `gpu` override what
    it was made for. Measured where the GPU is present, else checked by the emulator and estimated.
    UsageError for values that are not valid together.

    A path of somebody's .cu, of an edited export, of a solution's JSON or of Python that launches kernels is
    judged in a sandbox instead, and is a KernelAnswer, whose `as_dict()` is what `evoflash evaluate --json`
    prints: `status`, `score`, `findings`, `text_feedback`. `stage`, `seed` (its hidden shapes; drawn anew
    where there is none), `timeout` in seconds and `unsafe` are for these, and `header`, a TOML file with what
    the comment of a .cu without one would say. SandboxError where there is no sandbox.

    >>> import evoflash
    >>> kernel = evoflash.evaluate("flash_wmma", {}, gpu="l4")
    >>> str(kernel.status), kernel.family
    ('correct', 'flash_wmma')
    """
    where = db or default_database()
    text = text_of_problem(problem)
    launch = None if header is None else Path(header)
    is_genome = values is not None or isinstance(what, Kernel) or not is_foreign(Path(what))
    if launch is not None or not is_genome:
        options = JudgeOptions(text, gpu, stage, seed, timeout, unsafe, launch)
        return judge_file(Path(str(what)), options, db=where)
    if isinstance(what, Kernel):
        known = what
        subject = GenomeRequest(known.family, known.values, text or known.problem, gpu or known.gpu)
    elif values is not None:
        subject = GenomeRequest(str(what), values, text or evaluating.usual_problem(str(what)), gpu)
    else:
        subject = of_name(str(what), problem=text, gpu=gpu, db=where)
    return Kernel(evaluating.evaluate(subject, evaluator, where, argv=_ARGV).evaluation)


class SearchOptions(TypedDict, total=False):
    """What `search` takes beside the problem; every limit is meant for each problem."""

    gpu: str | None
    budget: int | None
    minutes: float | None
    until: float | None
    strategy: str
    family: str | None
    seed: int
    evaluator: str | None
    archive: bool
    transfer: bool
    objective: str | None
    fresh: bool
    gpus: str | None
    workers: int | None
    scheduler: str | None
    tls: str | Path | None
    ahead: int | None
    db: str | None
    progress: Progress | None


@dataclass(frozen=True)
class ProblemSearch:
    """What came of one of several problems: a result, or the error that it ended in."""

    problem: Problem
    weight: float
    result: SearchResult | None
    error: str = ""

    def __str__(self) -> str:
        """In a line: the problem, and its best time or its error."""
        best = self.result.best if self.result else None
        return f"{self.problem}: {best.time if best else self.error or 'no correct kernel'}"


def search_each(
    problems: str | Path | Sequence[str | Problem], **options: Unpack[SearchOptions]
) -> tuple[ProblemSearch, ...]:
    """Search for each problem of a file, or of a list, as `search` does, the heaviest first.

    A file has a problem in each line, and if wanted `weight=2.5` behind it (`evoflash portfolio` has other
    forms). Each problem is a run of its own, with its own budget or minutes; the same call continues all of
    them. A problem that fails is a ProblemSearch with its error. An interruption ends with what there is.
    UsageError for a file that cannot be read and for a problem that makes no sense.

    >>> import evoflash
    >>> mix = ["b=1,h=1,s=64,d=64", "b=1,h=1,s=96,d=64"]
    >>> found = evoflash.search_each(mix, gpu="l4", family="flash_wmma", budget=1)
    >>> [each.result.spent for each in found]
    [1, 1]
    """
    found: dict[WeightedProblem, ProblemSearch] = {}
    given = _weighted_problems(problems)
    for each in by_weight(given):
        found[each] = _search_problem(each, options)
        result = found[each].result
        if result is not None and result.is_interrupted:
            break
    return tuple(found[each] for each in given if each in found)


def _weighted_problems(problems: str | Path | Sequence[str | Problem]) -> tuple[WeightedProblem, ...]:
    if isinstance(problems, str | Path):
        return read_problems(Path(problems))
    parsed = dict.fromkeys(each if isinstance(each, Problem) else parse_problem(each) for each in problems)
    return tuple(WeightedProblem(problem, str(problem), 1.0) for problem in parsed)


def _search_problem(each: WeightedProblem, options: SearchOptions) -> ProblemSearch:
    try:
        return ProblemSearch(each.problem, each.weight, search(each.problem, **options))
    except EvoflashError as error:
        return ProblemSearch(each.problem, each.weight, None, str(error))


def replay(
    file: str | Path,
    strategies: str | Sequence[str] = "all",
    *,
    budget: int = 200,
    repeats: int = 20,
    ahead: int = 1,
    seed: int = 0,
) -> "StrategyComparison":
    """Search strategies compared on a recorded space (a Kernel Tuner cache or T4 file, plain or gzip).

    Needs no GPU and stores nothing. Each strategy runs `repeats` times, with the seeds from `seed` on, for
    `budget` evaluations with `ahead` of them in flight. A standing's `score` is 0 for what random search is
    expected to find and 1 for the optimum; times are in us. UsageError for a file that is no record.

    >>> import evoflash
    >>> from evoflash.replay import spaces
    >>> file = Path(spaces.__path__[0]) / "pnpoly-rtx3090.json.gz"
    >>> comparison = evoflash.replay(file, ["uniform"], budget=20, repeats=2)
    >>> [standing.strategy for standing in comparison.standings]
    ['uniform']
    """
    names = strategies if isinstance(strategies, str) else ",".join(strategies)
    return compare_strategies(Path(file), names, budget=budget, repeats=repeats, seed=seed, ahead=ahead)


@overload
def export(kernel: Kernel, *, prefix: str | None = None) -> str: ...


@overload
def export(
    kernel: Kernel,
    path: str | Path,
    *,
    kind: str | None = None,
    arch: str | None = None,
    prefix: str | None = None,
    db: str | None = None,
    force: bool = False,
) -> tuple[Path, ...]: ...


def export(
    kernel: Kernel,
    path: str | Path | None = None,
    *,
    kind: str | None = None,
    arch: str | None = None,
    prefix: str | None = None,
    db: str | None = None,
    force: bool = False,
) -> str | tuple[Path, ...]:
    """The kernel as files that need no evoflash, as `evoflash export` writes them; their paths are returned.

    The ending of `path` says which form (`kernel.cu`, `kernel.cubin`, `attention.py`, `torch_op.py`, `hub`,
    `t4.json`, `solution.json`), or `kind` does: cu, cubin, cupy, torch, hub, t4, solution. `arch`
    ("sm_80,sm_89") compiles for several architectures, `prefix` begins the C names of a .cu file. What the
    files say of the kernel is what `db` knows of it, else the kernel itself. Without `path` nothing is
    written and the .cu file's text is returned. A file that evoflash did not write, or that was edited since,
    is replaced with `force` alone.

    UsageError where the kernel cannot leave in that form, the path cannot be written, or the problem needs
    several kernels.

    >>> import evoflash
    >>> kernel = evoflash.best("mission", gpu="l4")
    >>> [path.name for path in evoflash.export(kernel, "kernel.cubin")]
    ['kernel.cubin', 'kernel.json']
    >>> "__global__" in evoflash.export(kernel)
    True
    """
    if path is None:
        if kind not in (None, "cu") or arch is not None:
            raise UsageError("kind and arch are for files: give a path, too.")
        return kernel.cuda if prefix is None else kernel.cuda_with_prefix(prefix)
    where = db or default_database()
    with replacing(force):
        return write_evaluated(kernel.evaluation, str(path), kind=kind, archs=arch, prefix=prefix, db=where)
