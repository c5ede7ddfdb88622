"""Makes a portfolio from a file of shapes: table, searches, choice, rule and borders. Prints no result.

Every row of the table is written to its file as soon as it is known, so that nothing measured is lost. The
portfolio is handed on as exports/portfolio.py writes it (which kernel is needed for which compile key), with
what its users get on each shape and what that costs beside the best there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evoflash.app.portfolio import choice as rule
from evoflash.app.portfolio.candidates import candidates
from evoflash.app.portfolio.choice import Choice
from evoflash.app.portfolio.session import TableBuilder
from evoflash.app.portfolio.table import WRONG, KernelTime, ShapeTimes, TimeTable, read_table
from evoflash.app.search.limits import Limits
from evoflash.app.search.machines import MachineOptions
from evoflash.app.search.many import SearchRequest, search_one
from evoflash.app.search.plan import where
from evoflash.app.shape_files import Shape, read_mix
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Rung, Status, Timing
from evoflash.exports.exported import ExportRequest
from evoflash.exports.flashinfer_solution import definition
from evoflash.exports.flashinfer_trace import write_kernels
from evoflash.exports.portfolio import Member, Package, by_members, check_folder
from evoflash.exports.portfolio import write as write_package
from evoflash.gpu.launcher import present_gpu
from evoflash.gpu.timing.noise_floor import environment
from evoflash.notices import say
from evoflash.operation import operation_of
from evoflash.problem import Problem, check_fits
from evoflash.runtime.dispatch import FALLBACK, Dispatcher
from evoflash.space import Genome
from evoflash.specs import GpuSpec, canonical_gpu, load_gpu
from evoflash.workload import CompileKey, Workload

_LOOKS = 3  # at borders
_SEARCHED_FROM, _BUDGET = 0.01, 60  # a kernel's worst regret; evaluations
MAY_BE_SLOWER = 1.02  # a kernel that is given at a border and slower than another kept one teaches the rule


@dataclass(frozen=True, slots=True)
class PortfolioOptions:
    """What was asked for."""

    problems: Path
    kernels: int
    gpu: str | None
    evaluator: str | None
    minutes: float
    candidates: int
    table: Path | None  # where times are kept; None: beside the file of shapes
    seed: int
    db: str
    searches: int = 0  # at most, for kernels that are fast on all shapes that a kept one gets


@dataclass(frozen=True, slots=True)
class PortfolioResult:
    """The kernels kept, their rule, and the table that both come from.

    A kernel's number is its place in `kernels`. `by_count` has the best choice of one kernel, of two, ...
    """

    mix: tuple[Shape, ...]
    spec: GpuSpec
    table: TimeTable
    path: Path  # the table's file
    choice: Choice
    by_count: tuple[Choice, ...]
    kernels: tuple[str, ...]  # genome ids
    points: rule.Assigned  # what the rule was learnt from
    borders: tuple[rule.Border, ...]

    @property
    def rule(self) -> dict[str, object]:
        return rule.rule_of(self.points, self.spec.arch)

    def as_dict(self) -> dict[str, Any]:
        return {**summary(self), "rule": self.rule}


def portfolio(wanted: PortfolioOptions) -> PortfolioResult:
    """Measure or estimate what the table lacks, choose, and look at the borders.

    UsageError for a file or table that does not fit, DeviceError where a table would have to be measured on
    another machine, NoKernelError where no kernel computes any of the shapes.
    """
    mix, spec, table, path = _begin(wanted)
    with TableBuilder(table, path, spec, seed=wanted.seed, minutes=wanted.minutes) as session:
        session.fill([shape.workload for shape in mix])
        if wanted.searches and session.can_measure:
            wanting = joint_problems(_choose_portfolio(mix, session, wanted.kernels), wanted.searches)
            session.add(_found_by_search(wanting, wanted, session))
        while True:
            found = _with_borders(_sure(mix, session, wanted.kernels), session)
            wrong = _wrong_at_border(found)
            if wrong is None:
                return found
            session.strike(*wrong)


def joint_problems(found: PortfolioResult, most: int) -> list[Problem]:
    """Of each kept kernel that is far from the fastest somewhere, the worst first, the shapes that it gets:
    of each compile key the one with the most regret.
    """
    rows = [row for row in serve_mix(found) if row.regret is not None]
    groups = [[row for row in rows if row.kernel == name] for name in found.kernels]
    worst = [(max(row.regret or 0.0 for row in group), group) for group in groups if group]
    ranked = sorted(worst, key=lambda each: -each[0])
    chosen = [group for regret, group in ranked if regret > _SEARCHED_FROM][:most]
    return [Problem(tuple(_worst_of_keys(group, found.spec.arch))) for group in chosen]


def _worst_of_keys(rows: Sequence["ServedShape"], arch: str) -> list[Workload]:
    worst: dict[CompileKey, ServedShape] = {}
    for row in sorted(rows, key=lambda row: -(row.regret or 0.0)):
        worst.setdefault(row.workload.compile_key(arch), row)
    return [row.workload for row in worst.values()]


def _found_by_search(
    problems: Sequence[Problem], wanted: PortfolioOptions, session: TableBuilder
) -> list[Genome]:
    """The best kernel of a short search for each; what comes of none of its families is left out."""
    evaluator = None if session.table.basis is Basis.MEASURED else "emulated"
    planned = {
        "gpu": wanted.gpu,
        "strategy": "surrogate",
        "seed": wanted.seed,
        "family": None,
        "archive": True,
    }
    request = SearchRequest(planned, wanted.db, Limits(_BUDGET), fresh=False, argv=())
    genomes = []
    for problem in problems:
        say(f"searching for a kernel that is fast on all of {problem}")
        best = search_one(request, str(problem), MachineOptions(evaluator=evaluator)).best
        if best is not None:
            genomes.append(best.genome)
    return genomes


def portfolio_plan(wanted: PortfolioOptions) -> dict[str, Any]:
    """What portfolio() would time, on which shapes, and where it would keep the times. Errors as there."""
    mix, spec, table, path = _begin(wanted)
    return {
        "gpu": spec.name,
        "basis": str(table.basis),
        "shapes": [str(shape.workload) for shape in mix],
        "candidates": [genome.id for genome in table.kernels],
        "most_kernels": wanted.kernels,
        "minutes": wanted.minutes,
        "table": str(path),
    }


def _begin(wanted: PortfolioOptions) -> tuple[tuple[Shape, ...], GpuSpec, TimeTable, Path]:
    mix = read_mix(wanted.problems)
    spec, basis, path = _where(wanted)
    known = read_table(path) if path.exists() else None
    if known and (known.gpu, known.basis) != (spec.name, basis):
        raise UsageError(
            f"{path} is {known.basis} on {known.gpu}, not {basis} on {spec.name}: give another --table."
        )
    for shape in mix:
        check_fits(Problem((shape.workload,)), spec)
    return mix, spec, known or _new_table(wanted, mix, spec, basis), path


def _sure(mix: tuple[Shape, ...], session: TableBuilder, most: int) -> PortfolioResult:
    """The best choice, in which each shape gets a kernel that was timed in many turns and judged there."""
    found = _choose_portfolio(mix, session, most)
    while session.can_measure and (unsure := _unsure(found)):
        session.settle(*unsure)
        found = _choose_portfolio(mix, session, most)
    return found


def _wrong_at_border(found: PortfolioResult) -> tuple[str, str] | None:
    """A kept kernel that failed at a border shape, and why."""
    for row in (*found.table.borders, *found.table.rows):
        for name, reason in row.absent.items():
            if name in found.kernels and reason.startswith(WRONG):
                return name, f"{row.workload}: {reason}"
    return None


def _where(wanted: PortfolioOptions) -> tuple[GpuSpec, Basis, Path]:
    """The GPU and the basis of the times, and the table's file. A table that is there says both itself."""
    if wanted.table is not None and wanted.table.exists() and wanted.evaluator is None:
        known = read_table(wanted.table)
        if (asked := canonical_gpu(wanted.gpu)) not in (None, known.gpu):
            raise UsageError(f"{wanted.table} is of {known.gpu}, not of {asked}: give another --table.")
        return load_gpu(known.gpu), known.basis, wanted.table
    spec, basis = where(wanted.gpu, wanted.evaluator)
    mark = "" if basis is Basis.MEASURED else ".estimated"
    beside = wanted.problems.with_name(f"{wanted.problems.stem}.{spec.name}{mark}.json")
    return spec, basis, wanted.table or beside


def _new_table(wanted: PortfolioOptions, mix: tuple[Shape, ...], spec: GpuSpec, basis: Basis) -> TimeTable:
    workloads = [shape.workload for shape in mix]
    kernels = candidates(workloads, spec, db=wanted.db, most=wanted.candidates)
    noted = {**environment(), "date": datetime.now(UTC).isoformat(timespec="seconds")}
    if basis is Basis.MEASURED:
        noted["device"] = present_gpu().device_name
    return TimeTable(spec.name, basis, kernels, environment=noted)


def _choose_portfolio(mix: tuple[Shape, ...], session: TableBuilder, most: int) -> PortfolioResult:
    table = session.table
    times = table.times_us([shape.workload for shape in mix])
    regret, weights = rule.regrets(times), [shape.weight for shape in mix]
    by_count = tuple(rule.choose(regret, weights, count) for count in range(1, most + 1))
    best = by_count[-1]
    if not best.kernels:
        reasons = [reason for row in table.rows for reason in row.absent.values()]
        raise NoKernelError(
            f"no kernel computes any of these shapes ({reasons[0] if reasons else 'none was tried'}): "
            "see `evoflash families`."
        )
    ids = tuple(table.kernels[at].id for at in best.kernels)
    points = {shape.workload: number for shape in mix if (number := fastest(table, ids, shape.workload)) >= 0}
    return PortfolioResult(mix, session.spec, table, session.path, best, by_count, ids, points, ())


def fastest(table: TimeTable, ids: tuple[str, ...], workload: Workload) -> int:
    """The number of the fastest of these kernels on a shape of the table; FALLBACK where none has a time."""
    row = table.row(workload) or table.border(workload, ids)
    times = {name: row.times[name].us for name in ids if row and name in row.times}
    return ids.index(min(times, key=lambda name: times[name])) if times else FALLBACK


def _unsure(found: PortfolioResult) -> tuple[Workload, str] | None:
    """A shape and the kernel that it gets from a rough time, or though nobody looked at its output there."""
    if found.table.basis is not Basis.MEASURED:
        return None
    for workload, number in found.points.items():
        row = found.table.row(workload)
        time = row.times[found.kernels[number]] if row else None
        if time and (time.is_rough or not time.is_checked):
            return workload, found.kernels[number]
    return None


def _with_borders(found: PortfolioResult, session: TableBuilder) -> PortfolioResult:
    """The portfolio whose rule has learnt from its borders, and the borders that it has then.

    What is learnt moves borders: they are looked at again, and what the last look shows is not learnt.
    """
    for left in reversed(range(_LOOKS)):
        borders = rule.borders(found.points, found.spec.arch)
        shapes = dict.fromkeys(shape for border in borders for shape in (border.first, border.second))
        session.look_at_borders(list(shapes), found.kernels)
        found = replace(found, table=session.table, borders=borders)
        taught = {shape: number for shape in shapes if (number := _taught(found, shape)) is not None}
        if not taught or not left:
            break
        found = replace(found, points={**found.points, **taught})
    dispatcher = Dispatcher(found.rule)
    numbers = {shape: rule.ask_dispatcher(dispatcher, shape, found.spec.arch) for shape in shapes}
    session.emulate({shape: found.kernels[n] for shape, n in numbers.items() if n != FALLBACK})
    return replace(found, table=session.table)


def _taught(found: PortfolioResult, shape: Workload) -> int | None:
    """The kernel that a border shape should have, where that is clearly not the one that it is given, and no
    shape of its bucket has a kernel yet.
    """
    row = found.table.border(shape, found.kernels)
    better = fastest(found.table, found.kernels, shape)
    given = rule.ask_dispatcher(Dispatcher(found.rule), shape, found.spec.arch)
    if row is None or FALLBACK in (better, given) or better == given:
        return None
    if rule.bucket(shape, found.spec.arch) in {rule.bucket(x, found.spec.arch) for x in found.points}:
        return None
    mine = row.times.get(found.kernels[given])
    best_us = row.times[found.kernels[better]].us
    return better if mine is None or mine.us > MAY_BE_SLOWER * best_us else None


EXPORTS = ("package", "flashinfer-trace")


def check_export(folder: Path, kind: str = "package") -> None:
    """UsageError for another kind, and where no package can be written there: before anything is measured."""
    if kind not in EXPORTS:
        raise UsageError(f"--kind {kind}: a portfolio is written as one of {', '.join(EXPORTS)}.")
    if kind == "package":
        check_folder(folder)


def export(found: PortfolioResult, folder: Path, kind: str = "package") -> None:
    """Write a Python package with a dispatcher, or a folder to which FlashInfer sends its calls.

    UsageError for another kind, where no shape gets a kernel, and where FlashInfer has no name for a shape.
    """
    check_export(folder, kind)
    if kind == "flashinfer-trace":
        _export_trace(found, folder)
        return
    write_package(package_of(found), folder)
    form = operation_of(found.mix[0].workload).launch_form
    function = form.function if form else ""
    say(f"{folder} is a Python package: `from {folder.name} import {function}`.")


def _export_trace(found: PortfolioResult, folder: Path) -> None:
    """For each Definition and each of its compile keys the kernel that most of the mix's weight gets."""
    weights = {shape.workload: shape.weight for shape in found.mix}
    shares: dict[str, dict[tuple[Any, ...], dict[int, float]]] = {}
    members: dict[tuple[str, tuple[Any, ...], int], Member] = {}
    for workload, number in found.points.items():
        if number == FALLBACK or workload not in weights:
            continue
        key = rule.key_of(workload, found.spec.arch)
        known = _evaluation(found, found.kernels[number], [workload])
        genome = found.table.kernel(found.kernels[number])
        member = Member(ExportRequest(genome, Problem((workload,)), found.spec, known))
        name = definition(member.exported)["name"]
        members[name, key, number] = member
        mine = shares.setdefault(name, {}).setdefault(key, {})
        mine[number] = mine.get(number, 0.0) + weights[workload]
    for name, keys in shares.items():
        chosen = [members[name, key, max(mine, key=lambda at: mine[at])] for key, mine in keys.items()]
        write_kernels([each.exported for each in chosen], folder)
    say(f"{folder} has {len(shares)} layers: FLASHINFER_TRACE_APPLY=1 FLASHINFER_TRACE_APPLY_PATH={folder}")


def package_of(found: PortfolioResult) -> Package:
    """UsageError where no shape gets a kernel."""
    told, numbered = by_members(found.rule)
    if not numbered:
        raise UsageError("no shape gets a kernel: there is nothing to export.")
    members = [_member(found, number, key) for number, key in numbered]
    return Package(members, told, summary(found), len(found.mix))


def _member(found: PortfolioResult, number: int, key: tuple[Any, ...]) -> Member:
    shapes = [
        workload
        for workload, given in found.points.items()
        if given == number and rule.key_of(workload, found.spec.arch) == key
    ]
    genome = found.table.kernel(found.kernels[number])
    known = _evaluation(found, found.kernels[number], shapes)
    return Member(ExportRequest(genome, Problem((shapes[0],)), found.spec, known))


def _evaluation(found: PortfolioResult, genome_id: str, shapes: list[Workload]) -> Evaluation | None:
    """What the table says of the kernel on these shapes; None where it is estimates."""
    if found.table.basis is not Basis.MEASURED:
        return None
    rows = (found.table.row(shape) or found.table.border(shape, found.kernels) for shape in shapes)
    timed = [(str(row.workload), row.times[genome_id]) for row in rows if row and genome_id in row.times]
    return Evaluation(
        genome=found.table.kernel(genome_id),
        problem=str(Problem(tuple(shapes))),
        gpu=found.spec.name,
        basis=found.table.basis,
        status=Status.CORRECT,
        rung=Rung.DONE,
        timings=tuple(
            Timing(shape, "cold in turns", time.us, time.low_us, time.high_us, time.n)
            for shape, time in timed
        ),
        environment=dict(found.table.environment),
    )


@dataclass(frozen=True, slots=True)
class ServedShape:
    """What a shape of the mix gets, or one next to a border. Without a kernel PyTorch computes it."""

    workload: Workload
    kernel: str  # genome id; empty: the fallback
    time: KernelTime | None
    best: str  # the fastest kernel of the table there; next to a border of the kept ones
    best_us: float | None
    weight: float = 0.0  # in the mix
    libraries_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def regret(self) -> float | None:
        """The ratio of times to the best one, less 1; None for the fallback."""
        return self.time.us / self.best_us - 1 if self.time and self.best_us else None

    @property
    def library_us(self) -> float | None:
        """PyTorch's faster backend."""
        return min(self.libraries_us.values(), default=None)


def serve_mix(found: PortfolioResult) -> tuple[ServedShape, ...]:
    """In the order of the mix."""
    dispatcher = Dispatcher(found.rule)
    rows = []
    for shape in found.mix:
        row = found.table.row(shape.workload) or ShapeTimes(shape.workload, {})
        kernel = _dispatched_kernel(dispatcher, found, shape.workload)
        best_us = row.times[row.best].us if row.best else None
        known = (shape.workload, kernel, row.times.get(kernel), row.best, best_us)
        rows.append(ServedShape(*known, shape.weight, dict(row.libraries_us)))
    return tuple(rows)


def at_borders(found: PortfolioResult) -> tuple[ServedShape, ...]:
    """Both shapes of each border that get a kernel, each once."""
    dispatcher = Dispatcher(found.rule)
    shapes = dict.fromkeys(shape for border in found.borders for shape in (border.first, border.second))
    rows = (_at_border(dispatcher, found, shape) for shape in shapes)
    return tuple(row for row in rows if row.kernel)


def _at_border(dispatcher: Dispatcher, found: PortfolioResult, workload: Workload) -> ServedShape:
    row = found.table.border(workload, found.kernels) or ShapeTimes(workload, {})
    kernel = _dispatched_kernel(dispatcher, found, workload)
    kept = {name: row.times[name].us for name in found.kernels if name in row.times}
    best = min(kept, key=lambda name: kept[name], default="")
    return ServedShape(workload, kernel, row.times.get(kernel), best, kept.get(best))


def _dispatched_kernel(dispatcher: Dispatcher, found: PortfolioResult, workload: Workload) -> str:
    number = rule.ask_dispatcher(dispatcher, workload, found.spec.arch)
    return "" if number == FALLBACK else found.kernels[number]


@dataclass(frozen=True, slots=True)
class Regret:
    """Over the shapes that get a kernel: the mean by weight, the mean of all alike, and the worst."""

    mean: float = 0.0
    plain_mean: float = 0.0
    worst: float = 0.0


def regret(rows: Sequence[ServedShape]) -> Regret:
    costs = [(row.weight, row.regret) for row in rows if row.regret is not None]
    if not costs:
        return Regret()
    mean = sum(weight * cost for weight, cost in costs) / sum(weight for weight, _ in costs)
    return Regret(mean, sum(cost for _, cost in costs) / len(costs), max(cost for _, cost in costs))


def summary(found: PortfolioResult) -> dict[str, Any]:
    """Kernels, shapes and borders; times in us, regrets as ratios less 1."""
    rows = serve_mix(found)
    costs = regret(rows)
    return {
        "gpu": found.spec.name,
        "basis": found.table.basis.value,
        "environment": dict(found.table.environment),
        "candidates": len(found.table.kernels),
        "mean_regret": costs.mean,
        "plain_mean_regret": costs.plain_mean,
        "worst_regret": costs.worst,
        "uncovered": found.choice.uncovered,
        "is_exact": found.choice.is_exact,
        "by_count": [
            {"kernels": len(e.kernels), "mean_regret": e.mean, "worst_regret": e.worst}
            for e in found.by_count
        ],
        "kernels": [_kernel(found, name) for name in found.kernels],
        "shapes": [_shape(row) for row in rows],
        "borders": [_border(row) for row in at_borders(found)],
    }


def _kernel(found: PortfolioResult, name: str) -> dict[str, Any]:
    genome = found.table.kernel(name)
    return {"id": name, "family": genome.family, "version": genome.version, "values": genome.as_dict()}


def _shape(row: ServedShape) -> dict[str, Any]:
    return {
        "problem": str(row.workload),
        "weight": row.weight,
        "kernel": row.kernel or None,
        "time": asdict(row.time) if row.time else None,
        "best": row.best or None,
        "best_us": row.best_us,
        "regret": row.regret,
        "libraries_us": dict(row.libraries_us),
    }


def _border(row: ServedShape) -> dict[str, Any]:
    return {
        "problem": str(row.workload),
        "kernel": row.kernel,
        "us": row.time.us if row.time else None,
        "best": row.best or None,
        "best_us": row.best_us,
        "regret": row.regret,
    }
