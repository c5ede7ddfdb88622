"""Every array of every family's shared memory begins where what reads it wants it, for all threes of genes.

The offsets are evaluated from the rendered text, for genomes that a random walk over the valid ones finds;
nothing is compiled or run.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pytest

from evoflash.kernels.family import Family, known_families, load_family
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import AttentionKey
from evoflash.space import Genome, Values
from evoflash.specs import load_gpu

H200 = load_gpu("h200")
KEY = AttentionKey(64, "fp16", causal=True, gqa_ratio=4, arch=H200.arch)
# What the address must be a multiple of: swizzled tiles, wmma's matrices, four words, mbarriers, words.
ALIGNED = {
    "flash_wgmma": {
        1024: "q_tiles k_ring v_ring p_tiles",
        16: "parts ones log",
        8: "q_full q_empty k_full k_empty v_full v_empty handed judged",
        4: "outgrown marks",
    },
    "flash_cluster": {1024: "q_tiles k_tile v_tiles", 128: "inboxes", 8: "q_full k_full v_full all_handed"},
    "flash_mma": {16: "q_tile k_ring v_ring"},
    "flash_wmma": {32: "q_tile k_tile v_tile ring scores out probs", 4: "shrinks inverses"},
    "flash_direct": {16: "place parts", 4: "sums"},
    "decode_dense": {16: "ring q_ring notes inbox", 8: "statistics bar", 4: "flag"},
    "flash_simt": {16: "kQueriesAt kTilesAt", 8: "kScratchAt", 4: "kStateAt"},
}
FIRST, OTHER = (
    {"lane": lane, "warp": warp, "row_warp": warp, "slice": warp} for lane, warp in ((0, 0), (5, 1))
)  # threads
STEPS = 1000  # of a walk


def genes_of_smem(family: Family) -> tuple[str, ...]:
    """The genes on which the header's shared memory hangs, by way of derived values."""
    lets = {name: str(each.text) for name, each in family.let.items()}
    wanted, found = ["smem"], set[str]()
    while wanted:
        words = set(re.findall(r"\w+", lets.pop(wanted.pop(), "")))
        wanted += words & lets.keys()
        found |= words & {param.name for param in family.params}
    return tuple(sorted(found))


def visited(family: Family) -> Iterator[Genome]:
    """Valid genomes: a walk that changes up to three genes at a time, from each seed in turn."""
    space, rng = family.space((KEY,), H200), np.random.default_rng(7)
    homes = [g for seed in family.seeds if space.is_valid(g := space.genome(seed.values))]
    here = homes[0]
    for step in range(STEPS):
        if step % 100 == 0:
            here = homes[step // 100 % len(homes)]
        values = here.as_dict()
        for at in rng.integers(len(space.params), size=3):
            param = space.params[at]
            values[param.name] = param.values[rng.integers(len(param.values))]
        genome = space.genome(values)
        if space.is_valid(genome):
            here = genome
            yield genome


@cache
def covering(name: str) -> tuple[Genome, ...]:
    """Of the genomes of a walk those that show a new three of values of the genes of shared memory."""
    family = load_family(name)
    genes, seen, kept = genes_of_smem(family), set[object](), []
    for genome in visited(family):
        values = genome.as_dict()
        pairs = [(gene, values[gene]) for gene in genes if gene in values]
        threes = set(itertools.combinations(pairs, min(3, len(pairs))))
        if threes - seen:
            seen |= threes
            kept.append(genome)
    return tuple(kept)


def in_python(expression: str) -> str:
    """A C++ expression of whole numbers as Python's."""
    expression = re.sub(r"\b(\d+)u\b", r"\1", expression).replace("/", "//")
    expression = expression.replace("ef::smem_base()", "0")
    return re.sub(r"^(.*) \? (.*) : (.*)$", r"(\2 if \1 else \3)", expression)


def addresses(source: str, thread: Mapping[str, int]) -> dict[str, int]:
    """The constants of a kernel, and the shared addresses that follow from them and from a thread's place."""
    code = re.sub(r"//[^\n]*", "", source)
    known = dict(thread)
    for statement in re.findall(r"\b(?:constexpr|const) (?:int|u32) ([^;{}]*?);", code):
        for name, expression in re.findall(r"(\w+) = ((?:[^,()]|\([^()]*\))+)", statement):
            try:
                known[name] = int(eval(in_python(expression), {"__builtins__": {}}, known))
            except (NameError, SyntaxError):
                continue  # known at run time only
    return known


def misplaced(family: Family, values: Values, source: str) -> list[str]:
    """Arrays at addresses that do not do, or past the end of what a launch asks for."""
    begin, other = addresses(source, FIRST), addresses(source, OTHER)
    smem = family.names(values, KEY, H200)["smem"]
    return [
        f"{name} at {begin[name]}, {smem} bytes in all, wants a multiple of {unit}"
        for unit, names in ALIGNED[family.name].items()
        for name in names.split()
        if name in begin and (begin[name] % unit or other[name] % unit or begin[name] >= smem > 0)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALIGNED, reverse=True))
@pytest.mark.sample(1)
def test_arrays_of_shared_memory_lie_aligned_for_all_threes_of_genes(name: str) -> None:
    family, seen = load_family(name), set[str]()
    for genome in covering(name):
        source = render(genome, KEY, H200).source
        assert misplaced(family, genome.as_dict(), source) == [], genome
        seen |= addresses(source, FIRST).keys()
    assert {array for names in ALIGNED[name].values() for array in names.split()} <= seen


def test_every_family_has_its_arrays_named_here() -> None:
    assert {name for name in known_families() if load_family(name).op == "attention"} == ALIGNED.keys()


def test_addresses_follow_from_constants_that_stand_before_them() -> None:
    source = "constexpr int kA = 2, kB = kA > 1 ? 3 * kA : 8;\nconst u32 q = ef::smem_base(); // at 0\n"
    source += "const u32 k = q + 8 * kB, v = k + row;"
    assert addresses(source, FIRST) == {**FIRST, "kA": 2, "kB": 6, "q": 0, "k": 48}
