"""Which launches check a kernel on a small workload, and what must hold of their outputs; launches nothing.

What validation/correctness.py asks of a kernel that it calls, as a list: all launches are known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evoflash.cuda.comparisons import COLUMNS
from evoflash.cuda.slab import Run, bytes_of
from evoflash.operation import Expected, TestInput, Workload
from evoflash.operation.registry import operation_of
from evoflash.validation.cases import case
from evoflash.validation.correctness import names_of
from evoflash.validation.expected import outputs_of
from evoflash.validation.relation import Reach, Relation, Rows

_AT_ONCE = 1  # repeats right behind the test inputs; another one is the last launch of all


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A launch whose output is held against the right one, which the device computes where it is None.
    `words` precede a complaint; those of the test inputs, which are judged together, have none.
    """

    run: int
    expected: Expected | None
    words: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The launches on one workload, and what is asked of them; launches go by their place in `runs`."""

    workload: Workload
    runs: tuple[Run, ...]
    judged: tuple[Judged, ...]
    alike: tuple[tuple[int, int, str], ...]  # launches whose rows agree in every bit; what is said if not
    relations: tuple[Relation | Reach, ...]
    numbers: Mapping[int, int]  # launches by id() of their inputs
    exact: tuple[Relation, ...] = ()  # of whole groups: where runs repeat to the bit, these agree to the bit

    def run_of(self, inputs: TestInput) -> int:
        """The first launch with those inputs."""
        return self.numbers[id(inputs)]

    @property
    def size_bytes(self) -> int:
        """What it takes on the device, about: tensors, their images, references."""
        rows = sum(spec.size_bytes for spec in outputs_of(self.workload, "rows"))
        return 2 * bytes_of(self.workload, self.runs) + len(self.judged) * 4 * rows

    @property
    def is_comparable(self) -> bool:
        """Whether the device can compare the rows."""
        return all(spec.shape[-1] % COLUMNS == 0 for spec in outputs_of(self.workload, "rows"))


def plan_of(workload: Workload, seed: int) -> Plan:
    """The launches that check a kernel on a workload of which every row is compared."""
    operation = operation_of(workload)
    cases = [case(workload, name, seed) for name in names_of(workload)]
    first, expected = cases[0]
    runs = [Run(inputs) for inputs, _ in cases]
    judged = [Judged(run, right) for run, (_, right) in enumerate(cases)]
    alike = []
    for _ in range(_AT_ONCE):
        alike.append((0, len(runs), "two runs on the same input differ"))
        runs.append(Run(first))
    for run, words in _variants(workload, first):
        judged.append(Judged(len(runs), expected, words))
        if run.without:
            alike.append((0, len(runs), f"{words}two runs on the same input differ"))
        runs.append(run)
    relations = tuple(operation.relations(first, workload, seed=seed))
    numbers = {id(run.inputs): at for at, run in reversed(list(enumerate(runs)))}
    for inputs in (each for relation in relations for each in inputs_of(relation)):
        if id(inputs) not in numbers:
            numbers[id(inputs)] = len(runs)
            runs.append(Run(inputs))
    alike.append((0, len(runs), "two runs on the same input differ"))
    runs.append(Run(first))
    return Plan(workload, tuple(runs), tuple(judged), tuple(alike), relations, numbers)


def size_plan_of(workload: Workload, inputs: Sequence[TestInput], rng: np.random.Generator) -> Plan:
    """The launches at the benchmark's shape: on each of the inputs; on the first again, and with its groups
    exchanged, where the operation knows how.
    """
    operation, first = operation_of(workload), inputs[0]
    runs = [*(Run(each) for each in inputs), Run(first)]
    judged = tuple(Judged(at, None) for at in range(len(inputs)))
    alike = ((0, len(inputs), "two runs on the same input differ"),)
    numbers = {id(each): at for at, each in enumerate(inputs)}
    relations: tuple[Relation, ...] = ()
    if operation.rearranged is not None:
        relations = (operation.rearranged(first, workload=workload, rng=rng),)
        (moved,) = relations[0].after.runs
        numbers[id(moved)] = len(runs)
        runs.append(Run(moved))
    return Plan(workload, tuple(runs), judged, alike, relations, numbers, exact=relations)


def _variants(workload: Workload, inputs: TestInput) -> Iterator[tuple[Run, str]]:
    """The same call without each output that may be left out, and with tensors that lie apart."""
    specs = operation_of(workload).tensors(workload)
    for spec in specs:
        if spec.is_optional:
            yield Run(inputs, without=(spec.name,)), f"without {spec.name}: "
    if any(spec.spread for spec in specs):
        yield Run(inputs, is_strided=True), STRIDED


STRIDED = "tensors not dense: "  # what precedes a complaint


def inputs_of(relation: Relation | Reach) -> tuple[Any, ...]:
    """The test inputs that a relation is about."""
    if isinstance(relation, Reach):
        return relation.before, relation.after
    before = relation.before.runs if isinstance(relation.before, Rows) else ()
    return *before, *relation.after.runs
