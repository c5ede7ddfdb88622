"""`evoflash evaluate` takes a given genome through every check to its time. app/evaluate.py does the work."""

import sys
from typing import Annotated

import typer

from evoflash.cli.options import Db, Evaluator, Gpu, Json, Quiet, SetValues, Verbose, interrupt_in_words
from evoflash.views.terminal import json_text, tell

_INCORRECT = 3  # the exit code of a search without a correct kernel


def evaluate(
    what: Annotated[
        str | None,
        typer.Argument(help="An id or its first digits (database or archive), a JSON file, an exported .cu."),
    ] = None,
    *,
    family: Annotated[str | None, typer.Option("--family", help="Instead: a kernel family.")] = None,
    values: SetValues = None,
    gpu: Gpu = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Default: what the genome was made for, else mission.")
    ] = None,
    evaluator: Evaluator = None,
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
    from evoflash.app.evaluate import evaluate as evaluate_genome
    from evoflash.app.evaluate import of_words
    from evoflash.views.kernel import describe_outcome

    with interrupt_in_words():
        chosen = of_words(what, family, values or (), problem=problem, gpu=gpu, db=db)
        outcome = evaluate_genome(chosen, evaluator, db, argv=sys.argv[1:])
    said = json_text([outcome.evaluation.as_dict()]) if as_json else describe_outcome(outcome, values or ())
    tell(said, whole=as_json)
    if not outcome.evaluation.is_correct:
        raise typer.Exit(_INCORRECT)
