"""Genome -> one kernel.cu that needs nothing else: the ef:: functions it uses, the kernel, a launcher.

The file compiles with NVRTC without any -I (the host part is skipped there) and with nvcc into a program
that checks and times itself. It holds no evoflash code at run time and is its user's to keep.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from evoflash import __version__
from evoflash.compilers.ef_layer import primitives
from evoflash.compilers.nvrtc import FLAGS
from evoflash.errors import UsageError, did_you_mean
from evoflash.families.family import Family, load_family
from evoflash.families.host_part import interface, launcher
from evoflash.families.renderer import render
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, Param, Value

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def export_kernel(genome: Genome, problem: Problem, gpu: GpuSpec, *, prefix: str | None = None) -> str:
    """The file's text, byte for byte the same for the same input.

    `prefix` begins the names of its C functions and of its kernels, so that several files make one program;
    by default the functions begin with the family's entry, and the kernels keep their names. UsageError when
    the problem's workloads need differently compiled kernels, or for a prefix that C has no such name for.
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
    begins = family.entry if prefix is None else checked_prefix(prefix)
    whole = "".join((primitives(kernel), with_prefix(kernel, family, prefix)))
    return "".join(
        (
            head,
            _reproduce(genome, problem, gpu, prefix),
            interface(family, begins),
            f"#ifdef __CUDACC__\nnamespace {begins}_impl {{\n\n{whole}\n}}  // namespace {begins}_impl\n",
            launcher(family, genome, problem, gpu, prefix=begins, entries=kernel_names(family, prefix)),
            "#endif  // __CUDACC__\n",
        )
    )


def checked_prefix(prefix: str) -> str:
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
    return _renamed(kernel, kernel_names(family, prefix).items())


def without_prefix(kernel: str, family: Family, prefix: str | None) -> str:
    """The text of a file with this prefix with the kernels' own names: the same lines."""
    return _renamed(kernel, ((new, old) for old, new in kernel_names(family, prefix).items()))


def _renamed(kernel: str, names: Iterable[tuple[str, str]]) -> str:
    for old, new in names:
        kernel = re.sub(rf"\b{old}\b", new, kernel) if old != new else kernel
    return kernel


def export_values(family: str, words: list[str], *, problem: str, gpu: str, prefix: str | None = None) -> str:
    """The exported file of a genome given as "param=value" words; UsageError for one that is not valid."""
    return export_kernel(*genome_of(family, words, problem=problem, gpu=gpu), prefix=prefix)


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


def reproducing_command(genome: Genome, problem: Problem, gpu: GpuSpec, *, prefix: str | None = None) -> str:
    """The command line that prints the same bytes again."""
    values = " ".join(f"--set {name}={_word(value)}" for name, value in genome.values)
    named = f" --prefix {prefix}" if prefix else ""
    return f"evoflash export --family {genome.family} {values} --problem {problem} --gpu {gpu.name}{named}"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reproduce(genome: Genome, problem: Problem, gpu: GpuSpec, prefix: str | None) -> str:
    arch = gpu.arch.removeprefix("sm_")
    lines = (
        "",
        "This file is complete and yours. The next line prints it again, byte for byte:",
        reproducing_command(genome, problem, gpu, prefix=prefix),
        f"NVRTC flags: {' '.join(FLAGS)} -arch={gpu.arch}",
        f"Program:     nvcc -std=c++17 -O2 -gencode=arch=compute_{arch},code=sm_{arch} kernel.cu -o kernel",
        f"evoflash {__version__}; SPDX-License-Identifier: Apache-2.0",
    )
    return "".join(f"// {line}".rstrip() + "\n" for line in lines)
