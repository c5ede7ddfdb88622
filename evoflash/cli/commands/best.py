"""`evoflash best` shows the best kernel known for a problem. app/best.py finds it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import (
    Arch,
    Db,
    Force,
    Json,
    Kind,
    MaybeGpu,
    MaybeProblem,
    Prefix,
    Quiet,
    RunOption,
    Verbose,
)
from evoflash.errors import UsageError
from evoflash.views.terminal import json_text, tell


def best(
    *,
    export: Annotated[
        str | None, typer.Option("--export", help="Write the kernel; the path's ending says the kind.")
    ] = None,
    kind: Kind = None,
    arch: Arch = None,
    prefix: Prefix = None,
    force: Force = False,
    show: Annotated[bool, typer.Option("--show", help="Print the kernel's CUDA.")] = False,
    archive: Annotated[
        bool | None,
        typer.Option(help="The shipped archive's kernel, or never; default: where the database has none."),
    ] = None,
    gpu: MaybeGpu = None,
    problem: MaybeProblem = None,
    problems: Annotated[
        Path | None,
        typer.Option(
            help="A file of problems, as of search: what is known for each, in a table; runs nothing."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="With --problems: write its table as one HTML page, too.")
    ] = None,
    run: RunOption = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """The best kernel known, from the database or the archive.

    A measured one if there is one, else an estimated one, and marked so.

    Where the database has none for --problem, the shipped archive may: its kernel is checked and timed again
    where its GPU is, and stored; elsewhere the emulator checks it, and its time is marked as archived.

    With --problems: exit code 1 where a problem of the file has none.

    Example: evoflash best --export kernel.cu
    """
    from evoflash.app import best as answer
    from evoflash.app.export import write
    from evoflash.views.kernel import describe_best

    if problems is not None:
        if export or show or problem is not None or run is not None or archive is not None:
            raise UsageError("--problems is a table of what is known: leave the options for one kernel away.")
        _print_each(problems, db, gpu, as_json=as_json, page=html)
        return
    if html is not None:
        raise UsageError("--html writes the table of --problems FILE: `evoflash report` is of one search.")
    if (kind or arch) and not export:
        raise UsageError("--kind and --arch say how --export writes the kernel: add --export PATH.")
    if prefix is not None and not (export or show):
        raise UsageError("--prefix names what an exported file holds: add --export PATH or --show.")
    chosen = answer.best(db, problem=problem, gpu=gpu, archive=archive, argv=sys.argv[1:], run=run)
    if show:
        typer.echo(chosen.cuda(prefix), nl=False)
        return
    if export is not None:
        write(chosen.to_exported(db, prefix), export, kind=kind, archs=arch)
    tell(json_text([chosen.as_dict()]) if as_json else describe_best(chosen), whole=as_json)


def _print_each(problems: Path, db: str, gpu: str | None, *, as_json: bool, page: Path | None) -> None:
    from evoflash.app.best import best_of_each
    from evoflash.app.shape_files import read_problems
    from evoflash.cli.shared_options import show
    from evoflash.views.search import print_known

    found = best_of_each(db, read_problems(problems), gpu)
    show(found, print_known, as_json=as_json)
    if page is not None:
        from evoflash.app.export import write_page
        from evoflash.views.html.leaderboard import page_of_problems

        write_page(page, page_of_problems(found, str(problems)))
    if not all(each.is_known for each in found):
        raise typer.Exit(1)
