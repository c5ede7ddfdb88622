"""The families of attention on pages: genes, features, planted mistakes, rows the same in any company."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tables import data, table_of_cases

from evoflash.emulator.call import EmulatorRun, run_call
from evoflash.emulator.preflight import preflight
from evoflash.evaluation import Status
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.operation import most_workspace_bytes
from evoflash.operations.paged.inputs import draw
from evoflash.operations.paged.relations import ignores_company, moves_sequences
from evoflash.operations.paged.workload import NAMED, PagedKey, PagedWorkload
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

GPU = load_gpu("h200")
MMA, WGMMA = "decode_mma", "decode_wgmma"
FAMILIES = {name: load_family(name) for name in (MMA, WGMMA)}
KERNELS = {MMA: data(__file__, "KERNELS"), WGMMA: data(__file__, "WGMMA_KERNELS")}
NEEDS = {MMA: data(__file__, "NEEDS"), WGMMA: data(__file__, "WGMMA_NEEDS")}
EACH = pytest.mark.parametrize("family", FAMILIES)
KEY = PagedKey(64, "bf16", 4, 1, 16, GPU.arch)


def candidate(values, key=KEY, *patch, gpu=GPU, family=MMA):
    space = FAMILIES[family].space((key,), gpu)
    genome = space.genome({**KERNELS[family]["plain"], **values})
    assert space.violations(genome) == ()
    made = render(genome, key, gpu)
    for old, new in zip(patch[::2], patch[1::2], strict=True):
        assert made.source.count(old) == 1, f"'{old}' stands {made.source.count(old)} times in the text"
        made = replace(made, source=made.source.replace(old, new))
    return made


def complaint(made, seed=3):
    build = compile_candidate(made)
    assert build.ok, build.log
    assert (build.spill_bytes, build.warnings) == (0, ())
    return checked(made, seed=seed, registers=build.registers).complaint


def checked(made, **more):
    return preflight(made, FAMILIES[made.genome.family], GPU, **more)


# ---- what is right


@pytest.mark.parametrize(
    ("family", "gene", "value"),
    [
        (name, param.name, value)
        for name, each in FAMILIES.items()
        for param in each.params
        for value in param.values
    ],
)
@pytest.mark.sample(2)
def test_a_value_of_a_gene_runs_clean(family, gene, value):
    key = replace(KEY, rows={16: 4, 24: 4, 32: 8, 48: 16, 64: 16}.get(value, 1) if gene == "unit_rows" else 1)
    needs = NEEDS[family].get(f"{gene}={value}", NEEDS[family].get(gene, {}))
    made = candidate({**needs, gene: value}, key, family=family)
    assert made.genome.as_dict()[gene] == value, "the gene is not active here"

    assert complaint(made) == ""


@table_of_cases()
@pytest.mark.sample(1)
def test_features_of_a_call_run_clean(values, key, family):
    key = replace(KEY, **key)

    assert complaint(candidate(values, key, family=family or MMA)) == ""


@EACH
@pytest.mark.parametrize("seed", [*range(3, 60), 0, 1, 2])  # the default run draws the first, which is cheap
@pytest.mark.sample(1)
def test_random_genomes_of_random_calls_run_clean(seed, family):
    rng = np.random.default_rng([seed, 38])
    key = PagedKey(
        int(rng.choice([32, 64, 80, 96, 128, 192, 256])),
        str(rng.choice(["fp16", "bf16"])),
        int(rng.choice([1, 2, 4, 5, 7, 8, 12, 16])),
        int(rng.choice([1, 1, 2, 4, 8, 16])),
        int(rng.choice([1, 16, 64, 128])),
        GPU.arch,
        *(bool(is_on) for is_on in rng.random(5) < 0.3),
    )
    made = render(FAMILIES[family].space((key,), GPU).sample(rng), key, GPU)

    assert checked(made, seed=seed).complaint == "", (key, made.genome)


GPUS = pytest.mark.parametrize(
    "gpu", [load_gpu(name) for name in ("l4", "a100", "a10", "h100")], ids=lambda gpu: gpu.name
)
LAYERS = [*NAMED, "serving_llama8b_b8_4k,invariant"]


def seeds_of(problem, gpu, family):
    given = parse_problem(problem)
    return family.seeds_for(given, family.space(given.compile_keys(gpu.arch), gpu), gpu)


def seeds_with_families(problem, gpu):
    """Of each family for the GPU, which has some."""
    found = {each: seeds_of(problem, gpu, each) for each in FAMILIES.values() if each.supports(gpu)}
    assert all(found.values()), problem
    return [(family, seed) for family, seeds in found.items() for seed in seeds]


@GPUS
def test_every_layer_has_seeds_whose_scratch_is_allowed(gpu):
    for problem in LAYERS:
        (workload,) = parse_problem(problem).workloads
        launches = [
            launch
            for family, seed in seeds_with_families(problem, gpu)
            for launch in family.launches(seed, workload, gpu)
        ]

        assert max(each.workspace_bytes for each in launches) <= most_workspace_bytes(workload)


@GPUS
@pytest.mark.parametrize("problem", LAYERS)
@pytest.mark.sample(1)
def test_seeds_compile_without_spills(gpu, problem):
    (key,) = parse_problem(problem).compile_keys(gpu.arch)

    builds = [compile_candidate(render(seed, key, gpu)) for _, seed in seeds_with_families(problem, gpu)]

    assert [(build.ok, build.spill_bytes, build.warnings) for build in builds] == [(True, 0, ())] * len(
        builds
    )


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_seed_is_meant_for_some_call(family):
    meant = set()
    more = ("serving_llama8b_b1_1k,invariant", "b=4,h=12,hkv=1,sq=1,skv=2048,d=128,page=16")
    odd = ("b=4,h=8,hkv=2,sq=1,skv=2048,d=80,page=16", "b=4,h=16,hkv=1,sq=1,skv=2048,d=96,page=1")
    many = ("b=4,h=16,hkv=1,sq=1,skv=2048,d=256,page=16", "b=4,h=64,hkv=8,sq=4,skv=2048,d=64,page=16")
    for text in (*NAMED, *more, *odd, *many, "serving_llama8b_sq4_b8_8k,sq=16"):
        problem = parse_problem(text)
        for gpu in filter(family.supports, (GPU, load_gpu("a100"), load_gpu("l4"))):
            space = family.space(problem.compile_keys(gpu.arch), gpu)
            valid = {genome.id for genome in seeds_of(text, gpu, family)}
            meant |= {seed.name for seed in family.seeds if space.genome(seed.values).id in valid}

    assert meant == {seed.name for seed in family.seeds}


@EACH
def test_a_grid_goes_by_the_bounds_of_a_call_and_not_by_its_lengths(family):
    """So that one captured graph serves all lengths."""
    genome = candidate({}, family=family).genome
    even = PagedWorkload(4, 8, 2, 1, 900, 64, 16, "bf16")

    launches = [
        FAMILIES[family].launches(genome, replace(even, lengths=lengths), GPU)
        for lengths in ("", "0/0/0/0", "900/1/1/0")
    ]

    assert launches[0] == launches[1] == launches[2]


# ---- the same bits


@cache
def library(family):
    return gxx.build(fixed(family).source, name=family)


def fixed(family):
    return candidate(KERNELS[family]["fixed"], replace(KEY, invariant=True), family=family)


def bits_of(made, built, inputs, workload, *, sm_count=132):
    family = FAMILIES[made.genome.family]
    (launch,) = family.launches(made.genome, workload, replace(GPU, sm_count=sm_count))
    emulations, output = run_call(
        built, (launch,), workload, inputs, EmulatorRun("random", "random", 1, 10.0)
    )
    assert [each.reports for each in emulations if each.reports] == []
    return {name: output.tensors[name].reshape(len(inputs.tensors["Q"]) * 8, -1) for name in ("O", "LSE")}


@EACH
@pytest.mark.parametrize("relation", [ignores_company, moves_sequences])
@pytest.mark.cover
def test_rows_of_fixed_shares_are_the_same_to_the_bit_in_any_company(relation, family):
    """And on GPUs of any size."""
    made, built = fixed(family), library(family)
    workload = PagedWorkload(5, 8, 2, 1, 1100, 64, 16, "bf16", invariant=True)
    inputs = draw("normal-again", workload, seed=4)
    given = relation(inputs, workload=workload, rng=np.random.default_rng(4))

    before = bits_of(made, built, given.before.runs[0], workload, sm_count=3)
    after = bits_of(made, built, given.after.runs[0], workload)

    for name in before:
        assert (before[name][given.before.rows] == after[name]).all()


def test_parts_merged_as_they_come_do_not_repeat():
    """What the test before would see of shares that go by what else is in a batch."""
    made = candidate({})
    built = gxx.build(made.source, name=MMA)
    workload = PagedWorkload(5, 8, 2, 1, 1100, 64, 16, "bf16")
    inputs = draw("normal-again", workload, seed=4)

    first, second = (bits_of(made, built, inputs, workload, sm_count=count) for count in (3, 7))

    assert (first["O"] != second["O"]).any()


# ---- what is wrong


@table_of_cases()
@pytest.mark.sample(2)
def test_a_planted_mistake_is_found(values, key, patch, status, says, families):
    for family in families or [MMA]:
        made = candidate(values or {}, replace(KEY, **(key or {})), *patch, family=family)
        found = checked(made, seed=3)

        assert found.status in {Status[each] for each in status.split()}, found.complaint
        assert re.search(says or "", found.complaint), found.complaint
