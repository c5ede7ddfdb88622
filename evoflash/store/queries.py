"""The store's statements on one evaluation and what hangs on it; begins and commits no transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from evoflash.evaluation import Evaluation, Proposal, Run, RunKey, Timing
from evoflash.space import Genome
from evoflash.store import rows, schema
from evoflash.store.rows import Row

_EVAL, _RUN, _LINE = schema.evaluations.c, schema.runs.c, schema.lineage.c


def newest_runs(key: RunKey | None = None) -> sa.Select[Any]:
    """Runs, of `key` or of any, newest first."""
    wanted = [] if key is None else [_RUN[name] == value for name, value in rows.columns(key).items()]
    return sa.select(schema.runs).where(*wanted).order_by(_RUN.id.desc())


def counted(run: Run) -> sa.Select[Any]:
    """Ids of the evaluations that count against the run's budget; a genome may have several."""
    is_counted = (_EVAL.kind == "candidate") & _EVAL.duplicate_of.is_(None)
    return sa.select(_EVAL.id).where(_EVAL.run_id == run.id, is_counted)


# ---- writing


def insert(connection: sa.Connection, table: sa.Table, row: Row) -> int:
    """The id that the database gave the row."""
    added = connection.execute(sa.insert(table).values(**row))
    return int(added.inserted_primary_key[0])  # type: ignore[index]  # every insert of one row has one


def add_genome(connection: sa.Connection, genome: Genome) -> None:
    if connection.scalar(sa.select(schema.genomes.c.id).where(schema.genomes.c.id == genome.id)) is None:
        connection.execute(sa.insert(schema.genomes).values(**rows.genome_row(genome)))


def add_lineage(connection: sa.Connection, run: Run, proposal: Proposal) -> None:
    mine = sa.select(_LINE.position).where(_LINE.run_id == run.id)
    if connection.scalar(mine.where(_LINE.genome_id == proposal.genome.id)) is not None:
        return
    last = connection.scalar(sa.select(sa.func.max(_LINE.position)).where(_LINE.run_id == run.id))
    row = rows.lineage_row(run, proposal, 0 if last is None else last + 1)
    connection.execute(sa.insert(schema.lineage).values(**row))


def add_evaluation(connection: sa.Connection, run: Run, evaluation: Evaluation) -> None:
    mine = (_EVAL.run_id == run.id) & (_EVAL.genome_id == evaluation.genome.id)
    same = sa.select(_EVAL.id).where(mine, _EVAL.model_version == evaluation.model_version)
    if connection.scalar(same) is not None:
        return
    added = insert(connection, schema.evaluations, rows.evaluation_row(run, evaluation))
    _insert_children(connection, schema.builds, added, map(rows.build_row, evaluation.builds))
    if not evaluation.duplicate_of:
        _insert_children(connection, schema.verdicts, added, map(rows.columns, evaluation.verdicts))
        _insert_children(connection, schema.timings, added, map(rows.timing_row, evaluation.timings))


def retime(connection: sa.Connection, evaluation_id: int, timed: Sequence[Timing], score_us: float) -> None:
    """`timed` join the stored timings or replace them (same workload, protocol); the score is `score_us`."""
    stored = children(connection, schema.timings, [evaluation_id]).get(evaluation_id, [])
    replaced = {(timing.workload, timing.protocol) for timing in timed}
    older = map(rows.timing_of, stored)
    kept = [timing for timing in older if (timing.workload, timing.protocol) not in replaced]
    merged = [*kept, *timed]
    connection.execute(sa.delete(schema.timings).where(schema.timings.c.evaluation_id == evaluation_id))
    _insert_children(connection, schema.timings, evaluation_id, map(rows.timing_row, merged))
    values = rows.score_row(score_us, merged)
    connection.execute(sa.update(schema.evaluations).where(_EVAL.id == evaluation_id).values(**values))


def _insert_children(
    connection: sa.Connection, table: sa.Table, evaluation_id: int, parts: Iterable[Row]
) -> None:
    numbered = [{"evaluation_id": evaluation_id, "position": i, **row} for i, row in enumerate(parts)]
    if numbered:
        connection.execute(sa.insert(table), numbered)


# ---- reading


def load(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[tuple[int, Evaluation]]:
    """Candidates' evaluations with the ids of their runs, oldest first."""
    joined = schema.evaluations.join(schema.runs).join(schema.genomes, schema.genomes.c.id == _EVAL.genome_id)
    beside = (_RUN.problem, _RUN.gpu, _RUN.basis, *(schema.genomes.c[name] for name in ("family", "version")))
    query = sa.select(schema.evaluations, *beside, schema.genomes.c.values_json).select_from(joined)
    heads = list(connection.execute(query.where(*conditions).order_by(_EVAL.id)).mappings())
    ids = [row["id"] for row in heads]
    parts = [children(connection, table, ids) for table in (schema.builds, schema.verdicts, schema.timings)]
    return [(row["run_id"], _evaluation(row, parts)) for row in heads]


def _evaluation(row: Row, parts: Sequence[Mapping[int, Sequence[Row]]]) -> Evaluation:
    with rows.reading("evaluations", row["id"]):
        return rows.evaluation_of(row, *(part.get(row["id"], []) for part in parts))


def children(connection: sa.Connection, table: sa.Table, ids: Sequence[int]) -> dict[int, list[Row]]:
    """The rows of `table` that hang on the evaluations `ids`, by evaluation, in order."""
    found: dict[int, list[Row]] = {}
    for start in range(0, len(ids), 500):  # databases limit the parameters of one statement
        mine = table.c.evaluation_id.in_(ids[start : start + 500])
        ordered = sa.select(table).where(mine).order_by(table.c.evaluation_id, table.c.position)
        for row in connection.execute(ordered).mappings():
            found.setdefault(row["evaluation_id"], []).append(dict(row))
    return found
