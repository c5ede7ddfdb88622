"""`evoflash check` shows what a kernel does wrong, found in the emulator. app/check/ does the work."""

from dataclasses import asdict
from typing import Annotated

import typer

from evoflash.cli.json_answer import add_facts
from evoflash.cli.options import Db, HeaderFile, Json, Quiet, Seed, SetValues, Verbose
from evoflash.notices import working
from evoflash.views.terminal import json_text, stdout_console


def check(
    what: Annotated[
        str | None, typer.Argument(help="A genome id or its first digits, or a .cu file.", show_default=False)
    ] = None,
    *,
    family: Annotated[str | None, typer.Option("--family", help="Check a genome of this family.")] = None,
    values: SetValues = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="Ask NVRTC and ptxas, too; a genome's own by default.")
    ] = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="What attention it computes; a genome's own by default.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each shape: other schedules.")] = 4,
    seed: Seed = 1,
    header: HeaderFile = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="KIND", help="What a kind of finding means.")
    ] = None,
    primitives: Annotated[
        bool, typer.Option("--primitives", help="List what a kernel of your own may call in ef::.")
    ] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Of a .cu: run it with your rights where there is no sandbox.")
    ] = False,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Find races, deadlocks, wrong results and slow accesses.

    Missing waits and accesses out of bounds are found, too.

    Runs the kernel in the CPU emulator on small shapes, under several schedules and delivery times of its
    asynchronous copies. Exit code 0: nothing but warnings; 1: it has errors, or nothing was compared.

    A .cu of your own uses `#include "ef.h"` and says at its top how to launch it:

    \b
        /* evoflash check
        entry = "scale"             # and EF_EXPORT_KERNEL(scale) below the kernel
        grid  = [4, 1, 1]           # or a number
        block = 128
        smem  = 1024                # bytes of dynamic shared memory; default 0
        arguments = [               # in the kernel's order
          { name = "x", dtype = "f32", shape = [4, 128], fill = "random" },
          { name = "y", dtype = "f32", shape = [4, 128], out = true },
          { name = "n", dtype = "i32", value = 512 },
        ]
        */

    With `attention = {}` instead of `arguments` it is called as evoflash calls its own kernels, and its
    result is checked. docs/check.md has the rest.

    Example: evoflash check kernel.cu --gpu h200
    """
    from evoflash.app.catalogue import primitive_groups, primitives_text
    from evoflash.app.check.confined_runs import confinement_for
    from evoflash.app.check.findings import kind_facts
    from evoflash.app.check.runs import check_kernel, reports_as_dict
    from evoflash.app.check.subject import named_kernels
    from evoflash.views import check as view

    if primitives:
        add_facts(headers=[asdict(group) for group in primitive_groups()])
        typer.echo(primitives_text())
        return
    if explain is not None:
        add_facts(**kind_facts(explain))
        typer.echo(view.explain(explain))
        return
    subjects = named_kernels(what, family, values or [], problem=problem, gpu=gpu, db=db, header=header)
    kernels = "the kernel" if len(subjects) == 1 else f"{len(subjects)} kernels"
    with working(f"compiling {kernels} for the emulator, to run {runs} times on each shape"):
        checked = [
            check_kernel(
                subject,
                runs=runs,
                seed=seed,
                confinement=confinement_for(is_foreign=subject.is_foreign, is_unsafe=unsafe),
            )
            for subject in subjects
        ]
    if as_json:
        typer.echo(json_text(reports_as_dict(checked)))
    else:
        view.print_reports(checked, stdout_console())
    if any(one.verdict != "passed" or (strict and one.warnings) for one in checked):
        raise typer.Exit(1)
