"""`evoflash evaluate` takes a given genome through every check to its time. app/evaluate.py does the work."""

import sys
from typing import Annotated

import typer

from evoflash.cli.options import Db, Gpu, Json, Quiet, Verbose, interrupt_in_words
from evoflash.views.terminal import tell

_INCORRECT = 3  # the exit code of a search without a correct kernel


def evaluate(
    what: Annotated[
        str | None,
        typer.Argument(help="An id or its first digits (database or archive), a JSON file, an exported .cu."),
    ] = None,
    *,
    family: Annotated[str | None, typer.Option("--family", help="Instead: a kernel family.")] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", help="With --family: param=value; may be repeated.")
    ] = None,
    gpu: Gpu = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Default: what the genome was made for, else mission.")
    ] = None,
    evaluator: Annotated[
        str | None,
        typer.Option(help="gpu (measured) or emulated (estimated); default: gpu where --gpu is present."),
    ] = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Check and time one given genome, and store it.

    Check one given genome and time it, as a search would; the outcome is stored.

    Where the GPU is present the time is measured and the kernel meets hidden shapes too; elsewhere the CPU
    emulator checks it and its time is estimated. Exit code 3 where the kernel is not correct.

    Example: evoflash evaluate --family flash_mma --set warps=4 --set block_n=64 --gpu l4
    """
    from evoflash.app import evaluate as run
    from evoflash.app import evaluate as subject
    from evoflash.views.kernel import describe_outcome

    with interrupt_in_words():
        chosen = subject.of_words(what, family, values or (), problem=problem, gpu=gpu, db=db)
        outcome = run.evaluate(chosen, evaluator, db, argv=sys.argv[1:])
    tell(describe_outcome(outcome, as_json_list=as_json), whole=as_json)
    if not outcome.evaluation.is_correct:
        raise typer.Exit(_INCORRECT)
