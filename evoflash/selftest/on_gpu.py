"""What the GPU's rungs say to a fraud: smoke test, correctness, timing, as to a search's candidate.

The task is made here; gpu_process/rungs.py checks and times it in the GPU process.
"""

from collections.abc import Mapping, Sequence

from evoflash.attention.shapes import check_workloads
from evoflash.attention.workload import Workload, parse_workload
from evoflash.compilers.nvrtc import compile_candidate, first_error
from evoflash.errors import EvoflashError
from evoflash.evaluation import Rung, Status
from evoflash.gpu import GpuSpec
from evoflash.gpu_process import rungs
from evoflash.gpu_process.outcome import GpuOutcome
from evoflash.gpu_process.rungs import GpuTask
from evoflash.selftest.corpus import Fraud, made

COMPILE_LIMIT_S = 60.0


def task_of(fraud: Fraud, spec: GpuSpec, seed: int) -> GpuTask:
    """The fraud compiled, with the check workloads of a search; needs no GPU.

    EvoflashError when it does not compile: no rejection, but a broken corpus.
    """
    candidate, family = made(fraud, spec)
    build = compile_candidate(candidate)
    if not build.ok:
        raise EvoflashError(f"NVRTC refuses it for {spec.arch}: {first_error(build.log)}")
    timed = _timed(fraud)
    return rungs.task_of(
        fraud.name,
        spec,
        (build,),
        lambda workload: family.launches(candidate.genome, workload, spec),
        checks=check_workloads([timed.compile_key(spec.arch)]),
        timed=(timed,),
        seed=seed,
        is_deterministic=family.is_deterministic,
    )


def check_workloads_of(frauds: Sequence[Fraud], spec: GpuSpec) -> tuple[Workload, ...]:
    """The check workloads of all that will be tried on the GPU, each once."""
    keys = dict.fromkeys(_timed(f).compile_key(spec.arch) for f in frauds if not f.measured.skip)
    return tuple(workload for key in keys for workload in check_workloads([key]))


def _timed(fraud: Fraud) -> Workload:
    return parse_workload(fraud.problem) if fraud.problem else fraud.kernel.problem


def said(outcome: GpuOutcome) -> Mapping[Rung, str]:
    """The rung that stopped the fraud, with its reason; empty when no rung did."""
    if outcome.status is Status.CORRECT:
        return {}
    return {outcome.rung: outcome.reason or outcome.status.value}
