"""The command `evoflash export`: any genome as one .cu file. families/export.py writes it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from evoflash.commands.options import ProblemText


def export(
    family: Annotated[str, typer.Option("--family", help="Kernel family.")],
    gpu: Annotated[str, typer.Option("--gpu", help="A known GPU.")],
    values: Annotated[list[str] | None, typer.Option("--set", help="param=value; may be repeated.")] = None,
    problem: ProblemText = "mission",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Default: stdout.")] = None,
) -> None:
    """Print any genome as one complete .cu file; the same input gives the same bytes.

    Example: evoflash export --family flash_mma --set warps=4 --set block_n=64 --problem mission --gpu l4
    """
    from evoflash.families.export import export_values, write_text

    text = export_values(family, values or [], problem=problem, gpu=gpu)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
