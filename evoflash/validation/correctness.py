"""Is a kernel right on a workload? Every test input against the reference, then checks without one; no GPU.

The kernel is any function of a test input: a launch on a GPU, a run in the emulator, NumPy in a test.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from evoflash.evaluation import Verdict
from evoflash.operation import Kernel, Output, TestInput, Workload
from evoflash.operation.registry import operation_of
from evoflash.validation import metamorphic
from evoflash.validation.cases import case
from evoflash.validation.expected import outputs_of
from evoflash.validation.validator import judge

_MANY_GROUPS = 64


def check_correctness(
    run: Kernel,
    workload: Workload,
    *,
    seed: int,
    is_deterministic: bool = True,
    names: Sequence[str] = (),
) -> Verdict:
    """The test inputs of those names (without: names_of()) at every row, then the checks without a reference
    on the first of them; stops at what is wrong.

    The verdict's reason names the input or the check, and the place. `is_deterministic`: two runs must agree
    in every bit.
    """
    operation = operation_of(workload)
    cases = [case(workload, name, seed) for name in names or names_of(workload)]
    first = cases[0][0]
    outputs: dict[str, Output] = {}

    def remembering(inputs: TestInput) -> Output:
        # The checks begin with the first input's output, which is there already.
        if inputs is not first:
            return run(inputs)
        if "first" not in outputs:
            outputs["first"] = run(inputs)
        return outputs["first"]

    verdict = judge(workload, ((inputs, expected, remembering(inputs)) for inputs, expected in cases))
    if not verdict.passed:
        return verdict
    reason = metamorphic.repeats(run, first, workload=workload) if is_deterministic else ""
    holding = operation.relations(first, workload, seed=seed)
    reason = reason or metamorphic.complaint(remembering, holding, workload=workload)
    return replace(verdict, passed=not reason, reason=reason)


def names_of(workload: Workload) -> tuple[str, ...]:
    """The test inputs of a small workload: all kinds; few where there are so many groups of rows that right
    answers would take long.
    """
    inputs = operation_of(workload).inputs
    groups = max(math.prod(spec.group_shape) for spec in outputs_of(workload, "rows"))
    return inputs.small if groups <= _MANY_GROUPS else inputs.at_size
