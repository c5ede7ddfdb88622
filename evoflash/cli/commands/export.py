"""`evoflash export` writes any known genome as files that need no evoflash. exports/ has the writers."""

from typing import Annotated

import typer

from evoflash.cli.shared_options import Arch, Db, Force, Kind, Prefix, RunOption, SetValues
from evoflash.errors import UsageError


def export(
    genome_id: Annotated[
        str | None, typer.Argument(help="A genome id or its first digits, of the database or the archive.")
    ] = None,
    *,
    family: Annotated[str | None, typer.Option("--family", help="Or: a genome of this family.")] = None,
    values: SetValues = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="A known GPU; an id's own by default.")] = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Default: an id's own; else mission.")
    ] = None,
    run: RunOption = None,
    prefix: Prefix = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Its ending says the kind; default: .cu on stdout.")
    ] = None,
    kind: Kind = None,
    arch: Arch = None,
    force: Force = False,
    db: Db,
) -> None:
    """Write a genome as files that are yours to keep.

    By default it is one .cu file, on stdout; --kind, or the ending of PATH, says another form.

    The same input gives the same bytes. An id that was evaluated for several problems or GPUs needs --problem
    or --gpu.

    Example: evoflash export 3f2a -o kernel.cu

    Example: evoflash export 3f2a -o attention.py

    Example: evoflash export --family flash_mma --set warps=4 --set block_n=64 --problem mission --gpu l4
    """
    from evoflash.app.export import cuda_of, requested_kernel, write

    what = requested_kernel(
        genome_id, family, values or [], problem=problem, gpu=gpu, prefix=prefix, db=db, run=run
    )
    if output is not None:
        write(what, output, kind=kind, archs=arch, db=db)
    elif kind not in (None, "cu") or arch:
        raise UsageError("--kind and --arch write files: add -o PATH.")
    else:
        typer.echo(cuda_of(what), nl=False)
