"""`evoflash leaderboard` shows databases' correct kernels, fastest first. app/leaderboard.py reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.commands.runs import closing_database
from evoflash.cli.options import Dbs, Gpu, Json, MaybeProblem, PricePerHour, Replayed
from evoflash.notices import say
from evoflash.settings import MOST
from evoflash.views.terminal import stdout_console


def leaderboard(
    *,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    top: Annotated[int, typer.Option(min=1, max=MOST, help="Rows per table.")] = 20,
    family: Annotated[
        str | None, typer.Option(help="Only kernels of this family; the libraries stay beside them.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Only this run: its number or its name, as `evoflash runs` shows.")
    ] = None,
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
) -> None:
    """Correct kernels, fastest first.

    Measured and estimated ones in tables of their own.

    --family, --run and --since leave out what they do not name before it is ranked. --json also says what
    the runs took. Several --db are ranked together; a row says which database it is from.

    Example: evoflash leaderboard --gpu l4 --problem mission
    """
    from evoflash.app import leaderboard as several
    from evoflash.app.leaderboard import Only, objectives_of, since_of
    from evoflash.app.words import parse_price
    from evoflash.evaluation import Basis
    from evoflash.kernels.family import load_family
    from evoflash.problem import canonical
    from evoflash.specs import canonical_gpu
    from evoflash.views import leaderboard as report

    objectives, price = objectives_of(objective), parse_price(price_per_hour)
    if family is not None:
        load_family(family)
    only = Only(family, None if run is None else _run_id(db, run), None if since is None else since_of(since))
    wanted, where = Basis.REPLAYED if replayed else None, canonical_gpu(gpu)
    table, took = several.leaderboard(
        db,
        objectives=() if objective is None else objectives,
        problem=canonical(problem),
        gpu=where,
        basis=wanted,
        only=only,
        top=top,
    )
    if html is not None:
        from evoflash.exports.exported import write_text
        from evoflash.views.html.leaderboard import page

        write_text(html, page(table))
        say(f"wrote {html}")
    elif as_json or as_csv:
        typer.echo(report.as_json(table, took, price) if as_json else report.as_csv(table), nl=as_json)
    else:
        report.print_table(table, stdout_console(), wide=wide)


def _run_id(databases: Sequence[str], wanted: str) -> int:
    from evoflash.store import run_edits

    with closing_database(databases[0], read_only=True) as database:
        return run_edits.find(database, wanted).id
