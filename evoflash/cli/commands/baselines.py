"""`evoflash baselines` times the libraries' attention on a problem. app/baselines.py does the work."""

import sys
from typing import Annotated

import typer

from evoflash.cli.options import Db, Gpu, Json, ProblemText, Quiet, Seed, Verbose, interrupt_in_words, show


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
    """Time the kernels of other libraries, in turns.

    Those that compute what the problem asks for, of PyTorch, FlashAttention-3 and -4, FlashInfer, xFormers
    and Triton.

    Each is optional; every output is checked as a candidate's is. They are stored as a run of their own and
    stand on the leaderboard. Names: sdpa_flash, sdpa_cudnn, sdpa_efficient, sdpa_math, triton, fa3, fa4,
    fa4_tuned, flashinfer, xformers; of linear layers cublaslt, scaled_mm, flashinfer_block,
    flashinfer_block_fp8x; of paged attention fa3_paged, flashinfer_xqa, flashinfer_decode.

    Example: evoflash baselines --problem s4k_d128,causal
    """
    from evoflash.app.baselines import named_baselines
    from evoflash.views.leaderboard import print_baselines

    with interrupt_in_words("nothing is stored"):
        times = named_baselines(only, problem=problem, gpu=gpu, db=db, seed=seed, argv=sys.argv[1:])
    if times is not None:
        show(times, print_baselines, as_json=as_json)
