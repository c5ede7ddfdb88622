"""The host part of an exported file: its operation's templates, filled for a genome. Renders no kernel."""

import ast
import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from evoflash.errors import TemplateError
from evoflash.evaluation import PORTABLE_CLUSTER, Launch
from evoflash.families.expression import Expression
from evoflash.families.family import Family
from evoflash.gpu import GpuSpec
from evoflash.operation import registry
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.validation.thresholds import thresholds_of

_WORD = re.compile(r"[A-Za-z_][\w.]*")
_TIMES_ONE = re.compile(r" [*/] 1\b(?!\.)")  # what reads worse than it is
_ENVIRONMENT = Environment(
    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
)


def interface(family: Family, prefix: str) -> str:
    """The C declarations that stand before the kernel."""
    operation = registry.load(family.op)
    return _filled(operation.interface, prefix=prefix, **operation.interface_names())


def launcher(
    family: Family,
    genome: Genome,
    problem: Problem,
    gpu: GpuSpec,
    *,
    prefix: str,
    entries: Mapping[str, str],
) -> str:
    """What stands behind the kernel: the functions that launch it, and a `main`.

    `entries`: the names that the kernels have in the file, by those that the family gives them.
    """
    key = problem.compile_keys(gpu.arch)[0]
    names = family.names(genome.as_dict(), key, gpu)
    launches = family.launches(genome, problem.workloads[0], gpu)
    needs_workspace = launches[0].workspace_bytes > 0
    kernels = [kernel for kernel in family.kernels if kernel.when(names)]
    operation, sizes = registry.load(family.op), tuple(problem.workloads[0].names())
    return _filled(
        operation.launcher,
        prefix=prefix,
        key=key,
        workloads=problem.workloads,
        rel_l2_limit=thresholds_of(problem.workloads[0]).rel_l2,
        launches=[
            {
                "entry": entries[kernel.entry],
                "grid": [as_c(side, names, sizes) for side in kernel.grid],
                "block": [as_c(side, names, sizes) for side in kernel.block],
                "smem": as_c(kernel.smem, names, sizes),
                "attributes": _attributes(launch),
            }
            for kernel, launch in zip(kernels, launches, strict=True)
        ],
        large_clusters=any(math.prod(launch.cluster) > PORTABLE_CLUSTER for launch in launches),
        workspace=as_c(family.workspace, names, sizes) if needs_workspace else "0",
        **operation.launcher_names(launches[0].maps),
    )


def _filled(template: Path, **names: object) -> str:
    return _ENVIRONMENT.from_string(template.read_text(encoding="utf-8")).render(**names)


def _attributes(launch: Launch) -> str:
    """How the launch differs from a plain one, in the launcher's words; empty where it does not."""
    x, y, z = launch.cluster
    words = {
        f"cluster_of({x}, {y}, {z})": math.prod(launch.cluster) > 1,
        "resident()": launch.resident,
        "dependent()": launch.dependent,
    }
    return ", ".join(word for word, is_so in words.items() if is_so)


def as_c(expression: Expression, names: dict[str, object], sizes: Collection[str]) -> str:
    """A launch expression as C++: what no shape changes becomes a number, the names of `sizes` stay."""
    text = str(expression.text)
    if (choice := _choice(text)) is not None:
        taken, test, otherwise = choice
        is_so = Expression(test, expression.where, (bool,))(names)
        chosen = Expression(taken if is_so else otherwise, expression.where, expression.types)
        return as_c(chosen, names, sizes)
    if not set(_WORD.findall(text)).intersection(sizes):
        return str(int(expression(names)))

    def word(match: re.Match[str]) -> str:
        name = match[0]
        if name in sizes or name == "ceil_div":
            return name
        if name in ("min", "max"):
            return f"std::{name}<long long>"
        head, _, attribute = name.partition(".")
        value = getattr(names.get(head), attribute, None) if attribute else names.get(head)
        if isinstance(value, int):
            return str(int(value))
        raise TemplateError(
            f"{expression.where} = {text!r}: '{name}' cannot be written as C++ in an exported launcher."
        )

    return _TIMES_ONE.sub("", _WORD.sub(word, text).replace("//", "/"))


def _choice(text: str) -> tuple[str, str, str] | None:
    """Of "a if b else c" the three parts, b being what no shape changes; None for any other expression."""
    try:
        found = ast.parse(text, mode="eval").body
    except SyntaxError:  # what Jinja knows and Python does not
        return None
    if not isinstance(found, ast.IfExp):
        return None
    parts = (ast.get_source_segment(text, part) for part in (found.body, found.test, found.orelse))
    taken, test, otherwise = (part or "" for part in parts)
    return taken, test, otherwise
