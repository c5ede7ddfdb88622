"""Which launches check a kernel on a workload, and what must hold of their outputs: one plan for all who ask.

Three executors carry a plan out: check_one_by_one() below, which is told how to launch; the GPU's batch
(gpu/process/check_batch.py); and the emulator (emulator/preflight.py). That a launch leaves alone what it
must not touch is seen by whoever launches, at every launch. A new check is one entry of a plan; a new kind
of check is a record here and a branch in each executor.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.evaluation import Verdict
from evoflash.operation import operation_of
from evoflash.operations.expectations import outputs_of
from evoflash.validation.cases import case
from evoflash.validation.metamorphic import complaint, differing
from evoflash.validation.validator import judge
from evoflash.workload import ExpectedOutputs, KernelCall, Output, Reach, Relation, Rows, TestInput, Workload

STRIDED = "tensors not dense: "  # what precedes a complaint about a launch whose tensors lie apart
_TWO_RUNS = "two runs on the same input differ"
_MANY_GROUPS, _MANY_ROWS = 64, 1 << 15  # rows over all groups


@dataclass(frozen=True, slots=True, eq=False)
class CheckLaunch:
    """One launch: its inputs, the outputs that it is not asked for, and whether tensors lie apart."""

    inputs: TestInput
    without: tuple[str, ...] = ()
    is_strided: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RightOutput:
    """A launch gives the right output. Those without words are judged together, because the errors of
    ordinary inputs are pooled; `words` precede the complaint of one that is judged by itself.
    """

    launch: int
    expected: ExpectedOutputs
    words: str = ""
    is_sampled: bool = False  # `expected` is known at some rows only: the benchmark's shape


@dataclass(frozen=True, slots=True, eq=False)
class SameBits:
    """The rows of two launches agree in every bit, of a kernel that promises to repeat itself."""

    first: int
    second: int
    words: str  # what is said if they do not
    # Which rows of the first, counted through all groups, are the second's in order. None: all.
    rows: NDArray[np.intp] | None = None


Check = RightOutput | SameBits | Relation | Reach


@dataclass(frozen=True, slots=True, eq=False)
class CheckPlan:
    """The launches on one workload in their order, and the checks in the order of their complaints. Checks
    name launches by their place; relations name them by their inputs.
    """

    workload: Workload
    launches: tuple[CheckLaunch, ...]
    checks: tuple[Check, ...]

    @property
    def judged_together(self) -> tuple[RightOutput, ...]:
        """The launches on test inputs, whose errors are pooled; they come first."""
        return tuple(each for each in self.checks if isinstance(each, RightOutput) and not each.words)

    def asked_after(self, *, is_deterministic: bool) -> Iterator[Check]:
        """The other checks, of a kernel whose runs need not repeat without those of bits."""
        for check in self.checks:
            if isinstance(check, RightOutput) and not check.words:
                continue
            if is_deterministic or not isinstance(check, SameBits):
                yield check

    def launch_of(self, inputs: TestInput) -> int:
        return next(at for at, launch in enumerate(self.launches) if launch.inputs is inputs)


def plan_of(
    workload: Workload, seed: int, *, names: Sequence[str] = (), of_inputs_alone: bool = False
) -> CheckPlan:
    """What checks a kernel on a workload of which every row is compared: the test inputs of those names
    (without: names_of()), then, all with the first of them, repeats, the operation's relations, a launch
    without each output that may be left out, and one whose tensors are not dense.

    `of_inputs_alone` leaves out the last two, for who can change nothing but a launch's inputs.
    """
    operation = operation_of(workload)
    cases = [case(workload, name, seed) for name in names or names_of(workload)]
    first, expected = cases[0]
    launches = [CheckLaunch(inputs) for inputs, _ in cases]
    right = [RightOutput(at, each) for at, (_, each) in enumerate(cases)]
    again, varied = [SameBits(0, len(launches), _TWO_RUNS)], list[Check]()
    launches.append(CheckLaunch(first))
    for launch, words in () if of_inputs_alone else _variants(workload, first):
        varied.append(RightOutput(len(launches), expected, words))
        if launch.without:
            varied.append(SameBits(0, len(launches), f"{words}{_TWO_RUNS}"))
        launches.append(launch)
    relations = tuple(operation.relations(first, workload, seed=seed))
    known = {id(inputs) for inputs, _ in cases}
    for inputs in (each for relation in relations for each in _inputs_of(relation)):
        if id(inputs) not in known:
            known.add(id(inputs))
            launches.append(CheckLaunch(inputs))
    made = CheckPlan(workload, tuple(launches), ())
    varied += (_same_bits(made, each) for each in relations if isinstance(each, Relation) and each.is_exact)
    again.append(SameBits(0, len(launches), _TWO_RUNS))  # the last launch of all
    launches.append(CheckLaunch(first))
    return CheckPlan(workload, tuple(launches), (*right, *again, *relations, *varied))


def _same_bits(made: CheckPlan, relation: Relation) -> SameBits:
    """What an exact relation says of bits, between launches that are planned already."""
    assert isinstance(relation.before, Rows), "a known side is not exact"
    first, second = (made.launch_of(side.runs[0]) for side in (relation.before, relation.after))
    words = f"{relation.change}: the output is not the same to the bit"
    return SameBits(first, second, words, relation.before.rows)


def names_of(workload: Workload) -> tuple[str, ...]:
    """The test inputs of a small workload: all kinds; few where there are so many rows, or groups of them,
    that right answers would take long and all launches together gigabytes.
    """
    inputs, outputs = operation_of(workload).inputs, outputs_of(workload, "rows")
    groups = max(math.prod(spec.group_shape) for spec in outputs)
    rows = max(math.prod(spec.shape[:-1]) for spec in outputs)
    return inputs.small if groups <= _MANY_GROUPS and rows <= _MANY_ROWS else inputs.at_size


def _variants(workload: Workload, inputs: TestInput) -> Iterator[tuple[CheckLaunch, str]]:
    """The same call without each output that may be left out, and with tensors that lie apart."""
    specs = operation_of(workload).tensors(workload)
    for spec in specs:
        if spec.is_optional:
            yield CheckLaunch(inputs, without=(spec.name,)), f"without {spec.name}: "
    if any(spec.spread for spec in specs):
        yield CheckLaunch(inputs, is_strided=True), STRIDED


def _inputs_of(relation: Relation | Reach) -> tuple[Any, ...]:
    """The test inputs that a relation is about."""
    if isinstance(relation, Reach):
        return relation.before, relation.after
    before = relation.before.runs if isinstance(relation.before, Rows) else ()
    return *before, *relation.after.runs


def size_plan_of(
    workload: Workload, cases: Sequence[tuple[TestInput, ExpectedOutputs]], rng: np.random.Generator
) -> CheckPlan:
    """What checks a kernel at the benchmark's shape: each of the test inputs, of which the right answers are
    known at a sample; the first again, and with its rows in other places, where the operation knows how.
    """
    operation, first = operation_of(workload), cases[0][0]
    launches = [*(CheckLaunch(inputs) for inputs, _ in cases), CheckLaunch(first)]
    checks: list[Check] = [RightOutput(at, each, is_sampled=True) for at, (_, each) in enumerate(cases)]
    checks.append(SameBits(0, len(cases), _TWO_RUNS))
    if operation.rearranged is not None:
        relation = operation.rearranged(first, workload=workload, rng=rng)
        launches += [CheckLaunch(moved) for moved in relation.after.runs]
        if relation.is_exact:
            checks.append(_same_bits(CheckPlan(workload, tuple(launches), ()), relation))
        checks.append(relation)
    return CheckPlan(workload, tuple(launches), tuple(checks))


def single_plan(workload: Workload, launch: CheckLaunch, expected: ExpectedOutputs) -> CheckPlan:
    """One launch, whose output must be right."""
    return CheckPlan(workload, (launch,), (RightOutput(0, expected),))


def check_one_by_one(
    plan: CheckPlan, launch: Callable[[CheckLaunch], Output], *, is_deterministic: bool = True
) -> Verdict:
    """The verdict of launches one at a time, each made when a check first asks for what it wrote; the first
    complaint ends it. The verdict's reason names the input or the check, and the place.

    `is_deterministic`: two runs must agree in every bit.
    """
    made: dict[int, Output] = {}

    def output(at: int) -> Output:
        if at not in made:
            made[at] = launch(plan.launches[at])
        return made[at]

    verdict = judge(plan.workload, _results(plan, plan.judged_together, output))
    if not verdict.passed:
        return verdict
    asked = plan.asked_after(is_deterministic=is_deterministic)
    reason = next(filter(None, (_complaint(check, plan, output) for check in asked)), "")
    return replace(verdict, passed=not reason, reason=reason)


def _results(
    plan: CheckPlan, checks: Iterable[RightOutput], output: Callable[[int], Output]
) -> Iterator[tuple[TestInput, ExpectedOutputs, Output]]:
    """What judge() asks for; a launch is made when it is asked for its own."""
    return ((plan.launches[x.launch].inputs, x.expected, output(x.launch)) for x in checks)


def _complaint(check: Check, plan: CheckPlan, output: Callable[[int], Output]) -> str:
    match check:
        case RightOutput():
            reason = judge(plan.workload, _results(plan, [check], output)).reason
            return f"{check.words}{reason}" if reason else ""
        case SameBits():
            both = output(check.first), output(check.second)
            return differing(*both, workload=plan.workload, words=check.words, rows=check.rows)
        case _:
            return complaint(lambda inputs: output(plan.launch_of(inputs)), [check], workload=plan.workload)


def check_correctness(
    run: KernelCall,
    workload: Workload,
    *,
    seed: int,
    is_deterministic: bool = True,
    names: Sequence[str] = (),
) -> Verdict:
    """The plan of a workload carried out with a function of a test input: no other layout of tensors, and all
    outputs asked for.
    """
    plan = plan_of(workload, seed, names=names, of_inputs_alone=True)
    return check_one_by_one(plan, lambda launch: run(launch.inputs), is_deterministic=is_deterministic)
