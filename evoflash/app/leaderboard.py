"""Reads and ranks the leaderboard's rows of one database or several, and their Pareto front. Shows nothing.

db/leaderboard.sql ranks the rows of one database. Kernels of an older version of their family than evoflash
has are left out, and counted.

What the shipped archive measured stands before the estimates of the same problem and GPU, ranked by itself.

A kernel that two databases have timed stays two rows: they are two measurements, and to keep the faster one
would be to keep the luckier one. A measurement that was copied (`evoflash runs merge`) is one row, which
names every database that has it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from evoflash.app.kernel_lookup import installed_versions, older_kernels
from evoflash.app.objectives import OBJECTIVES, Objective, objectives_of, pareto_front
from evoflash.app.runs import closing_database, cost_as_dict
from evoflash.champions import ARCHIVED
from evoflash.champions.evidence import archived_for
from evoflash.errors import EvoflashError, UsageError
from evoflash.estimate_error import error_in_words, likely_us
from evoflash.evaluation import Basis
from evoflash.kernels.family import load_family
from evoflash.problem import canonical, parse_problem
from evoflash.space import Genome
from evoflash.specs import canonical_gpu, load_gpu
from evoflash.store import run_edits
from evoflash.store.schema import leaderboard_sql, of_versions
from evoflash.store.standing import ComputeCost, costs
from evoflash.store.store import Store, open_store

RANKING = ("problem", "gpu", "basis")  # what shares a ranking; the basis may be ARCHIVED, too
Ranking = tuple[str, ...]  # the values of these columns


@dataclass(frozen=True, slots=True)
class Rankings:
    """Rows of the leaderboard query, under the names that the query gives its columns (units included)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    objectives: tuple[Objective, ...] = ()  # where the rows are Pareto fronts
    known: Mapping[Ranking, int] = field(default_factory=dict)  # then: kernels that had all figures, and
    unknown: Mapping[Ranking, int] = field(default_factory=dict)  # those that lacked one
    has_replays: bool = False  # without a row: whether replayed ones would be there
    older: tuple[str, ...] = ()  # lines on kernels of older versions of their families

    def as_dicts(self) -> list[dict[str, Any]]:
        """One dict per row, keyed by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def with_genes(self) -> list[dict[str, Any]]:
        """As as_dicts(), but with genes as `values`, and what made the kernel as `provenance`, in place of
        their texts; of an estimate with `likely_us`, between which nine of ten such kernels are, and
        `likely_from`, the words that say so, and whether any was measured on the GPU.
        """
        rows = self.as_dicts()
        for row in rows:
            name, version = row["name"], row["model_version"]
            row["likely_us"] = likely_us(name, version, row["score_us"])
            row["likely_from"] = error_in_words(row["gpu"], name, version) if version else None
        for row, name in ((row, name) for row in rows for name in ("values", "provenance")):
            text = row.pop(f"{name}_json")
            row[name] = None if text is None else json.loads(text)
        return rows

    def as_dict(
        self, costs: "Costs" = MappingProxyType({}), price_per_hour: float | None = None
    ) -> dict[str, Any]:
        """`leaderboard`: rows as with_genes() has them; `runs`: what the runs of the rows took, by their
        numbers, and their database where there are several; of a Pareto front its `objectives`; `older`:
        lines on kernels of older versions of their families, where there are some.
        """
        runs = [
            {
                "run": run,
                **({DATABASE: database} if database else {}),
                **cost_as_dict(costs.get((database, run)), price_per_hour),
            }
            for database, run in dict.fromkeys((databases_of(row)[0], row["run"]) for row in self.as_dicts())
            if run is not None  # an archived row has none
        ]
        front = {"objectives": [each.name for each in self.objectives]} if self.objectives else {}
        older = {"older": list(self.older)} if self.older else {}
        return {"leaderboard": self.with_genes(), "runs": runs, **front, **older}


@dataclass(frozen=True, slots=True)
class Only:
    """Which evaluations are ranked at all; None: it does not matter."""

    family: str | None = None  # of kernels; the libraries stay beside them
    run: int | None = None  # its id
    since: str | None = None  # of `since_of`

    @property
    def parameters(self) -> dict[str, Any]:
        fields = {"family": self.family, "run": self.run, "since": self.since}
        return {name: value for name, value in fields.items() if value is not None}


_CONDITIONS = {
    "family": "(e.kind <> 'candidate' OR g.family = :family)",
    "run": "r.id = :run",
    "since": "e.created >= :since",
}


def since_of(text: str) -> str:
    """A date, or a date and a time, as the database writes them, in UTC. UsageError for any other text."""
    try:
        when = datetime.fromisoformat(text)
        when = when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"'{text}' is no date: write 2026-11-23 or 2026-11-23T14:30, in UTC.") from None
    return when.isoformat(timespec="seconds")


def read_rankings(
    store: Store,
    *,
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    only: Only = Only(),
    top: int = 20,
) -> Rankings:
    """The first `top` rows of each ranking, measured rankings first; `problem` is canonical, str(Problem).

    Outcomes of searches on recordings are no kernels of this database: they are ranked where `basis` says so.
    `only` leaves evaluations out before they are ranked; a ranking without a kernel of its family goes, too.
    Kernels that are older than the installed version of their family rank where `only` names their run.
    """
    given = {"problem": problem, "gpu": gpu, "basis": None if basis is None else basis.value}
    where = {name: value for name, value in given.items() if value is not None}
    usual = [] if basis else ["basis <> 'replayed'"]
    conditions = " AND ".join(["rank <= :top", *usual, *(f"{name} = :{name}" for name in where)])
    versions = installed_versions(store)
    current = of_versions({} if only.run is not None else versions)
    board = leaderboard_sql(current, *(_CONDITIONS[name] for name in only.parameters))
    order = "problem, gpu, CASE basis WHEN 'measured' THEN 0 ELSE 1 END, rank, evaluation"
    query = f"SELECT * FROM ({board}) AS board WHERE {conditions} ORDER BY {order}"
    columns, rows = store.query(query, {"top": top, **where, **only.parameters})
    # Equal times share a rank, as estimates often do: there may be more rows than were asked for.
    rankings = [list(rows) for _, rows in groupby(rows, key=itemgetter(*map(columns.index, RANKING)))]
    kind = columns.index("kind")
    if only.family:
        rankings = [each for each in rankings if any(row[kind] == "candidate" for row in each)]
    older = older_kernels(store, versions, where | ({} if only.run is None else {"id": only.run}))
    return Rankings(
        columns,
        tuple(row for ranking in rankings for row in islice(ranking, top)),
        older=tuple(each.in_words(are_ranked=only.run is not None) for each in older),
    )


EVERY, _ALL = 2**31 - 1, Only()
SHARED_MEMORY = OBJECTIVES["shared-memory"]


def read_front(
    store: Store,
    *,
    objectives: Sequence[Objective],
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    only: Only = _ALL,
    top: int = EVERY,
) -> Rankings:
    """As table.read, but the Pareto front of each ranking."""
    return front_of(
        read_rankings(store, problem=problem, gpu=gpu, basis=basis, only=only, top=EVERY), objectives, top
    )


def front_of(table: Rankings, objectives: Sequence[Objective], top: int = EVERY) -> Rankings:
    """Of each ranking of a whole table the Pareto front, at most `top` rows, by the first objective.

    A kernel keeps its rank by time. The table says of how many kernels that had all figures it is the front.
    """
    rankings = list(_rankings(_with_shared_memory(table) if SHARED_MEMORY in objectives else table))
    columns = tuple(rankings[0][0]) if rankings else table.columns
    front = [row for rows in rankings for row in pareto_front(rows, objectives)[:top]]
    known = {_key(rows[0]): len(_with_figures(rows, objectives)) for rows in rankings}
    unknown = {_key(rows[0]): len(rows) - known[_key(rows[0])] for rows in rankings}
    cells = tuple(tuple(row[name] for name in columns) for row in front)
    return replace(
        table, columns=columns, rows=cells, objectives=tuple(objectives), known=known, unknown=unknown
    )


def _rankings(table: Rankings) -> Iterator[list[dict[str, Any]]]:
    for _, rows in groupby(table.as_dicts(), key=_key):
        yield list(rows)


_key = itemgetter(*RANKING)


def _with_figures(rows: Sequence[dict[str, Any]], objectives: Sequence[Objective]) -> list[dict[str, Any]]:
    return [row for row in rows if all(row.get(each.column) is not None for each in objectives)]


def _with_shared_memory(table: Rankings) -> Rankings:
    """With a block's shared memory in bytes, the largest of a kernel's launches; None where nobody knows."""
    cells = tuple(
        (*row, _shared_memory(named)) for row, named in zip(table.rows, table.as_dicts(), strict=True)
    )
    return replace(table, columns=(*table.columns, SHARED_MEMORY.column), rows=cells)


def _shared_memory(row: dict[str, Any]) -> int | None:
    """Dynamic memory is the launch's, and not stored: the family says it, if it still is the one of then."""
    if row["values_json"] is None or row["smem_static_bytes"] is None:
        return None
    try:
        family, gpu = load_family(row["name"]), load_gpu(row["gpu"])
        genome = Genome(family.name, family.version, tuple(json.loads(row["values_json"]).items()))
        if genome.id != row["genome_id"]:
            return None
        workloads = parse_problem(row["problem"]).workloads
        launches = [launch for each in workloads for launch in family.launches(genome, each, gpu)]
    except EvoflashError:  # a family, a GPU or a problem that is gone
        return None
    return int(row["smem_static_bytes"]) + max(launch.smem_bytes for launch in launches)


DATABASE = "database"  # the column that says where a row is from
# What a row and its copies share; run and evaluation are numbered anew in each database.
_COPIES = (
    *(*RANKING, "kind", "name", "genome_id", "score_us", "protocol", "n", "model_version"),
    *("strategy", "seed", "created"),
)
_EVERY_KERNEL = Only()
Row = dict[str, Any]
Costs = Mapping[tuple[str, int], ComputeCost]  # by database, empty where there is one, and run


def databases_of(row: Mapping[str, Any]) -> list[str]:
    """Those that have the row; one empty word where there is one database."""
    return str(row.get(DATABASE, "")).split(", ")


def ranked_kernels(
    databases: Sequence[str],
    *,
    problem: str | None = None,
    gpu: str | None = None,
    family: str | None = None,
    run: str | int | None = None,
    since: str | None = None,
    objective: str | None = None,
    replayed: bool = False,
    top: int = 20,
) -> tuple[Rankings, Costs]:
    """As leaderboard(), from what a person writes; a run by its number (an int) or by how `evoflash runs`
    shows it. UsageError for what makes no sense.
    """
    objectives = () if objective is None else objectives_of(objective)
    basis = Basis.REPLAYED if replayed else None
    since = None if since is None else since_of(since)
    if isinstance(run, str):
        with closing_database(databases[0], read_only=True) as database:
            found = run_edits.find(database, run)
        run, basis = found.id, found.key.basis
    return leaderboard(
        databases,
        objectives=objectives,
        problem=canonical(problem),
        gpu=canonical_gpu(gpu),
        basis=basis,
        only=Only(family, run, since),
        top=top,
    )


def leaderboard(
    databases: Sequence[str],
    *,
    objectives: Sequence[Objective] = (),
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    only: Only = _EVERY_KERNEL,
    top: int = 20,
) -> tuple[Rankings, Costs]:
    """The leaderboard of one or several databases, with `objectives` its Pareto fronts, and what runs took.

    One that is named twice counts once. UsageError where `only` names a run and there are several.
    """
    with ExitStack() as stack:
        found = [stack.enter_context(open_store(each, read_only=True)) for each in dict.fromkeys(databases)]
        stores = list({store.database.label: store for store in found}.values())
        if only.run is not None and len(stores) > 1:
            raise UsageError("a run is one of one database: give --run with a single --db.")
        most, is_one = EVERY if objectives else top, len(stores) == 1
        ranked = partial(read_rankings, stores[0]) if is_one else partial(read_several, stores)
        table = ranked(problem=problem, gpu=gpu, basis=basis, only=only, top=most)
        names = {"" if is_one else store.database.label: store.database for store in stores}
        took = {(name, run): cost for name, each in names.items() for run, cost in costs(each).items()}
        if not table.rows and basis is None:
            recorded = ranked(problem=problem, gpu=gpu, basis=Basis.REPLAYED, only=only, top=1)
            table = replace(table, has_replays=bool(recorded.rows))
    if objectives:
        return front_of(table, objectives, top), took
    asked = None if basis or not (problem and gpu) else (problem, gpu)
    return _with_archive(table, asked, only, top), took


def _with_archive(table: Rankings, asked: tuple[str, str] | None, only: Only, top: int) -> Rankings:
    """With a ranking of what the archive measured before the estimates of the same problem and GPU, and where
    nothing is stored of what is asked for.
    """
    rows = table.as_dicts()
    measured = {(row["problem"], row["gpu"]) for row in rows if row["basis"] == Basis.MEASURED.value}
    ranked: list[Row] = []
    places: dict[tuple[str, str], list[Row]] = {asked: []} if asked else {}
    for row in rows:
        places.setdefault((row["problem"], row["gpu"]), []).append(row)
    for (what, spec), mine in places.items():
        is_replay = any(row["basis"] == Basis.REPLAYED.value for row in mine)
        archived = [] if is_replay or (what, spec) in measured else _archived_rows(what, spec, only, top)
        ranked += [*archived, *mine]
    columns = table.columns
    return replace(table, rows=tuple(tuple(row.get(name) for name in columns) for row in ranked))


def _archived_rows(problem: str, gpu: str, only: Only, top: int) -> list[Row]:
    """The archive's kernel and the libraries of its run, the bridged ones so called, fastest first."""
    known = archived_for(problem, gpu)
    if known is None or only.family not in (None, known.genome.family):
        return []
    shared = {"problem": problem, "gpu": gpu, "basis": ARCHIVED, "created": known.date, "strategy": "archive"}
    name, theirs_us = known.fastest_rival or ("", None)
    flops = parse_problem(problem).reported_flops
    kernel: Row = {
        "kind": "candidate",
        "name": known.genome.family,
        "genome_id": known.genome.id,
        "family_version": known.genome.version,
        "score_us": known.us,
        "protocol": known.protocol,
        "speedup_vs": f"{name}{' (bridged)' * (name in known.bridged_us)}" or None,
        "speedup": theirs_us / known.us if theirs_us else None,
        "values_json": json.dumps(known.genome.as_dict()),
        "provenance_json": json.dumps({"archive": [known.genome.id]}),
    }
    libraries: list[Row] = [
        {"kind": "baseline", "name": f"{name}{mark}", "score_us": us, "protocol": known.protocol}
        for mark, times in (("", known.rivals_us), (" (bridged)", known.bridged_us))
        for name, us in times.items()
    ]
    rows = [{**shared, **row, "tflops": flops / row["score_us"] / 1e6} for row in (kernel, *libraries)]
    return _with_ranks(rows)[:top]


def read_several(
    stores: Sequence[Store],
    *,
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    only: Only = _EVERY_KERNEL,
    top: int = 20,
) -> Rankings:
    """As table.read, over all stores, with a last column `database`: a label, or several with `, ` between.

    Estimates of another model, or for another description of the GPU, than the newest are left out here too.
    """
    rows: list[Row] = []
    columns: tuple[str, ...] = ()
    older: dict[str, None] = {}  # a set in order
    for store in stores:
        table = read_rankings(store, problem=problem, gpu=gpu, basis=basis, only=only, top=top)
        columns, hashes = (*table.columns, DATABASE), _gpu_hashes(store)
        rows += [_with_origin(row, store.database.label, hashes) for row in table.as_dicts()]
        older |= dict.fromkeys(table.older)
    rows.sort(key=lambda row: (row["problem"], row["gpu"], row["basis"] != "measured", row["basis"]))
    rankings = (list(ranking) for _, ranking in groupby(rows, key=itemgetter(*RANKING)))
    ranked = [
        row for ranking in rankings for row in _with_ranks(_without_copies(_of_one_model(ranking)))[:top]
    ]
    return Rankings(
        columns, tuple(tuple(row[name] for name in columns) for row in ranked), older=tuple(older)
    )


def _gpu_hashes(store: Store) -> Mapping[int, str]:
    return dict(store.query("SELECT id, gpu_hash FROM runs", {})[1])


def _with_origin(row: Row, label: str, hashes: Mapping[int, str]) -> Row:
    is_estimate = row["basis"] != Basis.MEASURED.value and row["kind"] == "candidate"
    model = (row["model_version"], hashes[row["run"]]) if is_estimate else None
    return {**row, DATABASE: label, "model": model}


def _of_one_model(rows: Sequence[Row]) -> list[Row]:
    newest = max((row for row in rows if row["model"]), key=itemgetter("created"), default=None)
    return [row for row in rows if newest is None or row["model"] in (None, newest["model"])]


def _without_copies(rows: Iterable[Row]) -> list[Row]:
    kept: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        first = kept.setdefault(itemgetter(*_COPIES)(row), row)
        if first is not row:
            first[DATABASE] += f", {row[DATABASE]}"
    return list(kept.values())


def _with_ranks(rows: Iterable[Row]) -> list[Row]:
    """By time; equal times share a rank."""
    ordered = sorted(rows, key=itemgetter("score_us"))
    ranks: dict[float, int] = {}
    for at, row in enumerate(ordered, 1):
        row["rank"] = ranks.setdefault(row["score_us"], at)
    return ordered


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """For each label its last parts, as few as tell it from the others: `laptop.db`, `host/kernels`."""
    parts = {label: _parts(label) for label in labels}
    named = {}
    for label, words in parts.items():
        others = [other for each, other in parts.items() if each != label]
        most = next(
            (n for n in range(1, len(words)) if all(o[-n:] != words[-n:] for o in others)), len(words)
        )
        named[label] = "/".join(words[-most:])
    return named


def _parts(label: str) -> tuple[str, ...]:
    """Of a path, or of a URL its host and database."""
    if "://" not in label:
        return Path(label).parts
    url = urlsplit(label)
    hosts = parse_qs(url.query).get("host", [""])  # libpq's other place for it
    return (url.hostname or hosts[0], url.path.strip("/"))
