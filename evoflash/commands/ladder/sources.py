"""Each step's kernel as CUDA, and what it changes in that of the step before; compiles and runs nothing."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from evoflash.commands.ladder.steps import Step, genome_of, read_steps
from evoflash.cuda.launcher import present_spec
from evoflash.errors import DeviceError, UsageError
from evoflash.families.renderer import render
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.problem import parse_problem

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class Source:
    """A step's rendered kernel, and its unified diff to the step before where that is of the same family."""

    step: Step
    text: str
    diff: tuple[str, ...]


def sources(*, gpu: str | None, problem: str) -> tuple[Source, ...]:
    """The kernels of all steps for the problem's first compile key, in order."""
    what, spec = parse_problem(problem), _spec(gpu)
    key = what.compile_keys(spec.arch)[0]
    shown: list[Source] = []
    for step in read_steps():
        text = render(genome_of(step, what, spec), key, spec).source
        before = shown[-1] if shown and shown[-1].step.family == step.family else None
        shown.append(Source(step, text, _diff(before, step, text)))
    return tuple(shown)


def _spec(gpu: str | None) -> GpuSpec:
    if gpu:
        return load_gpu(gpu)
    try:
        return present_spec(None)
    except DeviceError:
        raise UsageError("no known GPU is present: say which one, for example --gpu l4.") from None


def _diff(before: Source | None, step: Step, text: str) -> tuple[str, ...]:
    if before is None:
        return ()
    names = (before.step.name, step.name)
    lines = difflib.unified_diff(before.text.splitlines(), text.splitlines(), *names, lineterm="")
    return tuple(lines)


def as_json(shown: Sequence[Source]) -> str:
    """The steps with their whole source and their diff."""
    rows = [
        {"step": one.step.name, "change": one.step.change, "source": one.text, "diff": "\n".join(one.diff)}
        for one in shown
    ]
    return json.dumps({"steps": rows}, indent=2)


def print_sources(shown: Sequence[Source], console: Console) -> None:
    """The whole source where a family begins, elsewhere the diff; coloured on a terminal."""
    for one in shown:
        console.print(Text(f"==== {one.step.name}: {one.step.change}", "bold"), soft_wrap=True)
        lines = one.diff or tuple(one.text.splitlines())
        for line in lines:
            style = _STYLES.get(line[:1], "") if one.diff else ""
            console.print(Text(line, style), soft_wrap=True)
        console.print()
