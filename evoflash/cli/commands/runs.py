"""`evoflash runs` lists, renames, merges and deletes the searches of a database.

It parses, asks, calls and prints; store/run_edits.py changes the store.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from evoflash.cli.options import Db, Json, PricePerHour
from evoflash.errors import UsageError
from evoflash.notices import say
from evoflash.views.terminal import stdout_console

if TYPE_CHECKING:
    from evoflash.store.database import Database


Which = Annotated[
    str, typer.Argument(metavar="RUN", help="Its number or its name, as `evoflash runs` shows.")
]


def group() -> typer.Typer:
    """`evoflash runs` with its commands; without one it lists."""
    app = typer.Typer(name="runs", help="List, rename, merge and delete searches.", rich_markup_mode=None)
    app.callback(invoke_without_command=True)(runs)
    commands: tuple[Callable[..., None], ...] = (rename, merge, delete)
    for command in commands:
        app.command()(command)
    return app


@contextmanager
def closing_database(target: str, *, read_only: bool = False) -> Iterator["Database"]:
    """A database, closed at the end."""
    from evoflash.store.database import open_database

    database = open_database(target, read_only=read_only)
    try:
        yield database
    finally:
        database.close()


def _existing(target: str) -> None:
    """StoreError where there is no database yet: none of these commands makes one."""
    with closing_database(target, read_only=True):
        pass


def runs(ctx: typer.Context, *, price_per_hour: PricePerHour = None, db: Db, as_json: Json = False) -> None:
    """The searches of a database, newest first.

    How far each is, its best time, whether it is going on, and what it took of GPU and CPU.

    Example: evoflash runs
    """
    if ctx.invoked_subcommand:
        return
    from evoflash.app.words import parse_price
    from evoflash.store.standing import standings
    from evoflash.views import runs as report

    price = parse_price(price_per_hour)
    with closing_database(db, read_only=True) as database:
        found = standings(database)
    if as_json:
        typer.echo(report.as_json(found, price))
    else:
        report.print_runs(found, stdout_console(), price)


def rename(
    run: Which,
    name: Annotated[str, typer.Argument(help="At most 60 letters, not a number alone; '' takes it away.")],
    *,
    db: Db,
) -> None:
    """Give a run a name.

    The other commands of `evoflash runs` find it by that. Nothing else changes.

    Example: evoflash runs rename 3 "before the new seeds"
    """
    from evoflash.store import run_edits

    _existing(db)
    with closing_database(db) as database:
        found = run_edits.find(database, run)
        run_edits.rename(database, found, name)
    say(f"run {found.id} is called '{name}'." if name else f"run {found.id} has no name any more.")


def merge(
    source: Annotated[str, typer.Argument(help="The database whose runs are brought in: a file or a URL.")],
    *,
    db: Db,
) -> None:
    """Bring in the runs of another database.

    The other one is left as it is. Each run stays a run of its own, with its estimates and measurements,
    under the next free number of its search; leaderboards rank their kernels together. What is here already
    is not brought in again.

    Example: evoflash runs merge laptop.db --db evoflash.db
    """
    from evoflash.store import run_edits

    with closing_database(source, read_only=True) as there, closing_database(db) as database:
        if there.label == database.label:
            raise UsageError("that is the same database: give the one to take runs from, and --db the other.")
        new, outcomes = run_edits.merge(database, there)
    say(f"{new} runs and {outcomes} outcomes were new.")


def delete(
    run: Which,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    db: Db,
) -> None:
    """Take a run out of the database.

    With everything that only it has; refused while it is going on.

    Example: evoflash runs delete 3 --yes
    """
    from evoflash.store import run_edits

    _existing(db)
    with closing_database(db) as database:
        found = run_edits.find(database, run)
        key = found.key
        words = f"run {found.id} ({key.problem} on {key.gpu}, {key.basis}, {key.search_name} seed {key.seed})"
        if not yes and not sys.stdin.isatty():
            raise UsageError(f"deleting {words} cannot be undone: add --yes.")
        if not yes and not typer.confirm(f"Delete {words} and all its outcomes?"):
            say("nothing was deleted.")
            return
        gone = run_edits.delete(database, found)
    say(f"deleted {words}: {gone} outcomes.")
