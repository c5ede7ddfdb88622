"""Carries plans of checks out on the GPU: all launches in one batch, what must hold compared on the device.

The thresholds and their words are the validator's, and which launches there are the plan's
(validation/plan.py). Where a verdict is bad, checks.py asks again, launch by launch.

What outputs should be at the benchmark's shape is computed on the device too (right_answers.py), once for
each test input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from evoflash.evaluation import Verdict
from evoflash.gpu.arena import spoilt, verify_copy
from evoflash.gpu.batch import Batch, Slab, bytes_of
from evoflash.gpu.comparisons import (
    COLUMNS,
    Comparison,
    ComparisonBatch,
    ErrorStats,
    MemoryPair,
    Numbers,
    RowComparison,
    Side,
    UntouchedRows,
    read_results,
)
from evoflash.gpu.launcher import LoadedKernel
from evoflash.gpu.memory import layouts_of, on_device, raw_bytes
from evoflash.gpu.process.right_answers import RightRows, compute_right, errors_of
from evoflash.operation import operation_of
from evoflash.operations.expectations import outputs_of, thresholds_of
from evoflash.validation.metamorphic import drift_of_sums, drift_of_worst
from evoflash.validation.plan import Check, CheckPlan, RightOutput, SameBits
from evoflash.validation.validator import Errors, judge_errors, place_of, pool_errors
from evoflash.workload import ELEMENT_BYTES, ErrorScale, Reach, Relation, Rows, TensorSpec

Found = Mapping[type[Comparison], Iterator[Any]]  # answers to comparisons of each kind, in their order


def bytes_on_device(plan: CheckPlan) -> int:
    """What a plan takes on the device, about: tensors, their images, references."""
    rows = sum(spec.size_bytes for spec in outputs_of(plan.workload, "rows"))
    judged = sum(isinstance(check, RightOutput) for check in plan.checks)
    return 2 * bytes_of(plan.workload, plan.launches) + judged * 4 * rows


def can_hold(plan: CheckPlan) -> bool:
    """Whether the device can compare the rows."""
    return all(spec.shape[-1] % COLUMNS == 0 for spec in outputs_of(plan.workload, "rows"))


class CheckBatch:
    """The plans of some workloads on the device, ready for one kernel after another."""

    def __init__(self, plans: Sequence[CheckPlan]) -> None:
        """NoRoomError when the device's memory is used up."""
        rng = np.random.default_rng()
        self._plans = [_PlanOnSlab(plan, Slab(plan.workload, plan.launches, rng=rng)) for plan in plans]
        asked = [each for plan in self._plans for each in plan.comparisons]
        self._batch = Batch([plan.slab for plan in self._plans], asked)

    def verify(self) -> None:
        """Raises MemoryFaultError where what verdicts go by is not what it was: a kernel wrote into it.

        For when an output was wrong in the batch alone.
        """
        for plan in self._plans:
            plan.verify()

    def verdicts(
        self, kernels: Sequence[LoadedKernel], *, limit_s: float, is_deterministic: bool
    ) -> list[Verdict]:
        """One for each workload, of its kernel. Raises what Batch.run() does."""
        answers = self._batch.run(kernels, limit_s=limit_s)
        found: Found = {kind: iter(each) for kind, each in answers.items()}
        found = {**found, RowComparison: iter(read_results(answers[RowComparison]))}
        return [plan.verdict(found, is_deterministic=is_deterministic) for plan in self._plans]


class _PlanOnSlab:
    """One plan on its slab: what is compared there for each check, and what the answers say."""

    def __init__(self, plan: CheckPlan, slab: Slab) -> None:
        self.plan, self.slab, workload = plan, slab, plan.workload
        self._rows, self._numbers = outputs_of(workload, "rows"), outputs_of(workload, "numbers")
        self._ordinary = operation_of(workload).inputs.ordinary
        self._kept: dict[int, Any] = {}  # arrays on the device by id() of the host's, both kept alive
        self._rights = {  # by check: what the device computes, because the host knows a sample alone
            check: compute_right(workload, slab.inputs(check.launch), check.expected)
            for check in plan.judged_together
            if check.is_sampled
        }
        self._asked = [(check, tuple(self._comparisons(check))) for check in plan.checks]

    @property
    def comparisons(self) -> Iterator[Comparison]:
        """Of all checks, in their order."""
        return (each for _, asked in self._asked for each in asked)

    def _device(self, values: Any) -> int:
        """The address of an array's copy on the device."""
        if id(values) not in self._kept:
            self._kept[id(values)] = values, on_device(values)
        return int(self._kept[id(values)][1].data.ptr)

    def verify(self) -> None:
        """As CheckBatch.verify()."""
        self.slab.verify()
        for values, copy in self._kept.values():
            verify_copy(copy, raw_bytes(values), "what is right")
        for check, right in self._rights.items():
            again = compute_right(self.plan.workload, self.slab.inputs(check.launch), check.expected)
            both = zip(right.memory, again.memory, strict=True)
            pairs = [MemoryPair(int(a.data.ptr), int(b.data.ptr), a.nbytes) for a, b in both]
            if ComparisonBatch(pairs).ask_now().any():
                raise spoilt("what is right")

    def _comparisons(self, check: Check) -> Iterator[Comparison]:
        """What is compared for a check; _complaint() gets the answers in this order."""
        match check:
            case RightOutput():
                return self._row_comparisons(check)
            case SameBits():
                return self._bit_comparisons(check)
            case Relation():
                return self._relation_comparisons(check)
            case Reach():
                return self._reach_comparisons(check)

    def _bit_comparisons(self, check: SameBits) -> Iterator[MemoryPair]:
        """All rows at once, or each run of rows that lie side by side in both."""
        for spec in self._rows:
            first, second = (self.slab.address(at, spec.name) for at in (check.first, check.second))
            if check.rows is None:
                yield MemoryPair(first, second, spec.size_bytes)
                continue
            row_bytes, begins = spec.shape[-1] * ELEMENT_BYTES[spec.dtype], np.diff(check.rows) != 1
            for run in np.split(np.arange(len(check.rows)), np.flatnonzero(begins) + 1):
                at = first + int(check.rows[run[0]]) * row_bytes, second + int(run[0]) * row_bytes
                yield MemoryPair(*at, len(run) * row_bytes)

    def _row_comparisons(self, check: RightOutput) -> Iterator[RowComparison]:
        if check in self._rights:
            right, (rows,) = self._rights[check], self._rows
            of_rows = None if right.is_whole(self.plan.workload) else right.rows
            side = self._side(check.launch, rows, of_rows)
            yield right.comparison(self.plan.workload, side, partial(self.slab.address, check.launch))
            return
        without = self.plan.launches[check.launch].without
        for rows, numbers in zip_longest(self._rows, self._numbers):
            shape = numbers.shape if rows is None else rows.shape[:-1]
            is_wanted = numbers is not None and numbers.name not in without
            yield RowComparison(
                rows=int(np.prod(shape)),
                columns=0 if rows is None else rows.shape[-1],
                dtype=(rows or numbers).dtype,
                new=Side() if rows is None else self._side(check.launch, rows, None),
                right=0 if rows is None else self._device(check.expected.rows[rows.name].right),
                numbers=self._expected_numbers(check, numbers) if is_wanted else None,
            )

    def _expected_numbers(self, check: RightOutput, spec: TensorSpec) -> Numbers:
        right, limits = check.expected.numbers[spec.name], thresholds_of(self.plan.workload)
        specs = operation_of(self.plan.workload).tensors(self.plan.workload)
        is_strided = self.plan.launches[check.launch].is_strided
        layout = layouts_of(specs, is_strided=is_strided)[spec.name]
        return Numbers(
            self.slab.address(check.launch, spec.name),
            self._device(right.right),
            limits.lse_absolute,
            limits.lse_relative,
            limits.honest_factor * right.excused,
            self._device(layout.offsets()) if is_strided and not layout.is_dense else 0,
        )

    def _side(self, launch: int, spec: TensorSpec, rows: Any, other: int | None = None) -> Side:
        first = self.slab.address(launch, spec.name)
        second = 0 if other is None else self.slab.address(other, spec.name)
        if self.plan.launches[launch].is_strided:
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
        launches = [self.plan.launch_of(inputs) for inputs in side.runs]
        return self._side(launches[0], spec, side.rows, *launches[1:])

    def _reach_comparisons(self, reach: Reach) -> Iterator[UntouchedRows]:
        for spec in self._rows:
            before, after = (self.plan.launch_of(inputs) for inputs in (reach.before, reach.after))
            yield UntouchedRows(
                self.slab.address(before, spec.name),
                self.slab.address(after, spec.name),
                int(np.prod(spec.group_shape)),
                spec.shape[-2],
                spec.shape[-1] * ELEMENT_BYTES[spec.dtype],
                reach.first_row,
            )

    def verdict(self, answers: Found, *, is_deterministic: bool) -> Verdict:
        """The verdict, of what was found: takes this plan's answers from those of all plans."""
        found = {check: [next(answers[type(each)]) for each in asked] for check, asked in self._asked}
        errors = (self._errors(check, found[check]) for check in self.plan.judged_together)
        verdict = judge_errors(self.plan.workload, errors)
        asked = self.plan.asked_after(is_deterministic=is_deterministic)
        complaints = (self._complaint(check, found[check]) for check in asked)
        reason = verdict.reason or next(filter(None, complaints), "")
        return replace(verdict, passed=not reason, reason=reason)

    def _complaint(self, check: Check, found: Sequence[Any]) -> str:
        """What is wrong, of the answers to a check's comparisons; empty where nothing is."""
        match check:
            case RightOutput():
                reason = judge_errors(self.plan.workload, [self._errors(check, found)]).reason
                return f"{check.words}{reason}" if reason else ""
            case SameBits():
                return check.words if any(counts.any() for counts in found) else ""
            case Relation():
                both = zip(self._rows, found, strict=True)
                return next(filter(None, (self._relation_complaint(check, *each) for each in both)), "")
            case Reach():
                return next(filter(None, (self._reach_complaint(check, *each) for each in found)), "")

    def _errors(self, check: RightOutput, found: Sequence[ErrorStats]) -> Errors:
        """What was found of a launch's output, as the validator has it."""
        specs = zip_longest(self._rows, self._numbers)
        named = [self._error(check, *each, this) for each, this in zip(specs, found, strict=True)]
        worst = max(named, key=lambda error: error.lse)
        together = pool_errors(named[: len(self._rows)])
        if worst is together:
            return together
        return replace(together, lse=worst.lse, lse_error=worst.lse_error, lse_where=worst.lse_where)

    def _error(
        self, check: RightOutput, rows: TensorSpec | None, numbers: TensorSpec | None, found: ErrorStats
    ) -> Errors:
        """Of one tensor of rows, or of one of numbers, or of one of each."""
        name = self.plan.launches[check.launch].inputs.name
        where = self._place(check, rows, found.worst) if rows else ""
        return errors_of(
            found,
            self._scale(check, rows) if rows else None,
            name=name,
            is_ordinary=name in self._ordinary,
            where=f"{rows.name} {where}" if rows and len(self._rows) > 1 else where,
            lse_where=self._place(check, numbers, (found.number_row,)) if numbers else "",
        )

    def _scale(self, check: RightOutput, spec: TensorSpec) -> ErrorScale:
        if check in self._rights:
            right: RightRows = self._rights[check]
            return right.scale
        scale: ErrorScale = check.expected.rows[spec.name].scale
        return scale

    def _place(self, check: RightOutput, spec: TensorSpec, at: tuple[int, ...]) -> str:
        """A compared row, and perhaps a column, in words."""
        row = int(self._rights[check].rows[at[0]]) if check in self._rights else at[0]
        places = spec.shape[:-1] if spec.role == "rows" else spec.shape
        return place_of(spec, (*np.unravel_index(row, places), *at[1:]))

    def _relation_complaint(self, relation: Relation, spec: TensorSpec, found: ErrorStats) -> str:
        workload, change, rows = self.plan.workload, relation.change, relation.after.rows
        if found.broken:
            return f"{change}: {found.broken} elements are not finite"
        row, column = found.worst
        at = (row if rows is None else int(rows[row])), column
        return drift_of_sums(
            change, found.squared, found.before_squared, workload=workload
        ) or drift_of_worst(change, found.max_over_rms, at, spec, workload=workload)

    def _reach_complaint(self, reach: Reach, blind: int, ignoring: int) -> str:
        if not (blind or ignoring):
            return ""
        counts = f"{blind} rows change that must not, {ignoring} do not that must"
        return f"{reach.mask}: {reach.change}: {counts}"
