"""Judges kernels whose text a language model edited, as `evoflash evaluate` does. Proposes nothing.

Each is written as an export with the edit in it, and goes through the reader, the sandbox, the emulator and
the drawn shapes that a file of anybody's goes through. What is right there is compiled; what is not is a
failure like any other, and no GPU sees it.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evoflash.app.export import one_kernel_each
from evoflash.app.judge.answer import AnswerStatus, KernelAnswer
from evoflash.app.judge.foreign import JudgeOptions, judge_file
from evoflash.errors import UsageError
from evoflash.evaluation import Rung, Status
from evoflash.evaluators.pipeline import Judge
from evoflash.evaluators.prepare import Preparation, PreparationFailure, prepare
from evoflash.kernels.edited_text import MOST_GROWTH, EditRefusedError, check_edits, kernel_body
from evoflash.kernels.family import Family
from evoflash.kernels.standalone import export_kernel
from evoflash.llm.prompt import KernelSource
from evoflash.notices import count_of
from evoflash.problem import Problem
from evoflash.sandbox.boundary import found_boundary
from evoflash.space import Genome
from evoflash.specs import GpuSpec

_STATUS: Mapping[AnswerStatus, Status] = {
    "incorrect": Status.CORRECTNESS,
    "hack": Status.CORRECTNESS,
    "compile_error": Status.COMPILE,
    "runtime_error": Status.RUNTIME,
    "timeout": Status.TIMEOUT,
    "refused": Status.CONSTRAINTS,
}


def kernel_source(problem: Problem, gpu: GpuSpec, family: Family) -> KernelSource:
    """What a model is told of the texts of the family's kernels; of several for one problem the first."""
    keys = problem.compile_keys(gpu.arch)

    def launches(genome: Genome) -> list[dict[str, Any]]:
        names = ("entry", "grid", "block", "smem_bytes", "cluster")
        made = family.launches(genome, problem.workloads[0], gpu)
        return [{name: getattr(launch, name) for name in names} for launch in made]

    def complaint(child: Genome, parent: Genome) -> tuple[str, str] | None:
        try:
            check_edits(child, keys, gpu, parent=parent)
        except EditRefusedError as error:
            return error.kind, error.detail
        return None

    return KernelSource(lambda genome: kernel_body(genome, keys[0], gpu), launches, complaint, MOST_GROWTH)


def source_judge(problem: Problem, gpu: GpuSpec) -> Judge:
    """Of a genome whose text was edited and a seed. SandboxError where nothing could keep its kernel in."""
    found_boundary(is_unsafe=False)
    parts = one_kernel_each(str(problem), gpu.arch)

    def judge(genome: Genome, seed: int) -> Preparation:
        words = []
        with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
            path = Path(folder) / "kernel.cu"
            for part in parts:
                path.write_text(export_kernel(genome, part, gpu), encoding="utf-8")
                answer = _answer(path, gpu, seed)
                if not answer.is_correct:
                    return Preparation(failure=_failure(answer))
                words.append(_in_words(answer))
        return replace(prepare(genome, problem, gpu, False, seed), judged="; ".join(words))

    return judge


def _answer(path: Path, gpu: GpuSpec, seed: int) -> KernelAnswer:
    options = JudgeOptions(gpu=gpu.name, stage="smoke", seed=seed % (1 << 31))
    try:
        return judge_file(path, options, db="")
    except UsageError as error:  # the file is laid out as no export any more
        return KernelAnswer(str(path), "", "refused", str(error))


def _failure(answer: KernelAnswer) -> PreparationFailure:
    rung = Rung.COMPILE if answer.status == "compile_error" else Rung.PREFLIGHT
    return PreparationFailure(_STATUS[answer.status], rung, answer.reason)


def _in_words(answer: KernelAnswer) -> str:
    worst = answer.worst or {}
    error = f", worst rel L2 {worst['rel_l2']:.1e} ({worst['shape']})" if worst else ""
    return f"{count_of(answer.checks, 'output')} compared in the emulator, in a sandbox{error}"
