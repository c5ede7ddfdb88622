"""One leaderboard of several databases: their rows ranked together, each with where it is from.

A kernel that two databases have timed stays two rows: they are two measurements, and to keep the faster one
would be to keep the luckier one. A measurement that was copied (`evoflash runs merge`) is one row, which
names every database that has it. Shows nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from evoflash.commands.leaderboard.front import EVERY, front_of
from evoflash.commands.leaderboard.pareto import Objective
from evoflash.commands.leaderboard.table import RANKING, Only, Table, read
from evoflash.errors import UsageError
from evoflash.evaluation import Basis
from evoflash.store.cost import Cost, costs
from evoflash.store.store import Store, open_store

DATABASE = "database"  # the column that says where a row is from
# What a row and its copies share; run and evaluation are numbered anew in each database.
_COPIES = (
    *(*RANKING, "kind", "name", "genome_id", "score_us", "protocol", "n", "model_version"),
    *("strategy", "seed", "created"),
)
_ALL = Only()
Row = dict[str, Any]
Costs = Mapping[tuple[str, int], Cost]  # by database, empty where there is one, and run


def leaderboard(
    databases: Sequence[str],
    *,
    objectives: Sequence[Objective] = (),
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    only: Only = _ALL,
    top: int = 20,
) -> tuple[Table, Costs]:
    """The leaderboard of one or several databases, with `objectives` its Pareto fronts, and what runs took.

    One that is named twice counts once. UsageError where `only` names a run and there are several.
    """
    with ExitStack() as stack:
        found = [stack.enter_context(open_store(each, read_only=True)) for each in dict.fromkeys(databases)]
        stores = list({store.database.label: store for store in found}.values())
        if only.run is not None and len(stores) > 1:
            raise UsageError("a run is one of one database: give --run with a single --db.")
        most, is_one = EVERY if objectives else top, len(stores) == 1
        ranked = partial(read, stores[0]) if is_one else partial(read_several, stores)
        table = ranked(problem=problem, gpu=gpu, basis=basis, only=only, top=most)
        names = {"" if is_one else store.database.label: store.database for store in stores}
        took = {(name, run): cost for name, each in names.items() for run, cost in costs(each).items()}
    return (front_of(table, objectives, top) if objectives else table), took


def read_several(
    stores: Sequence[Store],
    *,
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    only: Only = _ALL,
    top: int = 20,
) -> Table:
    """As table.read, over all stores, with a last column `database`: a label, or several with `, ` between.

    Estimates of another model, or for another description of the GPU, than the newest are left out here too.
    """
    rows: list[Row] = []
    columns: tuple[str, ...] = ()
    for store in stores:
        table = read(store, problem=problem, gpu=gpu, basis=basis, only=only, top=top)
        columns, hashes = (*table.columns, DATABASE), _gpu_hashes(store)
        rows += [_placed(row, store.database.label, hashes) for row in table.as_dicts()]
    rows.sort(key=lambda row: (row["problem"], row["gpu"], row["basis"] != "measured", row["basis"]))
    rankings = (list(ranking) for _, ranking in groupby(rows, key=itemgetter(*RANKING)))
    ranked = [row for ranking in rankings for row in _ranked(_without_copies(_of_one_model(ranking)))[:top]]
    return Table(columns, tuple(tuple(row[name] for name in columns) for row in ranked))


def _gpu_hashes(store: Store) -> Mapping[int, str]:
    return dict(store.query("SELECT id, gpu_hash FROM runs", {})[1])


def _placed(row: Row, label: str, hashes: Mapping[int, str]) -> Row:
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


def _ranked(rows: Iterable[Row]) -> list[Row]:
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
