"""`evoflash db check` says whether a database is whole. store/integrity.py looks; nothing is mended."""

import typer

from evoflash.cli.options import Db, Json
from evoflash.views.terminal import tell


def group() -> typer.Typer:
    """`evoflash db` with its commands."""
    app = typer.Typer(name="db", help="Look after the database.", no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_about)
    app.command()(check)
    return app


def _about() -> None:
    """Look after the database."""


def check(*, db: Db, as_json: Json = False) -> None:
    """Say whether every row is whole.

    SQLite's own checks, keys, ids of genomes, texts. Exit code 1 where something is wrong. It changes
    nothing. What is damaged is best replaced by a copy; a damaged run can be taken out with `evoflash runs
    delete`.

    Example: evoflash db check --db evoflash.db
    """
    from evoflash.store.database import open_database
    from evoflash.store.integrity import check_database
    from evoflash.views import database as report

    database = open_database(db, read_only=True)
    try:
        health = check_database(database)
    finally:
        database.close()
    tell(report.as_json(health) if as_json else report.as_text(health, database.label), whole=as_json)
    if health.findings:
        raise typer.Exit(1)
