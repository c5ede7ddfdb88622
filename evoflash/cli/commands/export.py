"""`evoflash export` writes any known genome as files that need no evoflash. exports/ has the writers."""

import sys
from typing import Annotated

import typer

from evoflash.cli.options import Arch, Db, Kind, Prefix
from evoflash.errors import UsageError


def export(
    genome_id: Annotated[
        str | None, typer.Argument(help="A genome id or its first digits, of the database or the archive.")
    ] = None,
    *,
    family: Annotated[str | None, typer.Option("--family", help="Or: a genome of this family.")] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", help="With --family: param=value; may be repeated.")
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="A known GPU; an id's own by default.")] = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Default: an id's own; else mission.")
    ] = None,
    prefix: Prefix = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Its ending says the kind; default: .cu on stdout.")
    ] = None,
    kind: Kind = None,
    arch: Arch = None,
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
    from evoflash.app.export import write
    from evoflash.app.known import known_genome
    from evoflash.exports.exported import ExportRequest, with_evaluation
    from evoflash.kernels.standalone import export_kernel, genome_of

    if (genome_id is None) == (family is None):
        raise UsageError("give a genome id (its first digits do), or --family with --set and --gpu.")
    if genome_id is not None:
        if values:
            raise UsageError("--set goes with --family; an id has its values.")
        what = known_genome(genome_id, db, problem=problem, gpu=gpu)
    elif gpu is None:
        raise UsageError("--family needs --gpu: what a kernel may use depends on it; see `evoflash gpus`.")
    else:
        what = genome_of(str(family), values or [], problem=problem or "mission", gpu=gpu)
    if output is not None:
        write(with_evaluation(ExportRequest(*what, prefix=prefix), db), output, kind=kind, archs=arch)
    elif kind not in (None, "cu") or arch:
        raise UsageError("--kind and --arch write files: add -o PATH.")
    else:
        sys.stdout.write(export_kernel(*what, prefix=prefix))
