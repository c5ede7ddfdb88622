"""`evoflash leaderboard` shows databases' correct kernels, fastest first. app/leaderboard.py reads them."""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import Dbs, Force, Json, PricePerHour, Replayed, RunOption
from evoflash.settings import MOST
from evoflash.views.terminal import json_text, stdout_console


def leaderboard(
    *,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="A known GPU (see `evoflash gpus`); default: all of them.")
    ] = None,
    problem: Annotated[str | None, typer.Option("--problem", help="Default: all of them.")] = None,
    top: Annotated[int, typer.Option(min=1, max=MOST, help="Rows per table.")] = 20,
    family: Annotated[
        str | None, typer.Option(help="Only kernels of this family; the libraries stay beside them.")
    ] = None,
    run: RunOption = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only what was evaluated since, as 2026-11-23T14:30, in UTC."),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="Show the Pareto front of these instead, as latency,registers: latency, error, registers, "
            "spills, shared-memory, energy."
        ),
    ] = None,
    price_per_hour: PricePerHour = None,
    wide: Annotated[bool, typer.Option("--wide", help="All columns, however narrow the terminal.")] = False,
    replayed: Replayed = False,
    db: Dbs,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page that needs no other file.")
    ] = None,
    force: Force = False,
) -> None:
    """Correct kernels, fastest first.

    Measured and estimated ones in tables of their own.

    --family, --run and --since leave out what they do not name before it is ranked. --json also says what
    the runs took. Several --db are ranked together; a row says which database it is from.

    Example: evoflash leaderboard --gpu l4 --problem mission
    """
    from evoflash.app.catalogue import families
    from evoflash.app.leaderboard import ranked_kernels
    from evoflash.app.runs import parse_price
    from evoflash.views import leaderboard as view

    price = parse_price(price_per_hour)
    if family is not None:
        families(family)  # UsageError where there is none of that name
    table, took = ranked_kernels(
        db,
        problem=problem,
        gpu=gpu,
        family=family,
        run=run,
        since=since,
        objective=objective,
        replayed=replayed,
        top=top,
    )
    if html is not None:
        from evoflash.app.export import write_page
        from evoflash.views.html.leaderboard import page

        write_page(html, page(table))
    elif as_json:
        typer.echo(json_text(table.as_dict(took, price)))
    elif as_csv:
        typer.echo(view.as_csv(table), nl=False)
    else:
        view.print_table(table, stdout_console(), wide=wide)
