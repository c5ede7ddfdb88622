"""`evoflash profile` reads a kernel's hardware counters here, on this machine. app/profile.py reads them."""

from typing import Annotated

import typer

from evoflash.cli.options import Db, Json, Quiet, Seed, Verbose, interrupt_in_words
from evoflash.views.terminal import json_text, tell


def profile(
    kernel: Annotated[str, typer.Argument(help="A candidate's id or a .cu file.")],
    *,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Default: what the kernel was made for.")
    ] = None,
    seed: Seed = 0,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Say which limit binds a kernel, by hardware counters.

    How far the kernel is from it, and what would make it faster. NVIDIA's Nsight Compute (`ncu`) reads them
    from cold launches at the timed size: how busy DRAM, L2, shared memory, tensor cores and instruction
    issue are, what warps wait for, and which instructions they execute. It has to be installed, and allowed
    to. What it says of a candidate is stored with the candidate's run, for `evoflash show` and the report.

    Example: evoflash profile 3f2a
    """
    from evoflash.app.profile import profile_kernel
    from evoflash.views.kernel import describe_profile

    with interrupt_in_words("nothing is stored"):
        found = profile_kernel(kernel, problem=problem, seed=seed, db=db)
    tell(json_text(found.as_dict()) if as_json else describe_profile(found), whole=as_json)
