"""Renames runs, takes them out or brings them in from another database. Searches nothing.

Each is one transaction.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from evoflash.errors import StoreError, UsageError
from evoflash.evaluation import Run
from evoflash.store import rows, schema
from evoflash.store import store as queries
from evoflash.store.database import Database
from evoflash.store.rows import Row

MOST_LETTERS = 60  # of a name
_CHILDREN = (schema.builds, schema.verdicts, schema.timings)
_RUN, _LINE, _EVAL, _SAID = schema.runs.c, schema.lineage.c, schema.evaluations.c, schema.exchanges.c
_PROFILE = schema.profiles.c
_SAME = (*schema.RUN_KEY, "gpu_hash", "created", "argv_json")


def find(database: Database, wanted: str) -> Run:
    """The run with this number or name. UsageError where there is none, or several have the name."""
    with database.reading() as connection:
        every = list(connection.execute(queries.newest_runs()).mappings())
    found = [row for row in every if wanted in (str(row["id"]), row["name"])]
    if len(found) != 1:
        many = "several runs are" if found else "no run is"
        raise UsageError(f"{many} called '{wanted}': give a number that `evoflash runs` shows.")
    return rows.run_of(found[0])


def rename(database: Database, run: Run, name: str) -> None:
    """Give the run a name; an empty one takes it away. UsageError for a name that would not tell it apart."""
    if name.isdigit() or not name.isprintable() or len(name) > MOST_LETTERS or name != name.strip():
        raise UsageError(
            f"'{name}' is no name for a run: give at most {MOST_LETTERS} letters, and not a number alone."
        )

    def work(connection: sa.Connection) -> None:
        others = sa.select(_RUN.id).where(_RUN.id != run.id, _RUN.name == name)
        if name and connection.scalar(others.limit(1)) is not None:
            raise UsageError(f"another run is called '{name}' already: choose another name.")
        queries.update_run(connection, run, name=name)

    database.write(work)


def delete(database: Database, run: Run) -> int:
    """Take a run out, with its outcomes and the genomes that no other run has; how many outcomes it had.

    StoreError where another process works on it.
    """
    if not database.run_locks.take(run.id):
        raise StoreError(
            f"run {run.id} is going on in another process: wait for it to end, or stop it first."
        )

    def work(connection: sa.Connection) -> int:
        mine = sa.select(_EVAL.id).where(_EVAL.run_id == run.id).scalar_subquery()
        for table in _CHILDREN:
            connection.execute(sa.delete(table).where(table.c.evaluation_id.in_(mine)))
        gone = connection.execute(sa.delete(schema.evaluations).where(_EVAL.run_id == run.id)).rowcount
        for table in (schema.lineage, schema.exchanges, schema.profiles):
            connection.execute(sa.delete(table).where(table.c.run_id == run.id))
        connection.execute(sa.delete(schema.runs).where(_RUN.id == run.id))
        _forget_genomes(connection)
        return int(gone)

    return database.write(work)


def _forget_genomes(connection: sa.Connection) -> None:
    """Those that no run refers to."""
    users = (_LINE.genome_id, _EVAL.genome_id, _EVAL.duplicate_of)
    used = sa.union(*(sa.select(column).where(column.is_not(None)) for column in users))
    known = schema.genomes.c.id
    connection.execute(sa.delete(schema.genomes).where(known.not_in(sa.select(used.subquery().c[0]))))


def merge(database: Database, source: Database) -> tuple[int, int]:
    """Bring every run of `source` in; how many runs and how many outcomes were new.

    A run stays a run of its own, under the next free number of its search: two searches are two histories. A
    run that is here already (it began at the same second with the same command) gets the outcomes that it
    lacks, so that merging twice changes nothing.
    """
    with source.reading() as there:
        runs = list(there.execute(queries.newest_runs()).mappings())[::-1]
        held = {row["id"]: _StoredRun(there, row) for row in runs}

    def work(connection: sa.Connection) -> tuple[int, int]:
        counts = [_bring(connection, each) for each in held.values()]
        return sum(is_new for is_new, _ in counts), sum(outcomes for _, outcomes in counts)

    return database.write(work)


class _StoredRun:
    """A run of the other database with all that hangs on it."""

    def __init__(self, there: sa.Connection, row: Row) -> None:
        self.run = dict(row)
        with rows.reading("runs", row["id"]):
            rows.run_of(row)
        mine = _EVAL.run_id == row["id"]
        ordered = sa.select(schema.evaluations).where(mine).order_by(_EVAL.id)
        self.evaluations = _dicts(there.execute(ordered).mappings())
        lines = sa.select(schema.lineage).where(_LINE.run_id == row["id"]).order_by(_LINE.position)
        self.lineage = _dicts(there.execute(lines).mappings())
        said = sa.select(schema.exchanges).where(_SAID.run_id == row["id"]).order_by(_SAID.position)
        self.exchanges = _dicts(there.execute(said).mappings())
        mine = _PROFILE.run_id == row["id"]
        self.profiles = _dicts(there.execute(sa.select(schema.profiles).where(mine)).mappings())
        ids = [int(evaluation["id"]) for evaluation in self.evaluations]
        self.children = {table.name: queries.children(there, table, ids) for table in _CHILDREN}
        users = (*self.lineage, *self.evaluations)
        named = {row.get(name) for row in users for name in ("genome_id", "duplicate_of")} - {None}
        self.genomes = [
            dict(genome)
            for genome in there.execute(sa.select(schema.genomes)).mappings()
            if genome["id"] in named and rows.genome_of(genome["id"], genome)
        ]


def _dicts(found: Iterable[Row]) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in found]


def _bring(connection: sa.Connection, held: _StoredRun) -> tuple[bool, int]:
    """Whether the run is new here, and how many of its outcomes are."""
    number, is_new = _place(connection, held.run)
    for genome in held.genomes:
        if (
            connection.scalar(sa.select(schema.genomes.c.id).where(schema.genomes.c.id == genome["id"]))
            is None
        ):
            connection.execute(sa.insert(schema.genomes).values(**genome))
    known = set(connection.scalars(sa.select(_LINE.genome_id).where(_LINE.run_id == number)))
    missing = [line for line in held.lineage if line["genome_id"] not in known]
    for position, line in enumerate(missing, start=len(known)):
        connection.execute(
            sa.insert(schema.lineage).values(**{**line, "run_id": number, "position": position})
        )
    for key, rows_there in ((_SAID.position, held.exchanges), (_PROFILE.genome_id, held.profiles)):
        mine = set(connection.scalars(sa.select(key).where(key.table.c.run_id == number)))
        for row in rows_there:
            if row[key.name] not in mine:
                new = {name: value for name, value in row.items() if name != "id"} | {"run_id": number}
                queries.insert(connection, key.table, new)
    return is_new, sum(_bring_outcome(connection, held, number, row) for row in held.evaluations)


def _place(connection: sa.Connection, run: Row) -> tuple[int, bool]:
    """The number of the run here, and whether it had to be made."""
    same = [_RUN[name] == run[name] for name in _SAME]
    known = connection.scalar(sa.select(_RUN.id).where(*same))
    if known is not None:
        return int(known), False
    key = [_RUN[name] == run[name] for name in schema.RUN_KEY]
    last = connection.scalar(sa.select(sa.func.max(_RUN.number)).where(*key)) or 0
    new = {name: value for name, value in run.items() if name != "id"} | {"number": last + 1}
    return queries.insert(connection, schema.runs, new), True


def _bring_outcome(connection: sa.Connection, held: _StoredRun, number: int, row: dict[str, Any]) -> bool:
    """Whether the outcome was new."""
    names = ("genome_id", "name", "model_version")
    same = [_EVAL[name].is_not_distinct_from(row[name]) for name in names]
    if connection.scalar(sa.select(_EVAL.id).where(_EVAL.run_id == number, *same)) is not None:
        return False
    new = {name: value for name, value in row.items() if name != "id"} | {"run_id": number}
    added = queries.insert(connection, schema.evaluations, new)
    for table in _CHILDREN:
        for part in held.children[table.name].get(row["id"], []):
            child = {name: value for name, value in part.items() if name != "id"}
            connection.execute(sa.insert(table).values(**{**child, "evaluation_id": added}))
    return True
