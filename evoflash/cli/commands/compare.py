"""`evoflash compare` says which of two kernels is faster here, on this machine. app/compare.py times them."""

from typing import Annotated

import typer

from evoflash.cli.shared_options import Db, Json, Quiet, Seed, Verbose, interrupt_in_words
from evoflash.views.terminal import json_text, tell


def compare(
    first: Annotated[str, typer.Argument(help="A candidate's id, a baseline's name or a .cu file.")],
    second: Annotated[str, typer.Argument(help="Likewise.")],
    *,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Default: what the kernels were made for.")
    ] = None,
    seed: Seed = 0,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Say which of two kernels is faster on this GPU.

    Or that it is unclear; both are checked first.

    Each workload is timed in every way that fits it: short ones cold, hot and call by call, long ones at the
    boost clock and under the power cap. What is at least 0.3 % apart, and clearly so, is called faster or
    slower; docs/timing.md says how, and how often that is wrong. Exit code 1 where a kernel is not correct.

    A .cu of your own says how it is launched as `evoflash check` wants it, with `attention = {}`.

    Example: evoflash compare 3f2a sdpa_cudnn --problem mission
    """
    from evoflash.app.compare import as_dict, compare_by_name
    from evoflash.views.kernel import describe_comparison

    with interrupt_in_words("nothing is stored"):
        compared = compare_by_name(first, second, problem=problem, seed=seed, db=db)
    tell(json_text(as_dict(*compared)) if as_json else describe_comparison(*compared), whole=as_json)
