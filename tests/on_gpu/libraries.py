"""A library's output judged, for tests of those that are installed and of planted ones."""

from evoflash.gpu.baselines import BaselineAbsentError, baseline
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.attention.workload import AttentionWorkload

SQUARE = AttentionWorkload(2, 8, 8, 256, 256, 64)


def judged(name, workload, spec):
    """Why it is absent, or the verdict on its output, and its environment."""
    bench = Bench(workload, spec=spec, seed=5)
    try:
        contender = baseline(name, bench)
    except BaselineAbsentError as absent:
        return str(absent), None, {}
    return "", judge_replay(contender, bench, seed=5), contender.environment
