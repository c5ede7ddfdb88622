"""What was noted of a run gets columns, its strategy's name is taken apart, and a compile key is one column.

Before, notes were keys of the environment, what sets a search apart was appended to the strategy's name, and
the columns of a build were those of attention's keys.
"""

import json
import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_KEY = ("problem", "gpu", "basis", "strategy", "seed")
_KEY_PARTS = ("preset", "population", "from_archive", "without_transfer", "most_seeds", "family")
_LISTS = ("archive_json", "learns_from_json", "learns_from_shipped_json", "final_pairs_json")
_OF_ATTENTION = ("head_dim", "dtype", "causal", "gqa_ratio", "accumulate")
# evolution:full:islands, surrogate+archive-transfer/flash_mma, evolution-seeds=3
_NAME = re.compile(
    r"(?P<strategy>[^:+/]+?)(:(?P<preset>[^:+/]+?))?(:(?P<population>[^:+/]+?))?(?P<from_archive>\+archive)?"
    r"(?P<without_transfer>(?:(?<=^surrogate)|(?<=^surrogate\+archive))-transfer)?"
    r"(-seeds=(?P<most_seeds>\d+))?(/(?P<family>.+))?"
)
_EMPTY = ("preset", "population", "family", "name", "machines", "objectives")  # texts; empty without one
_runs = sa.table(
    "runs",
    sa.column("id", sa.Integer),
    *map(sa.column, ("strategy", "environment_json", *_EMPTY, *_LISTS)),
    *(sa.column("ahead", sa.Integer), sa.column("most_seeds", sa.Integer)),
    *(sa.column("from_archive", sa.Boolean), sa.column("without_transfer", sa.Boolean)),
)
_builds = sa.table(
    "builds",
    *(sa.column("compile_key_json"), sa.column("dtype"), sa.column("accumulate")),
    *(sa.column("head_dim", sa.Integer), sa.column("causal", sa.Boolean), sa.column("gqa_ratio", sa.Integer)),
)
# Problems of other operations begin with the operation's name; their builds had no columns for their keys.
_IS_ATTENTION = sa.text(
    "evaluation_id IN (SELECT e.id FROM evaluations AS e JOIN runs AS r ON r.id = e.run_id "
    "WHERE r.problem NOT LIKE '%:%')"
)


def upgrade() -> None:
    """Everything that is stored moves; nothing is computed anew, so that a search finds its run again."""
    _add_columns()
    _replace_run_key()  # first: two names that are one without what was appended are two runs of one number
    connection = op.get_bind()
    for row in connection.execute(sa.select(_runs.c.id, _runs.c.strategy, _runs.c.environment_json)).all():
        values = _parts(row.strategy) | _notes(row.environment_json)
        connection.execute(sa.update(_runs).where(_runs.c.id == row.id).values(**values))
    keys = sa.select(*(_builds.c[name] for name in _OF_ATTENTION)).where(_IS_ATTENTION).distinct()
    for row in connection.execute(keys).mappings().all():
        same = [_builds.c[name] == value for name, value in row.items()]
        text = json.dumps(dict(row), separators=(",", ":"))
        connection.execute(sa.update(_builds).where(_IS_ATTENTION, *same).values(compile_key_json=text))
    with op.batch_alter_table("builds") as table:
        for name in _OF_ATTENTION:
            table.drop_column(name)


def downgrade() -> None:
    """There is none: keep a copy of the older database."""
    raise NotImplementedError("a database of revision 0004 is not taken back: use the copy from before.")


def _add_columns() -> None:
    texts = {**dict.fromkeys(_EMPTY, ""), **dict.fromkeys(_LISTS, "[]")}
    with op.batch_alter_table("runs") as table:
        for name, empty in texts.items():
            table.add_column(sa.Column(name, sa.Text, nullable=False, server_default=empty))
        for name in ("from_archive", "without_transfer"):
            table.add_column(sa.Column(name, sa.Boolean, nullable=False, server_default="0"))
        table.add_column(sa.Column("most_seeds", sa.Integer, nullable=False, server_default="-1"))
        table.add_column(sa.Column("ahead", sa.Integer))
    with op.batch_alter_table("builds") as table:
        table.add_column(sa.Column("compile_key_json", sa.Text, nullable=False, server_default="{}"))


def _parts(name: str) -> dict[str, Any]:
    """The strategy's name and what was appended to it."""
    found = _NAME.fullmatch(name)
    if found is None:
        return {"strategy": name}
    parts = {key: text or "" for key, text in found.groupdict().items()}
    flags = {key: bool(parts[key]) for key in ("from_archive", "without_transfer")}
    return parts | flags | {"most_seeds": int(parts["most_seeds"] or -1)}


def _notes(environment_json: str) -> dict[str, Any]:
    """What was noted in the environment, by column; nothing where it is damaged, which `db check` says."""
    try:
        noted = json.loads(environment_json)
        ahead = noted.pop("ahead", None)
        return {
            "archive_json": json.dumps(noted.pop("archive", "").split(), separators=(",", ":")),
            "ahead": None if ahead is None else int(ahead),
            "objectives": noted.pop("objective", ""),
            **{name: noted.pop(name, "") for name in ("name", "machines")},
            **{name: noted.pop(name.removesuffix("_json"), "[]") for name in _LISTS[1:]},
            "environment_json": json.dumps(noted, separators=(",", ":")),
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def _replace_run_key() -> None:
    """SQLite makes the table anew for this, which other tables refer to and people's own views may read."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for name in ("defer_foreign_keys", "legacy_alter_table") if is_sqlite else ():
        op.execute(f"PRAGMA {name} = ON")
    with op.batch_alter_table("runs") as table:
        table.drop_constraint("uq_runs_key")
        table.create_unique_constraint("uq_runs_key", [*_KEY, *_KEY_PARTS, "number"])
    for name in ("defer_foreign_keys", "legacy_alter_table") if is_sqlite else ():
        op.execute(f"PRAGMA {name} = OFF")  # forgets the references that were open between the two tables
