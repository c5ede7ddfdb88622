"""`evoflash runs` lists, renames, merges and deletes the searches of a database. app/runs.py works."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.command_group import with_common_options
from evoflash.cli.json_answer import add_facts
from evoflash.cli.shared_options import Db, Json, PricePerHour, show
from evoflash.errors import UsageError
from evoflash.notices import say
from evoflash.written_files import is_dry_run

Which = Annotated[
    str, typer.Argument(metavar="RUN", help="Its number or its name, as `evoflash runs` shows.")
]


def group() -> typer.Typer:
    """`evoflash runs` with its commands; without one it lists."""
    app = typer.Typer(
        name="runs", help="List, compare, rename, merge and delete searches.", rich_markup_mode=None
    )
    app.callback(invoke_without_command=True)(runs)
    commands: tuple[Callable[..., None], ...] = (compare, rename, merge, delete)
    for command in commands:
        app.command()(with_common_options(command))
    return app


def runs(
    ctx: typer.Context,
    *,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also the runs of evaluate, verify, remeasure, baselines and of the archive's kernels.",
        ),
    ] = False,
    price_per_hour: PricePerHour = None,
    db: Db,
    as_json: Json = False,
) -> None:
    """The searches of a database, newest first.

    How far each is, its best time, whether it is going on, and what it took of GPU and CPU. Commands that
    evaluate a kernel which they are given store it as a run of its own, which --all shows.

    Example: evoflash runs
    """
    if ctx.invoked_subcommand:
        return
    from evoflash.app.runs import list_runs
    from evoflash.views.runs import print_runs

    show(list_runs(db, price_per_hour, every=every), print_runs, as_json=as_json)


def compare(
    first: Which,
    second: Annotated[str, typer.Argument(metavar="RUN", help="Likewise, of another search.")],
    *,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with their curves.")
    ] = None,
    db: Db,
    as_json: Json = False,
) -> None:
    """Compare two searches over their seeds.

    Each run stands for the runs that differ from it in their seed alone (`evoflash search --repeats`): the
    best times so far with their quartiles, and a paired test of the best times of equal seeds after as many
    evaluations.

    Example: evoflash runs compare 1 6
    """
    from evoflash.app.repeats import compare_runs
    from evoflash.views.runs import print_comparison

    found = compare_runs(db, first, second)
    if html is not None:
        from evoflash.app.export import write_page
        from evoflash.views.html.search_curves import page_of_comparison

        write_page(html, page_of_comparison(found))
        return
    show(found, print_comparison, as_json=as_json)


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
    from evoflash.app import runs as stored

    number = stored.rename(db, run, name)
    add_facts(run=number, name=name)
    verb = "would be" if is_dry_run() else "is"
    say(f"run {number} {verb} called '{name}'." if name else f"run {number} {verb} without a name.")


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
    from evoflash.app import runs as stored

    new, outcomes = stored.merge(db, source)
    verb = "would be" if is_dry_run() else "were"
    add_facts(runs=new, outcomes=outcomes)
    say(f"{new} runs and {outcomes} outcomes {verb} new.")


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
    from evoflash.app import runs as stored

    def is_sure(words: str) -> bool:
        if is_dry_run():
            return True
        if not yes and not sys.stdin.isatty():
            raise UsageError(f"deleting {words} cannot be undone: add --yes.")
        return yes or typer.confirm(f"Delete {words} and all its outcomes?")

    gone = stored.delete(db, run, is_sure=is_sure)
    add_facts(deleted=gone and gone[0], outcomes=gone[1] if gone else 0)
    done = "would delete" if is_dry_run() else "deleted"
    say("nothing was deleted." if gone is None else f"{done} {gone[0]}: {gone[1]} outcomes.")
