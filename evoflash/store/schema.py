"""The tables, their revision and the leaderboard's query. Opens no database and runs no statement."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Table, UniqueConstraint

from evoflash.evaluation import RunKey
from evoflash.paths import DB, shipped_folder

HEAD = "0008"  # the newest revision in db/versions
VERSION_TABLE = "evoflash_version"
RUN_KEY = tuple(each.name for each in fields(RunKey))  # columns of runs

metadata = sa.MetaData()


def _text(name: str) -> Column[str]:
    return Column(name, sa.Text, nullable=False)


def _integer(name: str) -> Column[int]:
    return Column(name, sa.Integer, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, sa.Boolean, nullable=False)


def _maybe(name: str) -> Column[float]:
    # SQLite stores a NaN as NULL, so a number that can be NaN must be nullable.
    return Column(name, sa.Double)


def _genome(name: str, *, key: bool = False) -> Column[str]:
    return Column(name, sa.String(16), ForeignKey("genomes.id"), primary_key=key)


def _child(name: str, *columns: Column[Any]) -> Table:
    """Rows of one evaluation, in the order of `position`."""
    return Table(
        name,
        metadata,
        Column("id", sa.Integer, primary_key=True),
        Column("evaluation_id", sa.Integer, ForeignKey("evaluations.id"), nullable=False),
        _integer("position"),
        *columns,
        UniqueConstraint("evaluation_id", "position", name=f"uq_{name}_position"),
    )


genomes = Table(
    "genomes",
    metadata,
    Column("id", sa.String(16), primary_key=True),
    *(_text("family"), _integer("version"), _text("values_json"), _text("created")),
    Column("edits_json", sa.Text, nullable=False, server_default="[]"),  # of its rendered text
)
runs = Table(
    "runs",
    metadata,
    Column("id", sa.Integer, primary_key=True),
    *(_text("problem"), _text("gpu"), _text("gpu_hash"), _text("basis"), _text("strategy")),
    Column("seed", sa.BigInteger, nullable=False),
    *(_integer("number"), _integer("budget")),
    _maybe("reported_flops"),  # geometric mean over the workloads; NULL when the problem is no attention
    *(_text("argv_json"), _text("environment_json"), _text("evoflash_version"), _text("created")),
    *(_maybe("gpu_s"), _maybe("cpu_s")),  # what its commands took together; NULL where nobody noted it
    *(_text("preset"), _text("population"), _flag("from_archive"), _flag("without_transfer")),
    *(_integer("most_seeds"), _text("family"), _text("name"), _text("archive_json")),
    *(_text("learns_from_json"), _text("learns_from_shipped_json"), Column("ahead", sa.Integer)),
    *(_text("machines"), _text("objectives"), _text("final_pairs_json")),
    *(Column(name, sa.Text, nullable=False, server_default="") for name in ("ended", "ends", "llm")),
    Column("llm_trials", sa.Integer, nullable=False, server_default="0"),
    UniqueConstraint(*RUN_KEY, "number", name="uq_runs_key"),
)
lineage = Table(
    "lineage",
    metadata,
    Column("run_id", sa.Integer, ForeignKey("runs.id"), primary_key=True),
    _genome("genome_id", key=True),
    *(_integer("position"), _text("operator"), _text("parents_json")),
    UniqueConstraint("run_id", "position", name="uq_lineage_position"),
)
exchanges = Table(  # with a language model, in the order of `position`
    "exchanges",
    metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("run_id", sa.Integer, ForeignKey("runs.id"), nullable=False),
    *(_integer("position"), _text("model"), _integer("asked_at"), _integer("taken_at"), _text("status")),
    *(_text("request_json"), _text("shown_json"), _text("answer"), _text("edits_json"), _text("created")),
    *(Column(name, sa.Double, nullable=False) for name in ("seconds", "waited_s")),
    UniqueConstraint("run_id", "position", name="uq_exchanges_position"),
)
profiles = Table(  # a kernel's hardware counters, the newest of each run
    "profiles",
    metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("run_id", sa.Integer, ForeignKey("runs.id"), nullable=False),
    Column("genome_id", sa.String(16), ForeignKey("genomes.id"), nullable=False),
    *(_text("profile_json"), _text("evoflash_version"), _text("created")),
    UniqueConstraint("run_id", "genome_id", name="uq_profiles_genome"),
)
evaluations = Table(
    "evaluations",
    metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("run_id", sa.Integer, ForeignKey("runs.id"), nullable=False),
    _text("kind"),  # "candidate" (has a genome) or "baseline" (has a name)
    _genome("genome_id"),
    Column("name", sa.Text),
    _genome("duplicate_of"),  # set: the outcome is that of this genome, and the row counts for nothing
    *(_text("status"), _text("rung"), _text("reason")),
    *(_maybe("score_us"), _maybe("p10_us"), _maybe("p90_us"), _text("protocol"), _integer("n")),
    *(_flag("censored"), _text("bound"), _text("model_version"), _text("evoflash_version")),
    *(_text("environment_json"), _text("created"), _maybe("energy_mj")),
    UniqueConstraint("run_id", "genome_id", "model_version", name="uq_evaluations_genome"),
    UniqueConstraint("run_id", "name", name="uq_evaluations_baseline"),
    sa.Index("ix_evaluations_genome_id", "genome_id"),
)
builds = _child(
    "builds",
    *(_text("arch"), _text("source_sha"), _text("cubin_key"), _text("text_sha"), _flag("ok")),
    *(_integer("registers"), _integer("spill_bytes"), _integer("stack_bytes")),
    *(_integer("smem_static_bytes"), Column("compile_s", sa.Double, nullable=False)),
    *(_text("warnings_json"), _text("log"), _text("cubin_path")),
    # Its fields without arch; {} for builds from before 0004 of operations that had no columns then.
    _text("compile_key_json"),
)
sa.Index("ix_builds_text_sha", builds.c.text_sha)
verdicts = _child(
    "verdicts",
    *(_text("workload"), _flag("passed"), _maybe("rel_l2"), _maybe("max_over_rms")),
    *(_maybe("lse_error"), _maybe("honest_ratio"), _text("reason")),
)
timings = _child(
    "timings",
    *(_text("workload"), _text("protocol"), _maybe("median_us"), _maybe("p10_us"), _maybe("p90_us")),
    *(_integer("n"), _flag("censored"), Column("sm_clock_mhz", sa.Integer)),
    *(_text("throttle"), _text("terms_json"), _maybe("energy_mj")),
)


def of_versions(versions: Mapping[str, int]) -> str:
    """A condition for leaderboard_sql: no kernel of these families that is older than these versions, unless
    a recording holds it.
    """
    older = (f"(g.family = '{family}' AND g.version < {version})" for family, version in versions.items())
    return f"(g.id IS NULL OR r.basis = 'replayed' OR NOT ({' OR '.join(older) or '1 = 0'}))"


_RANKED = "NOT e.censored"  # the query's last condition on what is ranked


def leaderboard_sql(*conditions: str) -> str:
    """The one leaderboard query, without its semicolon.

    Where there are `conditions`, SQL on e (evaluations), r (runs) and g (genomes), it is as if the database
    had nothing but the evaluations that meet them all.
    """
    query = (shipped_folder(DB) / "leaderboard.sql").read_text().strip().removesuffix(";")
    return query.replace(_RANKED, " AND ".join((_RANKED, *conditions)))
