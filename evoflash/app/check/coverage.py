"""Says what the runs of a check compared with what, and what they left open. Judges no kernel."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evoflash.app.check.cases import WorkloadCase
from evoflash.app.check.one_run import OneRun
from evoflash.app.check.subject import KernelUnderTest
from evoflash.notices import count_of
from evoflash.operation import operation_of


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a check rests on, a sentence each. Where nothing was compared, it has passed nothing."""

    compared: tuple[str, ...]
    seen: tuple[str, ...]
    left_open: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"compared": [*self.compared], "seen": [*self.seen], "not_compared": [*self.left_open]}


NOTHING = Coverage((), (), ("The kernel was not run.",))


def coverage_of(subject: KernelUnderTest, runs: Sequence[OneRun]) -> Coverage:
    whole = [one for one in runs if one.ending.value and one.ending.value.counters.get("threads")]
    if not whole:
        return NOTHING
    compared = (*_with_reference(whole), *_with_each_other(whole))
    return Coverage(compared, tuple(_sights(whole)), tuple(_left_open(subject, whole)))


def _with_reference(runs: Sequence[OneRun]) -> Iterator[str]:
    judged = [one for one in runs if one.ending.value and one.ending.value.is_judged]
    cases = [one.case for one in judged if isinstance(one.case, WorkloadCase)]
    if not cases:
        return
    tensors = operation_of(cases[0].workload).tensors(cases[0].workload)
    names = [spec.name for spec in tensors if spec.role != "input"]
    times = ((name, sum(name not in one.run.without for one in judged)) for name in names)
    outputs = " and ".join(f"{name} in {count_of(number, 'run')}" for name, number in times)
    shapes = tuple(dict.fromkeys(case.workload for case in cases))
    yield (
        f"{outputs} with the fp64 reference, every row, on {count_of(len(shapes), 'shape')} "
        f"({_ranges([shape.names() for shape in shapes])})."
    )
    yield f"Inputs: {', '.join(sorted({one.inputs for one in judged}))}."
    strided = sum(one.run.is_strided for one in judged)
    rescaled = sum(one.run.is_rescaled for one in judged)
    scale = f", another scale in {count_of(rescaled, 'run')}" if rescaled else ""  # a linear layer has none
    yield f"Tensors that are not dense in {count_of(strided, 'run')}{scale}."


def _ranges(names: Sequence[Mapping[str, Any]]) -> str:
    """ "batch 1 to 3, heads 2" for what has several values, and what has one."""
    parts = []
    for name in names[0]:
        values = sorted({each[name] for each in names})
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            parts.append(f"{name} {values[0]}" + (f" to {values[-1]}" if len(values) > 1 else ""))
    return ", ".join(parts)


def _with_each_other(runs: Sequence[OneRun]) -> Iterator[str]:
    clean = [one for one in runs if one.is_clean and one.outputs]
    if len(clean) < 2:
        return
    written = dict.fromkeys(out.name for one in clean for out in one.outputs if out.is_changed)
    if written:
        ways = {(one.run.delivery, one.run.schedule) for one in clean}
        yield (
            f"{', '.join(written)} bit for bit between {count_of(len(clean), 'run')} with the same inputs, "
            f"under {count_of(len(ways), 'way')} of delivering copies and ordering threads."
        )


def _sights(runs: Sequence[OneRun]) -> Iterator[str]:
    def total(name: str) -> int:
        return sum(one.ending.value.counters.get(name, 0) for one in runs if one.ending.value)

    yield (
        f"Every load and store that g++ left in the text ({total('plain_reads'):,} plain reads and "
        f"{total('plain_writes'):,} plain writes of memory, besides the ef:: primitives) of "
        f"{total('threads'):,} threads: bounds, alignment, order, and whether somebody had written there."
    )


def _left_open(subject: KernelUnderTest, runs: Sequence[OneRun]) -> Iterator[str]:
    if not isinstance(runs[0].case, WorkloadCase):
        yield "What the numbers should be: nobody says it, and scalars have the value that the comment gives."
    else:
        yield "Shapes, inputs and scales other than these."
    yield "Nothing ran on a GPU: not the PTX inside ef::, nor what a GPU rounds otherwise, nor any time."
    yield f"Schedules other than those of {count_of(len(runs), 'run')}; order alone does not depend on them."
    if subject.gpu is None:
        yield "Registers, spills and limits of a GPU (--gpu)."
