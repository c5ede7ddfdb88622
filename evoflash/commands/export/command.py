"""The command `evoflash export`. It parses, calls and prints; families/export.py writes the file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from evoflash.commands.options import Db
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
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Default: stdout.")] = None,
    db: Db,
) -> None:
    """Print a genome as one .cu file that is yours to keep.

    The same input gives the same bytes. An id that was evaluated for several problems or GPUs needs --problem
    or --gpu.

    Example: evoflash export 3f2a -o kernel.cu

    Example: evoflash export --family flash_mma --set warps=4 --set block_n=64 --problem mission --gpu l4
    """
    from evoflash.commands.known_genome import known_genome
    from evoflash.families.export import export_kernel, export_values, write_text

    if (genome_id is None) == (family is None):
        raise UsageError("give a genome id (its first digits do), or --family with --set and --gpu.")
    if genome_id is not None:
        if values:
            raise UsageError("--set goes with --family; an id has its values.")
        text = export_kernel(*known_genome(genome_id, db, problem=problem, gpu=gpu))
    elif gpu is None:
        raise UsageError("--family needs --gpu: what a kernel may use depends on it; see `evoflash gpus`.")
    else:
        text = export_values(str(family), values or [], problem=problem or "mission", gpu=gpu)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
