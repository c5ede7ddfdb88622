"""`evoflash portfolio` chooses a few kernels for many shapes. app/portfolio/ measures and chooses."""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.json_answer import add_facts
from evoflash.cli.shared_options import (
    Db,
    DryRun,
    Force,
    Gpu,
    Json,
    Quiet,
    Seed,
    Verbose,
    interrupt_in_words,
    show,
)
from evoflash.notices import count_of, say

_MOST = 16  # kernels; a dispatcher with more of them is a search of its own


def portfolio(
    *,
    problems: Annotated[
        Path, typer.Option("--problems", help="A file of shapes: lines of PROBLEM [weight=..], TOML or JSON.")
    ],
    kernels: Annotated[int, typer.Option("--kernels", min=1, max=_MOST, help="At most so many.")] = 4,
    gpu: Gpu = None,
    evaluator: Annotated[
        str | None, typer.Option("--evaluator", help="gpu or emulated; default: gpu where it is present.")
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.1, max=1e5, help="Of measuring; less is less exact.")
    ] = 10.0,
    candidates: Annotated[
        int, typer.Option("--candidates", min=1, max=256, help="So many kernels are tried.")
    ] = 32,
    searches: Annotated[
        int, typer.Option("--searches", min=0, max=_MOST, help="So many more kernels are searched for.")
    ] = 0,
    table: Annotated[
        Path | None,
        typer.Option("--table", help="Where times are kept and read. Default: a .json beside the shapes."),
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="Write a Python package with a dispatcher to this folder.")
    ] = None,
    kind: Annotated[
        str, typer.Option("--kind", help="What --export writes: package, or flashinfer-trace.")
    ] = "package",
    force: Force = False,
    seed: Seed = 0,
    dry_run: DryRun = False,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Choose a few kernels for many shapes.

    Candidates are the database's best, the shipped archive's and the families' seeds. Each is checked and
    timed on every shape that it computes; those are kept that cost least beside the fastest of all on each
    shape, by the weights in the file. Without the GPU times are estimated.

    With --searches, short searches look for kernels that are fast on all shapes
    of a kept one that is slow on some of them.

    Choosing again from a --table measures nothing anew.

    Example: evoflash portfolio --problems docs/examples/serving-mix.txt --kernels 4 --export fast_attention
    """
    from evoflash.app.portfolio import run
    from evoflash.views.portfolio import print_text

    wanted = run.PortfolioOptions(
        problems,
        kernels,
        gpu=gpu,
        evaluator=evaluator,
        minutes=minutes,
        candidates=candidates,
        table=table,
        seed=seed,
        db=db,
        searches=searches,
    )
    if export is not None:
        run.check_export(export, kind)
    if dry_run:
        plan = run.portfolio_plan(wanted)
        say(
            f"would choose {kernels} of {count_of(len(plan['candidates']), 'kernel')} for "
            f"{count_of(len(plan['shapes']), 'shape')} on {plan['gpu']}, with times in {plan['table']}."
        )
        add_facts(**plan)
        return
    with interrupt_in_words("the table keeps the times so far; the same command continues"):
        found = run.portfolio(wanted)
        if export is not None:
            run.export(found, export, kind)
    show(found, print_text, as_json=as_json)
    say(f"all times are in {found.path}: --table {found.path} chooses again from them.")
