"""How a run's newest command ended, and when its time limit ends; nobody noted either before."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COLUMNS = ("ended", "ends")


def upgrade() -> None:
    """Two columns more, empty in the rows that are there."""
    with op.batch_alter_table("runs") as table:
        for name in _COLUMNS:
            table.add_column(sa.Column(name, sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    """How runs ended is lost."""
    with op.batch_alter_table("runs") as table:
        for name in _COLUMNS:
            table.drop_column(name)
