"""One genome in a GPU process: launched, checked once at the timed shape, timed with a few samples.

Less than a search asks for (gpu_process/rungs.py): a genome that passes here is right at a first look, which
is enough to record how a space looks and too little to call a kernel correct. What fails is data.
"""

from collections.abc import Callable
from dataclasses import replace

from evoflash.evaluation import Rung, Status
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.launcher import KernelHungError, LaunchRefusedError
from evoflash.gpu.process import cache, checks
from evoflash.gpu.process.checks import LARGE_LIMIT_S, SMOKE_LIMIT_S, CheckSubject
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.benchmark import KernelContender, measure
from evoflash.gpu.timing.paired import beats_physics
from evoflash.gpu.timing.protocols import StoppingRule
from evoflash.operation import Workload, operation_of
from evoflash.validation.cases import case, large_case

BRIEF = StoppingRule(min_samples=5, max_samples=10, rel_error=0.0, max_s=0.15)
PROOF = "smoke test, one random input at the timed shape against the reference, 5 to 10 samples"


def prepare_briefly(
    checks: tuple[Workload, ...], timed: tuple[Workload, ...], seed: int, _hurries: bool = False
) -> None:
    """What the process can do before it has a context: the references that timed_briefly compares with."""
    launcher.cupy()
    for workload in checks:
        case(workload, operation_of(workload).inputs.small[0], seed)
    for workload in timed:
        large_case(workload, operation_of(workload).inputs.at_size[0], seed)


def looked_at(task: GpuTask) -> GpuOutcome:
    """CORRECT after a first look, or why not. One check workload, for the smoke test, and one timed one."""
    return _guarded(GpuOutcome(task.genome_id, Status.CORRECT, Rung.SMOKE), _look, task)


def timed_briefly(task: GpuTask, looked: GpuOutcome) -> GpuOutcome:
    """What passed looked_at() with a timing; samples in us stand in its environment as `samples_us`."""
    return _guarded(replace(looked, rung=Rung.TIMING), _time, task)


def _guarded(outcome: GpuOutcome, climb: Callable[..., GpuOutcome], task: GpuTask) -> GpuOutcome:
    try:
        return climb(task, outcome)
    except (KernelHungError, MemoryFaultError, LaunchRefusedError) as error:
        return _failed(outcome, error)
    except launcher.cuda_errors() as error:
        return _failed(outcome, error)


def _failed(outcome: GpuOutcome, error: Exception) -> GpuOutcome:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    match error:
        case LaunchRefusedError():
            return replace(outcome, status=Status.CONSTRAINTS, reason=reason)
        case KernelHungError():
            return replace(outcome, status=Status.TIMEOUT, reason=reason, process_lost=True)
        case MemoryFaultError():
            return replace(outcome, status=Status.CORRECTNESS, reason=reason, process_lost=True)
        case _:
            return replace(outcome, status=Status.RUNTIME, reason=reason, process_lost=True)


def _look(task: GpuTask, outcome: GpuOutcome) -> GpuOutcome:
    ((small, small_parts),), ((workload, parts),) = task.checks, task.timed
    missing = checks.smoke(CheckSubject(task.kernel(small, small_parts), small, task.seed, SMOKE_LIMIT_S))
    if missing:
        return replace(outcome, status=Status.CORRECTNESS, reason=f"{small}: {missing}")
    outcome = replace(outcome, rung=Rung.CORRECTNESS)
    subject = CheckSubject(task.kernel(workload, parts), workload, task.seed, LARGE_LIMIT_S)
    verdict, _ = checks.first_look(subject)
    if not verdict.passed:  # confirmed, or not, by the whole check of that shape
        verdict = checks.at_size(subject)
    outcome = replace(outcome, verdicts=(verdict,))
    if verdict.passed:
        return outcome
    return replace(outcome, status=Status.CORRECTNESS, reason=f"{workload}: {verdict.reason}")


def _time(task: GpuTask, outcome: GpuOutcome) -> GpuOutcome:
    ((workload, parts),) = task.timed
    contender = KernelContender(task.genome_id, task.kernel(workload, parts))
    bench = cache.bench(workload, task.spec, task.seed)
    timing, samples = measure(contender, bench, bench.protocols[0], rule=BRIEF)
    outcome = replace(outcome, timings=(timing,))
    if reason := beats_physics(timing, workload, task.spec):
        return replace(outcome, status=Status.CORRECTNESS, reason=reason)
    noted = {"samples_us": " ".join(f"{us:.3f}" for us in samples)}
    return replace(outcome, rung=Rung.DONE, score_us=timing.median_us, environment=noted)
