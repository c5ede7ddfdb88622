"""The first tables: genomes, runs, lineage, evaluations, and what hangs on an evaluation."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """An empty database (or one that holds only other programs' tables) gets ours."""
    _create_genomes_and_runs()
    _create_lineage()
    _create_evaluations()
    _create_builds()
    _create_verdicts()
    _create_timings()


def downgrade() -> None:
    """Drop everything that evoflash stored."""
    for table in ("timings", "verdicts", "builds", "evaluations", "lineage", "runs", "genomes"):
        op.drop_table(table)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _integer(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _evaluation() -> list[sa.Column[int]]:
    return [
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("evaluation_id", sa.Integer, sa.ForeignKey("evaluations.id"), nullable=False),
        _integer("position"),
    ]


def _create_genomes_and_runs() -> None:
    op.create_table(
        "genomes",
        sa.Column("id", sa.String(16), primary_key=True),
        _text("family"),
        _integer("version"),
        _text("values_json"),
        _text("created"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True),
        _text("problem"),
        _text("gpu"),
        _text("gpu_hash"),
        _text("basis"),
        _text("strategy"),
        sa.Column("seed", sa.BigInteger, nullable=False),
        _integer("number"),
        _integer("budget"),
        sa.Column("reported_flops", sa.Double),
        _text("argv_json"),
        _text("environment_json"),
        _text("evoflash_version"),
        _text("created"),
        sa.UniqueConstraint("problem", "gpu", "basis", "strategy", "seed", "number", name="uq_runs_key"),
    )


def _create_lineage() -> None:
    op.create_table(
        "lineage",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("genome_id", sa.String(16), sa.ForeignKey("genomes.id"), primary_key=True),
        _integer("position"),
        _text("operator"),
        _text("parents_json"),
        sa.UniqueConstraint("run_id", "position", name="uq_lineage_position"),
    )


def _create_evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        _text("kind"),
        sa.Column("genome_id", sa.String(16), sa.ForeignKey("genomes.id")),
        sa.Column("name", sa.Text),
        sa.Column("duplicate_of", sa.String(16), sa.ForeignKey("genomes.id")),
        _text("status"),
        _text("rung"),
        _text("reason"),
        sa.Column("score_us", sa.Double),
        sa.Column("p10_us", sa.Double),
        sa.Column("p90_us", sa.Double),
        _text("protocol"),
        _integer("n"),
        sa.Column("censored", sa.Boolean, nullable=False),
        _text("bound"),
        _text("model_version"),
        _text("evoflash_version"),
        _text("environment_json"),
        _text("created"),
        sa.UniqueConstraint("run_id", "genome_id", "model_version", name="uq_evaluations_genome"),
        sa.UniqueConstraint("run_id", "name", name="uq_evaluations_baseline"),
    )
    op.create_index("ix_evaluations_genome_id", "evaluations", ["genome_id"])


def _create_builds() -> None:
    op.create_table(
        "builds",
        *_evaluation(),
        _integer("head_dim"),
        _text("dtype"),
        sa.Column("causal", sa.Boolean, nullable=False),
        _integer("gqa_ratio"),
        _text("arch"),
        _text("source_sha"),
        _text("cubin_key"),
        _text("text_sha"),
        sa.Column("ok", sa.Boolean, nullable=False),
        _integer("registers"),
        _integer("spill_bytes"),
        _integer("stack_bytes"),
        _integer("smem_static_bytes"),
        sa.Column("compile_s", sa.Double, nullable=False),
        _text("warnings_json"),
        _text("log"),
        _text("cubin_path"),
        sa.UniqueConstraint("evaluation_id", "position", name="uq_builds_position"),
    )
    op.create_index("ix_builds_text_sha", "builds", ["text_sha"])


def _create_verdicts() -> None:
    op.create_table(
        "verdicts",
        *_evaluation(),
        _text("workload"),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("rel_l2", sa.Double),
        sa.Column("max_over_rms", sa.Double),
        sa.Column("lse_error", sa.Double),
        sa.Column("honest_ratio", sa.Double),
        _text("reason"),
        sa.UniqueConstraint("evaluation_id", "position", name="uq_verdicts_position"),
    )


def _create_timings() -> None:
    op.create_table(
        "timings",
        *_evaluation(),
        _text("workload"),
        _text("protocol"),
        sa.Column("median_us", sa.Double),
        sa.Column("p10_us", sa.Double),
        sa.Column("p90_us", sa.Double),
        _integer("n"),
        sa.Column("censored", sa.Boolean, nullable=False),
        sa.Column("sm_clock_mhz", sa.Integer),
        _text("throttle"),
        _text("terms_json"),
        sa.UniqueConstraint("evaluation_id", "position", name="uq_timings_position"),
    )
