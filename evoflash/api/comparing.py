"""Compares strategies on a recorded space and two kernels on the GPU, from Python. app/ does the work."""

from collections.abc import Sequence
from pathlib import Path

from evoflash.api.records import Kernel, KernelComparison
from evoflash.app.compare import compare_by_name
from evoflash.paths import default_database
from evoflash.problem import Problem
from evoflash.replay.comparison import StrategyComparison, parse_strategies
from evoflash.replay.comparison import compare as compare_strategies
from evoflash.replay.kernel_tuner import read_recording


def replay(
    file: str | Path,
    strategies: str | Sequence[str] = "all",
    *,
    budget: int = 200,
    repeats: int = 20,
    ahead: int = 1,
    seed: int = 0,
) -> StrategyComparison:
    """Search strategies compared on a recorded space (a Kernel Tuner cache or T4 file, plain or gzip).

    Needs no GPU and stores nothing. Each strategy runs `repeats` times, with the seeds from `seed` on, for
    `budget` evaluations with `ahead` of them in flight. A standing's `score` is 0 for what random search is
    expected to find and 1 for the optimum; times are in us. UsageError for a file that is no record.

    >>> import evoflash
    >>> from evoflash.replay import spaces
    >>> file = Path(spaces.__path__[0]) / "pnpoly-rtx3090.json.gz"
    >>> comparison = evoflash.replay(file, ["uniform"], budget=20, repeats=2)
    >>> [standing.strategy for standing in comparison.standings]
    ['uniform']
    """
    names = parse_strategies(strategies if isinstance(strategies, str) else ",".join(strategies))
    recording = read_recording(Path(file))
    return compare_strategies(recording, names, budget=budget, repeats=repeats, seed=seed, ahead=ahead)


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
    what = None if problem is None else str(problem)
    return KernelComparison(*compare_by_name(names[0], names[1], problem=what, seed=seed, db=where))
