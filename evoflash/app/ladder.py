"""Evaluates eight named kernels, from scalar code to tensor cores, one after the other. Searches nothing.

The steps stand in ladder.toml. For `evoflash ladder --show` each step's kernel is rendered as CUDA, with what
it changes in the kernel of the step before.
"""

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.app.search.plan import SearchPlan
from evoflash.app.search.plan import plan as plan_search
from evoflash.app.search.session import evaluator as evaluator_of
from evoflash.errors import DeviceError, UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal
from evoflash.gpu.launcher import present_spec
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.notices import say
from evoflash.operation import DEFAULT
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, Value
from evoflash.specs import GpuSpec, load_gpu

_STEPS = Path(__file__).parent / "ladder.toml"
_EXAMPLE = "h200"


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One step: what it changes, and the values to try; the first valid ones are taken."""

    name: str
    change: str
    family: str
    choices: tuple[Mapping[str, Value], ...]


@dataclass(frozen=True, slots=True)
class LadderResult:
    """What became of a step. Ratios and rates are None where it failed."""

    step: LadderStep
    evaluation: Evaluation
    over_previous: float | None  # its speed over that of the last correct step before it
    over_first: float | None
    tflops: float | None  # by the field's convention; over several workloads their geometric mean

    @property
    def is_correct(self) -> bool:
        return self.evaluation.is_correct

    def as_dict(self) -> dict[str, Any]:
        """The step, its genome, and what became of it; times in us."""
        evaluation = self.evaluation
        return {
            "step": self.step.name,
            "change": self.step.change,
            "family": evaluation.genome.family,
            "genome": evaluation.genome.id,
            "values": evaluation.genome.as_dict(),
            "status": str(evaluation.status),
            "rung": str(evaluation.rung),
            "reason": evaluation.reason,
            "us": evaluation.score_us if self.is_correct else None,
            "is_lower_bound": evaluation.is_censored,
            "model_version": evaluation.model_version,
            "over_previous": self.over_previous,
            "over_first": self.over_first,
            "tflops": self.tflops,
        }


@dataclass(frozen=True, slots=True)
class Climb:
    """All steps on one problem and GPU."""

    problem: str
    gpu: str
    basis: Basis
    results: tuple[LadderResult, ...]

    @property
    def is_correct(self) -> bool:
        return all(result.is_correct for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        where = {"problem": self.problem, "gpu": self.gpu, "basis": str(self.basis)}
        return {**where, "steps": [result.as_dict() for result in self.results]}


def read_steps(path: Path = _STEPS) -> tuple[LadderStep, ...]:
    """The steps in order. A step's values are its own on top of those of the step before it in its family."""
    steps: list[LadderStep] = []
    for table in tomllib.loads(path.read_text(encoding="utf-8"))["step"]:
        before = steps[-1].choices[0] if steps and steps[-1].family == table["family"] else {}
        own = table["set"] if isinstance(table["set"], list) else [table["set"]]
        choices = tuple({**before, **values} for values in own)
        steps.append(LadderStep(table["name"], table["change"], table["family"], choices))
    return tuple(steps)


def genome_of(step: LadderStep, problem: Problem, gpu: GpuSpec) -> Genome:
    """The step's first choice that passes its family's checks; where none does, the first choice.

    The latter then fails with the name of a check, as every invalid genome does.
    """
    space = load_family(step.family).space(problem.compile_keys(gpu.arch), gpu)
    genomes = [space.genome(values) for values in step.choices]
    return next((genome for genome in genomes if space.is_valid(genome)), genomes[0])


def _check_is_attention(problem: str) -> None:
    operation = parse_problem(problem).operation
    if operation != DEFAULT:
        raise UsageError(f"the ladder's kernels compute {DEFAULT}, not {operation}: give another --problem.")


def climb(
    *,
    gpu: str | None,
    problem: str,
    seed: int = 0,
    evaluator: str | None = None,
    steps: Sequence[LadderStep] | None = None,
    on_result: Callable[[LadderResult], None] = lambda _: None,
) -> Climb:
    """Check and time every step: measured where the GPU is present, else estimated.

    UsageError or DeviceError where the problem, the GPU or the evaluator do not fit.
    """
    _check_is_attention(problem)
    plan = plan_search(
        gpu=gpu,
        problem=problem,
        strategy="uniform",
        seed=seed,
        family=None,
        evaluator=evaluator,
    )
    chosen = read_steps() if steps is None else tuple(steps)
    results: list[LadderResult] = []
    for step, evaluation in _evaluations(plan, chosen):
        results.append(_result(step, evaluation, plan.problem, [r.evaluation for r in results]))
        on_result(results[-1])
    return Climb(str(plan.problem), plan.gpu.name, plan.basis, tuple(results))


def _evaluations(plan: SearchPlan, steps: Sequence[LadderStep]) -> Iterator[tuple[LadderStep, Evaluation]]:
    genomes = [genome_of(step, plan.problem, plan.gpu) for step in steps]
    with evaluator_of(plan, (), proves_all=True) as evaluates:
        for step, genome in zip(steps, genomes, strict=True):
            evaluates.submit(Proposal(genome, operator=f"ladder {step.name}"))
        for step in steps:
            _, evaluation = evaluates.collect()
            yield step, evaluation


def _result(
    step: LadderStep, evaluation: Evaluation, problem: Problem, before: Sequence[Evaluation]
) -> LadderResult:
    timed = [e.score_us for e in before if e.is_correct and e.score_us is not None]
    mine = evaluation.score_us if evaluation.is_correct else None
    if mine is None:
        return LadderResult(step, evaluation, None, None, None)
    # Where the first step was wrong, nothing can be compared with it.
    first = mine if not before else before[0].score_us if before[0].is_correct else None
    return LadderResult(
        step,
        evaluation,
        over_previous=timed[-1] / mine if timed else None,
        over_first=first / mine if first else None,
        tflops=problem.reported_flops / mine / 1e6,
    )


@dataclass(frozen=True, slots=True)
class RenderedStep:
    """A step's rendered kernel, and its unified diff to the step before where that is of the same family."""

    step: LadderStep
    text: str
    diff: tuple[str, ...]

    def as_dict(self) -> dict[str, str]:
        diff = "\n".join(self.diff)
        return {"step": self.step.name, "change": self.step.change, "source": self.text, "diff": diff}


def sources(*, gpu: str | None, problem: str) -> tuple[RenderedStep, ...]:
    """The kernels of all steps for the problem's first compile key, in order."""
    _check_is_attention(problem)
    what, spec = parse_problem(problem), _shown_for(gpu)
    key = what.compile_keys(spec.arch)[0]
    shown: list[RenderedStep] = []
    for step in read_steps():
        text = render(genome_of(step, what, spec), key, spec).source
        before = shown[-1] if shown and shown[-1].step.family == step.family else None
        shown.append(RenderedStep(step, text, _diff(before, step, text)))
    return tuple(shown)


def _shown_for(gpu: str | None) -> GpuSpec:
    """Of the GPU that was asked for, or is present, or of one that most people know: text needs none."""
    if gpu:
        return load_gpu(gpu)
    try:
        return present_spec(None)
    except (DeviceError, UsageError):  # none, or one without a description
        say(f"no known GPU is present: these are the kernels for {_EXAMPLE}; --gpu chooses another.")
        return load_gpu(_EXAMPLE)


def _diff(before: RenderedStep | None, step: LadderStep, text: str) -> tuple[str, ...]:
    if before is None:
        return ()
    names = (before.step.name, step.name)
    lines = difflib.unified_diff(before.text.splitlines(), text.splitlines(), *names, lineterm="")
    return tuple(lines)
