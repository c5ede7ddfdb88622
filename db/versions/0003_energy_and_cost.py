"""What a call takes in energy, and what a run took of GPU and CPU; nobody noted either before."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_COLUMNS = {"timings": ("energy_mj",), "evaluations": ("energy_mj",), "runs": ("gpu_s", "cpu_s")}


def upgrade() -> None:
    """Four columns more, empty in the rows that are there."""
    for table_name, names in _COLUMNS.items():
        with op.batch_alter_table(table_name) as table:
            for name in names:
                table.add_column(sa.Column(name, sa.Double))


def downgrade() -> None:
    """The energies and the costs are lost."""
    for table_name, names in _COLUMNS.items():
        with op.batch_alter_table(table_name) as table:
            for name in names:
                table.drop_column(name)
