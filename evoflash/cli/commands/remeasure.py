"""`evoflash remeasure` measures here what was estimated elsewhere. app/evaluate.py does the work."""

import sys
from typing import Annotated

import typer

from evoflash.cli.shared_options import (
    Db,
    Gpu,
    Json,
    MaybeProblem,
    Quiet,
    Verbose,
    interrupt_in_words,
    show_end,
)
from evoflash.errors import NoKernelError
from evoflash.settings import MOST


def remeasure(
    *,
    top: Annotated[int, typer.Option(min=1, max=MOST, help="How many of the best estimates.")] = 20,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Measure on this GPU what was estimated elsewhere.

    The best estimates of a database are taken.

    Example: evoflash remeasure --top 20 --gpu l4
    """
    from evoflash.app.evaluate import remeasure as measure_estimates

    with interrupt_in_words("{kept}; the same command starts anew"):
        result = measure_estimates(db, top=top, gpu=gpu, problem=problem, argv=sys.argv[1:])
    if result is None:
        return
    if result.best is None:
        raise NoKernelError(
            f"none of the {result.spent} estimates was correct on this GPU: see `evoflash show`."
        )
    show_end(result, as_json=as_json)
