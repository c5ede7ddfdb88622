"""The command `evoflash baselines`: what the libraries reach on a problem. Decides nothing, as cli.py."""

import sys
from typing import Annotated

import typer

from evoflash.commands.options import Db, Gpu, Json, ProblemText, Quiet, Seed, Verbose


def add_to(app: typer.Typer) -> None:
    """Make it a command of the application."""
    app.command()(baselines)


def baselines(
    *,
    gpu: Gpu = None,
    problem: ProblemText = "mission",
    only: Annotated[str, typer.Option(help="Names with commas between; default: all.")] = "",
    seed: Seed = 0,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Time the attention of PyTorch, FlashAttention-3 and -4, FlashInfer, xFormers and Triton, in turns.

    Each is optional; every output is checked as a candidate's is. They are stored as a run of their own and
    stand on the leaderboard. Names: sdpa_flash, sdpa_cudnn, sdpa_efficient, sdpa_math, triton, fa3, fa4,
    fa4_tuned, flashinfer, xformers.

    Example: evoflash baselines --problem s4k_d128,causal
    """
    from rich.console import Console

    from evoflash.commands import search_run as session
    from evoflash.commands.baselines import report as baseline_report
    from evoflash.commands.baselines import run as baseline_times
    from evoflash.cuda.launcher import present_spec
    from evoflash.problem import parse_problem

    what, names = parse_problem(problem), baseline_report.chosen(only)
    spec = present_spec(gpu)
    session.say(f"timing {', '.join(names)} in turns; a library may compile its kernels first")
    try:
        found = baseline_times.time_baselines(what, spec, names, db, seed=seed, argv=sys.argv[1:])
    except KeyboardInterrupt:
        session.say("stopped by Ctrl-C: nothing is stored.")
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(baseline_report.as_json(found))
    else:
        baseline_report.print_tables(found, Console(width=None if sys.stdout.isatty() else 180))
