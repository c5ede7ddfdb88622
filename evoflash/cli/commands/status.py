"""`evoflash status` and `evoflash watch` show how far a running search has come. They change nothing."""

from typing import TYPE_CHECKING, Annotated

import typer

from evoflash.cli.options import Db, Json, PricePerHour, interrupt_in_words
from evoflash.views.terminal import stdout_console, tell

if TYPE_CHECKING:
    from evoflash.store.database import Database
    from evoflash.store.standing import RunStatus


def status(*, price_per_hour: PricePerHour = None, db: Db, as_json: Json = False) -> None:
    """What is being searched now.

    What is being searched now in this database, by any process; where nothing is, the newest run.

    Example: evoflash status
    """
    from evoflash.app.words import parse_price
    from evoflash.views import runs as report
    from evoflash.views.runs import as_json as as_json_text

    price = parse_price(price_per_hour)
    database = _open_read_only(db)
    found = _runs_to_show(database)
    gpus = [report.gpus_of(database, each) for each in found]
    told = (report.lines(each, price, fast) for each, fast in zip(found, gpus, strict=True))
    text = "\n".join(line for lines in told for line in lines)
    tell(as_json_text(found, price, gpus) if as_json else text, whole=as_json)


def watch(
    *,
    db: Db,
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds from one look to the next.")] = 1.0,
) -> None:
    """Show `evoflash status` again and again.

    The same as `evoflash status`, drawn again until the searches end. Ctrl-C ends the watching alone.

    Example: evoflash watch
    """
    from evoflash.views import runs as report

    database = _open_read_only(db)
    with interrupt_in_words("the search goes on"):
        report.watch(database, _runs_to_show(database), stdout_console(), every_s=every)


def _open_read_only(db: str) -> "Database":
    from evoflash.store.database import open_database

    return open_database(db, read_only=True)


def _runs_to_show(database: "Database") -> "list[RunStatus]":
    from evoflash.errors import NoKernelError
    from evoflash.views import runs as report

    found = report.active_runs(database)
    if not found:
        raise NoKernelError("nothing was searched in this database yet: run `evoflash search`.")
    return found
