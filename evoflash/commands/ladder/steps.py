"""The steps of `evoflash ladder`: named genomes from scalar to mma.sync, each evaluated; prints nothing.

The steps stand in steps.toml. The rungs that one candidate climbs are another ladder: gpu_process/rungs.py.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evoflash.commands.search.plan import Plan
from evoflash.commands.search.plan import plan as plan_search
from evoflash.commands.search.run import evaluator as evaluator_of
from evoflash.evaluation import Basis, Evaluation, Proposal
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.problem import Problem
from evoflash.space import Genome, Value

_STEPS = Path(__file__).parent / "steps.toml"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it changes, and the values to try; the first valid ones are taken."""

    name: str
    change: str
    family: str
    choices: tuple[Mapping[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a step. Ratios and rates are None where it failed."""

    step: Step
    evaluation: Evaluation
    over_previous: float | None  # its speed over that of the last correct step before it
    over_first: float | None
    tflops: float | None  # by the field's convention; over several workloads their geometric mean

    @property
    def is_correct(self) -> bool:
        return self.evaluation.is_correct


@dataclass(frozen=True, slots=True)
class Climb:
    """All steps on one problem and GPU."""

    problem: str
    gpu: str
    basis: Basis
    results: tuple[Result, ...]

    @property
    def is_correct(self) -> bool:
        """Whether every step was."""
        return all(result.is_correct for result in self.results)


def read_steps(path: Path = _STEPS) -> tuple[Step, ...]:
    """The steps in order. A step's values are its own on top of those of the step before it in its family."""
    steps: list[Step] = []
    for table in tomllib.loads(path.read_text(encoding="utf-8"))["step"]:
        before = steps[-1].choices[0] if steps and steps[-1].family == table["family"] else {}
        own = table["set"] if isinstance(table["set"], list) else [table["set"]]
        choices = tuple({**before, **values} for values in own)
        steps.append(Step(table["name"], table["change"], table["family"], choices))
    return tuple(steps)


def genome_of(step: Step, problem: Problem, gpu: GpuSpec) -> Genome:
    """The step's first choice that passes its family's checks; where none does, the first choice.

    The latter then fails with the name of a check, as every invalid genome does.
    """
    space = load_family(step.family).space(problem.compile_keys(gpu.arch), gpu)
    genomes = [space.genome(values) for values in step.choices]
    return next((genome for genome in genomes if space.is_valid(genome)), genomes[0])


def climb(
    *,
    gpu: str | None,
    problem: str,
    seed: int = 0,
    evaluator: str | None = None,
    steps: Sequence[Step] | None = None,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Climb:
    """Check and time every step: measured where the GPU is present, else estimated.

    UsageError or DeviceError where the problem, the GPU or the evaluator do not fit.
    """
    plan = plan_search(
        gpu=gpu,
        problem=problem,
        strategy="uniform",
        seed=seed,
        family=None,
        evaluator=evaluator,
    )
    chosen = read_steps() if steps is None else tuple(steps)
    results: list[Result] = []
    for step, evaluation in _evaluations(plan, chosen):
        results.append(_result(step, evaluation, plan.problem, [r.evaluation for r in results]))
        on_result(results[-1])
    return Climb(str(plan.problem), plan.gpu.name, plan.basis, tuple(results))


def _evaluations(plan: Plan, steps: Sequence[Step]) -> Iterator[tuple[Step, Evaluation]]:
    genomes = [genome_of(step, plan.problem, plan.gpu) for step in steps]
    with evaluator_of(plan, (), proves_all=True) as evaluates:
        for step, genome in zip(steps, genomes, strict=True):
            evaluates.submit(Proposal(genome, operator=f"ladder {step.name}"))
        for step in steps:
            _, evaluation = evaluates.collect()
            yield step, evaluation


def _result(step: Step, evaluation: Evaluation, problem: Problem, before: Sequence[Evaluation]) -> Result:
    timed = [e.score_us for e in before if e.is_correct and e.score_us is not None]
    mine = evaluation.score_us if evaluation.is_correct else None
    if mine is None:
        return Result(step, evaluation, None, None, None)
    # Where the first step was wrong, nothing can be compared with it.
    first = mine if not before else before[0].score_us if before[0].is_correct else None
    return Result(
        step,
        evaluation,
        over_previous=timed[-1] / mine if timed else None,
        over_first=first / mine if first else None,
        tflops=_mean_flops(problem) / mine / 1e6,
    )


def _mean_flops(problem: Problem) -> float:
    flops = [workload.reported_flops for workload in problem.workloads]
    return math.exp(sum(map(math.log, flops)) / len(flops))
