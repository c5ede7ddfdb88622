"""What was asked of a language model and what it answered gets a table, and a run's key the model's name."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_KEY = ("problem", "gpu", "basis", "strategy", "seed", "preset", "population", "from_archive")
_KEY_PARTS = ("without_transfer", "most_seeds", "family")
_TEXTS = ("model", "status", "request_json", "shown_json", "answer", "edits_json", "created")


def upgrade() -> None:
    """Runs that are there had no model."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    # SQLite makes the table anew, which other tables refer to and people's own views may read.
    for name in ("defer_foreign_keys", "legacy_alter_table") if is_sqlite else ():
        op.execute(f"PRAGMA {name} = ON")
    with op.batch_alter_table("runs") as table:
        table.add_column(sa.Column("llm", sa.Text, nullable=False, server_default=""))
        table.add_column(sa.Column("llm_trials", sa.Integer, nullable=False, server_default="0"))
        table.drop_constraint("uq_runs_key")
        table.create_unique_constraint("uq_runs_key", [*_KEY, *_KEY_PARTS, "llm", "number"])
    for name in ("defer_foreign_keys", "legacy_alter_table") if is_sqlite else ():
        op.execute(f"PRAGMA {name} = OFF")
    op.create_table(
        "exchanges",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("position", "asked_at", "taken_at")),
        *(sa.Column(name, sa.Text, nullable=False) for name in _TEXTS),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("seconds", "waited_s")),
        sa.UniqueConstraint("run_id", "position", name="uq_exchanges_position"),
    )


def downgrade() -> None:
    """There is none: keep a copy of the older database."""
    raise NotImplementedError("a database of revision 0006 is not taken back: use the copy from before.")
