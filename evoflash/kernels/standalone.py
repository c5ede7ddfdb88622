"""Writes a genome as one kernel.cu that needs nothing else, and reads such a file's banner back.

The file holds the ef:: functions that the kernel uses, the kernel, and a launcher filled in from its
operation's templates. Its banner names the command that exports it again. Compiles nothing.
"""

import ast
import math
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evoflash import operation as registry
from evoflash.errors import TemplateError, UsageError, did_you_mean
from evoflash.kernels.edited_text import render_edited
from evoflash.kernels.ef_layer import primitives
from evoflash.kernels.expression import Expression
from evoflash.kernels.family import Family, load_family
from evoflash.kernels.nvrtc import FLAGS
from evoflash.kernels.renderer import COMPILED_TEMPLATES
from evoflash.launch import PORTABLE_CLUSTER, LaunchConfig
from evoflash.operations.expectations import thresholds_of
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, Param, Value, word_of
from evoflash.specs import GpuSpec, load_gpu
from evoflash.version import __version__

_WORD = re.compile(r"[A-Za-z_][\w.]*")
_TIMES_ONE = re.compile(r" [*/] 1\b(?!\.)")  # what reads worse than it is


def interface(family: Family, prefix: str) -> str:
    """The C declarations that stand before the kernel."""
    operation = registry.load(family.op)
    return _fill(operation.interface, prefix=prefix, **operation.interface_names())


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
    return _fill(
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


def _fill(template: Path, **names: object) -> str:
    return _environment(template.parent).get_template(template.name).render(**names)


@cache
def _environment(folder: Path) -> Environment:
    """Templates of a folder, which may extend one another."""
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=COMPILED_TEMPLATES,
    )


def _attributes(launch: LaunchConfig) -> str:
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


_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def export_kernel(
    genome: Genome,
    problem: Problem,
    gpu: GpuSpec,
    *,
    prefix: str | None = None,
    claims: Sequence[str] = (),
) -> str:
    """The file's text, byte for byte the same for the same input.

    `prefix` begins the names of its C functions and of its kernels, so that several files make one program;
    by default the functions begin with the family's entry, and the kernels keep their names. `claims` are
    lines of the head, `Checked: ...` and `Time: ...`, which the command does not print. UsageError when
    the problem's workloads need differently compiled kernels, or for a prefix that C has no such name for.
    """
    keys = problem.compile_keys(gpu.arch)
    if len(keys) > 1:
        raise UsageError(
            f"the workloads of '{problem}' need {len(keys)} different kernels: export them one by one; "
            f"`evoflash show {genome.id[:8]} --command` prints the commands."
        )
    family = load_family(genome.family)
    source = render_edited(genome, keys[0], gpu).source
    head, _, kernel = source.partition('#include "ef.h"\n')
    begins = family.entry if prefix is None else parse_prefix(prefix)
    whole = "".join((primitives(kernel), with_prefix(kernel, family, prefix)))
    return "".join(
        (
            head,
            _reproduce(genome, problem, gpu, prefix, claims),
            interface(family, begins),
            f"#ifdef __CUDACC__\nnamespace {begins}_impl {{\n\n{whole}\n}}  // namespace {begins}_impl\n",
            launcher(family, genome, problem, gpu, prefix=begins, entries=kernel_names(family, prefix)),
            "#endif  // __CUDACC__\n",
        )
    )


def parse_prefix(prefix: str) -> str:
    """The prefix; UsageError for one that begins no name of C."""
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(
            f"--prefix '{prefix}' begins no name of C: use letters, digits and _, a letter first."
        )
    return prefix


def kernel_names(family: Family, prefix: str | None) -> dict[str, str]:
    """The names that the family's kernels have in a file with this prefix, by their own names."""
    entries = dict.fromkeys(kernel.entry for kernel in family.kernels)
    return {name: f"{prefix}_{name}_kernel" if prefix else name for name in entries}


def with_prefix(kernel: str, family: Family, prefix: str | None) -> str:
    """A kernel's text with the names that its kernels have in a file with this prefix."""
    return _rename(kernel, kernel_names(family, prefix).items())


def without_prefix(kernel: str, family: Family, prefix: str | None) -> str:
    """The text of a file with this prefix with the kernels' own names: the same lines."""
    return _rename(kernel, ((new, old) for old, new in kernel_names(family, prefix).items()))


def _rename(kernel: str, names: Iterable[tuple[str, str]]) -> str:
    for old, new in names:
        kernel = re.sub(rf"\b{old}\b", new, kernel) if old != new else kernel
    return kernel


def export_values(family: str, words: list[str], *, problem: str, gpu: str, prefix: str | None = None) -> str:
    """The exported file of a genome given as "param=value" words; UsageError for one that is not valid."""
    return export_kernel(*genome_of(family, words, problem=problem, gpu=gpu), prefix=prefix)


def genome_of(
    family: str, words: list[str], *, problem: str | None, gpu: str
) -> tuple[Genome, Problem, GpuSpec]:
    """What "param=value" words on a command line name, without a problem for the family's usual one;
    UsageError for a genome that is not valid.
    """
    what, spec = parse_problem(problem or load_family(family).usual_problem), load_gpu(gpu)
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
        rules = "; ".join(_broken_rule(loaded, name, genome, problem, gpu) for name in broken)
        raise UsageError(f"these values fail {rules} on {gpu.name}: change them.")
    return genome


def _broken_rule(family: Family, name: str, genome: Genome, problem: Problem, gpu: GpuSpec) -> str:
    """A check that the genome fails, with what the names in it stand for: `smem <= 99: smem is 120`."""
    rule, values = family.check[name], genome.as_dict()
    seen = [family.names(values, key, gpu) for key in problem.compile_keys(gpu.arch)]
    names = next((each for each in seen if not rule(each)), seen[0])
    figures = []
    for word in dict.fromkeys(_WORD.findall(str(rule.text))):
        first, *fields = word.split(".")
        value = reduce(lambda of, field: getattr(of, field, None), fields, names.get(first))
        if isinstance(value, int | float | str):
            figures.append(f"{word} is {word_of(value)}")
    return f"{name} ({rule.text}{': ' if figures else ''}{', '.join(figures)})"


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
        if word_of(value) == text:
            return name, value
    allowed = ", ".join(word_of(value) for value in param.values)
    raise UsageError(f"--set {word}: {name} is one of {allowed}.")


def reproducing_command(genome: Genome, problem: Problem, gpu: GpuSpec, *, prefix: str | None = None) -> str:
    """The command line that prints the same bytes again."""
    values = " ".join(f"--set {name}={word_of(value)}" for name, value in genome.values)
    named = f" --prefix {prefix}" if prefix else ""
    return f"evoflash export --family {genome.family} {values} --problem {problem} --gpu {gpu.name}{named}"


def _reproduce(
    genome: Genome, problem: Problem, gpu: GpuSpec, prefix: str | None, claims: Sequence[str]
) -> str:
    arch = gpu.arch.removeprefix("sm_")
    but = f" but for the {len(claims)} lines `Checked` and `Time`" if claims else ""
    again = f"The next line prints it again, byte for byte{but}:"
    if genome.edits:
        edits = f"{len(genome.edits)} edit{'s' * (len(genome.edits) > 1)}"
        again = f"Its kernel is {genome.id}, {edits} of the text that the next line prints:"
    lines = (
        "",
        f"This file is complete and yours. {again}",
        reproducing_command(genome, problem, gpu, prefix=prefix),
        f"NVRTC flags: {' '.join(FLAGS)} -arch={gpu.arch}",
        f"Program:     nvcc -std=c++17 -O2 -gencode=arch=compute_{arch},code=sm_{arch} kernel.cu -o kernel",
        *claims,
        f"evoflash {__version__}; SPDX-License-Identifier: Apache-2.0",
    )
    return "".join(f"// {line}".rstrip() + "\n" for line in lines)


_CLAIMS = re.compile(r"^// (?:Checked|Time): .*$", re.MULTILINE)
_COMMAND = re.compile(r"^// evoflash export (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExportWords:
    """The command's options as they are written; nothing of them is looked up."""

    family: str
    values: tuple[str, ...]  # "param=value"
    problem: str
    gpu: str
    prefix: str | None = None
    claims: tuple[str, ...] = ()  # what the file's head says that it was checked on, and its times


def export_words(text: str, name: object) -> ExportWords | None:
    """The options in the banner of an exported file's text; None for a text without such a banner.

    UsageError, which calls the file `name`, where the command is not whole.
    """
    command = _COMMAND.search(text)
    if command is None:
        return None
    try:
        words = shlex.split(command[1])
    except ValueError:  # an open quotation mark
        words = []
    options = list(zip(words[::2], words[1::2], strict=False))
    single = dict(options)
    if not {"--family", "--problem", "--gpu"} <= single.keys():
        raise UsageError(f"{name}: the command in its banner is not whole: export it again.")
    values = tuple(word for option, word in options if option == "--set")
    named = (single["--family"], values, single["--problem"], single["--gpu"])
    head = text[: text.find("\n// evoflash ", command.end())]  # what follows them
    claims = tuple(line.removeprefix("// ") for line in _CLAIMS.findall(head))
    return ExportWords(*named, prefix=single.get("--prefix"), claims=claims)


def genome_of_words(
    words: ExportWords, *, problem: str | None = None, gpu: str | None = None
) -> tuple[Genome, Problem, GpuSpec]:
    """The genome, for the problem and GPU given or else its own; UsageError where it is not valid there."""
    wanted = {"problem": problem or words.problem, "gpu": gpu or words.gpu}
    return genome_of(words.family, list(words.values), **wanted)
