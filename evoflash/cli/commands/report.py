"""`evoflash report` writes a run as JSON or an HTML page. app/report/ reads it, views/html/ shows it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import Db, Force, PricePerHour, Quiet, RunOption, WhichRun, one_run
from evoflash.errors import UsageError
from evoflash.views.terminal import json_text

_STDOUT = Path("-")


def report(
    run: WhichRun = None,
    *,
    run_option: RunOption = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The page; report.html where --json is not given.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write what the page shows as JSON; without FILE on stdout."
        ),
    ] = None,
    retime: Annotated[
        bool, typer.Option("--retime", help="Time every hop of the winner's lineage again, on its GPU.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Run the winner in the emulator again, as `evoflash check` does.")
    ] = False,
    force: Force = False,
    price_per_hour: PricePerHour = None,
    db: Db,
    quiet: Quiet = False,
) -> None:
    """Write a search as one HTML page.

    The page needs no other file and no network: verdict, progress, every candidate, gene effects, the
    winner's lineage, floors, rejections, libraries, source. Its numbers are those of --json.

    Example: evoflash report -o report.html
    """
    from evoflash.app.export import write_page
    from evoflash.app.report.collect import report as report_on
    from evoflash.app.runs import parse_price

    page = out or (None if json_file else Path("report.html"))
    if page is not None and json_file is not None and page.resolve() == json_file.resolve():
        raise UsageError(f"page and JSON would be one file, {page}: give them different names.")
    price = parse_price(price_per_hour)
    found = report_on(
        db, one_run(run, run_option), is_retimed=retime, is_checked=check, price_per_hour=price
    ).as_dict()
    text = json_text(found, indent=1)
    if json_file == _STDOUT:
        typer.echo(text)
    elif json_file is not None:
        write_page(json_file, text, says_size=True)
    if page is not None:
        from evoflash.views.html.report import html

        write_page(page, html(json.loads(text)), says_size=True)
