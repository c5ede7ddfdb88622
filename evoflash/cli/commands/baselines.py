"""`evoflash baselines` times the libraries' attention on a problem. app/baselines.py does the work."""

import sys
from typing import Annotated

import typer

from evoflash.cli.options import Db, Gpu, Json, ProblemText, Quiet, Seed, Verbose, interrupt_in_words
from evoflash.notices import say
from evoflash.views.terminal import stdout_console


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
    """Time the attention kernels of other libraries, in turns.

    PyTorch, FlashAttention-3 and -4, FlashInfer, xFormers and Triton.

    Each is optional; every output is checked as a candidate's is. They are stored as a run of their own and
    stand on the leaderboard. Names: sdpa_flash, sdpa_cudnn, sdpa_efficient, sdpa_math, triton, fa3, fa4,
    fa4_tuned, flashinfer, xformers.

    Example: evoflash baselines --problem s4k_d128,causal
    """
    from evoflash.app import baselines as run
    from evoflash.gpu.launcher import present_spec
    from evoflash.problem import parse_problem
    from evoflash.views import baselines as report

    what, names = parse_problem(problem), report.parse_names(only)
    spec = present_spec(gpu)
    say(f"timing {', '.join(names)} in turns; a library may compile its kernels first")
    with interrupt_in_words("nothing is stored"):
        times = run.time_baselines(what, spec, names, db, seed=seed, argv=sys.argv[1:])
    if as_json:
        typer.echo(report.as_json(times))
    else:
        report.print_tables(times, stdout_console())
