"""What scores may be summed in is part of a compile key; every build so far summed them in fp32."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One column more."""
    with op.batch_alter_table("builds") as table:
        table.add_column(sa.Column("accumulate", sa.Text, nullable=False, server_default="fp32"))


def downgrade() -> None:
    """Builds of the fp16 class become indistinguishable from the others."""
    with op.batch_alter_table("builds") as table:
        table.drop_column("accumulate")
