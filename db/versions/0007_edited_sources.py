"""A genome may have edits of the text that is rendered of it, as a language model proposes them."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Genomes that are there have none."""
    op.add_column("genomes", sa.Column("edits_json", sa.Text, nullable=False, server_default="[]"))


def downgrade() -> None:
    """There is none: keep a copy of the older database."""
    raise NotImplementedError("a database of revision 0007 is not taken back: use the copy from before.")
