"""The command `evoflash best`. It parses, calls and prints; answer.py chooses the kernel."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from evoflash.commands.options import Db, Gpu, Json, MaybeProblem, Quiet, Verbose
from evoflash.commands.terminal import say


def best(
    *,
    export: Annotated[Path | None, typer.Option("--export", help="Write the kernel as one .cu file.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the kernel's CUDA.")] = False,
    archive: Annotated[
        bool | None,
        typer.Option(help="The shipped archive's kernel, or never; default: where the database has none."),
    ] = None,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """The best kernel known, from the database or the archive.

    A measured one if there is one, else an estimated one, and marked so.

    Where the database has none for --problem, the shipped archive may: its kernel is checked and timed again
    where its GPU is, and stored; elsewhere the emulator checks it, and its time is marked as archived.

    Example: evoflash best --export kernel.cu
    """
    from evoflash.commands.best import answer
    from evoflash.families.export import write_text

    chosen = answer.best(db, problem=problem, gpu=gpu, archive=archive, argv=sys.argv[1:])
    if show:
        typer.echo(chosen.cuda(), nl=False)
        return
    if export is not None:
        write_text(export, chosen.cuda())
        say(f"wrote {export}")
    typer.echo(chosen.json if as_json else chosen.text)
