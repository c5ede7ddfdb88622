"""Checks a kernel on several workloads in one batch of launches, by what is found on the device.

Which launches check a kernel on a small workload, and what must hold of their outputs, is planned here. The
thresholds and their words are the validator's. Where a verdict is bad, checks.py asks again, launch by
launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from evoflash.evaluation import Verdict
from evoflash.gpu.arena import spoilt
from evoflash.gpu.batch import Batch, BatchComparisons, BatchLaunch, Slab, bytes_of
from evoflash.gpu.comparisons import (
    COLUMNS,
    ComparisonBatch,
    ErrorStats,
    MemoryPair,
    Numbers,
    RowComparison,
    Side,
    UntouchedRows,
    on_device,
    read_results,
)
from evoflash.gpu.launcher import LoadedKernel
from evoflash.gpu.layout import layouts_of
from evoflash.gpu.process.device_reference import Right, compute
from evoflash.operation import (
    ELEMENT_BYTES,
    ErrorScale,
    ExpectedOutputs,
    TensorSpec,
    TestInput,
    Workload,
    operation_of,
)
from evoflash.operations.expectations import Reach, Relation, Rows, outputs_of, thresholds_of
from evoflash.validation.cases import case
from evoflash.validation.metamorphic import drift_of_sums, drift_of_worst, names_of
from evoflash.validation.validator import Errors, judge_errors, place_of, pool_errors

_AT_ONCE = 1  # repeats right behind the test inputs; another one is the last launch of all


@dataclass(frozen=True, slots=True, eq=False)
class JudgedLaunch:
    """A launch whose output is held against the right one, which the device computes where it is None.
    `words` precede a complaint; those of the test inputs, which are judged together, have none.
    """

    run: int
    expected: ExpectedOutputs | None
    words: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CheckPlan:
    """The launches on one workload, and what is asked of them; launches go by their place in `runs`."""

    workload: Workload
    runs: tuple[BatchLaunch, ...]
    judged: tuple[JudgedLaunch, ...]
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


def plan_of(workload: Workload, seed: int) -> CheckPlan:
    """The launches that check a kernel on a workload of which every row is compared."""
    operation = operation_of(workload)
    cases = [case(workload, name, seed) for name in names_of(workload)]
    first, expected = cases[0]
    runs = [BatchLaunch(inputs) for inputs, _ in cases]
    judged = [JudgedLaunch(run, right) for run, (_, right) in enumerate(cases)]
    alike = []
    for _ in range(_AT_ONCE):
        alike.append((0, len(runs), "two runs on the same input differ"))
        runs.append(BatchLaunch(first))
    for run, words in _variants(workload, first):
        judged.append(JudgedLaunch(len(runs), expected, words))
        if run.without:
            alike.append((0, len(runs), f"{words}two runs on the same input differ"))
        runs.append(run)
    relations = tuple(operation.relations(first, workload, seed=seed))
    numbers = {id(run.inputs): at for at, run in reversed(list(enumerate(runs)))}
    for inputs in (each for relation in relations for each in inputs_of(relation)):
        if id(inputs) not in numbers:
            numbers[id(inputs)] = len(runs)
            runs.append(BatchLaunch(inputs))
    alike.append((0, len(runs), "two runs on the same input differ"))
    runs.append(BatchLaunch(first))
    return CheckPlan(workload, tuple(runs), tuple(judged), tuple(alike), relations, numbers)


def size_plan_of(workload: Workload, inputs: Sequence[TestInput], rng: np.random.Generator) -> CheckPlan:
    """The launches at the benchmark's shape: on each of the inputs; on the first again, and with its groups
    exchanged, where the operation knows how.
    """
    operation, first = operation_of(workload), inputs[0]
    runs = [*(BatchLaunch(each) for each in inputs), BatchLaunch(first)]
    judged = tuple(JudgedLaunch(at, None) for at in range(len(inputs)))
    alike = ((0, len(inputs), "two runs on the same input differ"),)
    numbers = {id(each): at for at, each in enumerate(inputs)}
    relations: tuple[Relation, ...] = ()
    if operation.rearranged is not None:
        relations = (operation.rearranged(first, workload=workload, rng=rng),)
        (moved,) = relations[0].after.runs
        numbers[id(moved)] = len(runs)
        runs.append(BatchLaunch(moved))
    return CheckPlan(workload, tuple(runs), judged, alike, relations, numbers, exact=relations)


def _variants(workload: Workload, inputs: TestInput) -> Iterator[tuple[BatchLaunch, str]]:
    """The same call without each output that may be left out, and with tensors that lie apart."""
    specs = operation_of(workload).tensors(workload)
    for spec in specs:
        if spec.is_optional:
            yield BatchLaunch(inputs, without=(spec.name,)), f"without {spec.name}: "
    if any(spec.spread for spec in specs):
        yield BatchLaunch(inputs, is_strided=True), STRIDED


STRIDED = "tensors not dense: "  # what precedes a complaint


def inputs_of(relation: Relation | Reach) -> tuple[Any, ...]:
    """The test inputs that a relation is about."""
    if isinstance(relation, Reach):
        return relation.before, relation.after
    before = relation.before.runs if isinstance(relation.before, Rows) else ()
    return *before, *relation.after.runs


class CheckBatch:
    """The plans of some workloads on the device, ready for one kernel after another."""

    def __init__(self, plans: Sequence[CheckPlan], expected: Sequence[ExpectedOutputs] = ()) -> None:
        """With right answers that the device computes `expected` are the host's, at samples, of the first
        launches. NoRoomError when the device's memory is used up.
        """
        rng = np.random.default_rng()
        self._trials = [
            _PlanOnSlab(plan, Slab(plan.workload, plan.runs, rng=rng), expected) for plan in plans
        ]
        parts = [trials.comparisons() for trials in self._trials]
        self._ends = np.cumsum([[len(x.measured), len(x.alike), len(x.reached)] for x in parts], axis=0)
        together = BatchComparisons(
            tuple(each for part in parts for each in part.measured),
            tuple(each for part in parts for each in part.alike),
            tuple(each for part in parts for each in part.reached),
        )
        self._batch = Batch([trials.slab for trials in self._trials], together)

    def verify(self) -> None:
        """Raises MemoryFaultError where what verdicts go by is not what it was: a kernel wrote into it.

        For when an output was wrong in the batch alone.
        """
        for trials in self._trials:
            trials.verify()

    def verdicts(
        self, kernels: Sequence[LoadedKernel], *, limit_s: float, is_deterministic: bool
    ) -> list[Verdict]:
        """One for each workload, of its kernel. Raises what Batch.run() does."""
        answers = self._batch.run(kernels, limit_s=limit_s)
        found = read_results(answers.measured)
        begins, verdicts = np.zeros(3, int), []
        for trials, ends in zip(self._trials, self._ends, strict=True):
            measured, alike, reached = (slice(*each) for each in zip(begins, ends, strict=True))
            differ = answers.alike[alike].any(axis=1) if is_deterministic else np.zeros(0, bool)
            verdicts.append(trials.verdict(found[measured], differ, answers.reached[reached]))
            begins = ends
        return verdicts


class _PlanOnSlab:
    """One plan on its slab."""

    def __init__(self, plan: CheckPlan, slab: Slab, expected: Sequence[ExpectedOutputs]) -> None:
        self.plan, self.slab, workload = plan, slab, plan.workload
        self._rows, self._numbers = outputs_of(workload, "rows"), outputs_of(workload, "numbers")
        self._ordinary = operation_of(workload).inputs.ordinary
        self._kept: dict[int, Any] = {}  # arrays on the device by id() of the host's, both kept alive
        self._expected = expected
        self._rights = [compute(workload, slab.inputs(run), each) for run, each in enumerate(expected)]
        self._alike = [
            *self._repeat_pairs(),
            *(each for relation in plan.exact for each in self._exact(relation)),
        ]

    def _device(self, values: Any) -> int:
        """The address of an array's copy on the device."""
        if id(values) not in self._kept:
            self._kept[id(values)] = values, on_device(values)
        return int(self._kept[id(values)][1].data.ptr)

    def verify(self) -> None:
        """As TrialBatch.verify()."""
        self.slab.verify()
        for values, copy in self._kept.values():
            if (copy.get() != np.ascontiguousarray(values).view(np.uint8).reshape(-1)).any():
                raise spoilt("what is right")
        for run, (right, expected) in enumerate(zip(self._rights, self._expected, strict=True)):
            again = compute(self.plan.workload, self.slab.inputs(run), expected)
            both = zip(right.memory, again.memory, strict=True)
            pairs = [MemoryPair(int(a.data.ptr), int(b.data.ptr), a.nbytes) for a, b in both]
            if ComparisonBatch(pairs).ask_now().any():
                raise spoilt("what is right")

    def comparisons(self) -> BatchComparisons:
        """What is compared: the judged launches, then the relations; launches alike; reaches."""
        measured = [each for judged in self.plan.judged for each in self._row_comparisons(judged)]
        relations = [each for each in self.plan.relations if isinstance(each, Relation)]
        measured += [each for relation in relations for each in self._relation_comparisons(relation)]
        reaches = [each for each in self.plan.relations if isinstance(each, Reach)]
        return BatchComparisons(
            tuple(measured),
            tuple(pair for pair, _ in self._alike),
            tuple(each for reach in reaches for each in self._reach_comparisons(reach)),
        )

    def _repeat_pairs(self) -> Iterator[tuple[MemoryPair, str]]:
        """Launches that agree in every bit, and what is said if they do not."""
        for one, other, said in self.plan.alike:
            for spec in self._rows:
                first, second = (self.slab.address(run, spec.name) for run in (one, other))
                yield MemoryPair(first, second, spec.size_bytes), said

    def _exact(self, relation: Relation) -> Iterator[tuple[MemoryPair, str]]:
        """The groups of a relation that agree in every bit."""
        said = f"{relation.change}: the output is not the same to the bit"
        if not isinstance(relation.before, Rows) or relation.before.rows is None:
            return
        one, other = (self.plan.run_of(side.runs[0]) for side in (relation.before, relation.after))
        for spec in self._rows:
            row_bytes, rows = spec.shape[-1] * ELEMENT_BYTES[spec.dtype], spec.shape[-2]
            before, after = (self.slab.address(run, spec.name) for run in (one, other))
            for group, first in enumerate(relation.before.rows[::rows]):
                at = before + int(first) * row_bytes, after + group * rows * row_bytes
                yield MemoryPair(*at, rows * row_bytes), said

    def _row_comparisons(self, judged: JudgedLaunch) -> Iterator[RowComparison]:
        if judged.expected is None:
            yield self._device_comparison(self._rights[judged.run], judged.run)
            return
        run = self.plan.runs[judged.run]
        for rows, numbers in zip_longest(self._rows, self._numbers):
            if numbers is not None and numbers.name in run.without:
                numbers = None
            spec = rows or numbers
            columns = spec.shape[-1] if rows is not None else 0
            yield RowComparison(
                rows=int(np.prod(spec.shape[:-1] if rows is not None else spec.shape)),
                columns=columns,
                dtype=spec.dtype,
                new=Side() if rows is None else self._side(judged.run, rows, None),
                right=0 if rows is None else self._device(judged.expected.rows[rows.name].right),
                numbers=None
                if numbers is None
                else self._expected_numbers(judged.run, judged.expected, numbers),
            )

    def _device_comparison(self, right: Right, run: int) -> RowComparison:
        """Against what the device has computed."""
        (spec,), (numbers,), limits = self._rows, self._numbers, thresholds_of(self.plan.workload)
        got, known = self.slab.address(run, numbers.name), right.numbers_address
        places = 0 if right.rows is None else self._device(right.rows.astype(np.int64))
        return RowComparison(
            rows=right.count,
            columns=spec.shape[-1],
            dtype=spec.dtype,
            new=self._side(run, spec, right.rows),
            right=right.address,
            is_single=True,
            numbers=Numbers(got, known, limits.lse_absolute, limits.lse_relative, 0.0, places),
        )

    def _expected_numbers(self, run: int, expected: ExpectedOutputs, spec: TensorSpec) -> Numbers:
        right, limits = expected.numbers[spec.name], thresholds_of(self.plan.workload)
        return Numbers(
            self.slab.address(run, spec.name),
            self._device(right.right),
            limits.lse_absolute,
            limits.lse_relative,
            limits.honest_factor * right.excused,
        )

    def _side(self, run: int, spec: TensorSpec, rows: Any, other: int | None = None) -> Side:
        first = self.slab.address(run, spec.name)
        second = 0 if other is None else self.slab.address(other, spec.name)
        if self.plan.runs[run].is_strided:
            specs = operation_of(self.plan.workload).tensors(self.plan.workload)
            layout = layouts_of(specs, is_strided=True)[spec.name]
            return Side(first, second, self._device(layout.row_offsets()))
        if rows is None:
            return Side(first, second)
        return Side(first, second, self._device((rows * spec.shape[-1]).astype(np.int64)))

    def _relation_comparisons(self, relation: Relation) -> Iterator[RowComparison]:
        for spec in self._rows:
            known = None if isinstance(relation.before, Rows) else relation.before[spec.name]
            new, before = relation.after, relation.before
            yield RowComparison(
                rows=int(np.prod(spec.shape[:-1])) if new.rows is None else len(new.rows),
                columns=spec.shape[-1],
                dtype=spec.dtype,
                new=self._sum(new, spec),
                old=self._sum(before, spec) if isinstance(before, Rows) else Side(),
                right=0 if known is None else self._device(known),
            )

    def _sum(self, side: Rows, spec: TensorSpec) -> Side:
        runs = [self.plan.run_of(inputs) for inputs in side.runs]
        return self._side(runs[0], spec, side.rows, *runs[1:])

    def _reach_comparisons(self, reach: Reach) -> Iterator[UntouchedRows]:
        for spec in self._rows:
            before, after = (self.plan.run_of(inputs) for inputs in (reach.before, reach.after))
            yield UntouchedRows(
                self.slab.address(before, spec.name),
                self.slab.address(after, spec.name),
                int(np.prod(spec.group_shape)),
                spec.shape[-2],
                spec.shape[-1] * ELEMENT_BYTES[spec.dtype],
                reach.first_row,
            )

    def verdict(self, found: Sequence[ErrorStats], differ: Any, reached: Any) -> Verdict:
        """The verdict, of what was found; `differ` is empty where runs need not repeat."""
        each = iter(found)
        errors = [(judged, self._errors(judged, each)) for judged in self.plan.judged]
        workload = self.plan.workload
        verdict = judge_errors(workload, (error for judged, error in errors if not judged.words))
        reasons = (
            *(said for (_, said), bad in zip(self._alike, differ, strict=False) if bad),
            *(self._complaint(judged, error) for judged, error in errors if judged.words),
            *self._relation_complaints(each, iter(reached)),
        )
        reason = verdict.reason or next(filter(None, reasons), "")
        return replace(verdict, passed=not reason, reason=reason)

    def _complaint(self, judged: JudgedLaunch, error: Errors) -> str:
        reason = judge_errors(self.plan.workload, [error]).reason
        return f"{judged.words}{reason}" if reason else ""

    def _errors(self, judged: JudgedLaunch, found: Iterator[ErrorStats]) -> Errors:
        """What was found of a judged launch, as the validator has it."""
        specs = zip_longest(self._rows, self._numbers)
        named = [self._error(judged, *each, this) for each, this in zip(specs, found, strict=False)]
        worst = max(named, key=lambda error: error.lse)
        together = pool_errors(named[: len(self._rows)])
        if worst is together:
            return together
        return replace(together, lse=worst.lse, lse_error=worst.lse_error, lse_where=worst.lse_where)

    def _error(
        self, judged: JudgedLaunch, rows: TensorSpec | None, numbers: TensorSpec | None, found: ErrorStats
    ) -> Errors:
        """Of one tensor of rows, or of one of numbers, or of one of each."""
        name = self.plan.runs[judged.run].inputs.name
        scale = self._scale(judged, rows) if rows else None
        where = self._place(judged, rows, found.worst) if rows else ""
        return Errors(
            inputs=name,
            is_ordinary=name in self._ordinary,
            squared=found.squared,
            reference_squared=scale.squared if scale else 0.0,
            honest_squared=scale.honest_squared if scale else 0.0,
            max_over_rms=found.max_over_rms,
            honest_max_over_rms=scale.honest_max_over_rms if scale else 0.0,
            lse=found.number,
            lse_error=found.number_error,
            broken=f"{found.broken} elements" if found.broken else "",
            where=f"{rows.name} {where}" if rows and len(self._rows) > 1 else where,
            lse_where=self._place(judged, numbers, (found.number_row,)) if numbers else "",
        )

    def _scale(self, judged: JudgedLaunch, spec: TensorSpec) -> ErrorScale:
        if judged.expected is None:
            return self._rights[judged.run].scale
        scale: ErrorScale = judged.expected.rows[spec.name].scale
        return scale

    def _place(self, judged: JudgedLaunch, spec: TensorSpec, at: tuple[int, ...]) -> str:
        """A compared row, and perhaps a column, in words."""
        known = None if judged.expected is not None else self._rights[judged.run].rows
        row = at[0] if known is None else int(known[at[0]])
        places = spec.shape[:-1] if spec.role == "rows" else spec.shape
        return place_of(spec, (*np.unravel_index(row, places), *at[1:]))

    def _relation_complaints(self, found: Iterator[ErrorStats], reached: Iterator[Any]) -> Iterator[str]:
        for relation in self.plan.relations:
            for spec in self._rows:
                if isinstance(relation, Relation):
                    yield self._relation_complaint(relation, spec, next(found))
                else:
                    blind, ignoring = next(reached)
                    if blind or ignoring:
                        counts = f"{blind} rows change that must not, {ignoring} do not that must"
                        yield f"{relation.mask}: {relation.change}: {counts}"

    def _relation_complaint(self, relation: Relation, spec: TensorSpec, found: ErrorStats) -> str:
        workload, change, rows = self.plan.workload, relation.change, relation.after.rows
        if found.broken:
            return f"{change}: {found.broken} elements are not finite"
        row, column = found.worst
        at = (row if rows is None else int(rows[row])), column
        return drift_of_sums(
            change, found.squared, found.before_squared, workload=workload
        ) or drift_of_worst(change, found.max_over_rms, at, spec, workload=workload)
