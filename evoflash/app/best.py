"""Finds the best kernel known for a problem, in the database or in the shipped archive. Searches nothing.

What was measured goes before what was estimated: this database's kernel, then the archive's, then estimates.
A kernel of the archive is never taken on trust. Where the archive's GPU is present, its kernel passes every
check of a candidate and is timed again; elsewhere the emulator checks it, and its time is shown as one that
was measured on another machine.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from evoflash.app.evaluate import emulate, measure_genomes
from evoflash.app.export import cuda_of, request_of
from evoflash.app.kernel_lookup import installed_versions, older_kernels
from evoflash.app.runs import find_run
from evoflash.app.search.session import RunResult
from evoflash.app.shape_files import WeightedProblem
from evoflash.champions import Champion
from evoflash.champions.evidence import archived_for
from evoflash.errors import DeviceError, NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Run
from evoflash.exports.exported import ExportRequest
from evoflash.gpu.launcher import present_spec
from evoflash.notices import say
from evoflash.problem import canonical, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, canonical_gpu, known_gpus, load_gpu
from evoflash.store.database import is_there
from evoflash.store.store import Store, open_store

STRATEGY = "archive"  # the name of its runs in the store: no search


@dataclass(frozen=True, slots=True)
class BestKernel:
    """A kernel to use, and what is known of it."""

    evaluation: Evaluation  # without a time where the archive's kernel was checked and not timed
    archived: Champion | None = None  # where it is the archive's kernel
    result: RunResult | None = None  # what timing the archive's kernel here came to
    estimated: Evaluation | None = (
        None  # the database's fastest estimate, where the archive's kernel goes before it
    )

    @property
    def genome(self) -> Genome:
        return self.evaluation.genome

    def to_exported(self, db: str, prefix: str | None = None) -> ExportRequest:
        """What evoflash.exports writes."""
        archived = None if self.result else self.archived
        known = request_of(self.evaluation, prefix)
        return replace(known, evaluation=self.evaluation, archived=archived, db=db)

    def cuda(self, prefix: str | None = None) -> str:
        """The exported file."""
        return cuda_of(request_of(self.evaluation, prefix))

    def as_dict(self) -> dict[str, Any]:
        """The evaluation; of the archive's kernel that was not timed here what the archive says, the checks
        that it passed here, and the estimate that it goes before.
        """
        known, checked = self.archived, self.evaluation
        if known is None or self.result is not None:
            return checked.as_dict()
        here = {name: checked.as_dict()[name] for name in ("rung", "builds", "verdicts")}
        return known.as_dict() | here | {"estimated": _brief(self.estimated)}


def _brief(estimated: Evaluation | None) -> dict[str, Any] | None:
    if estimated is None:
        return None
    return {
        "genome": estimated.genome.id,
        "score_us": estimated.score_us,
        "model_version": estimated.model_version,
    }


def best(
    db: str,
    *,
    problem: str | None,
    gpu: str | None,
    archive: bool | None,
    argv: Sequence[str],
    run: str | None = None,
) -> BestKernel:
    """The kernel to use: measured in the database, else of the archive, else estimated in the database.

    Without `problem` or `gpu` they are those of the newest kernel of the database. With `run`, a number or a
    name, that run's own best, and never the archive's. `archive`: True asks the archive alone, False never.
    NoKernelError or StoreError when nothing is known.
    """
    if run is not None:
        return _best_of_run(db, run, problem=problem, gpu=gpu, archive=archive)
    stored = None if archive and problem else _stored_best(db, problem, gpu)
    is_wanted = archive is not False and (archive or stored is None or stored.is_estimate)
    known = _champion(stored, problem, gpu) if is_wanted else None
    if known is not None:
        return _from_archive(known, stored, db, argv)
    if archive and problem is None and stored is None:
        raise UsageError("--archive needs to know for what: add --problem.")
    if archive:
        raise NoKernelError(
            f"the archive has no kernel for {_problem_on_gpu(problem, gpu)}: run `evoflash search`."
        )
    if stored is None:
        _say_who_has(problem, gpu, archive=archive is not False)
    with open_store(db, read_only=True) as store:
        return BestKernel(_find_best(store, problem=problem, gpu=gpu))


def _best_of_run(
    db: str, wanted: str, *, problem: str | None, gpu: str | None, archive: bool | None
) -> BestKernel:
    if archive:
        raise UsageError("--run and --archive say where to look: give one of them.")
    with open_store(db, read_only=True) as store:
        run = find_run(store, wanted, problem=canonical(problem), gpu=canonical_gpu(gpu))
        winner = store.best_of(run)
        if winner is not None:
            _say_what_it_is(store, winner)
    if winner is None:
        raise NoKernelError(
            f"run {run.id} has no correct kernel: `evoflash show --failures --run {run.id}` says why."
        )
    return BestKernel(winner)


def _stored_best(db: str, problem: str | None, gpu: str | None) -> Evaluation | None:
    if not is_there(db):
        return None
    with open_store(db, read_only=True) as store:
        return store.best(canonical(problem), canonical_gpu(gpu), versions=installed_versions(store))


def _say_who_has(problem: str | None, gpu: str | None, *, archive: bool) -> None:
    """NoKernelError that names the GPUs whose archive has the problem, where none was asked for."""
    if problem is None or gpu is not None or not archive:
        return
    has = [name for name in known_gpus() if archived_for(str(parse_problem(problem)), name)]
    if has:
        words = " or ".join(f"--gpu {name}" for name in has)
        raise NoKernelError(
            f"no correct kernel for '{problem}' in the database; the archive has one: add {words}, "
            "or run `evoflash search`."
        )


def _find_best(store: Store, *, problem: str | None, gpu: str | None) -> Evaluation:
    """The store's kernel for a problem and a GPU, by default its newest ones. NoKernelError without one."""
    versions = installed_versions(store)
    winner = store.best(canonical(problem), canonical_gpu(gpu), versions=versions)
    if winner is None:
        for each in older_kernels(store, versions, {}):
            say(each.in_words(are_ranked=False))
        where = " ".join(x for x in (problem and f"for '{problem}'", gpu and f"on {gpu}") if x)
        raise NoKernelError(
            f"no correct kernel {where or 'yet'} in the database: run `evoflash search` first."
        )
    _say_what_it_is(store, winner)
    return winner


def _say_what_it_is(store: Store, winner: Evaluation) -> None:
    """Of an estimate, that it is one, and what was measured for this: by the archive, by older versions of
    families, on other GPUs.
    """
    if not winner.is_estimate:
        return
    known, versions = _all_there_is(winner), installed_versions(store)
    say(f"{known}: the kernel is checked by the emulator, its time was never measured.")
    for older in older_kernels(store, versions, {"problem": winner.problem, "gpu": winner.gpu}):
        say(older.in_words(are_ranked=False))
    elsewhere = store.best(winner.problem, None, basis=Basis.MEASURED, versions=versions)
    if elsewhere is not None:
        say(f"{elsewhere.genome.id} was measured for it on {elsewhere.gpu}: --gpu {elsewhere.gpu} shows it.")


def _all_there_is(winner: Evaluation) -> str:
    known = archived_for(winner.problem, winner.gpu)
    if known is not None:
        return f"the archive has {known.genome.id}, {known.time}; the database has an estimate"
    return "all there is is an estimate"


@dataclass(frozen=True, slots=True)
class KnownForProblem:
    """What is known for one problem: the database's best kernel, the archive's, both or nothing."""

    problem: WeightedProblem
    stored: Evaluation | None
    archived: Champion | None
    search: Run | None = None  # the newest of the database

    @property
    def is_known(self) -> bool:
        return self.stored is not None or self.archived is not None

    @property
    def kernel(self) -> Evaluation | Champion | None:
        """The one to use: measured here, then measured for the archive, then estimated."""
        if self.stored is not None and self.stored.basis is Basis.MEASURED:
            return self.stored
        return self.archived or self.stored

    def as_dict(self) -> dict[str, Any]:
        """The problem, its kernel's id, family, time in us and where that is from; the newest search."""
        kernel, time_us, basis = self.kernel, None, None
        if isinstance(kernel, Champion):
            time_us, basis = kernel.us, "archived"
        elif kernel is not None:
            time_us, basis = kernel.score_us, str(kernel.basis)
        genome = None if kernel is None else kernel.genome
        return {
            "problem": str(self.problem.problem),
            "named": self.problem.text,
            "weight": self.problem.weight,
            "genome_id": genome and genome.id,
            "family": genome and genome.family,
            "time_us": time_us,
            "basis": basis,
            "run": self.search and self.search.id,
        }


def best_of_each(
    db: str, problems: Sequence[WeightedProblem], gpu: str | None
) -> tuple[KnownForProblem, ...]:
    """What the database and the archive have for each problem on a GPU, by default the one that is present.

    Nothing is run: an archived kernel is checked when it is asked for alone. DeviceError without a GPU.
    """
    spec = load_gpu(gpu) if gpu else present_spec(None)
    found = []
    with ExitStack() as stack:
        store = stack.enter_context(open_store(db, read_only=True)) if is_there(db) else None
        versions = installed_versions(store) if store else {}
        for each in problems:
            stored = store.best(str(each.problem), spec.name, versions=versions) if store else None
            archived = archived_for(str(each.problem), spec.name)
            found.append(KnownForProblem(each, stored, archived, _newest_search(store, each, spec)))
    return tuple(found)


def _newest_search(store: Store | None, problem: WeightedProblem, spec: GpuSpec) -> Run | None:
    if store is None:
        return None
    try:
        return find_run(store, problem=str(problem.problem), gpu=spec.name)
    except NoKernelError:
        return None


def _problem_on_gpu(problem: str | None, gpu: str | None) -> str:
    return f"'{problem}' on {gpu or 'this GPU'}"


def _champion(stored: Evaluation | None, problem: str | None, gpu: str | None) -> Champion | None:
    """The archive's kernel for exactly what is asked for, by default what `stored` is for, else this GPU."""
    what = problem or (stored.problem if stored else None)
    if what is None:
        return None
    try:
        name = canonical_gpu(gpu) or (stored.gpu if stored else present_spec(None).name)
    except DeviceError:
        return None
    return archived_for(str(parse_problem(what)), name)


def _from_archive(known: Champion, estimated: Evaluation | None, db: str, argv: Sequence[str]) -> BestKernel:
    try:
        spec = present_spec(known.gpu)
    except DeviceError:
        return _check_archived(known, estimated)
    return _measure_archived(known, spec, db, argv)


# ---- where the GPU is


def _measure_archived(known: Champion, spec: GpuSpec, db: str, argv: Sequence[str]) -> BestKernel:
    """Every check and the final timing on this GPU, stored as a run of its own."""
    say(f"the archive has {known.genome.id} ({known.measured_on}): checking it and timing it again here.")
    what = parse_problem(known.problem)
    with open_store(db) as store:
        result = measure_genomes(store, what, spec, [known.genome], strategy=STRATEGY, argv=argv)
        if result.best is None:
            _, evaluation = store.newest_history()[0]
            raise _rejection(known, f"{evaluation.status} at {evaluation.rung}, {evaluation.reason}")
    return BestKernel(result.best, known, result)


# ---- where the GPU is not


def _check_archived(known: Champion, estimated: Evaluation | None) -> BestKernel:
    """Compiled for the GPU and checked by the emulator; nothing is estimated and nothing stored."""
    say(f"no {known.gpu} here: the archived kernel is checked by the CPU emulator, not timed.")
    checked = emulate(known.genome, parse_problem(known.problem), load_gpu(known.gpu))
    if not checked.is_correct:
        raise _rejection(known, f"{checked.status} at {checked.rung}, {checked.reason}")
    return BestKernel(checked, known, estimated=estimated)


def _rejection(known: Champion, reason: str) -> NoKernelError:
    return NoKernelError(
        f"the archived kernel {known.genome.id} is not right here ({reason}): run `evoflash search`."
    )
