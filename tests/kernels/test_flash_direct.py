"""Every gene of flash_direct: each value runs clean in the emulator, compiles whole, does what it says."""

from dataclasses import replace

import gene_cases
import numpy as np
import pytest

from evoflash.emulator.preflight import emulate, preflight
from evoflash.evaluation import Status
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.specs import load_gpu

FAMILY, H200 = load_family("flash_direct"), load_gpu("h200")
KEY = AttentionKey(64, "fp16", True, 2, "sm_90a")  # causal and grouped heads: every gene can be active
WIDE = AttentionKey(128, "bf16", False, 1, "sm_90a")
BASE = {"row_warps": 1, "key_warps": 2, "rows_per_warp": 16, "block_n": 32, "ctas_per_sm": 1}
NARROW = {"block_n": 16, "max_tree": 1, "sum_tree": 1}  # fits everywhere, head_dim 128 included
COMMON, EXCHANGE = {"merge": "common"}, {"merge": "exchange"}
WRONG = None  # a mistake that no report tells, but the numbers
PAIRS = {  # genes that meet in one place of the code
    "a warp alone with its rows and all keys": {"key_warps": 1},
    "warps alone, two row tiles of packed heads": {
        "row_warps": 2,
        "key_warps": 1,
        "rows_per_warp": 32,
        "pack_gqa": "on",
    },
    "keys divided, two row tiles of packed heads": {"rows_per_warp": 32, "pack_gqa": "on", "max_tree": 4},
    "late V, keys divided by eight": {"key_warps": 8, "v_load": "late", "block_n": 16},
    "late V of a warp alone": {"key_warps": 1, "v_load": "late", "sum_tree": 2},
    "rows side by side, keys divided": {"row_warps": 2, "key_warps": 4, "tile_order": "reversed"},
    "reversed packed heads": {"row_warps": 4, "tile_order": "reversed", "pack_gqa": "on"},
    "trees as wide as the step": {"max_tree": 4, "sum_tree": 4, "exp_form": "mul_sub"},
    "trees of a wide step": {"block_n": 64, "max_tree": 4, "sum_tree": 4, "v_load": "late"},
    "an odd number of tiles in two chains": {"block_n": 48, "max_tree": 4, "sum_tree": 2},
    "maxima agreed on, rows side by side": {"merge": "common", "row_warps": 2, "key_warps": 4, "block_n": 16},
    "maxima agreed on, two row tiles of packed heads": {
        "merge": "common",
        "rows_per_warp": 32,
        "pack_gqa": "on",
        "exp_form": "mul_sub",
    },
    "exchange, rows side by side": {"merge": "exchange", "row_warps": 2, "key_warps": 4, "sum_tree": 4},
    "exchange, two row tiles of packed heads, late V": {
        "merge": "exchange",
        "rows_per_warp": 32,
        "pack_gqa": "on",
        "v_load": "late",
        "tile_order": "reversed",
    },
    "exchange by eight, a tile of columns each": {
        "merge": "exchange",
        "key_warps": 8,
        "block_n": 48,
        "exp_form": "mul_sub",
        "max_tree": 2,
    },
    "maxima agreed on by eight, late V": {
        "merge": "common",
        "key_warps": 8,
        "v_load": "late",
        "block_n": 16,
        "max_tree": 2,
        "tile_order": "reversed",
    },
}


def genome_of(values, key=KEY, gpu=H200):
    return gene_cases.valid_genome(FAMILY, {**BASE, **values}, key, gpu)


def complaint_of(genome, key, gpu=H200, seed=1):
    """What pre-flight says; no spill is allowed."""
    build = gene_cases.compiled(genome, key, gpu)
    assert (build.spill_bytes, build.warnings) == (0, ())
    return gene_cases.complaint_of(FAMILY, genome, key, gpu, seed=seed)


@pytest.mark.slow
def test_the_values_of_all_genes_run_clean_a_few_in_each_genome():
    alone = {(name, value): genome_of({name: value}) for name, value in gene_cases.values_of(FAMILY)}
    packs = gene_cases.packs(alone, genome_of({}), FAMILY.space((KEY,), H200))

    assert {cases: said for genome, cases in packs if (said := complaint_of(genome, KEY))} == {}


@pytest.mark.parametrize(("name", "value"), list(gene_cases.each_value(FAMILY, under_full=True)))
def test_each_value_of_each_gene_runs_clean(name, value):
    genome = genome_of({name: value})
    assert genome.as_dict()[name] == value, "the gene is not active here"

    assert complaint_of(genome, KEY) == ""


@pytest.mark.parametrize(
    ("values", "key"),
    list(gene_cases.shared_out(PAIRS, {"pairs": KEY, "threes": replace(KEY, dtype="bf16", gqa_ratio=3)})),
)
@pytest.mark.sample(4)
def test_genes_that_meet_run_clean(values, key):
    """Three heads in a tile: a row tile begins and ends within a query."""
    genome = genome_of(values, key)
    assert values.items() <= genome.as_dict().items(), "a gene is not active here"

    assert complaint_of(genome, key, seed=2) == ""


@pytest.mark.cover
@pytest.mark.parametrize("gpu", ["a100", "l4", "h200"])
@pytest.mark.parametrize(("dtype", "causal", "gqa"), [("fp16", False, 1), ("bf16", True, 4)])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("key_warps", [1, 4])
def test_each_kind_of_kernel_runs_clean_on_each_gpu(gpu, dtype, causal, gqa, head_dim, key_warps):
    spec = load_gpu(gpu)
    key = AttentionKey(head_dim, dtype, causal, gqa, spec.arch)
    genome = genome_of({**NARROW, "row_warps": 2, "key_warps": key_warps}, key, spec)

    assert complaint_of(genome, key, spec, seed=3) == ""


@pytest.mark.parametrize("head_dim", [16, 80, 96, 256])
def test_other_head_dims_are_refused(head_dim):
    """A thread has 16 bytes of every 64 columns."""
    space = FAMILY.space((replace(KEY, head_dim=head_dim),), H200)

    assert "head_dim_fits" in space.violations(space.genome({**BASE, **NARROW}))


@pytest.mark.parametrize(
    ("values", "checks"),
    [
        ({"row_warps": 4, "key_warps": 8, "ctas_per_sm": 4}, ("threads_fit", "regs_fit", "smem_fits_sm")),
        ({"block_n": 64, "rows_per_warp": 32}, ("regs_fit",)),
        ({"block_n": 16, "max_tree": 4}, ("trees_fit",)),
        ({"block_n": 16, "sum_tree": 4}, ("trees_fit",)),
    ],
)
def test_a_named_check_refuses_what_cannot_work(values, checks):
    space = FAMILY.space((KEY,), H200)

    assert space.violations(space.genome({**BASE, **values})) == checks


def test_the_parts_of_many_warps_may_be_more_than_a_small_gpu_has():
    gpu, key = load_gpu("l4"), replace(WIDE, arch="sm_89")
    space = FAMILY.space((key,), gpu)
    genome = space.genome({**BASE, **NARROW, "row_warps": 4, "key_warps": 4})

    assert set(space.violations(genome)) == {"regs_fit", "smem_fits_block", "smem_fits_sm"}


@pytest.mark.cover
@pytest.mark.parametrize("name", [seed.name for seed in FAMILY.seeds])
@pytest.mark.parametrize("gpu", ["a100", "l4", "h200"])
@pytest.mark.sample(3)
def test_each_seed_is_valid_and_does_not_spill(name, gpu):
    (seed,) = (seed for seed in FAMILY.seeds if seed.name == name)
    spec = load_gpu(gpu)
    for key in [replace(WIDE, head_dim=64, arch=spec.arch), replace(KEY, arch=spec.arch)]:
        space = FAMILY.space((key,), spec)
        genome = space.genome(seed.values)
        build = compile_candidate(render(genome, key, spec))

        assert space.violations(genome) == ()
        assert (build.ok, build.spill_bytes, build.warnings) == (True, 0, ()), build.log


def test_wide_heads_have_seeds_too():
    space = FAMILY.space((WIDE,), H200)

    assert sum(space.is_valid(space.genome(seed.values)) for seed in FAMILY.seeds) >= 2


@pytest.mark.full  # twelve kernels for the compiler
@pytest.mark.parametrize("gpu", ["l4", "h200"])
def test_random_genomes_compile_without_spills(gpu):
    """The named checks are the wall of registers: at least nine of ten must hold."""
    spec, rng, whole = load_gpu(gpu), np.random.default_rng(11), 0
    keys = [replace(key, arch=spec.arch) for key in (KEY, WIDE, replace(KEY, head_dim=128))]
    keys.append(replace(WIDE, head_dim=64, arch=spec.arch))
    for key in keys * 3:
        build = compile_candidate(render(FAMILY.space((key,), spec).sample(rng), key, spec))
        whole += build.ok and not build.spill_bytes and not build.warnings
    assert whole >= 11


@pytest.mark.parametrize(("name", "one", "other"), list(gene_cases.adjacent_values(FAMILY)))
def test_no_value_is_inert(name, one, other):
    first, second = (
        gene_cases.machine(FAMILY, genome_of({name: value}), KEY, H200) for value in (one, other)
    )

    assert first != second


@pytest.mark.cover
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize(
    ("dtype", "causal", "gqa"), [("fp16", True, 1), ("bf16", True, 4), ("fp16", False, 4)]
)
@pytest.mark.sample(1)
def test_random_genomes_pass_the_emulator(head_dim, dtype, causal, gqa):
    key = AttentionKey(head_dim, dtype, causal, gqa, "sm_90a")
    space, rng = FAMILY.space((key,), H200), np.random.default_rng([head_dim, causal, gqa])
    for seed in range(2):
        genome = space.sample(rng)
        assert preflight(render(genome, key, H200), FAMILY, H200, seed=seed).complaint == "", genome


SHAPES = {  # seq_q, seq_kv, trial
    "one row": (1, 200, "needles"),
    "tall": (150, 5, "large_logits"),
    "wide": (5, 150, "rising"),
    "odd": (37, 91, "falling"),
    "queries without a key": (100, 60, "rising"),
    "no tile is full": (17, 31, "saturated"),
}
CORES = {
    "alone": {"key_warps": 1, "row_warps": 2},
    "divided": {"key_warps": 4, "rows_per_warp": 32, "v_load": "late"},
    "packed": {"key_warps": 8, "block_n": 16, "pack_gqa": "on", "tile_order": "reversed"},
    "packed alone": {"key_warps": 1, "pack_gqa": "on"},
    "agreed": {"merge": "common", "key_warps": 4, "rows_per_warp": 32, "block_n": 16},
    "agreed, side by side": {"merge": "common", "row_warps": 2, "pack_gqa": "on"},
    "exchanged": {"merge": "exchange", "key_warps": 4, "rows_per_warp": 32, "block_n": 16, "v_load": "late"},
    "exchanged, side by side": EXCHANGE | {"row_warps": 2, "key_warps": 8, "block_n": 16, "pack_gqa": "on"},
}


@pytest.mark.cover
@pytest.mark.parametrize(("seq_q", "seq_kv", "trial"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("values", CORES.values(), ids=CORES)
@pytest.mark.parametrize(
    "causal", [True, pytest.param(False, marks=pytest.mark.full)], ids=["causal", "full"]
)
def test_odd_shapes_come_out_right(values, seq_q, seq_kv, causal, trial):
    """Output and LSE of every row, O = 0 and LSE = -inf for rows that see no key; two batches, six heads."""
    key = replace(KEY, causal=causal, gqa_ratio=3, dtype="bf16")
    genome, workload = (
        genome_of(values, key),
        AttentionWorkload(2, 6, 2, seq_q, seq_kv, 64, "bf16", causal=causal),
    )

    emulations, verdict = emulated(genome, key, workload, trial)

    assert [each.reports for each in emulations if each.reports] == []
    assert verdict.passed, verdict.reason


def emulated(genome, key, workload, trial):
    library = gxx.build(render(genome, key, H200).source, name="flash_direct")
    launches = FAMILY.launches(genome, workload, H200)
    return emulate(
        library, launches, workload, trial, delivery="random", schedule="random", seed=5, is_strided=True
    )


def test_packed_heads_take_a_share_of_the_loads():
    """Four heads of the same keys and values: one pass over them in place of four."""
    key, workload = replace(KEY, gqa_ratio=4), AttentionWorkload(1, 4, 1, 16, 256, 64, "fp16", causal=True)
    loads = {}
    for pack in ("off", "on"):
        emulations, verdict = emulated(
            genome_of({"row_warps": 4, "pack_gqa": pack}, key), key, workload, "normal"
        )
        assert verdict.passed, verdict.reason
        loads[pack] = sum(site.requests for site in emulations[0].sites if site.op == "ldg")
    assert loads["on"] < loads["off"] / 2


def test_the_grid_follows_rows_heads_and_packing():
    workload = AttentionWorkload(2, 8, 4, 100, 300, 64, "fp16", causal=True)
    grids = {}
    for pack in ("off", "on"):
        (launch,) = FAMILY.launches(genome_of({"row_warps": 2, "pack_gqa": pack}), workload, H200)
        grids[pack] = (launch.grid, launch.block)

    assert grids == {"off": ((4, 8, 2), (128, 1, 1)), "on": ((7, 4, 2), (128, 1, 1))}


MISTAKES = {  # values, what is replaced by what, and how it shows
    "merged before it is there": ({}, ("ef::syncthreads();", ""), "uninit-shared"),
    "the same keys again": ({}, ("load_keys(key, keys, next", "load_keys(key, keys, first_key"), WRONG),
    "keys past the end": ({}, ("row < last ? row : last", "row"), "OOB"),
    "never shrinks": ({}, ("first_key > slice * BLOCK_N", "false"), WRONG),
    "shrinks the first step only": ({}, ("first_key > slice * BLOCK_N", "first_key < 128"), WRONG),
    "sums merged without weights": ({}, ("sum_by[other] *= weight[other];", ""), WRONG),
    "parts merged without weights": ({}, ("weight[other] * part.x[x] :", "part.x[x] :"), WRONG),
    "warps merge the same columns": (
        {"key_warps": 4},
        ("slice * kShare / (2 * kHalves) % 2 * 8 +", "0 +"),
        "double-write",
    ),
    "rows past the end": ({}, ("if (is_there)\n", ""), "OOB-global"),
    "a maximum of the step before": (COMMON, ("maxima = 2 * sums + 3 * kStateBytes - maxima;", ""), "race"),
    "maxima before they are there": (COMMON, ("    ef::syncthreads();\n", ""), "uninit-shared"),
    "maxima of a warp alone": (COMMON, ("best[t][h] = max_of(all)", "best[t][h] = all[slice]"), WRONG),
    "a row group's barrier for another": (
        COMMON | {"row_warps": 2, "block_n": 16},
        ("bar_sync(1 + row_warp", "bar_sync(1"),
        "",
    ),
    "probabilities before they are there": (
        EXCHANGE,
        ("cp_async_wait<0>();\n    ef::syncthreads();", "cp_async_wait<0>();"),
        "race",
    ),
    "values before they are there": (EXCHANGE, ("    ef::cp_async_wait<0>();\n", ""), "wait"),
    "one place for all steps": (EXCHANGE, ("step = other_step;", ""), "race"),
    "values into the place that is read": (EXCHANGE, ("copy_values(other_step", "copy_values(step"), "async"),
    "values of other columns": (EXCHANGE, ("((lane % kLanes) ^ (lane / kLanes))", "lane % kLanes"), WRONG),
    "maxima of other warps": (EXCHANGE, ("weight_of(weight[other]", "weight_of(weight[0]"), WRONG),
    "outputs of the step before as they were": (
        EXCHANGE,
        ("2 * h + e] *= shrink;", "2 * h + e] *= 1;"),
        WRONG,
    ),
    "half of a sum": (EXCHANGE, ("(sum_by[2 * other] + sum_by[2 * other + 1])", "sum_by[2 * other]"), WRONG),
    "LSE of the other row": (EXCHANGE, ("slice == 0 ? log_sum[0]", "slice == 1 ? log_sum[0]"), WRONG),
    "a value twice": ({"key_warps": 1}, ("pair.half[1] = b.half", "pair.half[1] = a.half"), WRONG),
    "values of other keys": ({"key_warps": 1}, ("+ i % 2 + i / 2 * 8", "+ i % 2 * 8 + i / 2"), WRONG),
    "the next step's values": (
        {"v_load": "late"},
        ("load_values(value, values, first_key", "load_values(value, values, next"),
        WRONG,
    ),
    "heads for queries": (
        {"pack_gqa": "on"},
        ("row % kGqaRatio * head_stride", "row / kGqaRatio * head_stride"),
        "OOB",
    ),
}


@pytest.mark.parametrize(("values", "edit", "shows"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.sample(9)
def test_a_planted_mistake_is_found(values, edit, shows):
    candidate = render(genome_of(values), KEY, H200)
    old, new = edit
    assert old in candidate.source, old
    source = candidate.source.replace(old, new)

    found = preflight(
        replace(candidate, source=source, source_sha=candidate.source_sha + new), FAMILY, H200, seed=0
    )

    assert found.status is (Status.CORRECTNESS if shows is WRONG else Status.RUNTIME), found.complaint
    assert (shows or "") in found.complaint


def test_the_shared_memory_asked_for_is_what_the_kernel_touches():
    """16 bytes less (128 where V is swizzled) and an access is past the end; a warp alone asks for none."""
    wide, many = {"rows_per_warp": 32, "row_warps": 2}, {"key_warps": 8, "block_n": 16}
    for values in ({}, COMMON, EXCHANGE, wide, many, many | EXCHANGE):
        candidate = render(genome_of(values), KEY, H200)
        less = 128 if "exchange" in values.values() else 16
        text = candidate.source.replace("ef::smem_base()", f"ef::smem_base() + {less}")
        assert "OOB-shared" in preflight(replace(candidate, source=text), FAMILY, H200, seed=0).complaint

    (launch,) = FAMILY.launches(
        genome_of({"key_warps": 1}), AttentionWorkload(1, 2, 1, 9, 9, 64, causal=True), H200
    )
    assert launch.smem_bytes == 0


@pytest.mark.parametrize(
    ("values", "present", "absent"),
    [
        (
            {},
            ["Quad", "slice", "smem_base", "weight", "quad_max"],
            ["packed_at(", "gridDim", "chain", " part[", "rows_max", "maxima"],
        ),
        (COMMON, ["rows_max", "maxima"], ["weight[", "quad_", "kMaxima"]),
        (EXCHANGE, ["cp_async16", "quad_max", "kMaxima"], ["rows_max", "ValueTile", "column_of", "sum_of"]),
        (
            {"key_warps": 1},
            ["16 * kTilesM;"],
            ["slice", "Quad", "smem", "syncthreads", "rows_sum", "lse_target"],
        ),
        ({"pack_gqa": "on"}, ["packed_at(row, q_head, q_row)"], ["queries, row"]),
        ({"tile_order": "reversed"}, ["gridDim.x - 1 - blockIdx.x"], []),
        ({"max_tree": 2}, ["chain[2]"], ["best[h] = ef::fmax(s[0]"]),
        ({"sum_tree": 4}, ["part[4]"], []),
        ({"exp_form": "mul_sub"}, ["ef::sub(ef::mul(s[n][2 * h + e]"], ["ef::fma("]),
    ],
    ids=lambda value: "-".join(map(str, value.values())) or "base" if isinstance(value, dict) else "",
)
def test_a_rendered_kernel_holds_its_genes_and_nothing_of_others(values, present, absent):
    gene_cases.assert_holds(render(genome_of(values), KEY, H200).source, present, absent)


@pytest.mark.parametrize("values", [{}, *PAIRS.values()], ids=["base", *PAIRS])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_a_rendered_kernel_reads_as_if_written_by_hand(values, causal):
    key = replace(KEY, causal=causal)

    gene_cases.assert_reads_as_if_written_by_hand(render(genome_of(values, key), key, H200).source)
