"""What the kernel families' tests share: a header's values as cases, valid genomes, what is asked of them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise

import pytest

from evoflash.emulator.preflight import preflight
from evoflash.evaluation import Build
from evoflash.kernels.family import Family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import lint, render
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.space import Genome, SearchSpace, Value, Values
from evoflash.specs import GpuSpec

Fits = Callable[[Values, AttentionKey], bool]
Case = tuple[str, Value]  # a gene and one of its values
_STATEMENTS = ("const ", "if (", "for (")  # what begins on a line of its own


def each_value(family: Family, *, under_full: bool = False) -> Iterator[object]:
    """(gene, value) of every value in the header; `under_full`: for `pytest --full`, where `packs` are the
    default.
    """
    marks = pytest.mark.full if under_full else ()
    for name, value in values_of(family):
        yield pytest.param(name, value, id=f"{name}={value}", marks=marks)


def values_of(family: Family) -> Iterator[Case]:
    """Every value in the header with its gene."""
    return ((param.name, value) for param in family.params for value in param.values)


def packs(
    alone: Mapping[Case, Genome], base: Genome, space: SearchSpace, *, most: int = 8
) -> list[tuple[Genome, tuple[Case, ...]]]:
    """Valid genomes, and which of the values each of them has: up to `most`, all of them taken together.

    `alone`: a valid genome for each value, which differs from `base` in few genes. A value joins the first
    pack in which no other one wants another value of any of these genes; where there is none it begins one.
    """
    usual = {**{param.name: param.values[0] for param in space.params}, **base.as_dict()}
    found: list[tuple[dict[str, Value], tuple[Case, ...]]] = []
    for case, genome in alone.items():
        assert _has(genome, case), f"{case}: the gene is not active here"
        wanted = {name: value for name, value in genome.values if (name, value) not in usual.items()}
        wanted[case[0]] = case[1]
        for at, (pinned, cases) in enumerate(found):
            joined = {**pinned, **wanted}
            if len(cases) == most or any(joined[name] != value for name, value in pinned.items()):
                continue
            both = space.genome({**usual, **joined})
            if space.is_valid(both) and all(_has(both, each) for each in (*cases, case)):
                found[at] = (joined, (*cases, case))
                break
        else:
            found.append((wanted, (case,)))
    return [(space.genome({**usual, **pinned}), cases) for pinned, cases in found]


def _has(genome: Genome, case: Case) -> bool:
    name, value = case
    own = genome.as_dict().get(name)
    return own == value and type(own) is type(value)


def adjacent_values(family: Family) -> Iterator[object]:
    """(gene, value, the next one) of every two neighbours in the header; by default the first two of each
    gene, the others under `pytest --full`.
    """
    for param in family.params:
        if param.name == "ctas_per_sm":  # it bounds registers: the same code wherever fewer suffice
            continue
        for at, (one, other) in enumerate(pairwise(param.values)):
            marks = pytest.mark.full if at else ()
            yield pytest.param(param.name, one, other, id=f"{param.name}: {one} or {other}", marks=marks)


def shared_out(
    pairs: Mapping[str, Values],
    keys: Mapping[str, AttentionKey],
    *,
    fits: Fits = lambda values, key: True,
    every: int = 1,
) -> Iterator[object]:
    """(values, key) of the whole product where they fit; by default each of `pairs` meets one key, in turn.

    The others run under `pytest --full`, and so do all but each `every`-th pair. The emulator takes a second
    for each.
    """
    for at, (name, values) in enumerate(pairs.items()):
        possible = [(title, key) for title, key in keys.items() if fits(values, key)]
        for turn, (title, key) in enumerate(possible):
            by_default = at % every == 0 and turn == at // every % len(possible)
            marks = () if by_default else pytest.mark.full
            yield pytest.param(values, key, id=f"{title}-{name}", marks=marks)


def valid_genome(family: Family, values: Values, key: AttentionKey, gpu: GpuSpec) -> Genome:
    """The genome of these values, defaults for the rest; no check may refuse it."""
    space = family.space((key,), gpu)
    genome = space.genome(values)
    assert space.violations(genome) == ()
    return genome


@cache  # a value's genome is one of several pairs, and those of values that are defaults are the same
def compiled(genome: Genome, key: AttentionKey, gpu: GpuSpec) -> Build:
    """The kernel's Build; NVRTC may not refuse it."""
    build = compile_candidate(render(genome, key, gpu))
    assert build.ok, build.log
    return build


@cache  # every gene's default gives the same genome
def complaint_of(family: Family, genome: Genome, key: AttentionKey, gpu: GpuSpec, *, seed: int) -> str:
    """What pre-flight says, asked as the ladder does: with the registers that the compiler gave a thread."""
    registers = compiled(genome, key, gpu).registers
    return preflight(render(genome, key, gpu), family, gpu, seed=seed, registers=registers).complaint


# A kernel is asked once for all the mistakes that are planted in it.
unpatched = cache(preflight)


def machine(
    family: Family, genome: Genome, key: AttentionKey, gpu: GpuSpec
) -> tuple[str, tuple[LaunchConfig, ...]]:
    """What the GPU is given: the machine code's hash, and the launches."""
    workload = AttentionWorkload(1, 8, 4, 300, 300, key.head_dim, key.dtype, key.causal, key.accumulate)
    return compiled(genome, key, gpu).text_sha, family.launches(genome, workload, gpu)


def assert_holds(text: str, present: Iterable[str], absent: Iterable[str]) -> None:
    """The code, comments left out, has all of the one words and none of the others."""
    code = re.sub(r"//[^\n]*", "", text)
    assert [word for word in present if word not in code] == []
    assert [word for word in absent if word in code] == []


def assert_reads_as_if_written_by_hand(text: str) -> None:
    """No odd blank lines, no trailing spaces, nothing of the template; indentation follows the braces."""
    lines = text.splitlines()
    assert lint(text) == ()
    assert [line for line in lines if line != line.rstrip()] == []
    assert [line for line in lines if len(line) > 120] == []
    assert re.findall(r"\n\n\n|\{\n\n|\n\n *\}|\{\{ |\{%", text) == []
    depth = 0
    for line in lines:
        code = re.sub(r"//.*", "", line)
        inner = depth - code.lstrip().startswith("}")
        if code.strip().startswith(_STATEMENTS):
            assert len(line) - len(line.lstrip()) >= 2 * inner, line
        depth += code.count("{") - code.count("}")
    assert depth == 0
