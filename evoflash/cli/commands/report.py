"""`evoflash report` writes a run as JSON or an HTML page. app/report/ reads it, views/html/ shows it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from evoflash.cli.commands.runs import closing_database
from evoflash.cli.options import Db, PricePerHour, Quiet
from evoflash.errors import UsageError
from evoflash.notices import say


def report(
    run: Annotated[
        str | None,
        typer.Argument(help="A run's number or name (see `evoflash runs`); default: the newest search."),
    ] = None,
    *,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The page; report.html where --json is not given.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what the page shows as JSON.")
    ] = None,
    retime: Annotated[
        bool, typer.Option("--retime", help="Time every hop of the winner's lineage again, on its GPU.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Run the winner in the emulator again, as `evoflash check` does.")
    ] = False,
    price_per_hour: PricePerHour = None,
    db: Db,
    quiet: Quiet = False,
) -> None:
    """Write a search as one HTML page.

    The page needs no other file and no network: verdict, progress, every candidate, gene effects, the
    winner's lineage, floors, rejections, libraries, source. Its numbers are those of --json.

    Example: evoflash report -o report.html
    """
    from evoflash.app.words import parse_price

    page = out or (None if json_file else Path("report.html"))
    if page is not None and json_file is not None and page.resolve() == json_file.resolve():
        raise UsageError(f"page and JSON would be one file, {page}: give them different names.")
    text = _as_json(db, run, is_retimed=retime, is_checked=check, price_per_hour=parse_price(price_per_hour))
    if json_file is not None:
        _write(json_file, text)
    if page is not None:
        from evoflash.views.html.report import html

        _write(page, html(json.loads(text)))


def _as_json(db: str, wanted: str | None, **asked: Any) -> str:
    """`asked` is what collect() takes."""
    from evoflash.app.report import collect, record
    from evoflash.store.store import Store

    with closing_database(db, read_only=True) as database:
        store = Store(database)
        found = collect.find_run(database, store, wanted)
        made = collect.collect(database, store, found, **asked)
    return record.as_json(made)


def _write(path: Path, text: str) -> None:
    from evoflash.exports.exported import write_text

    write_text(path, text)
    say(f"wrote {path} ({len(text.encode()) / 1024:.0f} KB)")
