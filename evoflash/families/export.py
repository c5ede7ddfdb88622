"""Genome -> one kernel.cu that needs nothing else: the ef:: functions it uses, the kernel, a launcher.

The file compiles with NVRTC without any -I (the host part is skipped there) and with nvcc into a program
that checks and times itself. It holds no evoflash code at run time and is its user's to keep.
"""

import ast
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from evoflash import __version__, operations
from evoflash.compilers.ef_layer import primitives
from evoflash.compilers.nvrtc import FLAGS
from evoflash.errors import TemplateError, UsageError, did_you_mean
from evoflash.evaluation import PORTABLE_CLUSTER, Launch
from evoflash.families.expression import Expression
from evoflash.families.family import Family, load_family
from evoflash.families.renderer import render
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, Param, Value
from evoflash.validation.thresholds import thresholds_of

_WORD = re.compile(r"[A-Za-z_][\w.]*")


def export_kernel(genome: Genome, problem: Problem, gpu: GpuSpec) -> str:
    """The file's text, byte for byte the same for the same input.

    Raises UsageError when the problem's workloads need differently compiled kernels.
    """
    keys = problem.compile_keys(gpu.arch)
    if len(keys) > 1:
        raise UsageError(
            f"the workloads of '{problem}' need {len(keys)} different kernels: export them one by one; "
            f"`evoflash show {genome.id[:8]} --command` prints the commands."
        )
    family = load_family(genome.family)
    source = render(genome, keys[0], gpu).source
    head, _, kernel = source.partition('#include "ef.h"\n')
    layer, launcher = primitives(kernel), _launcher(family, genome, problem, gpu)
    return "".join((head, _reproduce(genome, problem, gpu), "\n", layer, kernel, launcher))


def export_values(family: str, words: list[str], *, problem: str, gpu: str) -> str:
    """The exported file of a genome given as "param=value" words; UsageError for one that is not valid."""
    return export_kernel(*genome_of(family, words, problem=problem, gpu=gpu))


def genome_of(family: str, words: list[str], *, problem: str, gpu: str) -> tuple[Genome, Problem, GpuSpec]:
    """What "param=value" words on a command line name; UsageError for a genome that is not valid."""
    what, spec = parse_problem(problem), load_gpu(gpu)
    values = dict(setting(load_family(family).params, word) for word in words)
    return valid_genome(family, values, what, spec), what, spec


def valid_genome(family: str, values: Mapping[str, Value], problem: Problem, gpu: GpuSpec) -> Genome:
    """The family's genome with these values, the first value where none is given; UsageError if not valid."""
    loaded = load_family(family)
    if not loaded.supports(gpu):
        raise UsageError(
            f"{family} needs {', '.join(loaded.arch)}, {gpu.name} is {gpu.arch}: choose another."
        )
    loaded.check_computes(problem)
    space = loaded.space(problem.compile_keys(gpu.arch), gpu)
    genome = space.genome(values)
    if broken := space.violations(genome):
        rules = "; ".join(f"{name} ({loaded.check[name].text})" for name in broken)
        raise UsageError(f"these values fail {rules} on {gpu.name}: change them.")
    return genome


def setting(params: Sequence[Param], word: str) -> tuple[str, Value]:
    """A gene and its value of "param=value"; UsageError for an unknown gene or a value that it has not."""
    name, equals, text = word.partition("=")
    if not equals:
        raise UsageError(f"--set {word}: write param=value.")
    param = next((param for param in params if param.name == name), None)
    if param is None:
        known = [param.name for param in params]
        hint = did_you_mean(name, known)
        raise UsageError(f"--set {word}: no gene is called {name}.{hint} Use one of {', '.join(known)}.")
    for value in param.values:
        if _word(value) == text:
            return name, value
    allowed = ", ".join(_word(value) for value in param.values)
    raise UsageError(f"--set {word}: {name} is one of {allowed}.")


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written ({error.strerror}): choose another path.") from None


def reproducing_command(genome: Genome, problem: Problem, gpu: GpuSpec) -> str:
    """The command line that prints the same bytes again."""
    values = " ".join(f"--set {name}={_word(value)}" for name, value in genome.values)
    return f"evoflash export --family {genome.family} {values} --problem {problem} --gpu {gpu.name}"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reproduce(genome: Genome, problem: Problem, gpu: GpuSpec) -> str:
    arch = gpu.arch.removeprefix("sm_")
    lines = (
        "",
        "This file is complete and yours. The next line prints it again, byte for byte:",
        reproducing_command(genome, problem, gpu),
        f"NVRTC flags: {' '.join(FLAGS)} -arch={gpu.arch}",
        f"Program:     nvcc -std=c++17 -O2 -gencode=arch=compute_{arch},code=sm_{arch} kernel.cu -o kernel",
        f"evoflash {__version__}; SPDX-License-Identifier: Apache-2.0",
    )
    return "".join(f"// {line}".rstrip() + "\n" for line in lines)


def _launcher(family: Family, genome: Genome, problem: Problem, gpu: GpuSpec) -> str:
    key = problem.compile_keys(gpu.arch)[0]
    names = family.names(genome.as_dict(), key, gpu)
    launches = family.launches(genome, problem.workloads[0], gpu)
    needs_workspace = launches[0].workspace_bytes > 0
    kernels = [kernel for kernel in family.kernels if kernel.when(names)]
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    operation, sizes = operations.load(family.op), tuple(problem.workloads[0].names())
    template = environment.from_string(operation.launcher.read_text(encoding="utf-8"))
    return template.render(
        entry=family.entry,
        key=key,
        workloads=problem.workloads,
        rel_l2_limit=thresholds_of(problem.workloads[0]).rel_l2,
        launches=[
            {
                "entry": kernel.entry,
                "grid": [as_c(side, names, sizes) for side in kernel.grid],
                "block": [as_c(side, names, sizes) for side in kernel.block],
                "smem": as_c(kernel.smem, names, sizes),
                "attributes": _attributes(launch),
            }
            for kernel, launch in zip(kernels, launches, strict=True)
        ],
        large_clusters=any(math.prod(launch.cluster) > PORTABLE_CLUSTER for launch in launches),
        zeroed=launches[0].zeroed_bytes,
        workspace=as_c(family.workspace, names, sizes) if needs_workspace else "",
        **operation.launcher_names(launches[0].maps),
    )


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

    return _WORD.sub(word, text).replace("//", "/")


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
