"""The families of the linear layer: genes, planted mistakes, sums in a fixed order, exported files."""

import re
import shutil
import subprocess
from dataclasses import replace

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
from evoflash.kernels.standalone import export_kernel
from evoflash.numerics import decode, encode
from evoflash.operations.linear.inputs import draw
from evoflash.operations.linear.workload import WEIGHTS, LinearKey, LinearWorkload
from evoflash.problem import Problem, parse_problem
from evoflash.specs import load_gpu

GPU = load_gpu("h200")
FAMILIES = {name: load_family(name) for name in ("linear_mma", "linear_simt")}
KERNELS = data(__file__, "KERNELS")
ROWS = {"linear_mma": 16, "linear_simt": 4}
needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")


def key_of(name, weights="fp8b128", **added):
    return LinearKey(weights, ROWS[name], GPU.arch, **added)


def candidate(name, values, key, patch=None):
    family = FAMILIES[name]
    made = render(family.space((key,), GPU).genome(values), key, GPU)
    if patch is None:
        return made
    old, new = patch
    assert made.source.count(old) == 1, f"'{old}' stands {made.source.count(old)} times in the text"
    return replace(made, source=made.source.replace(old, new))


def values_of_genes():
    """(family, gene, value) of every value."""
    for name, family in FAMILIES.items():
        for param in family.params:
            for value in param.values:
                yield pytest.param(name, param.name, value, id=f"{name}-{param.name}={value}")


def genome_with(name, gene, value, key):
    space, rng = FAMILIES[name].space((key,), GPU), np.random.default_rng(5)
    for _ in range(4000):
        genome = space.sample(rng)
        if genome.as_dict().get(gene) == value:
            return genome
    raise AssertionError(f"no valid genome has {gene}={value}")


# ---- what is right


@pytest.mark.parametrize(("name", "gene", "value"), list(values_of_genes()))
@pytest.mark.sample(8)
def test_a_value_of_a_gene_runs_clean(name, gene, value):
    key = replace(key_of(name), rows=1 if (gene, value) == ("rows_per_warp", 8) else ROWS[name])
    genome = genome_with(name, gene, value, key)

    found = preflight(render(genome, key, GPU), FAMILIES[name], GPU, seed=3)

    assert found.complaint == "", genome


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("added", [{}, {"bias": True, "residual": True}], ids=["plain", "added"])
@pytest.mark.parametrize("rows", [1, 8, 64])
@pytest.mark.cover
def test_every_kind_of_weights_and_of_what_is_added_runs_clean(name, weights, added, rows):
    if rows > 8 and name == "linear_simt":
        pytest.skip("it is for few rows")
    key = LinearKey(weights, rows, GPU.arch, **added)
    values = {**KERNELS[name]["plain"], **({"row_tiles": 1} if rows > 8 else {})}

    made = candidate(name, values, key)
    build = compile_candidate(made)

    assert build.ok, build.log
    assert build.spill_bytes == 0
    assert preflight(made, FAMILIES[name], GPU, seed=3).complaint == ""


@pytest.mark.parametrize("arch", ["l4", "a100"])
def test_kernels_of_older_gpus_compile(arch):
    gpu = load_gpu(arch)
    for name, family in FAMILIES.items():
        key = replace(key_of(name), arch=gpu.arch)
        made = render(family.space((key,), gpu).genome(KERNELS[name]["plain"]), key, gpu)
        assert compile_candidate(made).ok


@pytest.mark.parametrize("seed_of", FAMILIES)
def test_every_seed_is_valid_for_some_layer(seed_of):
    family, meant = FAMILIES[seed_of], set()
    for text in ("linear:8b_o,m=1,dtype=fp8b128", "linear:8b_o,m=8", "linear:8b_gateup,m=4,dtype=fp8t"):
        problem = parse_problem(text)
        space = family.space(problem.compile_keys(GPU.arch), GPU)
        meant |= {genome.id for genome in family.seeds_for(problem, space, GPU)}
    assert len(meant) == len(family.seeds)


# ---- what is wrong


@table_of_cases()
def test_a_planted_mistake_is_found(kernel, family, old, new, status, says, bias):
    key = key_of(family, bias=bool(bias))
    found = preflight(
        candidate(family, KERNELS[family][kernel], key, (old, new)), FAMILIES[family], GPU, seed=3
    )

    assert found.status is Status[status], found.complaint
    assert re.search(says or "", found.complaint), found.complaint


def outputs(made, name, *, seeds):
    """What a kernel writes on one input under several schedules, in float32.

    Each of the three shares of k outweighs what is left when two of them have cancelled: in which order they
    are added up decides what that is.
    """
    third = 3072
    workload = LinearWorkload(ROWS[name], 24, 3 * third, "fp8b128")
    library = gxx.build(made.source, name=name)
    launches = FAMILIES[name].launches(made.genome, workload, GPU)
    inputs = draw("normal", workload, seed=1)
    x, w = inputs.x.copy(), inputs.w.copy()
    x[:, :third] = encode(decode(x[:, :third], "bf16") * np.float32(2.0**16), "bf16")
    x[:, third : 2 * third] = x[:, :third] ^ np.uint16(0x8000)
    w[:, third : 2 * third] = w[:, :third]
    scale = np.ones_like(inputs.w_scale)
    for seed in seeds:
        run = EmulatorRun("random", "random", seed, 10.0)
        given = replace(inputs, x=x, w=w, w_scale=scale)
        emulations, output = run_call(library, launches, workload, given, run)
        assert not [report for each in emulations for report in each.reports]
        yield output.tensors["Y"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("merge", ["counter", "cluster"])
def test_sums_are_in_one_order_whoever_comes_first(name, merge):
    made = candidate(name, {**KERNELS[name]["shares"], "k_merge": merge}, key_of(name))

    first, *others = outputs(made, name, seeds=range(4))

    assert all((other == first).all() for other in others)


@pytest.mark.parametrize("name", FAMILIES)
def test_sums_in_the_order_of_who_comes_last_do_not_repeat(name):
    """What the test before would see of partial sums in another order."""
    patch = "left + i * kItems", "left + (i + split) % splits * kItems"
    made = candidate(name, KERNELS[name]["shares"], key_of(name), patch)

    first, *others = outputs(made, name, seeds=range(8))

    assert any((other != first).any() for other in others)


# ---- what leaves


@needs_nvcc
def test_an_exported_file_is_a_program_and_its_own_header(tmp_path):
    for name, words in (("linear_mma", "m=9,n=1280,k=8192,bias"), ("linear_simt", "m=1,8b_o,dtype=fp8b128")):
        problem = parse_problem(f"linear:{words}")
        space = FAMILIES[name].space(problem.compile_keys(GPU.arch), GPU)
        text = export_kernel(space.genome(KERNELS[name]["counter"]), problem, GPU, prefix=name)
        (tmp_path / f"{name}.cu").write_text(text)
    first, second = "linear_mma.cu", "linear_simt.cu"
    arch = "-gencode=arch=compute_90a,code=sm_90a"
    wall = ("-std=c++17", "-Xcompiler", "-Wall,-Wextra", arch)

    for command in (
        ("nvcc", *wall, "-DEVOFLASH_NO_MAIN", "-c", first, "-o", "a.o"),
        ("nvcc", *wall, second, "a.o", "-o", "program"),
        ("gcc", "-std=c99", "-Wall", "-Wextra", "-x", "c", "-c", first, "-o", "c.o"),
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stdout + done.stderr


def test_a_launch_has_no_more_splits_than_the_workspace_has_counters():
    name = "linear_simt"
    made = candidate(name, KERNELS[name]["counter"], key_of(name))
    for n, splits in ((4096, 2), (1 << 24, 1)):
        workload = LinearWorkload(4, n, 4096, "fp8b128")
        (launch,) = FAMILIES[name].launches(made.genome, workload, GPU)
        tiles, found, _ = launch.grid
        assert found == splits
        assert found == 1 or 4 * tiles <= launch.zeroed_bytes


def test_a_problem_of_several_shapes_is_one_kernel():
    problem = Problem((LinearWorkload(3, 4096, 4096), LinearWorkload(4, 6144, 4096)))
    assert len(problem.compile_keys(GPU.arch)) == 1
