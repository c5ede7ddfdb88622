"""The command `evoflash compare`. It parses, calls and prints; run.py times the two kernels in pairs."""

from typing import TYPE_CHECKING, Annotated

import typer

from evoflash.commands.options import Db, Json, Quiet, Seed, Verbose
from evoflash.commands.terminal import interrupt_in_words, say
from evoflash.errors import EvoflashError

if TYPE_CHECKING:
    from evoflash.commands.compare.run import ComparisonRun, Outcome

_LIMIT_S = 900.0


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
    from evoflash.commands.compare import report
    from evoflash.commands.compare.kernels import contenders
    from evoflash.commands.compare.run import ComparisonRun
    from evoflash.cuda.launcher import present_spec
    from evoflash.timing import noise_floor as noise

    spec = present_spec(None)
    what, made = contenders((first, second), problem=problem, spec=spec, db=db, seed=seed)
    run = ComparisonRun(made, what, spec, seed, noise=noise.floor())
    say(f"checking both, then timing them in pairs on {what}")
    with interrupt_in_words("nothing is stored"):
        outcome = _in_gpu_process(run)
    if outcome.failure:
        raise EvoflashError(f"no comparison: {outcome.failure}; `evoflash check` looks into a kernel.")
    shown = report.as_json if as_json else report.text
    typer.echo(shown(run, outcome))


def _in_gpu_process(run: "ComparisonRun") -> "Outcome":
    """The outcome, from a process of its own: a kernel that crashes or hangs there ends in one line here."""
    from evoflash.commands.compare.run import Outcome, compare_kernels
    from evoflash.cuda import launcher
    from evoflash.isolation import IsolatedPool

    with IsolatedPool(1, initializer=launcher.warm_up) as pool:
        ending = pool.submit(compare_kernels, run, timeout_s=_LIMIT_S).result()
    return ending.value or Outcome(failure=f"{ending.status}, {ending.reason}")
