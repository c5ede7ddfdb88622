"""Lists, follows, renames, merges, deletes and checks the runs of a database, with what they took."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from evoflash.errors import NoKernelError, UsageError, without_passwords
from evoflash.evaluation import Basis, Evaluation, Proposal, Run
from evoflash.gpu.timing.relative import GpuFactor, factors, in_words
from evoflash.problem import canonical
from evoflash.specs import canonical_gpu
from evoflash.store import run_edits
from evoflash.store.database import Database, is_there, open_database, trial_copy
from evoflash.store.integrity import Health, check_database, refuse_misfits
from evoflash.store.run_status import ComputeCost, RunStatus, standings
from evoflash.store.store import Store
from evoflash.written_files import is_dry_run


def find_run(
    store: Store,
    wanted: str | None = None,
    *,
    problem: str | None = None,
    gpu: str | None = None,
    replayed: bool | None = None,
) -> Run:
    """The run that is meant: the one of this number or name, or else the newest search that fits.

    A search without an outcome, which has just begun or was stopped at once, is taken only where no other
    fits. Searches on recordings are taken where no other fits; with `replayed` they alone are, or none.
    `problem` is canonical. UsageError for a name that is none, NoKernelError where no search fits.
    """

    def does_fit(run: Run) -> bool:
        return problem in (None, run.key.problem) and gpu in (None, run.key.gpu)

    if wanted is not None:
        run = run_edits.find(store.database, wanted)
        if not does_fit(run):
            raise UsageError(
                f"run {run.id} is of {run.key.problem} on {run.key.gpu}: leave --problem and --gpu out."
            )
        return run
    searches = [run for run in store.runs() if run.key.is_search and does_fit(run)]
    if replayed is not None:
        searches = [run for run in searches if (run.key.basis is Basis.REPLAYED) is replayed]
    if not searches:
        what = "replay" if replayed else "search"
        raise NoKernelError(
            f"no {what} in the database fits: run `evoflash search` first, or leave a filter out; "
            "`evoflash runs --all` lists what there is."
        )
    begun = store.runs_with_outcomes()
    return min(searches, key=lambda run: (run.id not in begun, run.key.basis is Basis.REPLAYED))


def parse_price(price_per_hour: float | None) -> float | None:
    """The price of an hour of a GPU, as it was given. UsageError for a number that is no price."""
    if price_per_hour is not None and not 0 <= price_per_hour < math.inf:
        raise UsageError(f"--price-per-hour {price_per_hour:g}: give what an hour of the GPU costs, as 3.50.")
    return price_per_hour


def money(cost: ComputeCost, price_per_hour: float) -> float:
    """What the GPU cost, in the price's currency."""
    return cost.gpu_s / 3600 * price_per_hour


def cost_as_dict(cost: ComputeCost | None, price_per_hour: float | None = None) -> dict[str, float | None]:
    """`gpu_minutes` and `cpu_minutes` (None where they were not noted), and with a price it and the money."""
    known = {
        "gpu_minutes": None if cost is None else cost.gpu_s / 60,
        "cpu_minutes": None if cost is None else cost.cpu_s / 60,
    }
    if price_per_hour is None:
        return known
    paid = None if cost is None else money(cost, price_per_hour)
    return known | {"price_per_hour": price_per_hour, "price": paid}


def state(standing: RunStatus) -> str:
    """`running`, `finished` (at a limit that was asked for) or `stopped` (the same command continues it)."""
    if standing.process is not None:
        return "running"
    spent = standing.run.budget and standing.evaluated >= standing.run.budget
    return "finished" if spent or standing.run.ended else "stopped"


def age_s(standing: RunStatus) -> float:
    """Seconds since the newest outcome was stored."""
    return (datetime.now(UTC) - datetime.fromisoformat(standing.newest)).total_seconds()


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs as they stand, newest first, and what an hour of their GPU costs."""

    runs: tuple[RunStatus, ...]
    price_per_hour: float | None = None
    gpus: tuple[tuple[GpuFactor, ...], ...] | None = None  # how fast each run's are, where it was looked up
    left_out: int = 0  # runs that are no search and were not asked for

    @property
    def gpus_say(self) -> tuple[list[str], ...]:
        """For each run a line for each of its GPUs where it has several."""
        return tuple(map(in_words, self.gpus or [()] * len(self.runs)))

    def as_dict(self) -> dict[str, Any]:
        """`runs`: each run's fields beside one another, how it stands, what it took, its GPUs."""
        gpus = self.gpus or [None] * len(self.runs)
        left_out = {"left_out": self.left_out} if self.left_out else {}
        return {"runs": [self._of_run(*each) for each in zip(self.runs, gpus, strict=True)], **left_out}

    def _of_run(self, standing: RunStatus, gpus: Sequence[GpuFactor] | None) -> dict[str, Any]:
        run, fields = standing.run.as_dict(), asdict(standing)
        run |= run.pop("key") | {"name": standing.run.name}
        del fields["run"], fields["cost"]
        took = cost_as_dict(standing.cost, self.price_per_hour)
        fast = {} if gpus is None else {"gpus": [each.as_dict() for each in gpus]}
        stands = {"state": state(standing), "left_s": standing.left_s, "made_with": standing.run.made_with}
        return {**run, **fields, **stands, **took, **fast}


@contextmanager
def closing_database(target: str, *, read_only: bool = False, checked: bool = True) -> Iterator[Database]:
    """A database, closed at the end. StoreError for a reader of values that its columns cannot hold, unless
    it is not `checked`.
    """
    database = open_database(target, read_only=read_only)
    try:
        if read_only and checked:
            refuse_misfits(database)
        yield database
    finally:
        database.close()


def list_runs(db: str, price_per_hour: float | None = None, *, every: bool = False) -> RunList:
    """The searches; with `every` also the runs of commands that evaluate a kernel that they are given.

    UsageError for a price that is none.
    """
    price = parse_price(price_per_hour)
    with closing_database(db, read_only=True) as database:
        found = standings(database)
    shown = [each for each in found if every or each.run.key.is_search]
    return RunList(tuple(shown), price, left_out=len(found) - len(shown))


def evaluations_of_run(
    db: str, wanted: str | None = None, *, problem: str | None = None, gpu: str | None = None
) -> tuple[dict[str, Any], ...]:
    """A row for each that the run which find_run() finds evaluated, in its order, times in us.

    A duplicate has the outcome of the kernel that it repeats; `gene.NAME` are the values of its genes.
    """
    with closing_database(db, read_only=True) as database:
        store = Store(database)
        run = find_run(store, wanted, problem=canonical(problem), gpu=canonical_gpu(gpu))
        history = store.history(run)
    return tuple(_evaluation_row(run, at, *each) for at, each in enumerate(history, 1))


def _evaluation_row(run: Run, position: int, proposal: Proposal, evaluation: Evaluation) -> dict[str, Any]:
    genome, builds = evaluation.genome, [build for build in evaluation.builds if build.ok]
    row: dict[str, Any] = {"run": run.id, "position": position, "genome_id": genome.id}
    row |= {"family": genome.family, "version": genome.version, "operator": proposal.operator}
    row |= {"parents": list(proposal.parents), "status": str(evaluation.status)}
    row |= {"rung": str(evaluation.rung), "reason": evaluation.reason, "score_us": evaluation.score_us}
    row |= {"basis": str(evaluation.basis), "model_version": evaluation.model_version}
    row |= {"is_lower_bound": evaluation.is_censored, "bound": evaluation.bound}
    for name in ("registers", "spill_bytes", "smem_static_bytes"):
        row[name] = max((getattr(build, name) for build in builds), default=None)
    values = genome.as_dict()
    row |= {"duplicate_of": evaluation.duplicate_of, "values": values}
    return row | {f"gene.{name}": value for name, value in values.items()}


def current_runs(db: str, price_per_hour: float | None = None) -> RunList:
    """The runs that are going on, and how fast their GPUs are; where none is going on, the newest run."""
    price = parse_price(price_per_hour)
    _check_searched(db)
    with closing_database(db, read_only=True) as database:
        found = tuple(_current_runs(database))
        return RunList(found, price, tuple(_gpus_of(database, each.run) for each in found))


def _check_searched(db: str) -> None:
    if not is_there(db):
        raise NoKernelError(
            f"nothing was searched yet, there is no database at {without_passwords(db)}: run `evoflash "
            "search`, or name another with --db."
        )


def _current_runs(database: Database) -> list[RunStatus]:
    every = standings(database)
    searches = [each for each in every if each.run.key.is_search]
    found = [each for each in every if each.process is not None] or (searches or every)[:1]
    if not found:
        raise NoKernelError("nothing was searched in this database yet: run `evoflash search`.")
    return found


def _gpus_of(database: Database, run: Run) -> tuple[GpuFactor, ...]:
    """Nothing where nothing was timed beside an anchor."""
    mine = "SELECT environment_json FROM evaluations WHERE run_id = :run AND duplicate_of IS NULL"
    _, rows = Store(database).query(mine, {"run": run.id})
    return factors(json.loads(text) for (text,) in rows)


def status_of_run(db: str, wanted: str | None = None) -> dict[str, Any]:
    """How the run of this number or name stands; without one the search that is going on, or the newest."""
    if wanted is None:
        found = current_runs(db)
    else:
        with closing_database(db, read_only=True) as database:
            found = RunList(tuple(standings(database, run_edits.find(database, wanted).id)))
    status: dict[str, Any] = found.as_dict()["runs"][0]
    return status


def follow(db: str, *, every_s: float) -> Iterator[list[RunStatus]]:
    """How the runs that are going on stand, again and again until no process works on them any more."""
    _check_searched(db)
    with closing_database(db, read_only=True) as database:
        found = _current_runs(database)
        ids = [standing.run.id for standing in found]
        yield found
        while any(standing.process is not None for standing in found):
            time.sleep(every_s)
            found = standings(database, *ids)
            yield found


@contextmanager
def trial_database(db: str) -> Iterator[str]:
    """A copy in which a dry run stores what it finds out; it is gone at the end."""
    with trial_copy(db) as copy:
        yield copy


@contextmanager
def _editing(db: str) -> Iterator[Database]:
    """A database to be changed; a dry run makes the same changes and takes them back."""
    place = trial_copy(db) if is_dry_run() and not is_there(db) else nullcontext(db)
    with place as target, closing_database(target) as database:
        yield replace(database, keeps=not is_dry_run())


def rename(db: str, wanted: str, name: str) -> int:
    """Give a run, by its number or name, a name; its number."""
    _check_exists(db)
    with _editing(db) as database:
        found = run_edits.find(database, wanted)
        run_edits.rename(database, found, name)
    return found.id


def merge(db: str, source: str) -> tuple[int, int]:
    """Bring in the runs of another database; how many runs and outcomes were new."""
    with closing_database(source, read_only=True) as there, _editing(db) as database:
        if there.label == database.label:
            raise UsageError("that is the same database: give the one to take runs from, and --db the other.")
        return run_edits.merge(database, there)


def delete(db: str, wanted: str, *, is_sure: Callable[[str], bool]) -> tuple[str, int] | None:
    """Delete a run where `is_sure` says so of its description; that, and how many outcomes are gone."""
    _check_exists(db)
    with _editing(db) as database:
        found = run_edits.find(database, wanted)
        key = found.key
        words = f"run {found.id} ({key.problem} on {key.gpu}, {key.basis}, {key.search_name} seed {key.seed})"
        return (words, run_edits.delete(database, found)) if is_sure(words) else None


def _check_exists(target: str) -> None:
    """StoreError where there is no database yet: what edits runs makes none."""
    with closing_database(target, read_only=True, checked=False):
        pass


def check_rows(db: str) -> tuple[str, Health]:
    """Whether every row is whole, and what the database is called."""
    with closing_database(db, read_only=True, checked=False) as database:
        return database.label, check_database(database)
