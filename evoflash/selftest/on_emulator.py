"""What the rungs that need no GPU say to a fraud: lint, pre-flight, correctness in the emulator.

Each is asked by itself, so that one does not hide that another has gone blind. The judges are the harness's
own (preflight.preflight, correctness.check_correctness); here is only who is asked, and what for.
"""

from collections.abc import Mapping
from pathlib import Path

from evoflash.attention.inputs import TestInput
from evoflash.attention.workload import Workload
from evoflash.compilers import gxx
from evoflash.emulator.call import Run, run_call
from evoflash.emulator.preflight import CPU_LIMIT_S, preflight
from evoflash.evaluation import Launch, Rung
from evoflash.families.renderer import lint
from evoflash.gpu import GpuSpec
from evoflash.operation import Kernel, Output
from evoflash.selftest.corpus import Fraud, made
from evoflash.validation.correctness import check_correctness

LIMIT_S = 60.0  # of one fraud; most take under one second


class _ReportedError(Exception):
    """The emulator reported the kernel: what it wrote says nothing."""


def ask(fraud: Fraud, gpu: GpuSpec, seed: int) -> Mapping[Rung, str]:
    """Each rung's complaint, empty where it accepts; correctness is asked of controls and where it is named.

    EvoflashError when the text does not compile or cannot be launched: no rejection, but a broken corpus.
    """
    candidate, family = made(fraud, gpu)
    said = {Rung.RENDER: "; ".join(lint(candidate.source))}
    said[Rung.PREFLIGHT] = preflight(candidate, family, gpu, seed=seed).complaint
    if fraud.is_control or Rung.CORRECTNESS in fraud.emulated.rungs:
        library = gxx.build(candidate.source, name=family.name)
        launches = {w: family.launches(candidate.genome, w, gpu) for w in fraud.kernel.check_workloads()}
        said[Rung.CORRECTNESS] = _checked(library, launches, seed, exact=family.is_deterministic)
    return said


def _checked(
    library: Path, launches: Mapping[Workload, tuple[Launch, ...]], seed: int, *, exact: bool
) -> str:
    try:
        for workload, parts in launches.items():
            kernel = _kernel(library, parts, workload, seed)
            verdict = check_correctness(kernel, workload, seed=seed, is_deterministic=exact)
            if not verdict.passed:
                return f"{workload}: {verdict.reason}"
    except _ReportedError as reported:
        return str(reported)
    return ""


def _kernel(library: Path, launches: tuple[Launch, ...], workload: Workload, seed: int) -> Kernel:
    """The emulated kernel as a function of a test input."""
    run = Run("random", "random", seed, CPU_LIMIT_S)

    def kernel(inputs: TestInput) -> Output:
        emulations, output = run_call(library, launches, workload, inputs, run)
        for report in (report for emulation in emulations for report in emulation.reports):
            raise _ReportedError(f"{report.kind} at line {report.line}: {' '.join(report.message.split())}")
        return output

    return kernel
