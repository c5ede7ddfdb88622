"""The tools that a client may call, each one call of the application. Knows no protocol and no process.

Their parameters are the tools' schemas: what a name holds, its unit, its limits. The first parameter is the
folder that is served, which no client names.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field

from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, faster
from evoflash.mcp.served_folder import ServedFolder
from evoflash.notices import say
from evoflash.settings import DEFAULT_STRATEGY, MOST, MOST_SEED
from evoflash.space import Value, word_of

if TYPE_CHECKING:
    from evoflash.app.search.limits import Limits

Facts = dict[str, Any]
Genes = dict[str, Value]
_ARGV = ("mcp",)  # what a run has in place of a command line
_MOST_WAIT_S = 600

Problem = Annotated[
    str,
    Field(
        max_length=2000,
        description="A problem: a name (`mission`), a refined name (`s2k_d64,causal,dtype=bf16`) or a shape "
        "(`b=4,h=32,hkv=8,s=4096,d=128`); lengths are in tokens, d is the head dimension in elements.",
    ),
]
MaybeProblem = Annotated[
    str | None, Field(max_length=2000, description="As of describe_problem; default: what it was made for.")
]
MaybeGpu = Annotated[
    str | None,
    Field(
        pattern=r"^[\w -]{1,60}$",
        description="A GPU by name (h200, l4, ...); default: the one present, or a kernel's own. One that is "
        "not present gets estimates, which are marked so.",
    ),
]
MaybeFile = Annotated[
    str | None, Field(max_length=1000, description="A file, as a path relative to the server's root.")
]
MaybeHeader = Annotated[
    str | None,
    Field(max_length=1000, description="Of a .cu without a comment: a TOML file with what it would say."),
]
MaybeId = Annotated[
    str | None,
    Field(
        pattern=r"^[0-9a-f]{1,16}$",
        description="A kernel's id in the database or the archive, or its first digits.",
    ),
]
MaybeFamily = Annotated[
    str | None, Field(pattern=r"^\w{1,60}$", description="A kernel family, as list_families names it.")
]
Edits = Annotated[
    Genes | None,
    Field(
        description="Gene edits, a value for each gene: of an `id` in place of its own, of a `family` in "
        "place of the first ones."
    ),
]
_Run = int | Annotated[str, Field(max_length=60)]
RunName = Annotated[
    _Run | None, Field(description="A run by its number or name; default: the newest search.")
]
WaitS = Annotated[
    float,
    Field(
        ge=0,
        le=_MOST_WAIT_S,
        description="Wait at most so many seconds for the end, with progress notifications.",
    ),
]
TimeoutS = Annotated[float, Field(ge=1, le=3600, description="Of a file: seconds in the sandbox.")]
Seed = Annotated[int, Field(ge=0, le=MOST_SEED, description="Seeds every random choice.")]


# What a tool tells while it works: `run` of a search that has begun, `spent` and `budget`, `note`.
listener: ContextVar[Callable[[Facts], None]] = ContextVar("listener", default=lambda event: None)


def tell(event: Facts) -> None:
    listener.get()(event)


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool, and what a client is told of its effects. One that `works` gets a process of its own."""

    call: Callable[..., Facts]
    title: str
    works: bool = False
    only_reads: bool = True
    has_same_end: bool = True  # a second call with the same arguments changes nothing more

    @property
    def name(self) -> str:
        return self.call.__name__


class SearchSteps:
    """Tells the listener of a search's run and of each evaluation that counts."""

    def __init__(
        self, run: int | None, budget: int | None, history: Sequence[tuple[Proposal, Evaluation]]
    ) -> None:
        self._budget, self._spent = budget, sum(not each.duplicate_of for _, each in history)
        self._best: Evaluation | None = None
        for _, evaluation in history:
            self._best = faster(self._best, evaluation)
        tell({"run": run})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, proposal: Proposal, evaluation: Evaluation) -> None:
        self._best = faster(self._best, evaluation)
        self._spent += not evaluation.duplicate_of
        us = None if self._best is None else self._best.score_us
        said = "no correct kernel yet" if us is None else f"best {'~' * self._best_is_estimate}{us:.4g} us"
        tell({"spent": self._spent, "budget": self._budget, "note": said})

    def say(self, message: str) -> None:
        say(message)

    @property
    def _best_is_estimate(self) -> bool:
        return self._best is not None and self._best.is_estimate


def describe_problem(served: ServedFolder, problem: Problem = "mission", gpu: MaybeGpu = None) -> Facts:
    """What a problem is: its workloads with FLOPs and bytes, and for a GPU the physical floor in us (no
    kernel is faster) and the kernel families that compute it.
    """
    from evoflash.app.catalogue import problem_facts

    return problem_facts(problem, gpu)


def list_families(served: ServedFolder, family: MaybeFamily = None) -> Facts:
    """The kernel families, with each gene's values and the checks that a genome must fulfil."""
    from evoflash.app.catalogue import families

    return {"families": [each.as_dict() for each in families(family)]}


def explain(
    served: ServedFolder, kind: Annotated[str, Field(max_length=60, description="A finding's `kind`.")]
) -> Facts:
    """What a kind of finding of check_kernel means, and what to do about it."""
    from evoflash.app.check.findings import kind_facts

    return kind_facts(kind)


def check_kernel(
    served: ServedFolder,
    *,
    path: MaybeFile = None,
    id: MaybeId = None,
    family: MaybeFamily = None,
    edits: Edits = None,
    problem: MaybeProblem = None,
    gpu: MaybeGpu = None,
    runs: Annotated[int, Field(ge=1, le=1000, description="Runs of each shape, under other schedules.")] = 4,
    seed: Seed = 1,
    timeout_s: TimeoutS = 120.0,
    header: MaybeHeader = None,
) -> Facts:
    """Find races, deadlocks, wrong results and slow accesses of a kernel by line, in the CPU emulator.

    The kernel is a .cu file (`path`), which runs in a sandbox, an `id`, or a `family` for a `gpu`, with
    gene `edits`. Nothing is stored. A verdict of `passed` holds for the shapes that were checked.
    """
    from evoflash.app.check.confined_runs import Confinement
    from evoflash.app.check.runs import check_kernel as check
    from evoflash.app.check.runs import reports_as_dict
    from evoflash.app.check.subject import named_kernels
    from evoflash.sandbox.boundary import found_boundary

    what = _kernel_name(served, path, id, family, edits)
    if edits and id is not None:
        (family, edits, problem, gpu), what = _genome_with(served, id, edits, problem, gpu), None
    launch = _header_file(served, header, path)
    subjects = named_kernels(
        what, family, _words(edits), problem=problem, gpu=gpu, db=served.db, header=launch
    )
    confinement = None if path is None else Confinement(found_boundary(), timeout_s)
    return reports_as_dict(
        [check(subject, runs=runs, seed=seed, confinement=confinement) for subject in subjects]
    )


def evaluate(
    served: ServedFolder,
    *,
    path: MaybeFile = None,
    id: MaybeId = None,
    family: MaybeFamily = None,
    edits: Edits = None,
    problem: MaybeProblem = None,
    gpu: MaybeGpu = None,
    stage: Annotated[
        Literal["check", "smoke", "time"], Field(description="Of a file: how far to go.")
    ] = "time",
    seed: Annotated[
        int | None,
        Field(
            ge=0, le=MOST_SEED, description="Of a file: its hidden shapes; drawn anew where there is none."
        ),
    ] = None,
    timeout_s: TimeoutS = 120.0,
    header: MaybeHeader = None,
) -> Facts:
    """Take a kernel through every check to its time, and answer with status, findings, times in us and score.

    A file (`path`: .cu with a header as check_kernel reads it, an edited export, a solution's JSON, or Python
    for PyTorch) is judged in a sandbox, on hidden shapes, and not stored. An `id` or a `family`, with gene
    `edits`, is evaluated as a search does it, and stored.
    """
    import time

    from evoflash.app.evaluate import GenomeRequest, of_name, usual_problem
    from evoflash.app.evaluate import evaluate as evaluate_genome
    from evoflash.app.judge.answer import of_evaluation, with_new_keys
    from evoflash.app.judge.foreign import JudgeOptions, is_foreign, judge_file

    begun_s = time.monotonic()
    what = _kernel_name(served, path, id, family, edits)
    launch = _header_file(served, header, path)
    if path is not None and (launch or is_foreign(served.file(path))):
        options = JudgeOptions(problem, gpu, stage, seed, timeout_s, header=launch)
        return judge_file(served.file(path), options, db=served.db).as_dict()
    if edits and id is not None:
        chosen = GenomeRequest(*_genome_with(served, id, edits, problem, gpu))
    elif family is not None:
        chosen = GenomeRequest(family, dict(edits or {}), problem or usual_problem(family), gpu)
    else:
        chosen = of_name(str(what), problem=problem, gpu=gpu, db=served.db)
    evaluation = evaluate_genome(chosen, None, served.db, argv=_ARGV).evaluation
    answer = of_evaluation(evaluation, file=what or str(family), seconds=time.monotonic() - begun_s)
    return with_new_keys(evaluation.as_dict(), answer)


def start_search(
    served: ServedFolder,
    *,
    problem: Problem = "mission",
    gpu: MaybeGpu = None,
    budget: Annotated[
        int | None, Field(ge=1, le=MOST, description="Distinct kernels to evaluate; 200 without `minutes`.")
    ] = None,
    minutes: Annotated[
        float | None, Field(gt=0, le=1e5, description="Minutes to search for; finals come after.")
    ] = None,
    strategy: Annotated[
        str, Field(pattern=r"^[\w-]{1,60}$", description="A search strategy.")
    ] = DEFAULT_STRATEGY,
    family: MaybeFamily = None,
    seed: Seed = 0,
    fresh: Annotated[bool, Field(description="Begin another run in place of continuing one.")] = False,
    wait_s: WaitS = 0.0,
) -> Facts:
    """Begin a search for the fastest kernel, or continue it, and answer with its run.

    It goes on when this call is answered: search_status tells how far it is, stop_search ends it. Cancelling
    this call before it is answered ends the search too. Every outcome is stored; the same call continues.
    """
    from evoflash.app.search import plan as planning
    from evoflash.app.search.limits import limits as limits_of
    from evoflash.app.search.machines import MachineOptions, machines
    from evoflash.app.search.session import run_search, stored_result

    limits = limits_of(budget, None, minutes, None)
    planned = partial(
        planning.plan,
        gpu=gpu,
        problem=problem,
        strategy=strategy,
        seed=seed,
        family=family,
        evaluator=None,
        archive=True,
    )
    with machines(MachineOptions(), lambda present: planned(present=present)) as (plan, where):

        def watch(
            title: str, basis: Basis, limits: "Limits", history: Sequence[tuple[Proposal, Evaluation]]
        ) -> SearchSteps:
            begun = stored_result(plan, served.db).run
            return SearchSteps(None if begun is None else begun.id, limits.budget, history)

        result = run_search(
            plan, served.db, limits=limits, fresh=fresh, argv=_ARGV, watch=watch, machines=where
        )
    if result.best is None:
        raise NoKernelError(f"no correct kernel among {result.spent} evaluations: raise the budget.")
    return result.as_dict()


def search_status(served: ServedFolder, run: RunName = None, wait_s: WaitS = 0.0) -> Facts:
    """How far a run is: its state (running, finished, stopped), evaluations, best time in us and its id."""
    from evoflash.app.runs import status_of_run

    status = status_of_run(served.db, _run_name(run))
    return {"run": status["id"], **status}


def stop_search(
    served: ServedFolder,
    run: Annotated[_Run, Field(description="A run that start_search answered with.")],
) -> Facts:
    """End a search that this server began, with its processes; what it evaluated is kept."""
    return search_status(served, run)


def best(
    served: ServedFolder,
    *,
    problem: MaybeProblem = None,
    gpu: MaybeGpu = None,
    run: RunName = None,
    archive: Annotated[
        bool | None, Field(description="Ask the shipped archive alone, or (false) never.")
    ] = None,
) -> Facts:
    """The best kernel known, measured if there is one, else archived or estimated, and marked so."""
    from evoflash.app.best import best as best_known

    return best_known(
        served.db, problem=problem, gpu=gpu, archive=archive, argv=_ARGV, run=_run_name(run)
    ).as_dict()


def report(served: ServedFolder, run: RunName = None) -> Facts:
    """What a search found and why its winner is fast: verdict, gene effects, lineage, rejections, floors."""
    from evoflash.app.report.collect import report as report_on

    return report_on(served.db, _run_name(run)).as_dict()


def export(
    served: ServedFolder,
    *,
    path: Annotated[
        str,
        Field(
            max_length=1000,
            description="Where to write, relative to the root; the ending says the kind (.cu, .cubin, "
            "attention.py, torch_op.py, solution.json), or `kind` does.",
        ),
    ],
    id: MaybeId = None,
    family: MaybeFamily = None,
    edits: Edits = None,
    problem: MaybeProblem = None,
    gpu: MaybeGpu = None,
    kind: Annotated[
        str | None, Field(pattern=r"^[\w-]{1,40}$", description="The form of the export.")
    ] = None,
    dry_run: Annotated[bool, Field(description="Write nothing, and say what would be written.")] = False,
) -> Facts:
    """Write a kernel as files that need no evoflash. A file of somebody else is never replaced."""
    from evoflash.app.export import requested_kernel, write
    from evoflash.written_files import WrittenFiles, noting_files

    target = served.target(path)
    if edits and id is not None:
        (family, edits, problem, gpu), id = _genome_with(served, id, edits, problem, gpu), None
    what = requested_kernel(id, family, _words(edits), problem=problem, gpu=gpu, prefix=None, db=served.db)
    with noting_files(WrittenFiles(is_dry=dry_run)) as files:
        write(what, str(target), kind=kind, archs=None, db=served.db)
    return {"genome_id": what.genome.id, "dry_run": dry_run, "files": [str(each) for each in files.paths]}


TOOLS = (
    ToolEntry(describe_problem, "Describe a problem"),
    ToolEntry(list_families, "List kernel families"),
    ToolEntry(check_kernel, "Check a kernel", works=True),
    ToolEntry(explain, "Explain a finding"),
    ToolEntry(evaluate, "Evaluate a kernel", works=True, only_reads=False),
    ToolEntry(start_search, "Start a search", works=True, only_reads=False, has_same_end=False),
    ToolEntry(search_status, "How far a search is"),
    ToolEntry(stop_search, "Stop a search", only_reads=False),
    ToolEntry(best, "The best kernel known", works=True, only_reads=False),
    ToolEntry(report, "Report on a search", works=True),
    ToolEntry(export, "Export a kernel", works=True, only_reads=False),
)
BY_NAME: Mapping[str, ToolEntry] = {entry.name: entry for entry in TOOLS}


def check_names(tool: str, arguments: Mapping[str, Any], served: ServedFolder) -> None:
    """UsageError for a kernel or a path that the tool would refuse, as it will say itself."""
    named = [arguments.get(each) for each in ("path", "id", "family", "edits")]
    if tool == "export":
        served.target(str(arguments["path"]))
    elif tool in ("check_kernel", "evaluate"):
        _kernel_name(served, *named)
        _header_file(served, arguments.get("header"), arguments.get("path"))


def _kernel_name(
    served: ServedFolder, path: str | None, genome_id: str | None, family: str | None, edits: Genes | None
) -> str | None:
    """What is not a family, as the application takes it. UsageError where not exactly one is named."""
    if sum(each is not None for each in (path, genome_id, family)) != 1:
        raise UsageError("name one kernel: a path, an id or a family.")
    if edits and path is not None:
        raise UsageError("edits are of an id or a family: a file is edited where it is.")
    return genome_id if path is None else str(served.file(path))


def _header_file(served: ServedFolder, header: str | None, path: str | None) -> Path | None:
    """The file with the launch of another one. UsageError."""
    if header is None:
        return None
    if path is None or not path.endswith(".cu"):
        raise UsageError("a header goes with a .cu file: name its path.")
    return served.file(header)


def _genome_with(
    served: ServedFolder, genome_id: str, edits: Genes, problem: str | None, gpu: str | None
) -> tuple[str, Genes, str, str | None]:
    """The family, genes, problem and GPU of a known kernel with some genes changed."""
    from evoflash.app.evaluate import of_name

    known = of_name(genome_id, problem=problem, gpu=gpu, db=served.db)
    return known.family, {**known.values, **edits}, known.problem, known.gpu


def _words(edits: Genes | None) -> list[str]:
    return [f"{name}={word_of(value)}" for name, value in (edits or {}).items()]


def _run_name(run: int | str | None) -> str | None:
    return None if run is None else str(run)
