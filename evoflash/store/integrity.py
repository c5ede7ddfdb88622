"""Finds what is wrong with a database. It reads and lists; it mends nothing.

It asks SQLite's own checks, and looks for keys that lead nowhere, and ids and texts that do not fit.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from evoflash.evaluation import Basis, Rung, Status
from evoflash.store import rows, schema
from evoflash.store.database import Database
from evoflash.store.schema import HEAD, VERSION_TABLE, metadata

_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("runs", "basis"): tuple(Basis),
    ("evaluations", "status"): tuple(Status),
    ("evaluations", "rung"): tuple(Rung),
    ("evaluations", "kind"): ("candidate", "baseline"),
}


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong: where, and what."""

    table: str  # empty: the file as a whole
    row: str  # its key, in words
    what: str


@dataclass(frozen=True, slots=True)
class Health:
    """A database's rows, by table (-1: the table is missing), and what is wrong with it."""

    revision: str
    rows: dict[str, int]
    findings: tuple[Defect, ...]

    def as_dict(self) -> dict[str, Any]:
        """Revision, rows by table (None: the table is missing), every finding."""
        counts = {table: None if rows < 0 else rows for table, rows in self.rows.items()}
        found = [asdict(finding) for finding in self.findings]
        return {"revision": self.revision, "rows": counts, "findings": found}


def check_database(database: Database) -> Health:
    with database.reading() as connection:
        tables = sa.inspect(connection).get_table_names()
        known = [table for table in metadata.sorted_tables if table.name in tables]
        found = [*_of_the_file(connection, tables), *_keys(connection, known), *_texts(connection, known)]
        found += _misfits(connection, known)
        if len(known) == len(metadata.sorted_tables):
            found += [*_genomes(connection), *_outcomes(connection)]
        counts = {table.name: _count(connection, table, tables) for table in metadata.sorted_tables}
        return Health(", ".join(_revisions(connection, tables)), counts, tuple(found))


def _count(connection: sa.Connection, table: sa.Table, tables: list[str]) -> int:
    if table.name not in tables:
        return -1
    return int(connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)


def _revisions(connection: sa.Connection, tables: list[str]) -> list[str]:
    if VERSION_TABLE not in tables:
        return []
    return [str(row[0]) for row in connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}")]


def _of_the_file(connection: sa.Connection, tables: list[str]) -> Iterator[Defect]:
    revisions = _revisions(connection, tables)
    if revisions != [HEAD]:
        yield Defect(VERSION_TABLE, "", f"the revision is {revisions or 'missing'}, not {HEAD}")
    for table in metadata.sorted_tables:
        if table.name not in tables:
            yield Defect(table.name, "", "the table is missing")
    if connection.dialect.name == "sqlite":
        said = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
        yield from (Defect("", "", line) for line in said if line != "ok")


def _keys(connection: sa.Connection, known: list[sa.Table]) -> Iterator[Defect]:
    """Rows that refer to a row that is not there."""
    names = {table.name for table in known}
    for table in known:
        for key in table.foreign_keys:
            there = key.column.table
            if there.name not in names:
                continue
            other = there.alias()
            missing = (other.c[key.column.name].is_(None)) & key.parent.is_not(None)
            joined = table.outerjoin(other, other.c[key.column.name] == key.parent)
            for row in connection.execute(sa.select(table).select_from(joined).where(missing)).mappings():
                what = f"{key.parent.name} is {row[key.parent.name]!r}, which {there.name} does not have"
                yield Defect(table.name, _key(table, row), what)


def _texts(connection: sa.Connection, known: list[sa.Table]) -> Iterator[Defect]:
    """Columns whose text is not what evoflash writes there."""
    for table in known:
        looks = {column.name: _look(table.name, column.name) for column in table.columns}
        for row in connection.execute(sa.select(table)).mappings():
            for name, look in looks.items():
                if look is not None and (what := look(row[name])):
                    yield Defect(table.name, _key(table, row), f"{name} {what}")


def refuse_misfits(database: Database) -> None:
    """StoreError for a row with a value that its column cannot hold, before anybody counts with it."""
    with database.reading() as connection:
        for wrong in _misfits(connection, metadata.sorted_tables):
            where = f"row {wrong.row} of its table {wrong.table}"
            raise rows.DamagedRowError(f"{where} is damaged ({wrong.what})")


def _misfits(connection: sa.Connection, known: Sequence[sa.Table]) -> Iterator[Defect]:
    """Values that are not of their column's kind, which SQLite keeps, and times that are none."""
    if connection.dialect.name != "sqlite":
        return
    for table in known:
        # As text: every command asks this, and SQLAlchemy takes 0.1 s to write it.
        keys = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
        cases = " ".join(f"WHEN {_misfit(column)} THEN '{column.name}'" for column in table.columns)
        chosen = f'SELECT {keys}, CASE {cases} END AS wrong FROM "{table.name}" WHERE wrong IS NOT NULL'
        for row in connection.exec_driver_sql(chosen).mappings():
            found = next(column for column in table.columns if column.name == row["wrong"])
            kind = "time" if found.name == "score_us" else _kind(found)
            yield Defect(table.name, _key(table, row), f"{found.name} is no {kind}")


def _misfit(column: sa.Column[Any]) -> str:
    """What holds in SQLite of a value that the column cannot have."""
    name = f'"{column.name}"'
    kinds = {"text": "'text'", "number": "'integer', 'real'"}.get(_kind(column), "'integer'")
    is_other = f"typeof({name}) NOT IN ({kinds}) AND {name} IS NOT NULL"
    return is_other if column.name != "score_us" else f"{is_other} OR {name} <= 0 OR {name} > 1e300"


def _kind(column: sa.Column[Any]) -> str:
    if isinstance(column.type, sa.String):
        return "text"
    return "number" if isinstance(column.type, sa.Double) else "whole number"


def _look(table: str, column: str) -> Callable[[Any], str] | None:
    if column.endswith("_json"):
        return _json_fault
    words = _WORDS.get((table, column))
    if words is None:
        return None
    return lambda value: "" if value in words else f"is {value!r}, none of {', '.join(words)}"


def _json_fault(text: Any) -> str:
    try:
        json.loads(text)
    except (ValueError, TypeError) as error:
        return f"is no JSON ({error})"
    return ""


def _genomes(connection: sa.Connection) -> Iterator[Defect]:
    """Genomes whose id is not that of their values, and those that nothing refers to."""
    users = (schema.lineage.c.genome_id, schema.evaluations.c.genome_id, schema.evaluations.c.duplicate_of)
    used = {row[0] for column in users for row in connection.execute(sa.select(column).distinct())}
    for row in connection.execute(sa.select(schema.genomes)).mappings():
        try:
            rows.genome_of(row["id"], row)
        except rows.DamagedRowError as error:
            yield Defect("genomes", repr(row["id"]), str(error).partition("(")[2].removesuffix(")"))
        if row["id"] not in used:
            yield Defect("genomes", repr(row["id"]), "no run refers to it")


def _outcomes(connection: sa.Connection) -> Iterator[Defect]:
    """Proposals without an outcome in their run, and outcomes that no run proposed."""
    line, outcome = schema.lineage.c, schema.evaluations.c
    pairs = sa.and_(outcome.run_id == line.run_id, outcome.genome_id == line.genome_id)
    lost = sa.select(line.run_id, line.genome_id).outerjoin(schema.evaluations, pairs)
    for run, genome in connection.execute(lost.where(outcome.id.is_(None))):
        yield Defect("lineage", f"({run}, {genome!r})", "the run has no evaluation of this genome")
    stray = sa.select(outcome.id).outerjoin(schema.lineage, pairs)
    stray = stray.where(line.run_id.is_(None), outcome.kind == "candidate")
    for (number,) in connection.execute(stray):
        yield Defect("evaluations", str(number), "its run never proposed its genome")


def _key(table: sa.Table, row: Any) -> str:
    values = [row[column.name] for column in table.primary_key.columns]
    return repr(values[0]) if len(values) == 1 else repr(tuple(values))
