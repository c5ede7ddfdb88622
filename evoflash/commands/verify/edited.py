"""An exported file whose kernel was edited: the text as it stands, checked, and timed where its GPU is.

It is no genome any more, so nothing is stored. `evoflash check` says more of what is wrong with it.
"""

from dataclasses import replace
from pathlib import Path

from evoflash.commands.check.exported import of_exported
from evoflash.commands.check.runs import Checked, check
from evoflash.commands.compare.kernels import gpu_task
from evoflash.cuda.launcher import present_spec
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.families.exported import export_words, genome_of_words
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.gpu_process.worker import GpuWorker
from evoflash.problem import Problem
from evoflash.space import Genome

_RUNS = 4  # of each shape, as `evoflash check` makes by default


def evaluated(path: Path, *, is_measured: bool) -> Evaluation:
    """What became of the kernel's text: the emulator's findings, with `is_measured` every rung on the GPU.

    UsageError where the file is not laid out as an export any more.
    """
    (subject,) = of_exported(path, problem=None, gpu=None)
    checked, named = check(subject, runs=_RUNS, seed=1), _banner(path)
    evaluation = _emulated(named, checked)
    is_next = is_measured and evaluation.is_correct
    return _measured(path, named[1], checked, evaluation) if is_next else evaluation


def _emulated(named: tuple[Genome, Problem, GpuSpec], checked: Checked) -> Evaluation:
    genome, problem, gpu = named
    wrong = [finding for finding in checked.findings if finding.severity == "error"]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return Evaluation(
        genome,
        str(problem),
        gpu.name,
        Basis.ESTIMATED,
        Status.CORRECTNESS if wrong else Status.CORRECT,
        Rung.PREFLIGHT,
        reason=f"{wrong[0].message}{more}" if wrong else "",
        builds=(checked.build,) if checked.build else (),
    )


def _banner(path: Path) -> tuple[Genome, Problem, GpuSpec]:
    """The genome that it was, and what for."""
    words = export_words(path.read_text(encoding="utf-8"), path)
    assert words is not None, "of_exported() has read them"
    return genome_of_words(words)


def _measured(path: Path, problem: Problem, checked: Checked, emulated: Evaluation) -> Evaluation:
    assert checked.build is not None, "what NVRTC refuses is an error"
    genome, spec = emulated.genome, present_spec(emulated.gpu)
    family = load_family(genome.family)
    task = gpu_task(
        str(path), problem, (checked.build,), lambda w: family.launches(genome, w, spec), spec, seed=0
    )
    with GpuWorker() as worker:
        outcome = worker.submit(task).result()
    return replace(
        emulated,
        basis=Basis.MEASURED,
        status=outcome.status,
        rung=outcome.rung,
        reason=outcome.reason,
        verdicts=outcome.verdicts,
        timings=outcome.timings,
        score_us=outcome.score_us,
        environment=dict(outcome.environment),
    )
