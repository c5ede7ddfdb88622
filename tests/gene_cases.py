"""What the kernel families' tests share: cases of tests/kernels/cases, valid genomes, what is asked of them.

A file of cases is named after its family. What it may say, of genomes that are `base` with some `values`:
    gpu, key         the GPU (h200), and what differs from KEY
    base, kernel     values that every genome here has; kernels that others begin with, by name
    key_of           of a gene that only another key activates, what differs in that key
    needs            what a gene, or a value of it, needs beside `base` to be active and valid
    pairs            genes that meet in one place of the code; `keys`: the keys they meet under, by name, in
                     turn; `meet_every`: by default every n-th of the pairs is asked
    whole = true     no genome of these may spill, nor may ptxas complain
    cores            the kinds of kernels that are asked odd shapes
    refused          values, and the named checks that refuse them: all of them, or, `among_others`, some
    texts            words that the code of a rendered kernel has or has not; `said`: in a comment
    planted          mistakes: a patch of a kernel's text, at so many `places` (one), the status in which it
                     ends (any failure), and what is said
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from places import KERNELS

from evoflash.emulator.launch import Emulation
from evoflash.emulator.preflight import emulate, preflight
from evoflash.evaluation import Build, Candidate
from evoflash.kernels import gxx
from evoflash.kernels.family import Family, load_family
from evoflash.kernels.lint import lint
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.space import Genome, SearchSpace, Value, Values
from evoflash.specs import GpuSpec, load_gpu

Fits = Callable[[Values, AttentionKey], bool]
Case = tuple[str, Value]  # a gene and one of its values
_STATEMENTS = ("const ", "if (", "for (")  # what begins on a line of its own


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
        assert possible, f"{name}: under no key are all of these genes active and the genome valid"
        for turn, (title, key) in enumerate(possible):
            by_default = at % every == 0 and turn == at // every % len(possible)
            marks = () if by_default else pytest.mark.full
            yield pytest.param(values, key, id=f"{title}-{name}", marks=marks)


@dataclass(frozen=True, eq=False)
class FamilyCases:
    """What a file of cases says of a family, and the genomes of these cases."""

    family: Family
    gpu: GpuSpec
    key: AttentionKey
    said: Mapping[str, Any]

    def key_with(self, changes: Mapping[str, Any]) -> AttentionKey:
        return replace(self.key, **changes)

    def key_of(self, gene: str) -> AttentionKey:
        return self.key_with(self.said.get("key_of", {}).get(gene, {}))

    def values(self, case: Mapping[str, Any]) -> dict[str, Value]:
        """All that the case wants: the base, the kernel that it names, its own values."""
        named = self.said["kernel"][case["kernel"]] if "kernel" in case else {}
        return {**self.said.get("base", {}), **named, **case.get("values", {})}

    def genome(self, values: Values, key: AttentionKey | None = None, gpu: GpuSpec | None = None) -> Genome:
        """The base with these values, defaults for the rest; no check may refuse it."""
        space = self.family.space((key or self.key,), gpu or self.gpu)
        genome = space.genome({**self.said.get("base", {}), **values})
        assert space.violations(genome) == ()
        return genome

    def has_all(self, values: Values, key: AttentionKey) -> bool:
        """Whether the base with these values is valid under the key, and has all of them."""
        space = self.family.space((key,), self.gpu)
        genome = space.genome({**self.said.get("base", {}), **values})
        return space.is_valid(genome) and values.items() <= genome.as_dict().items()

    def with_value(self, name: str, value: Value, *others: Value) -> Genome:
        """A genome in which the gene has the value and could have each of the others, all else equal."""
        known = self.said.get("needs", {})
        needs = known.get(name, {})
        for each in (value, *others):
            needs = {**needs, **known.get(f"{name}={each}", {})}
        return self.genome({**needs, name: value}, self.key_of(name))

    def complaint(
        self, genome: Genome, key: AttentionKey, *, gpu: GpuSpec | None = None, seed: int = 1
    ) -> str:
        """What pre-flight says, asked as the ladder does: with the registers that a thread was given."""
        build = compiled(genome, key, gpu or self.gpu)
        if self.said.get("whole"):
            assert (build.spill_bytes, build.warnings) == (0, ())
        return _complaint(self.family, genome, key, gpu or self.gpu, seed, build.registers)

    def run_clean(
        self,
        genome: Genome,
        key: AttentionKey,
        workload: AttentionWorkload,
        trial: str,
        *,
        gpu: GpuSpec | None = None,
        **choices: Any,
    ) -> list[Emulation]:
        """Its launches in the emulator, under random schedules by default: no report, and a right output."""
        library = gxx.build(render(genome, key, gpu or self.gpu).source, name=self.family.name)
        launches = self.family.launches(genome, workload, gpu or self.gpu)
        how = {"delivery": "random", "schedule": "random", "seed": 1, **choices}
        emulations, verdict = emulate(library, launches, workload, trial, **how)
        assert [each.reports for each in emulations if each.reports] == []
        assert verdict.passed, verdict.reason
        return list(emulations)


@cache
def cases_of(name: str) -> FamilyCases:
    """Those of tests/kernels/cases/<name>.toml."""
    said = tomllib.loads((KERNELS / "cases" / f"{name}.toml").read_text(encoding="utf-8"))
    gpu = load_gpu(said.get("gpu", "h200"))
    # Causal and grouped heads: every gene can be active.
    key = replace(AttentionKey(64, "fp16", True, 2, gpu.arch), **said.get("key", {}))
    return FamilyCases(load_family(name), gpu, key, said)


@cache  # a value's genome is one of several pairs, and those of values that are defaults are the same
def compiled(genome: Genome, key: AttentionKey, gpu: GpuSpec) -> Build:
    """The kernel's Build; NVRTC may not refuse it."""
    build = compile_candidate(render(genome, key, gpu))
    assert build.ok, build.log
    return build


@cache  # every gene's default gives the same genome
def _complaint(
    family: Family, genome: Genome, key: AttentionKey, gpu: GpuSpec, seed: int, registers: int
) -> str:
    return preflight(render(genome, key, gpu), family, gpu, seed=seed, registers=registers).complaint


def patched(candidate: Candidate, *texts: str, places: int = 1) -> Candidate:
    """The candidate with texts replaced, each followed by the new one; it must stand at so many places."""
    source = candidate.source
    for old, new in zip(texts[::2], texts[1::2], strict=True):
        assert source.count(old) == places, old
        source = source.replace(old, new)
    return replace(candidate, source=source, source_sha=candidate.source_sha + "".join(texts[1::2]))


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
