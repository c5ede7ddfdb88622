"""`evoflash status` and `evoflash watch` show how far a running search has come. They change nothing."""

from typing import Annotated

import typer

from evoflash.cli.shared_options import Db, Json, PricePerHour, interrupt_in_words
from evoflash.views.terminal import json_text, stdout_console, tell


def status(*, price_per_hour: PricePerHour = None, db: Db, as_json: Json = False) -> None:
    """What is being searched now.

    What is being searched now in this database, by any process; where nothing is, the newest run.

    Example: evoflash status
    """
    from evoflash.app.runs import current_runs
    from evoflash.views.runs import describe_runs

    found = current_runs(db, price_per_hour)
    tell(json_text(found.as_dict()) if as_json else describe_runs(found), whole=as_json)


def watch(
    *,
    db: Db,
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds from one look to the next.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Show `evoflash status` again and again.

    The same as `evoflash status`, drawn again until the searches end; with --json
    printed once, at their end. Ctrl-C ends the watching alone.

    Example: evoflash watch
    """
    from evoflash.app.runs import current_runs, follow
    from evoflash.views import runs as view

    with interrupt_in_words("the search goes on"):
        if as_json:
            *_, _ = follow(db, every_s=every)
            tell(json_text(current_runs(db).as_dict()), whole=True)
            return
        view.watch(follow(db, every_s=every), stdout_console())
