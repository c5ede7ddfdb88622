"""The store of runs, evaluations, baselines and lineage, the one truth from which a search resumes.

Evaluations that arrive together are one transaction. Times are stored, speed-ups are not; sources and cubins
stay in the cache.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from types import MappingProxyType
from typing import Any, Self

import sqlalchemy as sa

from evoflash.errors import StoreError
from evoflash.evaluation import (
    FINAL,
    Baseline,
    Basis,
    Evaluation,
    Proposal,
    Run,
    Rung,
    RunKey,
    RunStart,
    Status,
    Timing,
    was_timed_again,
)
from evoflash.space import Genome
from evoflash.store import rows, schema
from evoflash.store.database import Database, open_database
from evoflash.store.integrity import refuse_misfits
from evoflash.store.rows import Row
from evoflash.store.schema import leaderboard_sql, of_versions

_EVAL, _RUN, _LINE = schema.evaluations.c, schema.runs.c, schema.lineage.c


def newest_runs(key: RunKey | None = None) -> sa.Select[Any]:
    """Runs, of `key` or of any, newest first."""
    wanted = [] if key is None else [_RUN[name] == value for name, value in rows.columns(key).items()]
    return sa.select(schema.runs).where(*wanted).order_by(_RUN.id.desc())


def budget_ids(run: Run) -> sa.Select[Any]:
    """Ids of the evaluations that count against the run's budget; a genome may have several."""
    is_counted = (_EVAL.kind == "candidate") & _EVAL.duplicate_of.is_(None)
    return sa.select(_EVAL.id).where(_EVAL.run_id == run.id, is_counted)


# ---- writing


def insert(connection: sa.Connection, table: sa.Table, row: Row) -> int:
    """The id that the database gave the row."""
    added = connection.execute(sa.insert(table), dict(row))
    return int(added.inserted_primary_key[0])  # type: ignore[index]  # every insert of one row has one


def update_run(connection: sa.Connection, run: Run, **values: object) -> None:
    connection.execute(sa.update(schema.runs).where(_RUN.id == run.id).values(**values))


def add_genomes(connection: sa.Connection, genomes: Mapping[str, Genome]) -> None:
    ids = schema.genomes.c.id
    known = set(connection.scalars(sa.select(ids).where(ids.in_(genomes))))
    new = [rows.genome_row(genome) for name, genome in genomes.items() if name not in known]
    _insert_all(connection, schema.genomes, new)


def add_lineage(connection: sa.Connection, run: Run, proposals: Mapping[str, Proposal]) -> None:
    mine = _LINE.run_id == run.id
    asked = sa.select(_LINE.genome_id).where(mine, _LINE.genome_id.in_(proposals))
    known = set(connection.scalars(asked))
    last = connection.scalar(sa.select(sa.func.max(_LINE.position)).where(mine))
    new = [proposals[each] for each in proposals if each not in known]
    numbered = enumerate(new, start=0 if last is None else last + 1)
    _insert_all(connection, schema.lineage, [rows.lineage_row(run, each, at) for at, each in numbered])


def add_evaluations(connection: sa.Connection, run: Run, evaluations: Mapping[str, Evaluation]) -> None:
    mine = (_EVAL.run_id == run.id) & _EVAL.genome_id.in_(evaluations)
    stored = sa.select(_EVAL.genome_id, _EVAL.model_version).where(mine)
    known = set(map(tuple, connection.execute(stored)))
    new = [each for name, each in evaluations.items() if (name, each.model_version) not in known]
    added = [(insert(connection, schema.evaluations, rows.evaluation_row(run, each)), each) for each in new]
    own = [(at, each) for at, each in added if not each.duplicate_of]
    _insert_children(connection, schema.builds, {at: map(rows.build_row, each.builds) for at, each in added})
    _insert_children(connection, schema.verdicts, {at: map(rows.columns, each.verdicts) for at, each in own})
    _insert_children(connection, schema.timings, {at: map(rows.timing_row, each.timings) for at, each in own})


def retime(connection: sa.Connection, evaluation_id: int, timed: Sequence[Timing], score_us: float) -> None:
    """`timed` join the stored timings or replace them (same workload, protocol); the score is `score_us`."""
    stored = children(connection, schema.timings, [evaluation_id]).get(evaluation_id, [])
    replaced = {(timing.workload, timing.protocol) for timing in timed}
    older = map(rows.timing_of, stored)
    kept = [timing for timing in older if (timing.workload, timing.protocol) not in replaced]
    merged = [*kept, *timed]
    connection.execute(sa.delete(schema.timings).where(schema.timings.c.evaluation_id == evaluation_id))
    _insert_children(connection, schema.timings, {evaluation_id: map(rows.timing_row, merged)})
    values = rows.score_row(score_us, merged)
    connection.execute(sa.update(schema.evaluations).where(_EVAL.id == evaluation_id).values(**values))


def _insert_children(connection: sa.Connection, table: sa.Table, parts: Mapping[int, Iterable[Row]]) -> None:
    numbered = (
        {"evaluation_id": evaluation, "position": at, **row}
        for evaluation, mine in parts.items()
        for at, row in enumerate(mine)
    )
    _insert_all(connection, table, [*numbered])


def _insert_all(connection: sa.Connection, table: sa.Table, new: Sequence[Row]) -> None:
    if new:
        connection.execute(sa.insert(table), new)


# ---- reading

_OF_GENOME = ("family", "version", "values_json", "edits_json")


def load(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[tuple[int, Evaluation]]:
    """Candidates' evaluations with the ids of their runs, oldest first."""
    joined = schema.evaluations.join(schema.runs).join(schema.genomes, schema.genomes.c.id == _EVAL.genome_id)
    beside = (_RUN.problem, _RUN.gpu, _RUN.basis, *(schema.genomes.c[name] for name in _OF_GENOME))
    query = sa.select(schema.evaluations, *beside).select_from(joined)
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


_TRUST = (Basis.MEASURED, Basis.ESTIMATED, Basis.REPLAYED)


@dataclass(frozen=True, slots=True)
class ProblemSummary:
    """What the store holds on one problem, GPU and basis; duplicates and baselines are not counted."""

    problem: str
    gpu: str
    basis: Basis
    runs: int
    evaluated: int
    correct: int


def open_store(target: str, *, read_only: bool = False) -> "Store":
    """Open a path or SQLAlchemy URL; a writer creates a missing one. StoreError says what to do."""
    database = open_database(target, read_only=read_only)
    try:
        refuse_misfits(database)
    except BaseException:
        database.close()
        raise
    return Store(database)


class Store:
    """An open database. Several processes may write to it; every failure is a StoreError of one line."""

    def __init__(self, database: Database) -> None:
        """Take over `database`, which stays readable there; open_store is the way to get one."""
        self.database = database

    def __enter__(self) -> Self:
        """Close the database at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections and the locks on runs back; a store can be closed twice."""
        self.database.close()

    def begin(
        self,
        key: RunKey,
        *,
        gpu_hash: str,
        budget: int,
        argv: Sequence[str],
        environment: Mapping[str, str],
        start: RunStart | None = None,
        fresh: bool = False,
    ) -> Run:
        """The latest run of `key`, its budget raised to `budget`; a new one if none exists or `fresh` asks.

        A changed description of the GPU (`gpu_hash`) starts a new run too: its results are not comparable.
        The run is this process's until the store is closed; StoreError when it is another's.
        """
        row = rows.run_row(
            key,
            gpu_hash=gpu_hash,
            budget=budget,
            argv=argv,
            environment=environment,
            start=start or RunStart(),
        )

        def work(connection: sa.Connection) -> Run:
            last = connection.execute(newest_runs(key).limit(1)).mappings().first()
            if last is None or fresh or last["gpu_hash"] != gpu_hash:
                new = {**row, "number": 1 if last is None else last["number"] + 1}
                return self._lock_run({**new, "id": insert(connection, schema.runs, new)})
            run = self._lock_run(last)
            raised = max(budget, last["budget"])
            connection.execute(sa.update(schema.runs).where(_RUN.id == last["id"]).values(budget=raised))
            return replace(run, budget=raised)

        return self.database.write(work)

    def _lock_run(self, row: Row) -> Run:
        run = rows.run_of(row)
        if not self.database.run_locks.take(run.id):
            raise StoreError(
                f"run {run.id} is being continued by another process: wait for it to end, or give this "
                "search a --seed of its own."
            )
        return run

    def add(self, run: Run, evaluation: Evaluation, proposal: Proposal) -> None:
        """As add_all(), of one."""
        self.add_all(run, [(proposal, evaluation)])

    def add_all(self, run: Run, outcomes: Sequence[tuple[Proposal, Evaluation]]) -> None:
        """Store what became of proposals, all or none; adding one to the same run again changes nothing.

        A duplicate keeps its genome, builds and lineage; it is no evaluation that counts. An estimate by
        another model version stands beside the older one, and is the one that `history` returns.
        """
        for proposal, evaluation in outcomes:
            _check_belongs(run, evaluation, proposal)
        proposals = {proposal.genome.id: proposal for proposal, _ in outcomes}
        evaluations = {evaluation.genome.id: evaluation for _, evaluation in outcomes}

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.select(_RUN.id).where(_RUN.id == run.id).with_for_update())
            add_genomes(connection, {each: proposal.genome for each, proposal in proposals.items()})
            add_lineage(connection, run, proposals)
            add_evaluations(connection, run, evaluations)

        self.database.write(work)

    def add_baseline(self, run: Run, baseline: Baseline) -> None:
        """Store a library's times; timing it again replaces its versions, its score and timings of the same
        protocol.
        """

        def work(connection: sa.Connection) -> None:
            is_known = (_EVAL.run_id == run.id) & (_EVAL.name == baseline.name)
            known = connection.scalar(sa.select(_EVAL.id).where(is_known))
            row = rows.baseline_row(run, baseline)
            if known is None:
                known = insert(connection, schema.evaluations, row)
            else:  # a library may have been upgraded since
                connection.execute(sa.update(schema.evaluations).where(_EVAL.id == known).values(**row))
            retime(connection, known, baseline.timings, baseline.score_us)

        self.database.write(work)

    def update_timings(self, run: Run, genome_id: str, timings: Sequence[Timing], score_us: float) -> None:
        """A finalist was timed again: `timings` join or replace the older ones (same workload, protocol).

        The score becomes `score_us`, the re-timed one. StoreError if the run has not evaluated the genome.
        """
        self.database.write(
            lambda connection: retime(
                connection, _evaluation_of(connection, run, genome_id), timings, score_us
            )
        )

    def reject(
        self, run: Run, genome_id: str, *, rung: Rung, reason: str, status: Status = Status.CORRECTNESS
    ) -> None:
        """A finalist turned out wrong: it keeps its timings, and ranks nowhere any more."""

        def work(connection: sa.Connection) -> None:
            wrong = {
                "status": status.value,
                "rung": rung.value,
                "reason": reason,
                "score_us": None,
            }
            at = _EVAL.id == _evaluation_of(connection, run, genome_id)
            connection.execute(sa.update(schema.evaluations).where(at).values(**wrong))

        self.database.write(work)

    def history(self, run: Run) -> list[tuple[Proposal, Evaluation]]:
        """Everything the run proposed, in order; a duplicate has its own builds, and its original's end."""
        with self.database.reading() as connection:
            ordered = sa.select(schema.lineage).where(_LINE.run_id == run.id).order_by(_LINE.position)
            proposed = list(connection.execute(ordered).mappings())
            stored = {e.genome.id: e for _, e in load(connection, _EVAL.run_id == run.id)}
            return [rows.outcome_of(row, stored) for row in proposed]

    def proposal_count(self, run: Run) -> int:
        """How long history() is."""
        chosen = sa.select(sa.func.count()).select_from(schema.lineage).where(_LINE.run_id == run.id)
        with self.database.reading() as connection:
            return connection.scalar(chosen) or 0

    def newest_history(self) -> list[tuple[Proposal, Evaluation]]:
        """The history of the run that was begun last, of baselines and replays aside; empty without one."""
        runs = (run for run in self.runs() if run.key.basis is not Basis.REPLAYED)
        searches = (run for run in runs if run.key.strategy != "baselines")
        newest = next(searches, None)
        return self.history(newest) if newest else []

    def keep_objectives(self, run: Run, objectives: str) -> None:
        """What was asked for last is kept with the run."""
        self.database.write(lambda connection: update_run(connection, run, objectives=objectives))

    def note_limits(self, run: Run, *, ended: str, ends: str = "") -> None:
        """What ended the run's newest search, empty while it goes on, and when its time limit ends."""
        self.database.write(lambda connection: update_run(connection, run, ended=ended, ends=ends))

    def keep_final_pairs(self, run: Run, pairs: Sequence[Mapping[str, Any]]) -> None:
        """How the run's winner compared is kept with the run, in place of what was kept before."""
        text = json.dumps(list(pairs), separators=(",", ":"))
        self.database.write(lambda connection: update_run(connection, run, final_pairs_json=text))

    def spent_budget(self, run: Run) -> int:
        """Evaluations that count against the budget: distinct genomes without duplicates."""
        chosen = budget_ids(run).with_only_columns(sa.func.count(_EVAL.genome_id.distinct()))
        with self.database.reading() as connection:
            return connection.scalar(chosen) or 0

    def find(self, genome_id_prefix: str, run: Run | None = None) -> list[Evaluation]:
        """Evaluations of the genomes whose id starts so, in any run or one: measured first, newest first."""
        wanted = [_EVAL.genome_id.startswith(genome_id_prefix.lower(), autoescape=True)]
        wanted += [] if run is None else [_EVAL.run_id == run.id]
        with self.database.reading() as connection:
            found = load(connection, *wanted)[::-1]
            originals = {
                run_id: load(connection, _EVAL.run_id == run_id) for run_id, e in found if e.duplicate_of
            }
        outcomes = {run_id: {e.genome.id: e for _, e in stored} for run_id, stored in originals.items()}
        resolved = [rows.with_outcome(e, outcomes.get(run_id, {})) for run_id, e in found]
        return sorted(resolved, key=lambda e: _TRUST.index(e.basis))

    def families(self) -> tuple[str, ...]:
        with self.database.reading() as connection:
            return tuple(connection.scalars(sa.select(schema.genomes.c.family).distinct()))

    def best(
        self,
        problem: str | None,
        gpu: str | None,
        *,
        basis: Basis | None = None,
        versions: Mapping[str, int] = MappingProxyType({}),
    ) -> Evaluation | None:
        """The kernel to use: measured before estimated, timed again before not, then fastest.

        Without `problem` or `gpu`: those of the newest evaluation that is left. Censored rows never win, nor
        do replayed ones, unless `basis` asks for them, nor kernels of a family that are older than its
        version in `versions`.
        """
        found = self._candidates(versions, problem=problem, gpu=gpu, basis=basis and basis.value)
        ranked = [row for row in found if basis or row["basis"] != Basis.REPLAYED.value]
        if not ranked:
            return None
        newest = max(ranked, key=lambda row: row["evaluation"])
        group = [row for row in ranked if (row["problem"], row["gpu"]) == (newest["problem"], newest["gpu"])]
        return self._evaluation(min(group, key=_preference)["evaluation"])

    def best_of(self, run: Run) -> Evaluation | None:
        """The run's own best, by the same rule as `best`."""
        return best_in(self.history(run))

    def estimates(
        self,
        problem: str | None,
        gpu: str | None,
        top: int,
        versions: Mapping[str, int] = MappingProxyType({}),
    ) -> list[Evaluation]:
        """The `top` fastest estimates of each problem and GPU, fastest first: what `remeasure` takes. As for
        `best`, none that is older than `versions`.
        """
        ranked = self._candidates(versions, problem=problem, gpu=gpu, basis=Basis.ESTIMATED.value)
        groups = groupby(ranked, key=lambda row: (row["problem"], row["gpu"]))
        return [self._evaluation(row["evaluation"]) for _, group in groups for row in islice(group, top)]

    def problems(self) -> list[ProblemSummary]:
        """What the store holds, by problem, GPU and basis."""
        groups = (_RUN.problem, _RUN.gpu, _RUN.basis)
        counts = sa.and_(_EVAL.kind == "candidate", _EVAL.duplicate_of.is_(None))
        correct = sa.case((_EVAL.status == Status.CORRECT.value, _EVAL.genome_id))
        joined = schema.runs.outerjoin(schema.evaluations, (_EVAL.run_id == _RUN.id) & counts)
        query = sa.select(
            *groups,
            *(sa.func.count(column.distinct()) for column in (_RUN.id, _EVAL.genome_id, correct)),
        )
        with self.database.reading() as connection:
            found = connection.execute(query.select_from(joined).group_by(*groups).order_by(*groups)).all()
        return [
            ProblemSummary(problem, gpu, Basis(basis), *counted) for problem, gpu, basis, *counted in found
        ]

    def runs(self) -> list[Run]:
        """Every run, newest first."""
        with self.database.reading() as connection:
            return [rows.run_of(row) for row in connection.execute(newest_runs()).mappings()]

    def runs_with_outcomes(self) -> set[int]:
        """Ids of the runs that evaluated at least one candidate."""
        chosen = sa.select(_EVAL.run_id).where(_EVAL.kind == "candidate").distinct()
        with self.database.reading() as connection:
            return set(connection.scalars(chosen))

    def baselines(self, run: Run) -> list[Baseline]:
        """The library kernels timed in the run, fastest first."""
        chosen = (_EVAL.run_id == run.id) & (_EVAL.kind == "baseline")
        with self.database.reading() as connection:
            ordered = sa.select(schema.evaluations).where(chosen).order_by(_EVAL.score_us)
            heads = list(connection.execute(ordered).mappings())
            timed = children(connection, schema.timings, [row["id"] for row in heads])
            return [rows.baseline_of(run, row, timed.get(row["id"], [])) for row in heads]

    def query(self, sql: str, parameters: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Column names and rows of a SELECT with :named parameters; for reports, it changes nothing."""
        with self.database.reading() as connection:
            result = connection.execute(sa.text(sql), dict(parameters))
            return tuple(result.keys()), [tuple(row) for row in result]

    def _candidates(self, versions: Mapping[str, int], **where: str | None) -> list[Row]:
        given = {name: value for name, value in where.items() if value is not None}
        conditions = " AND ".join(["kind = 'candidate'", *(f"{name} = :{name}" for name in given)])
        query = f"SELECT * FROM ({leaderboard_sql(of_versions(versions))}) AS board WHERE {conditions}"
        columns, ranked = self.query(f"{query} ORDER BY problem, gpu, basis, rank, evaluation", given)
        return [dict(zip(columns, row, strict=True)) for row in ranked]

    def _evaluation(self, evaluation_id: int) -> Evaluation:
        with self.database.reading() as connection:
            found = load(connection, _EVAL.id == evaluation_id)
            if not found:
                raise rows.DamagedRowError(
                    f"row {evaluation_id} of its table evaluations is damaged (its genome or run is missing)"
                )
            return found[0][1]


def _preference(row: Row) -> tuple[int, bool, float]:
    # A value that was timed again counts more than a faster one that was not (winner's curse).
    return _TRUST.index(Basis(row["basis"])), row["protocol"] not in FINAL, row["score_us"]


def best_in(history: Sequence[tuple[Proposal, Evaluation]]) -> Evaluation | None:
    """The best of one run's history, as `Store.best_of` has it."""
    own = [e for _, e in history if e.is_correct and e.score_us and not e.duplicate_of]
    return min((e for e in own if not e.is_censored), key=_own_preference, default=None)


def _own_preference(evaluation: Evaluation) -> tuple[bool, float]:
    return not was_timed_again(evaluation), evaluation.score_us or math.inf


def _check_belongs(run: Run, evaluation: Evaluation, proposal: Proposal) -> None:
    """ValueError: the caller mixed up runs, or the outcome of one genome with the proposal of another."""
    there, here = (
        (run.key.problem, run.key.gpu, run.key.basis),
        (evaluation.problem, evaluation.gpu, evaluation.basis),
    )
    if there != here:
        raise ValueError(f"an evaluation of {here} does not belong to run {run.id}, which is about {there}")
    if proposal.genome != evaluation.genome:
        raise ValueError(f"{proposal.genome} was proposed, {evaluation.genome} was evaluated")


def _evaluation_of(connection: sa.Connection, run: Run, genome_id: str) -> int:
    of_genome = budget_ids(run).where(_EVAL.genome_id == genome_id)
    known = connection.scalar(of_genome.order_by(_EVAL.id.desc()).limit(1))
    if known is None:
        raise StoreError(f"run {run.id} has no evaluation of {genome_id}: evaluate it before timing it.")
    return int(known)
