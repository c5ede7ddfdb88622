"""`evoflash db check` says whether a database is whole. app/runs.py asks; nothing is mended."""

import typer

from evoflash.cli.options import Db, Json
from evoflash.views.terminal import json_text, tell


def group() -> typer.Typer:
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
    from evoflash.app.runs import check_rows
    from evoflash.views.runs import describe_health

    label, health = check_rows(db)
    tell(json_text(health.as_dict()) if as_json else describe_health(label, health), whole=as_json)
    if health.findings:
        raise typer.Exit(1)
