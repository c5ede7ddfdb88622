"""The families of the linear layer: genes, planted mistakes, sums in a fixed order, exported files."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from tables import data, table_of_cases

from evoflash.emulator import launch as emulated_launch
from evoflash.emulator.call import EmulatorRun, run_call
from evoflash.emulator.preflight import check_finalist, preflight
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Proposal, Status
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.pipeline import ThisMachine
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import export_kernel
from evoflash.launch import LaunchConfig
from evoflash.numerics import decode, encode
from evoflash.operations.linear.inputs import draw
from evoflash.operations.linear.workload import ROW_CLASSES, WEIGHTS, LinearKey, LinearWorkload
from evoflash.problem import Problem, parse_problem
from evoflash.specs import load_gpu

GPU = load_gpu("h200")
FAMILIES = {name: load_family(name) for name in ("linear_mma", "linear_simt", "linear_wgmma")}
KERNELS = data(__file__, "KERNELS")
ROWS = {"linear_mma": 16, "linear_simt": 4, "linear_wgmma": 16}
# Values that only kernels of other rows or weights have.
OF_ITS_OWN = {
    ("rows_per_warp", 8): {"rows": 1},
    ("unroll", 8): {"rows": 2},
    ("x_cluster", 4): {"rows": 32},
    ("piece", 64): {"weights": "bf16"},
}
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
@pytest.mark.sample(3)
def test_a_value_of_a_gene_runs_clean(name, gene, value):
    key = replace(key_of(name), **OF_ITS_OWN.get((gene, value), {}))
    genome = genome_with(name, gene, value, key)

    found = preflight(render(genome, key, GPU), FAMILIES[name], GPU, seed=3)

    assert found.complaint == "", genome


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", [*WEIGHTS, "e4m3"])
@pytest.mark.parametrize("added", [{}, {"bias": True, "residual": True}], ids=["plain", "added"])
@pytest.mark.parametrize("rows", [1, 8, 24, 40, 48, 64])
@pytest.mark.cover
@pytest.mark.sample(3)
def test_every_kind_of_weights_and_of_what_is_added_runs_clean(name, kind, added, rows):
    if rows > 8 and name == "linear_simt":
        pytest.skip("it is for few rows")
    key = LinearKey(kind, rows, GPU.arch, **added)
    if kind == "e4m3":  # x as W
        key = replace(key, weights="fp8b128", x=kind)
    narrow = {"row_tiles": 1} if rows > 8 and name == "linear_mma" else {}
    values = {**KERNELS[name]["early" if added else "plain"], **narrow}

    made = candidate(name, values, key)
    build = compile_candidate(made)

    assert build.ok, build.log
    assert build.spill_bytes == 0
    assert preflight(made, FAMILIES[name], GPU, seed=3).complaint == ""


def test_a_genome_with_many_slots_is_a_kernel_for_every_class_of_rows_with_fewer_where_more_do_not_fit():
    family = FAMILIES["linear_wgmma"]
    slots = []
    for rows in ROW_CLASSES:
        key = LinearKey("fp8b128", rows, GPU.arch)
        space = family.space((key,), GPU)
        genome = space.genome({"row_groups": 1, "piece": 128, "stages": 5, "k_splits": 4, "ctas_per_sm": 2})
        found = family.names(genome.as_dict(), key, GPU)
        assert space.is_valid(genome), rows
        assert 2 * (found["smem"] + 1024) <= GPU.smem_per_sm
        slots.append(found["slots"])

    assert slots == [5, 5, 5, 5, 5, 5, 5, 5, 5, 4]


@pytest.mark.parametrize(
    ("x_cluster", "of_a_slot"),
    [
        (1, {rows: max(8, rows) for rows in ROW_CLASSES}),
        (2, {16: 16, 24: 32, 32: 32, 40: 48, 48: 48, 64: 64}),
        (4, {24: 32, 32: 32, 40: 64, 48: 64, 64: 64}),
    ],
)
def test_ctas_that_share_x_ask_for_whole_eights_of_rows_unless_half_of_a_slot_were_missing(
    x_cluster, of_a_slot
):
    family, found = FAMILIES["linear_wgmma"], {}
    for rows in ROW_CLASSES:
        key = LinearKey("fp8b128", rows, GPU.arch)
        space = family.space((key,), GPU)
        genome = space.genome({"row_groups": 1, "piece": 128, "stages": 4, "x_cluster": x_cluster})
        if space.is_valid(genome):
            found[rows] = family.names(genome.as_dict(), key, GPU)["x_rows"]

    assert found == of_a_slot


@pytest.mark.parametrize("arch", ["l4", "a100"])
def test_kernels_of_older_gpus_compile(arch):
    gpu = load_gpu(arch)
    for name in ("linear_mma", "linear_simt"):
        family = FAMILIES[name]
        key = replace(key_of(name), arch=gpu.arch)
        made = render(family.space((key,), gpu).genome(KERNELS[name]["plain"]), key, gpu)
        assert compile_candidate(made).ok


@pytest.mark.parametrize("seed_of", FAMILIES)
def test_every_seed_is_valid_for_some_layer(seed_of):
    family = FAMILIES[seed_of]
    left = {seed.name for seed in family.seeds}
    for text in (
        "linear:8b_o,m=1,dtype=fp8b128",
        "linear:8b_o,m=8",
        "linear:8b_o,m=31,dtype=fp8b128",
        "linear:8b_gateup,m=4,dtype=fp8t",
        "linear:8b_gateup,m=31,dtype=fp8b128",
        "linear:70b_tp8_qkv,m=31,dtype=fp8b128",
        "linear:70b_tp8_o,m=31,dtype=fp8b128",
        "linear:70b_tp8_qkv,m=64",
        "linear:70b_tp8_o,m=64",
        "linear:8b_gateup,m=64",
    ):
        problem = parse_problem(text)
        space = family.space(problem.compile_keys(GPU.arch), GPU)
        meant = family.seeds_for(problem, space, GPU)
        left -= {seed.name for seed in family.seeds if space.genome(seed.values) in meant}
    assert left == set()


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("x", ["bf16", "e4m3"])
@pytest.mark.cover
def test_a_right_kernel_comes_through_what_only_the_best_meet(name, x):
    made = candidate(name, KERNELS[name]["counter"], key_of(name, x=x))

    assert check_finalist(made, FAMILIES[name], GPU, seed=3).complaint == ""


# ---- what is wrong


@table_of_cases()
@pytest.mark.sample(9)
def test_a_planted_mistake_is_found(kernel, family, old, new, status, says, x):
    key = key_of(family, x=x or "bf16")
    found = preflight(
        candidate(family, KERNELS[family][kernel], key, (old, new)), FAMILIES[family], GPU, seed=3
    )

    assert found.status is Status[status], found.complaint
    assert re.search(says or "", found.complaint), found.complaint


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("x", ["bf16", "e4m3"])
@pytest.mark.parametrize("fault", data(__file__, "FAULTS"), ids=lambda fault: fault["name"])
@pytest.mark.cover
@pytest.mark.sample(14)
def test_a_fault_of_the_kind_that_is_judged_is_found_before_a_gpu(fault, family, x):
    """Each in every family, with x in either type; `old` by family where the text differs."""
    if x not in fault.get("x", ["bf16", "e4m3"]):
        pytest.skip("a kernel of x in BF16 has no scales of x")
    if isinstance(fault["old"], dict) and family not in fault["old"]:
        pytest.skip("the family has no such step")
    old, new = (
        fault[side][family] if isinstance(fault[side], dict) else fault[side] for side in ("old", "new")
    )
    key = key_of(family, x=x, bias=True, residual=True)
    values = {**KERNELS[family][fault["kernel"]], **fault.get("values", {})}

    found = preflight(candidate(family, values, key, (old, new)), FAMILIES[family], GPU, seed=3)

    assert found.status in (Status.CORRECTNESS, Status.RUNTIME), found.complaint
    assert re.search(fault["says"], found.complaint), found.complaint


def test_a_cluster_that_the_emulator_has_no_room_for_is_a_constraint_and_no_end_of_a_search(monkeypatch):
    """As a family's that has no check of its own for it."""
    name = "linear_mma"
    made = candidate(name, KERNELS[name]["cluster"], key_of(name))
    monkeypatch.setattr(emulated_launch, "MOST_TOGETHER", 3 * 64 - 1)

    found = preflight(made, FAMILIES[name], GPU, seed=3)

    assert found.status is Status.CONSTRAINTS
    assert found.complaint == "linear_mma: a cluster of 192 threads, the emulator has room for 191 at once"


@pytest.mark.parametrize("blocks", [7, 8])
def test_a_cluster_is_refused_where_the_emulator_itself_refuses_it(blocks):
    name = "linear_mma"
    library = gxx.build(candidate(name, KERNELS[name]["plain"], key_of(name)).source, name=name)
    launch = LaunchConfig(name, (blocks, 1, 1), (512, 1, 1), 0, cluster=(blocks, 1, 1))

    with pytest.raises(UsageError) as refused:  # it lacks arguments
        emulated_launch.run_launch(library, launch, ())

    assert ("has room for" in str(refused.value)) is bool(emulated_launch.beyond_emulator(launch))


def outputs(made, name, *, seeds):
    """What a kernel writes on ordinary data under several schedules."""
    workload = made.compile_key.workload(ROWS[name], 24, 9216)
    library = gxx.build(made.source, name=name)
    launches = FAMILIES[name].launches(made.genome, workload, GPU)
    inputs = draw("normal", workload, seed=1)
    for seed in seeds:
        run = EmulatorRun("random", "random", seed, 10.0)
        emulations, output = run_call(library, launches, workload, inputs, run)
        assert not [report for each in emulations for report in each.reports]
        yield output.tensors["Y"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("merge", ["counter", "cluster"])
@pytest.mark.sample(3)
def test_sums_are_in_one_order_whoever_comes_first(name, merge):
    made = candidate(name, {**KERNELS[name]["shares"], "k_merge": merge}, key_of(name))

    first, *others = outputs(made, name, seeds=range(4))

    assert all((other == first).all() for other in others)


@pytest.mark.parametrize("name", FAMILIES)
def test_sums_in_the_order_of_who_comes_last_do_not_repeat(name):
    """What the test before would see of partial sums in another order."""
    patch = "left + i * kLots", "left + (i + split) % splits * kLots"
    made = candidate(name, KERNELS[name]["shares"], key_of(name), patch)

    first, *others = outputs(made, name, seeds=range(8))

    assert any((other != first).any() for other in others)


def bits_of(made, name, inputs, workload):
    """What a kernel writes on some inputs, as bits."""
    library, launches = gxx.build(made.source, name=name), FAMILIES[name].launches(made.genome, workload, GPU)
    _, output = run_call(library, launches, workload, inputs, EmulatorRun("eager", "fifo", 1, 10.0))
    return output.tensors["Y"]


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_of_w_may_change_places_and_columns_of_y_go_along_in_every_bit(name):
    made = candidate(name, KERNELS[name]["counter"], key_of(name, "bf16"))
    workload = made.compile_key.workload(ROWS[name], 50, 400)
    inputs, order = draw("normal", workload, seed=4), np.random.default_rng(4).permutation(50)

    before = bits_of(made, name, inputs, workload)
    after = bits_of(made, name, replace(inputs, w=inputs.w[order]), workload)

    assert (after == before[:, order]).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_row_of_x_gives_the_same_bits_alone_and_in_a_batch(name):
    made = candidate(name, KERNELS[name]["plain"], key_of(name))
    batch = made.compile_key.workload(ROWS[name], 150, 272)
    inputs = draw("normal", batch, seed=4)
    together = bits_of(made, name, inputs, batch)
    fewest = made.compile_key.fewest

    alone = bits_of(
        made, name, replace(inputs, x=inputs.x[-fewest:]), made.compile_key.workload(fewest, 150, 272)
    )

    assert (alone == together[-fewest:]).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_half_the_weights_and_twice_x_give_the_same_bits(name):
    made = candidate(name, KERNELS[name]["plain"], key_of(name))
    workload = made.compile_key.workload(ROWS[name], 40, 272)
    inputs = draw("normal", workload, seed=4)
    twice = encode(2 * decode(inputs.x, "bf16"), "bf16")

    moved = replace(inputs, x=twice, w_scale=inputs.w_scale / 2)

    assert (bits_of(made, name, moved, workload) == bits_of(made, name, inputs, workload)).all()


# ---- what leaves


def exported_into(folder, prefix, name, words):
    problem = parse_problem(f"linear:{words}")
    space = FAMILIES[name].space(problem.compile_keys(GPU.arch), GPU)
    text = export_kernel(space.genome(KERNELS[name]["counter"]), problem, GPU, prefix=prefix)
    (folder / f"{prefix}.cu").write_text(text)


WALL = ("-std=c++17", "-Xcompiler", "-Wall,-Wextra", "-gencode=arch=compute_90a,code=sm_90a")


def compiled(*command, folder):
    """Runs a compiler that must not even warn."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stdout + done.stderr


@pytest.mark.slow
@needs_nvcc
def test_an_exported_file_is_a_program_and_its_own_header(tmp_path):
    exported_into(tmp_path, "first", "linear_mma", "m=9,n=1280,k=8192,bias")

    compiled("nvcc", *WALL, "first.cu", "-o", "program", folder=tmp_path)
    compiled(
        *("gcc", "-std=c99", "-Wall", "-Wextra", "-x", "c", "-c", "first.cu", "-o", "c.o"), folder=tmp_path
    )


@pytest.mark.slow
@pytest.mark.full  # two kernels for nvcc
@needs_nvcc
def test_two_exported_files_are_one_program(tmp_path):
    exported_into(tmp_path, "first", "linear_mma", "m=9,n=1280,k=8192,bias")
    exported_into(tmp_path, "second", "linear_simt", "m=1,8b_o,dtype=fp8b128")

    compiled("nvcc", *WALL, "-DEVOFLASH_NO_MAIN", "-c", "first.cu", "-o", "a.o", folder=tmp_path)
    compiled("nvcc", *WALL, "second.cu", "a.o", "-o", "program", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.full  # the same of activations in one byte
@needs_nvcc
def test_an_exported_file_with_activations_in_e4m3_is_a_program(tmp_path):
    exported_into(tmp_path, "third", "linear_mma", "m=9,8b_o,dtype=fp8b128,x=e4m3")

    compiled("nvcc", *WALL, "third.cu", "-o", "program", folder=tmp_path)


def test_a_launch_has_no_more_splits_than_the_workspace_has_counters():
    name = "linear_simt"
    made = candidate(name, KERNELS[name]["counter"], key_of(name))
    for n, splits in ((4096, 2), (1 << 24, 1)):
        workload = LinearWorkload(4, n, 4096, "fp8b128")
        (launch,) = FAMILIES[name].launches(made.genome, workload, GPU)
        tiles, found, _ = launch.grid
        assert found == splits
        assert found == 1 or 4 * tiles <= launch.zeroed_bytes


@pytest.mark.parametrize(
    ("name", "kernel", "n", "cluster", "ctas"),
    [
        ("linear_mma", "early", 4096, 1, 2),
        ("linear_mma", "early", 8192, 2, 8),
        ("linear_mma", "early", 40, 1, None),
        ("linear_mma", "plain", 4096, 1, None),
        ("linear_mma", "early", 4096, 4, 12),
        ("linear_wgmma", "early", 4096, 2, 1),
        ("linear_wgmma", "early", 4096, 4, 3),
        ("linear_wgmma", "early", 1280, 8, 2),
    ],
)
def test_an_early_launch_fits_an_even_share_of_its_ctas_on_an_sm(name, kernel, n, cluster, ctas):
    """None: it asks for what it uses, as there are few CTAs, no early start or a large cluster."""
    values = {**KERNELS[name][kernel], "k_splits": cluster, "k_merge": "cluster"}
    made = candidate(name, values, key_of(name))
    family = FAMILIES[name]

    (launch,) = family.launches(made.genome, LinearWorkload(16, n, 4096, "fp8b128"), GPU)

    used = family.names(made.genome.as_dict(), made.compile_key, GPU)["smem"]
    fitting = GPU.smem_per_sm // (launch.smem_bytes + 1024)
    assert (fitting if launch.smem_bytes > used else None) == ctas


@pytest.mark.parametrize("rows", [8, 64])
def test_warpgroups_that_take_slots_by_turns_always_meet_the_same_ones(rows):
    """Else one could take a phase of a slot's barrier for the one two turns of the ring later."""
    key, family = replace(key_of("linear_wgmma"), rows=rows), FAMILIES["linear_wgmma"]
    for stages, k_groups in ((3, 2), (5, 2), (6, 4), (8, 4)):
        values = {**KERNELS["linear_wgmma"]["groups"], "stages": stages, "k_groups": k_groups}
        genome = family.space((key,), GPU).genome(values)
        assert family.names(genome.as_dict(), key, GPU)["slots"] % k_groups == 0


@pytest.mark.parametrize(("weights", "fewest"), [("bf16", 4), ("fp8b128", 2)])
def test_a_warpgroup_that_leaves_its_slots_a_turn_late_has_two(weights, fewest):
    """Else it waits for a slot to be filled that it has not left."""
    key, family = replace(key_of("linear_wgmma"), weights=weights), FAMILIES["linear_wgmma"]
    space = family.space((key,), GPU)
    for stages in (2, 3, 4):
        genome = space.genome({"row_groups": 1, "k_groups": 2, "piece": 128, "stages": stages})
        assert ("groups_have_slots" in space.violations(genome)) == (stages < fewest)


def test_a_problem_of_several_shapes_is_one_kernel():
    problem = Problem((LinearWorkload(3, 4096, 4096), LinearWorkload(4, 6144, 4096)))
    assert len(problem.compile_keys(GPU.arch)) == 1


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize(
    "text",
    [
        "m=1,70b_tp8_qkv,dtype=fp8b128",
        "m=13,dsv3_kv_a,dtype=bf16,bias",
        "m=4,8b_o,dtype=fp8t",
        "m=7,70b_tp8_o,dtype=fp8b128,x=e4m3",
    ],
)
@pytest.mark.alone_on_gpu
def test_a_gpu_finds_every_way_of_dividing_k_right_and_times_it(text):
    try:
        spec = spec_of(present_gpu())
    except EvoflashError as error:
        pytest.skip(f"needs a GPU ({error})")
    problem = parse_problem(f"linear:{text}")
    ways = ("plain", "counter", "cluster", "early") if spec.compute_capability >= 90 else ("plain", "counter")
    with MeasuredEvaluator(problem, spec, seed=1, cores=ThisMachine(3), ahead=6) as evaluator:
        asked = 0
        for name, family in FAMILIES.items():
            if name == "linear_wgmma" and spec.arch != "sm_90a":
                continue
            space = family.space(problem.compile_keys(spec.arch), spec)
            genomes = {space.genome(KERNELS[name][way]) for way in ways}
            for genome in filter(space.is_valid, genomes):
                evaluator.submit(Proposal(genome))
                asked += 1
        found = [evaluator.collect()[1] for _ in range(asked)]

    assert asked >= len(ways)
    right = (Status.CORRECT, Status.SCREENED)  # the latter where others are much faster
    assert [(each.status, each.reason) for each in found if each.status not in right] == []
    assert all(each.score_us for each in found if each.is_correct)
