"""Turns records into rows of the database and back. Runs no statement.

A `*_row` makes the columns that its record fills, a `*_of` the record that a stored row stands for.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from evoflash.errors import UsageError, without_passwords
from evoflash.evaluation import (
    MODEL,
    SCORED,
    Baseline,
    Basis,
    Build,
    EarlierRun,
    Evaluation,
    Proposal,
    Run,
    Rung,
    RunKey,
    RunStart,
    Status,
    Timing,
    Verdict,
)
from evoflash.hardware_counters import KernelProfile
from evoflash.model_exchange import Exchange, JudgedEdit
from evoflash.problem import operation_in, parse_problem
from evoflash.space import Genome
from evoflash.version import __version__
from evoflash.workload import CompileKey

Row = Mapping[Any, Any]  # by column name
_NUMBERS = ("_us", "_l2", "_rms", "_error", "_ratio")  # ends of the names of columns that may hold a NaN


class DamagedRowError(ValueError):
    """A row holds what evoflash never stored: somebody else wrote it, or the disk did."""


@contextmanager
def reading(table: str, key: object) -> Iterator[None]:
    """What goes wrong inside, with the name of the row that is to blame."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        if isinstance(error, DamagedRowError):
            raise
        said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise DamagedRowError(f"row {key} of its table {table} is damaged ({said})") from error


# ---- values


def columns(record: Any, *without: str) -> dict[str, Any]:
    """The record's fields as columns of the same names."""
    return {f.name: _plain(getattr(record, f.name)) for f in fields(record) if f.name not in without}


def _plain(value: Any) -> Any:
    """What a database driver takes: no NumPy scalars, no enums, no text that is not UTF-8."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return str(value).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return value


def _json(value: Any) -> str:
    return json.dumps(value, default=_plain, separators=(",", ":"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _mean(values: Iterable[float | None]) -> float | None:
    """The geometric mean; None unless every value is known, positive and finite."""
    given = list(values)
    known = [value for value in given if value is not None and 0 < value < math.inf]
    if not known or len(known) < len(given):
        return None
    # One value is itself: through exp and log its last digits would change.
    return known[0] if len(known) == 1 else math.exp(math.fsum(map(math.log, known)) / len(known))


# ---- records into rows


def run_row(
    key: RunKey,
    *,
    gpu_hash: str,
    budget: int,
    argv: Sequence[str],
    environment: Mapping[str, str],
    start: RunStart,
) -> dict[str, Any]:
    return columns(key) | {
        **dict.fromkeys(("name", "objectives", "ended", "ends"), ""),
        "llm_trials": start.llm_trials,
        "final_pairs_json": "[]",
        **{name: _plain(getattr(start, name)) for name in ("ahead", "machines")},
        **{f"{name}_json": _json(getattr(start, name)) for name in ("archive", "learns_from_shipped")},
        "learns_from_json": _json([astuple(each) for each in start.learns_from]),
        "gpu_hash": gpu_hash,
        "budget": budget,
        "reported_flops": _reported_flops(key.problem),
        "argv_json": _json([without_passwords(word) for word in argv]),  # a team reads this database
        **_stamp(environment),
    }


def _reported_flops(problem: str) -> float | None:
    try:
        return _mean(workload.reported_flops for workload in parse_problem(problem).workloads)
    except UsageError:
        return None  # a recorded space of some other computation


def _stamp(environment: Mapping[str, str]) -> dict[str, Any]:
    versions = {"evoflash_version": __version__, "environment_json": _json(dict(environment))}
    return {"created": _now(), **versions}


def genome_row(genome: Genome) -> dict[str, Any]:
    row = {"id": genome.id, "family": genome.family, "version": genome.version, "created": _now()}
    return row | {"values_json": _json(genome.as_dict()), "edits_json": _json(genome.edits)}


def lineage_row(run: Run, proposal: Proposal, position: int) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "genome_id": proposal.genome.id,
        "position": position,
        "operator": _plain(proposal.operator),
        "parents_json": _json(list(proposal.parents)),
    }


def evaluation_row(run: Run, evaluation: Evaluation) -> dict[str, Any]:
    # The times of a duplicate are kept once, with the kernel that it repeats: they must not be ranked twice.
    is_own = not evaluation.duplicate_of
    names = ("status", "rung", "reason", "bound", "model_version")
    return {
        "run_id": run.id,
        "kind": "candidate",
        "genome_id": evaluation.genome.id,
        "duplicate_of": evaluation.duplicate_of or None,
        **{name: _plain(getattr(evaluation, name)) for name in names},
        **score_row(evaluation.score_us if is_own else None, evaluation.timings if is_own else ()),
        **_stamp(evaluation.environment),
    }


def baseline_row(run: Run, baseline: Baseline) -> dict[str, Any]:
    """A baseline that has no times yet: they are added like those of any evaluation."""
    return {
        "run_id": run.id,
        "kind": "baseline",
        "name": _plain(baseline.name),
        "status": Status.CORRECT.value,
        "rung": Rung.DONE.value,
        **{name: "" for name in ("reason", "bound", "model_version")},
        **score_row(None, ()),
        **_stamp(baseline.environment),
    }


def score_row(score_us: float | None, timed: Sequence[Timing]) -> dict[str, Any]:
    """A score and what the leaderboard shows beside it: geometric means of the protocol it stands for."""
    protocols = [timing.protocol for timing in timed]
    protocol = next((name for name in SCORED if name in protocols), protocols[0] if protocols else "")
    scored = [timing for timing in timed if timing.protocol == protocol]
    return {
        "score_us": _plain(score_us),
        "protocol": protocol,
        "p10_us": _mean(timing.p10_us for timing in scored),
        "p90_us": _mean(timing.p90_us for timing in scored),
        "n": min((int(timing.n) for timing in scored), default=0),
        "energy_mj": _mean(timing.energy_mj or 0.0 for timing in scored),
        "censored": any(timing.censored for timing in timed),
    }


def build_row(build: Build) -> dict[str, Any]:
    key = columns(build.compile_key)
    row = columns(build, "genome_id", "compile_key", "warnings") | {"arch": key.pop("arch")}
    return row | {"compile_key_json": _json(key), "warnings_json": _json(build.warnings)}


def exchange_row(run: Run, exchange: Exchange, position: int) -> dict[str, Any]:
    parts = {name: getattr(exchange, name) for name in ("request", "shown")}
    parts["edits"] = [asdict(edit) for edit in exchange.edits]
    row = columns(exchange, *parts) | {f"{name}_json": _json(part) for name, part in parts.items()}
    return row | {"run_id": run.id, "position": position, "created": _now()}


def profile_row(run: int, genome_id: str, profile: KernelProfile) -> dict[str, Any]:
    of_kernel = {"run_id": run, "genome_id": genome_id, "profile_json": _json(profile.as_dict())}
    return of_kernel | {"evoflash_version": __version__, "created": _now()}


def timing_row(timing: Timing) -> dict[str, Any]:
    return columns(timing, "terms") | {"terms_json": _json(dict(timing.terms))}


# ---- rows into records


def _record(kind: type, row: Row, **given: Any) -> Any:
    """A record from the columns that are called like its fields."""
    names = [f.name for f in fields(kind) if f.name not in given]
    return kind(**{name: row[name] for name in names}, **given)


def run_of(row: Row) -> Run:
    with reading("runs", row["id"]):
        key: RunKey = _record(RunKey, row, basis=Basis(row["basis"]))
        run: Run = _record(
            Run,
            row,
            key=key,
            start=_record(
                RunStart,
                row,
                learns_from=tuple(EarlierRun(*each) for each in json.loads(row["learns_from_json"])),
                **{name: _tuple(row, name) for name in ("archive", "learns_from_shipped")},
            ),
            **{name: _tuple(row, name) for name in ("final_pairs", "argv")},
            environment=json.loads(row["environment_json"]),
        )
    return run


def _tuple(row: Row, name: str) -> tuple[Any, ...]:
    return tuple(json.loads(row[f"{name}_json"]))


def proposal_of(row: Row, genome: Genome) -> Proposal:
    return Proposal(genome, row["operator"], tuple(json.loads(row["parents_json"])))


def outcome_of(row: Row, stored: Mapping[str, Evaluation]) -> tuple[Proposal, Evaluation]:
    """A row of the lineage as a proposal, with its outcome among those `stored` of the run."""
    with reading("lineage", f"({row['run_id']}, '{row['genome_id']}')"):
        if row["genome_id"] not in stored:
            raise ValueError("its run has no evaluation of this genome")
        evaluation = with_outcome(stored[row["genome_id"]], stored)
        return proposal_of(row, evaluation.genome), evaluation


def exchange_of(row: Row) -> Exchange:
    with reading("exchanges", row["id"]):
        exchange: Exchange = _record(
            Exchange,
            row,
            request=json.loads(row["request_json"]),
            shown=_tuple(row, "shown"),
            edits=tuple(JudgedEdit(**edit) for edit in _tuple(row, "edits")),
        )
    return exchange


def profile_of(row: Row) -> KernelProfile:
    with reading("profiles", row["id"]):
        return KernelProfile.of_dict(json.loads(row["profile_json"]))


def baseline_of(run: Run, row: Row, timed: Iterable[Row]) -> Baseline:
    with reading("evaluations", row["id"]):
        times, environment = tuple(map(timing_of, timed)), json.loads(row["environment_json"])
    return Baseline(row["name"], run.key.problem, run.key.gpu, times, row["score_us"], environment)


def evaluation_of(row: Row, built: Iterable[Row], judged: Iterable[Row], timed: Iterable[Row]) -> Evaluation:
    """The evaluation as it was stored; a duplicate has no outcome of its own, see with_outcome."""
    evaluation: Evaluation = _record(
        Evaluation,
        row,
        genome=genome_of(row["genome_id"], row),
        basis=Basis(row["basis"]),
        status=Status(row["status"]),
        rung=Rung(row["rung"]),
        builds=tuple(_build_of(row, part) for part in built),
        verdicts=tuple(_record(Verdict, _with_nan(part)) for part in judged),
        timings=tuple(map(timing_of, timed)),
        duplicate_of=row["duplicate_of"] or "",
        environment=json.loads(row["environment_json"]),
    )
    return evaluation


def genome_of(genome_id: str, row: Row) -> Genome:
    """The genome of a row with its family, version and values; they must be those that the id was made of."""
    with reading("genomes", f"'{genome_id}'"):
        values = tuple(json.loads(row["values_json"]).items())  # in the stored order: ids depend on it
        edits = tuple((before, after) for before, after in json.loads(row["edits_json"]))
        genome = Genome(row["family"], row["version"], values, edits)
        if genome.id != genome_id:
            raise ValueError(f"its values are those of the genome {genome.id}")
    return genome


def with_outcome(evaluation: Evaluation, stored: Mapping[str, Evaluation]) -> Evaluation:
    """A duplicate with the outcome of the kernel that it repeats, one of `stored`; any other as it is."""
    original = stored.get(evaluation.duplicate_of)
    if original is None:
        return evaluation
    own = {name: getattr(evaluation, name) for name in ("genome", "builds", "duplicate_of", "environment")}
    return replace(original, **own)


def _build_of(evaluation: Row, row: Row) -> Build:
    key = _compile_key(evaluation["problem"], row["arch"], row["position"], row["compile_key_json"])
    warnings = tuple(json.loads(row["warnings_json"]))
    build: Build = _record(Build, row, genome_id=evaluation["genome_id"], compile_key=key, warnings=warnings)
    return build


@lru_cache(maxsize=64)  # asked for with every build, and which operations there are is read from files
def _compile_key(problem: str, arch: str, position: int, text: str) -> CompileKey:
    """From its fields, or, where these were not kept, from the run's problem."""
    key: CompileKey
    if known := json.loads(text):
        key = operation_in(problem).compile_key(arch=arch, **known)
    else:
        key = parse_problem(problem).compile_keys(arch)[position]
    return key


def timing_of(row: Row) -> Timing:
    whole = {**_with_nan(row), **{name: row[name] for name in ("p10_us", "p90_us")}}
    if row["protocol"] == MODEL or row["n"] < 2:  # an older evoflash stored the one number there is thrice
        whole |= {"p10_us": None, "p90_us": None, "n": 0 if row["protocol"] == MODEL else row["n"]}
    timing: Timing = _record(Timing, whole, terms=json.loads(row["terms_json"]))
    return timing


def _with_nan(row: Row) -> Row:
    # SQLite keeps a NaN as NULL. A search has thousands of these rows, and few of them have one.
    missing = [name for name, value in row.items() if value is None and name.endswith(_NUMBERS)]
    return {**row, **dict.fromkeys(missing, math.nan)} if missing else row
