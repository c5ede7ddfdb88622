"""Times a kernel file beside a library's kernel on this machine's GPU, as `evoflash compare` does.

The GPU's checks come before the time and after it (app/compare.py); here what was found becomes the fields of
an answer. A workload of several has the geometric mean of its ratios.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from evoflash.app.compare import ComparisonFailedError, ComparisonRun, PairResult, compare_by_name
from evoflash.app.judge.answer import AnswerTiming
from evoflash.errors import DeviceError, EvoflashError
from evoflash.gpu import baselines, launcher
from evoflash.gpu.timing.paired import answer_of
from evoflash.operation import ELEMENT_BYTES, Workload, operation_of
from evoflash.problem import parse_problem
from evoflash.specs import GpuSpec


class NotTimedError(Exception):
    """There is no time; `is_wrong` where the kernel failed on the GPU, or the process with it."""

    def __init__(self, words: str, *, is_wrong: bool = False) -> None:
        self.is_wrong = is_wrong
        super().__init__(words)


def present_gpu_name() -> str | None:
    """That of this machine's GPU, if it has one that evoflash knows."""
    try:
        return launcher.present_spec(None).name
    except DeviceError:
        return None


def time_beside_baseline(path: Path, *, problem: str, seed: int, db: str) -> tuple[AnswerTiming, float, str]:
    """Its time beside the first baseline that runs here, the floor in us, and the GPU. NotTimedError."""
    said = ""
    for name in baselines.computing(parse_problem(problem).operation, baselines.DEFAULT):
        try:
            run, outcome = compare_by_name(str(path), name, problem=problem, seed=seed, db=db)
        except ComparisonFailedError as error:
            said = str(error)
            if not error.blamed.startswith(name):  # else the library's fault: the next one may run
                raise NotTimedError(said, is_wrong=not error.is_noise) from None
        except EvoflashError as error:  # no library of that name for this problem
            said = str(error)
        else:
            timing = _timing(run, outcome.results, name)
            floors = [floor_us(each, run.spec, timing.protocol) for each in run.problem.workloads]
            return timing, _geometric_mean(floors), run.spec.name
    raise NotTimedError(said or "no library has a kernel for it here")


def floor_us(workload: Workload, gpu: GpuSpec, protocol: str) -> float:
    """What its bytes and operations take at least. A cold call finds nothing of its inputs in L2: they come
    from memory, however little they are.
    """
    floor = gpu.floor_us(workload.flops, workload.bytes_moved)
    if protocol != "cold":
        return floor
    tensors = operation_of(workload).tensors(workload)
    read = sum(math.prod(each.shape) * ELEMENT_BYTES[each.dtype] for each in tensors if each.role == "input")
    return max(floor, min(read, workload.bytes_moved) / (gpu.dram_gbps * 1e3))


def _timing(run: ComparisonRun, results: tuple[PairResult, ...], name: str) -> AnswerTiming:
    """Of the protocol that the first workload was timed by first: cold where it is short."""
    chosen = [result for result in results if result.protocol == results[0].protocol]
    compared = [result.comparison for result in chosen]
    low, ratio, high = (
        _geometric_mean([getattr(each, which) for each in compared]) for which in ("low", "ratio", "high")
    )
    answer = answer_of(low, high, noise=run.noise)
    own, theirs = ([result.timings[which] for result in chosen] for which in (0, 1))
    return AnswerTiming(
        median_us=_geometric_mean([timing.median_us for timing in own]),
        p10_us=own[0].p10_us if len(own) == 1 else None,
        p90_us=own[0].p90_us if len(own) == 1 else None,
        samples=sum(timing.n for timing in own),
        protocol=results[0].protocol,
        clock_mhz=own[0].sm_clock_mhz,
        baseline=name,
        baseline_us=_geometric_mean([timing.median_us for timing in theirs]),
        ratio=1 / ratio,
        ratio_ci95=(1 / high, 1 / low),
        verdict="tie" if answer == "unclear" else "faster" if answer == "faster" else "slower",
    )


def _geometric_mean(numbers: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))
