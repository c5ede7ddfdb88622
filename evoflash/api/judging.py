"""Judges kernels from Python: compares two, verifies a claim about one, finds what one does wrong."""

from collections.abc import Mapping
from pathlib import Path

from evoflash.api.records import Kernel, KernelCheck, KernelComparison, KernelVerification
from evoflash.api.words import text_of_problem
from evoflash.app.check.confined_runs import confinement_for
from evoflash.app.check.runs import check_kernel
from evoflash.app.check.subject import named_kernels, of_genome
from evoflash.app.compare import compare_by_name
from evoflash.app.verify import verdict
from evoflash.app.verify.claim_sources import ClaimSelector
from evoflash.paths import default_database
from evoflash.problem import Problem, parse_problem
from evoflash.space import Value, word_of
from evoflash.specs import load_gpu

_ARGV = ("python",)  # what a run that was begun from Python has in place of a command line


def compare(
    first: str | Path | Kernel,
    second: str | Path | Kernel,
    *,
    problem: str | Problem | None = None,
    seed: int = 0,
    db: str | None = None,
) -> KernelComparison:
    """Which of two kernels is faster on this machine's GPU, or that it is unclear; both are checked first.

    A kernel is a Kernel, an id, a library's name (`sdpa_cudnn`) or a .cu file. `results` has for each
    workload and protocol the first's time over the second's, with its interval. DeviceError without a GPU,
    EvoflashError where a kernel is not correct.

    >>> import evoflash
    >>> print(evoflash.compare("3f2a", "sdpa_cudnn", problem="mission"))  # doctest: +SKIP
    """
    names = [word.id if isinstance(word, Kernel) else str(word) for word in (first, second)]
    where = db or default_database()
    return KernelComparison(
        *compare_by_name(names[0], names[1], problem=text_of_problem(problem), seed=seed, db=where)
    )


def check(
    what: str | Path | Kernel,
    values: Mapping[str, Value] | None = None,
    *,
    problem: str | Problem | None = None,
    gpu: str | None = None,
    runs: int = 4,
    seed: int = 1,
    header: str | Path | None = None,
    db: str | None = None,
) -> KernelCheck:
    """Races, deadlocks, wrong results and slow accesses of a kernel, found by the CPU emulator.

    `what` is a Kernel, an id or its first digits, a .cu file (an exported one, or one of your own as
    docs/check.md describes it, with `header` as a TOML file in place of its comment), or a family's name
    together with `values`. Each shape runs `runs` times, under other schedules. Nothing is stored.
    UsageError for a file that cannot be checked.

    >>> import evoflash
    >>> found = evoflash.check(evoflash.best("mission", gpu="l4"), runs=1)
    >>> found.errors
    0
    """
    text, where = text_of_problem(problem), db or default_database()
    if isinstance(what, Kernel):
        genome = what.evaluation.genome
        subjects = of_genome(genome, parse_problem(text or what.problem), load_gpu(gpu or what.gpu))
    elif values is not None:
        words = [f"{name}={word_of(value)}" for name, value in values.items()]
        subjects = named_kernels(None, str(what), words, problem=text, gpu=gpu, db=where)
    else:
        launch = None if header is None else Path(header)
        subjects = named_kernels(str(what), None, [], problem=text, gpu=gpu, db=where, header=launch)
    return KernelCheck(
        tuple(
            check_kernel(each, runs=runs, seed=seed, confinement=confinement_for(is_foreign=each.is_foreign))
            for each in subjects
        )
    )


def verify(
    what: str | Path | Kernel,
    *,
    row: int | None = None,
    within: float | None = None,
    problem: str | Problem | None = None,
    gpu: str | None = None,
    db: str | None = None,
) -> KernelVerification:
    """Whether a claim about a kernel is true here: checked and timed again, as `evoflash verify` does.

    `what` is a Kernel, an id, or a file with a claim: a row of the leaderboard as JSON, an exported file or
    folder; `row` says which of several. `within` is how far beyond the interval here a claimed time may be.
    The kernel is stored as a run of its own. UsageError where there is no claim.

    >>> import evoflash
    >>> evoflash.verify(evoflash.best("mission", gpu="l4")).answer in ("confirmed", "cannot be compared")
    True
    """
    if isinstance(what, Kernel):
        name, problem, gpu = what.id, problem or what.problem, gpu or what.gpu
    else:
        name = str(what)
    selector = ClaimSelector(row, text_of_problem(problem), gpu)
    return KernelVerification(
        verdict.verify(name, selector, db or default_database(), within=within, argv=_ARGV)
    )
