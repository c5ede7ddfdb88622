"""Hardware counters of kernels get a table; there were none before."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One table more, which is empty."""
    op.create_table(
        "profiles",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("genome_id", sa.String(16), sa.ForeignKey("genomes.id"), nullable=False),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("profile_json", "evoflash_version", "created")
        ),
        sa.UniqueConstraint("run_id", "genome_id", name="uq_profiles_genome"),
    )


def downgrade() -> None:
    """The counters are lost."""
    op.drop_table("profiles")
