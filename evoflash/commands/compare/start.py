"""A comparison from two words to its outcome, in a GPU process of its own. Prints no result."""

from evoflash.commands.compare.kernels import contenders
from evoflash.commands.compare.run import ComparisonRun, Outcome, compare_kernels
from evoflash.commands.terminal import say, working
from evoflash.cuda import launcher
from evoflash.errors import EvoflashError
from evoflash.isolation import IsolatedPool
from evoflash.timing import noise_floor as noise

_LIMIT_S = 900.0


def compare_named(
    first: str, second: str, *, problem: str | None, seed: int, db: str
) -> tuple[ComparisonRun, Outcome]:
    """Both kernels checked, then timed in pairs on this machine's GPU.

    DeviceError without a GPU, UsageError for a word that names no kernel, EvoflashError where one of them
    is not correct.
    """
    spec = launcher.present_spec(None)
    with working("compiling both kernels"):
        what, made = contenders((first, second), problem=problem, spec=spec, db=db, seed=seed)
    run = ComparisonRun(made, what, spec, seed, noise=noise.floor())
    say(f"checking both, then timing them in pairs on {what}")
    outcome = _in_gpu_process(run)
    if outcome.failure:
        raise EvoflashError(f"no comparison: {outcome.failure}; `evoflash check` looks into a kernel.")
    return run, outcome


def _in_gpu_process(run: ComparisonRun) -> Outcome:
    """The outcome, from a process of its own: a kernel that crashes or hangs there ends in one line here."""
    with IsolatedPool(1, initializer=launcher.warm_up) as pool:
        ending = pool.submit(compare_kernels, run, timeout_s=_LIMIT_S).result()
    return ending.value or Outcome(failure=f"{ending.status}, {ending.reason}")
