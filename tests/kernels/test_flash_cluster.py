"""Every gene of flash_cluster: each value runs clean in the emulator, compiles whole, does what it says."""

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
from evoflash.launch import TensorMapSpec
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

FAMILY, H200 = load_family("flash_cluster"), load_gpu("h200")
KEY = AttentionKey(64, "fp16", True, 2, "sm_90a")  # causal and grouped heads: every gene can be active
WIDE = AttentionKey(128, "bf16", False, 1, "sm_90a")
BASE = {"cluster": 2, "consumers": 1, "block_n": 64, "tile_parts": 2, "ctas_per_sm": 1}
WHOLE = {"tile_parts": 1}
NEEDS = {  # what a value needs to be valid, beside BASE
    "block_n=48": WHOLE,
    "block_n=80": WHOLE,
    "block_n=112": WHOLE,
}
FOUR, LEAST = {"cluster": 4}, {"block_n": 32, "tile_parts": 1}  # several steps of few keys
PAIRS = {  # genes that meet in one place of the code
    "four blocks, parts of 16 keys": {"cluster": 4, "tile_parts": 4},
    "four blocks, tiles as a whole": {"cluster": 4, **LEAST},
    "four blocks, two warpgroups of packed heads": {"cluster": 4, "consumers": 2, "pack_gqa": "on"},
    "four blocks along the heads' grid": {
        "cluster": 4,
        "tile_order": "heads_first",
        "pack_gqa": "on",
        "exp_form": "mul_sub",
        **LEAST,
    },
    "two warpgroups, four parts": {"consumers": 2, "tile_parts": 4, "block_n": 128},
    "two warpgroups, parts of an odd number of fragments": {
        "consumers": 2,
        "block_n": 96,
        "max_tree": 4,
        "sum_tree": 2,
    },
    "reversed packed heads, twice an SM": {"tile_order": "reversed", "pack_gqa": "on", "ctas_per_sm": 2},
    "heads first, two warpgroups": {"tile_order": "heads_first", "consumers": 2, "l2_promotion": 128},
    "trees as wide as a part": {"max_tree": 4, "sum_tree": 4, "exp_form": "mul_sub"},
    "an odd number of tiles of scores in chains": {"block_n": 112, **WHOLE, "max_tree": 4, "sum_tree": 4},
    "a maximum in two chains, a sum in one": {"cluster": 4, "max_tree": 2, "tile_parts": 4},
    "a sum in two chains of packed heads": {"sum_tree": 2, "pack_gqa": "on", "exp_form": "mul_sub"},
    "as many keys as registers allow": {"block_n": 160, "tile_parts": 2, "pack_gqa": "on"},
}


def genome_of(values, key=KEY, gpu=H200):
    return gene_cases.valid_genome(FAMILY, {**BASE, **values}, key, gpu)


def complaint_of(genome, key, seed=1):
    """What pre-flight says; no spill is allowed, and no word of ptxas on serialised wgmma."""
    build = gene_cases.compiled(genome, key, H200)
    assert (build.spill_bytes, build.warnings) == (0, ())
    return gene_cases.complaint_of(FAMILY, genome, key, H200, seed=seed)


def with_value(name, value):
    return genome_of({**NEEDS.get(f"{name}={value}", {}), name: value})


@pytest.mark.slow
@pytest.mark.full
def test_the_values_of_all_genes_run_clean_a_few_in_each_genome():
    alone = {(name, value): with_value(name, value) for name, value in gene_cases.values_of(FAMILY)}
    packs = gene_cases.packs(alone, genome_of({}), FAMILY.space((KEY,), H200))

    assert {cases: said for genome, cases in packs if (said := complaint_of(genome, KEY))} == {}


@pytest.mark.parametrize(("name", "value"), list(gene_cases.each_value(FAMILY, under_full=True)))
def test_each_value_of_each_gene_runs_clean(name, value):
    genome = with_value(name, value)
    assert genome.as_dict()[name] == value, "the gene is not active here"

    assert complaint_of(genome, KEY) == ""


@pytest.mark.parametrize(
    ("values", "key"),
    list(
        gene_cases.shared_out(PAIRS, {"d64": KEY, "d128": replace(WIDE, gqa_ratio=4, causal=True)}, every=2)
    ),
)
@pytest.mark.sample(2)
def test_genes_that_meet_run_clean(values, key):
    genome = genome_of(values, key)
    assert values.items() <= genome.as_dict().items(), "a gene is not active here"

    assert complaint_of(genome, key, seed=2) == ""


@pytest.mark.cover
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize(
    ("dtype", "causal", "gqa"), [("fp16", False, 1), ("bf16", True, 4), ("bf16", True, 3)]
)
@pytest.mark.parametrize("cluster", [2, 4])
def test_each_kind_of_kernel_runs_clean(cluster, dtype, causal, gqa, head_dim):
    key = AttentionKey(head_dim, dtype, causal, gqa, "sm_90a")

    assert complaint_of(genome_of({"cluster": cluster}, key), key, seed=3) == ""


@pytest.mark.parametrize("head_dim", [16, 80, 96, 256])
def test_other_head_dims_are_refused(head_dim):
    """Panels of 64 columns, and V in rows that a swizzle has."""
    space = FAMILY.space((replace(KEY, head_dim=head_dim),), H200)

    assert "head_dim_fits" in space.violations(space.genome(BASE))


def test_a_packed_box_must_hold_whole_queries():
    """64 rows of 3 heads each: the last query would be torn."""
    space = FAMILY.space((replace(KEY, gqa_ratio=3),), H200)

    assert space.violations(space.genome({**BASE, "pack_gqa": "on"})) == ("rows_pack",)


@pytest.mark.parametrize(
    ("values", "checks"),
    [
        ({"block_n": 48}, ("parts_divide",)),
        ({"block_n": 32, "tile_parts": 4}, ("parts_divide", "trees_fit")),
        ({"tile_parts": 4, "max_tree": 4}, ("trees_fit",)),
        ({"tile_parts": 4, "sum_tree": 4}, ("trees_fit",)),
        ({"cluster": 4, "block_n": 224}, ("regs_fit",)),
        ({"block_n": 128, "ctas_per_sm": 3}, ("regs_fit",)),
        ({"block_n": 160, "consumers": 2, "ctas_per_sm": 2}, ("regs_fit",)),
    ],
)
def test_a_named_check_refuses_what_cannot_work(values, checks):
    space = FAMILY.space((KEY,), H200)
    trees = {"max_tree": 4} if "trees_fit" in checks and "sum_tree" not in values else {}

    assert space.violations(space.genome({**BASE, **trees, **values})) == checks


def test_the_keys_and_values_of_a_wide_head_may_be_more_than_a_block_has():
    space = FAMILY.space((WIDE,), H200)
    genome = space.genome({**BASE, "cluster": 4, "consumers": 2, "block_n": 224})

    assert {"smem_fits_block", "smem_fits_sm"} <= set(space.violations(genome))


SHORT = ["short128", "short256,causal", "mission", "mission,causal", "s1k_d64", "b=1,h=8,s=512,d=128"]


@pytest.mark.parametrize("name", SHORT)
def test_every_seed_for_a_short_sequence_is_valid_and_whole(name):
    """C7510 to C7519 are how ptxas says that it took a pipeline of wgmma apart."""
    problem = parse_problem(name)
    (key,) = problem.compile_keys("sm_90a")
    space = FAMILY.space((key,), H200)
    seeds = FAMILY.seeds_for(problem, space, H200)
    builds = [compile_candidate(render(genome, key, H200)) for genome in seeds]

    assert 2 <= len(seeds) <= 4, "a bandit judges a family by its first four proposals"
    assert seeds[0].as_dict()["block_n"] == 128
    assert [build.log for build in builds if not build.ok or build.spill_bytes or build.warnings] == []


def test_each_seed_is_for_some_short_sequence_and_none_for_a_long_one():
    used = set()
    for name in SHORT:
        problem = parse_problem(name)
        space = FAMILY.space(problem.compile_keys("sm_90a"), H200)
        meant = FAMILY.seeds_for(problem, space, H200)
        used |= {seed.name for seed in FAMILY.seeds if space.genome(seed.values) in meant}
    assert used == {seed.name for seed in FAMILY.seeds}

    long = parse_problem("s2k_d64")
    assert FAMILY.seeds_for(long, FAMILY.space(long.compile_keys("sm_90a"), H200), H200) == ()


@pytest.mark.full  # twelve kernels for the compiler
def test_random_genomes_compile_without_spills():
    """The named checks are the wall of registers: at least nine of ten must hold."""
    rng, whole = np.random.default_rng(7), 0
    for key in [KEY, WIDE, replace(KEY, head_dim=128), replace(WIDE, head_dim=64)] * 3:
        build = compile_candidate(render(FAMILY.space((key,), H200).sample(rng), key, H200))
        whole += build.ok and not build.spill_bytes and not build.warnings
    assert whole >= 11


@pytest.mark.parametrize(("name", "one", "other"), list(gene_cases.adjacent_values(FAMILY)))
def test_no_value_is_inert(name, one, other):
    parts = {} if name == "tile_parts" else WHOLE
    first, second = (
        gene_cases.machine(FAMILY, genome_of({**parts, name: value}), KEY, H200) for value in (one, other)
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
    space, rng = FAMILY.space((key,), H200), np.random.default_rng([head_dim, causal, gqa, 2])
    for seed in range(2):
        genome = space.sample(rng)
        assert preflight(render(genome, key, H200), FAMILY, H200, seed=seed).complaint == "", genome


SHAPES = {  # seq_q, seq_kv, trial
    "one row": (1, 200, "needles"),
    "fewer keys than a tile": (150, 5, "large_logits"),
    "several steps": (5, 300, "rising"),
    "steps that fewer blocks have keys for": (137, 161, "falling"),
    "queries without a key": (200, 60, "rising"),
    "no tile is full": (17, 31, "saturated"),
}
CORES = {
    "two": {**LEAST},
    "two in parts": {"consumers": 2, "max_tree": 2, "sum_tree": 4},
    "four": {**FOUR, **LEAST, "tile_order": "heads_first"},
    "four in parts": {**FOUR, "tile_parts": 4, "tile_order": "reversed"},
}


def emulated(genome, key, workload, trial, delivery="random"):
    library = gxx.build(render(genome, key, H200).source, name="flash_cluster")
    launches = FAMILY.launches(genome, workload, H200)
    return emulate(
        library, launches, workload, trial, delivery=delivery, schedule="random", seed=5, is_strided=True
    )


@pytest.mark.cover
@pytest.mark.parametrize(("seq_q", "seq_kv", "trial"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("values", CORES.values(), ids=CORES)
@pytest.mark.parametrize(
    "causal", [True, pytest.param(False, marks=pytest.mark.full)], ids=["causal", "full"]
)
@pytest.mark.sample(2)
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


@pytest.mark.cover
@pytest.mark.parametrize("gqa", [2, 4])
@pytest.mark.parametrize("order", ["natural", "heads_first"])
@pytest.mark.parametrize(("seq_q", "seq_kv"), [(1, 200), (33, 91), (70, 60)])
def test_packed_heads_come_out_right(gqa, order, seq_q, seq_kv):
    """Causal: a query's end is that of all its rows."""
    key = replace(KEY, gqa_ratio=gqa)
    genome = genome_of({"pack_gqa": "on", "tile_order": order, "block_n": 32}, key)

    emulations, verdict = emulated(
        genome, key, AttentionWorkload(1, 2 * gqa, 2, seq_q, seq_kv, 64, causal=True), "rising"
    )

    assert [each.reports for each in emulations if each.reports] == []
    assert verdict.passed, verdict.reason


def test_packed_heads_take_a_share_of_the_loads():
    """Four heads of 16 rows: one pass over their keys and values in place of four, and as many bytes of Q."""
    key, workload = replace(KEY, gqa_ratio=4, causal=False), AttentionWorkload(1, 4, 1, 16, 128, 64, "fp16")
    queries, fetched = 64 * 64 * 2, {}
    for pack in ("off", "on"):
        (emulation,), verdict = emulated(genome_of({"pack_gqa": pack}, key), key, workload, "normal")
        assert verdict.passed, verdict.reason
        fetched[pack] = emulation.counters["tma_bytes"]

    keys_and_values = 2 * 128 * 64 * 2
    assert fetched["on"] == 2 * queries + keys_and_values
    assert fetched["off"] == 4 * (2 * queries + keys_and_values)


@pytest.mark.parametrize("values", [{}, FOUR], ids=["two", "four"])
def test_blocks_of_a_cluster_divide_the_keys_and_the_columns(values):
    """Each key and value is fetched once by a cluster, and multiplied once."""
    key, workload = replace(KEY, causal=False, gqa_ratio=1), AttentionWorkload(1, 1, 1, 64, 256, 64)
    (emulation,), verdict = emulated(genome_of(values, key), key, workload, "rising", "lazy")

    assert (emulation.reports, verdict.reason) == ((), "")
    assert emulation.counters["wgmma_macs"] == 2 * 64 * 256 * 64
    blocks = values.get("cluster", 2)
    assert emulation.counters["tma_bytes"] == 2 * 64 * (blocks * 64 + 2 * 256)


def test_the_grid_follows_rows_heads_packing_and_the_cluster():
    workload = AttentionWorkload(2, 8, 4, 100, 300, 64, "fp16", causal=True)
    grids = {}
    for name, values in {
        "two": {},
        "four": FOUR,
        "packed": {"pack_gqa": "on"},
        "wide": {"consumers": 2},
        "heads first": {**FOUR, "tile_order": "heads_first"},
    }.items():
        (launch,) = FAMILY.launches(genome_of(values), workload, H200)
        grids[name] = (launch.grid, launch.block, launch.cluster)

    assert grids == {
        "two": ((4, 8, 2), (128, 1, 1), (2, 1, 1)),
        "four": ((8, 8, 2), (128, 1, 1), (4, 1, 1)),
        "packed": ((8, 4, 2), (128, 1, 1), (2, 1, 1)),
        "wide": ((2, 8, 2), (256, 1, 1), (2, 1, 1)),
        "heads first": ((8, 8, 2), (128, 1, 1), (1, 4, 1)),
    }


@pytest.mark.parametrize(
    ("head_dim", "values", "columns"), [(64, {}, 32), (64, FOUR, 16), (128, {}, 64), (128, FOUR, 32)]
)
def test_the_maps_are_those_of_parts_and_columns(head_dim, values, columns):
    """V in rows of a block's own columns, swizzled by as many bytes."""
    key = replace(KEY, head_dim=head_dim)
    genome = genome_of({**values, "pack_gqa": "on", "l2_promotion": 128}, key)
    (launch,) = FAMILY.launches(genome, AttentionWorkload(2, 8, 4, 300, 400, head_dim, causal=True), H200)

    assert launch.maps == (
        TensorMapSpec("Q", (1, 2, 32, 64), 128, 128, heads_inside=True),
        TensorMapSpec("K", (1, 1, 32, 64), 128, 128),
        TensorMapSpec("V", (1, 1, 64, columns), 2 * columns, 128),
    )


@pytest.mark.parametrize(
    "values", [{}, FOUR, {"consumers": 2}, {"consumers": 2, "cluster": 4, "tile_parts": 4}], ids=str
)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_the_shared_memory_asked_for_is_what_the_kernel_touches(values, head_dim):
    """Barriers stand last: 8 bytes further and one is past the end."""
    key = replace(KEY, head_dim=head_dim)
    candidate = render(genome_of(values, key), key, H200)
    old = "const u32 q_full = inboxes"
    assert candidate.source.count(old) == 1

    text = candidate.source.replace(old, f"{old} + 8")
    assert "OOB-shared" in preflight(replace(candidate, source=text), FAMILY, H200, seed=0).complaint


MISTAKES = {  # values, what is replaced by what
    "Q before it is there": ({}, ("ef::mbar_wait(q_full, 0);", "")),
    "keys before they are there": ({}, ("ef::mbar_wait(k_full + 8 * i, phase);", "")),
    "own values before they are there": ({}, ("if (i == 0) ef::mbar_wait(v_full + 8 * rank, phase);", "")),
    "others' values before they are there": ({}, ("ef::mbar_wait(v_full + 8 * from, phase);", "")),
    "P before it is handed over": ({}, ("ef::mbar_wait(handed + 8 * k, phase);", "")),
    "P when its first part is there": (
        {},
        ("ef::mbar_wait(handed + 8 * k, phase);", "ef::mbar_wait(handed, phase);"),
    ),
    "scores before they are there": ({}, ("ef::wgmma_wait<0>();\n    ef::wgmma_fence_acc(s[1]);", "")),
    "scores of the part after": ({}, ("ef::wgmma_wait<1>();\n    ef::wgmma_fence_acc(s[0]);", "")),
    "steps of a block's own": (LEAST, ("ef::cluster_sync();", "ef::syncthreads();")),
    "no pause between steps": (LEAST, ("ef::cluster_sync();", "")),
    "blocks do not wait for the others' barriers": ({}, ("ef::cluster_wait();", "")),
    "barriers that only their own block knows of": ({}, ("ef::fence_mbar_init();", "")),
    "a block's threads before its barriers": ({}, ("ef::cluster_wait();\n  ef::mbar_wait(q_full, 0);", "")),
    "fewer bytes than come": (FOUR, ("(kBlocks - 1) * quads * kQuadsBytes", "quads * kQuadsBytes")),
    "no bytes for the statistics": ({}, ("(i == kParts - 1 ? 1 : 0)", "0")),
    "bytes of the statistics with each part": ({}, ("(i == kParts - 1 ? 1 : 0)", "1")),
    "next step's bytes not expected": (LEAST, ("if (thread == 0) expect(handed);", "")),
    "next step's bytes expected of the first warpgroup only": (
        {**LEAST, "consumers": 2},
        ("if (thread == 0) expect(handed);", "if (threadIdx.x == 0) expect(handed);"),
    ),
    "the phase of the first step for ever": (LEAST, ("phase ^= 1;", "")),
    "the other phase": ({}, ("u32 phase = 0;", "u32 phase = 1;")),
    "outputs without weights": ({}, ("o[e] += weight[i][e / 2 % 2] * part[i][e];", "o[e] += part[i][e];")),
    "sums without weights": ({}, ("row_sum[h] += weight[i][h] * rows", "row_sum[h] += rows")),
    "weights of the other row": ({}, ("weight[i][e / 2 % 2] *", "weight[i][e % 2] *")),
    "outputs of the step before as they were": (LEAST, ("o[e] *= before[e / 2 % 2];", "")),
    "sums of the step before as they were": (LEAST, ("row_sum[h] *= before[h];", "")),
    "maxima of the step before forgotten": (
        LEAST,
        ("float best = row_max[h];", "float best = ef::neg_inf();"),
    ),
    "another block's sums": ({}, ("rows[i].x[2 + h]", "rows[0].x[2 + h]")),
    "another block's maxima": (FOUR, ("weight_of(rows[i].x[h]", "weight_of(rows[i > 2 ? 2 : i].x[h]")),
    "maxima as sums": ({}, ("rows[0].x[2] = sum[0];", "rows[0].x[2] = rows[0].x[0];")),
    "columns of the first block": ({}, ("row + rank * kColumns +", "row +")),
    "values of the first block's columns": ({}, ("ef::at(rank * kColumns, first", "ef::at(0, first")),
    "values of the own tile for all": (
        {},
        ("key_of(first_tile + from, work)", "key_of(first_tile + rank, work)"),
    ),
    "values in another block's place": (
        {},
        ("v_tiles + from * kValueBytes, map", "v_tiles + i * kValueBytes, map"),
    ),
    "another's place in the inbox": (FOUR, ("(kBlocks - 2 - i) * kInboxBytes", "i * kInboxBytes")),
    "a place further in the inbox": (
        {},
        ("outbox[to] + i * kPartFragments", "outbox[to] + i * (kPartFragments - 1)"),
    ),
    "a quad over another": ({}, ("sts_async(place + k * kQuadsBytes", "sts_async(place")),
    "one barrier for all parts": ({}, ("bar[to] + 8 * i);", "bar[to]);")),
    "the statistics with the first part": ({}, ("bar[to] + 8 * (kParts - 1)", "bar[to]")),
    "handed over to itself": ({}, ("to = (rank + 1 + i) % kBlocks", "to = (rank + i) % kBlocks")),
    "another warpgroup's inbox": (
        {"consumers": 2},
        ("inboxes + group * (kBlocks - 1)", "inboxes + 0 * (kBlocks - 1)"),
    ),
    "another warpgroup's barriers": (
        {"consumers": 2},
        ("const u32 handed = all_handed + 8 * kParts * group", "const u32 handed = all_handed"),
    ),
    "the first warpgroup's rows of Q": ({"consumers": 2}, ("i / kPanels * kGroupRows;", "0;")),
    "keys of the first block": ({}, ("(first_tile + rank) * BLOCK_N", "first_tile * BLOCK_N")),
    "keys fetched by all blocks alike": (
        {},
        ("fetch_keys(k_tile, &K_map, key_of(rank, work)", "fetch_keys(k_tile, &K_map, key_of(0, work)"),
    ),
    "the same keys again": (
        LEAST,
        ("key_of(first_tile + rank, work), work, k_full);\n", "key_of(rank, work), work, k_full);\n"),
    ),
    "keys of a part at the place of the first": ({}, ("+ i * kPartBytes, map", ", map")),
    "one step too few": (
        LEAST,
        ("first_tile + kBlocks >= work.tiles", "first_tile + kBlocks + 1 >= work.tiles"),
    ),
    "a step for each tile": (LEAST, ("first_tile += kBlocks;", "first_tile += 1;")),
    "keys past the diagonal": ({}, ("n * 8 + e >= end", "n * 8 + e > end")),
    "masked from the part's end": ({}, ("first_key + kPartKeys > unmasked", "first_key > unmasked")),
    "the part's first key forgotten": ({}, ("edge[h] - first_key;", "edge[h];")),
    "the last part's keys for the first's": (
        {},
        ("first_key + kPartKeys, unmasked);", "first_key, unmasked);"),
    ),
    "no key at all": (
        {},
        ("top == ef::neg_inf() ? 0.0f : ef::mul(top, scale_log2)", "ef::mul(top, scale_log2)"),
    ),
    "a row of nothing divided by nothing": (
        {},
        ("sum == 0.0f ? 0.0f : ef::rcp(sum)", "ef::rcp(sum)"),
    ),
    "a lane's part of the sum": ({}, ("total[h] = quad_sum(row_sum[h])", "total[h] = row_sum[h]")),
    "a lane's maximum": ({}, ("quad_max(highest[h])", "highest[h]")),
    "rows past the end": ({}, ("lane / 4 + h * 8 < seq_q)", "lane / 4 + h * 8 < seq_q + 8)")),
    "LSE of every block": ({}, ("LSE && rank == 0 &&", "LSE &&")),
    "rows past the end of packed heads": (
        {"pack_gqa": "on"},
        ("< seq_q * kGqaRatio)", "< seq_q * kGqaRatio + 8)"),
    ),
    "a packed row's query": (
        {"pack_gqa": "on"},
        ("head = work.head + row % kGqaRatio", "head = work.head + row / kGqaRatio % 2"),
    ),
    "a packed row's end": (
        {"pack_gqa": "on"},
        ("(warp_row + lane / 4 + h * 8) / kGqaRatio", "warp_row / kGqaRatio"),
    ),
    "the last rows' keys of packed heads": (
        {"pack_gqa": "on", **LEAST},
        ("(work.row + BLOCK_M + kGqaRatio - 1) / kGqaRatio", "(work.row + BLOCK_M) / kGqaRatio - 1"),
    ),
    "blocks counted as clusters": ({}, ("work_of(blockIdx.x / kBlocks", "work_of(blockIdx.x")),
    "outputs before they are there": (
        {},
        (
            "    ef::wgmma_wait<0>();\n#pragma unroll\n    for (int i = 1;",
            "#pragma unroll\n    for (int i = 1;",
        ),
    ),
    "the step's copies asked for by no one": (
        LEAST,
        (
            "fetch_values(v_tiles, &V_map, first_tile, rank",
            "if (first_tile == 0) fetch_values(v_tiles, &V_map, first_tile, rank",
        ),
    ),
}


@pytest.mark.parametrize(
    ("values", "edit"),
    [
        pytest.param(*mistake, id=name, marks=pytest.mark.full if at % 2 else ())
        for at, (name, mistake) in enumerate(MISTAKES.items())
    ],
)
@pytest.mark.sample(11)
def test_a_planted_mistake_is_found(values, edit):
    candidate = render(genome_of(values), KEY, H200)
    old, new = edit
    assert candidate.source.count(old) == 1, (candidate.source.count(old), old)

    assert gene_cases.unpatched(candidate, FAMILY, H200, seed=0).complaint == ""
    source = candidate.source.replace(old, new)
    faulty = replace(candidate, source=source, source_sha=candidate.source_sha + new)
    found = preflight(faulty, FAMILY, H200, seed=0)
    assert found.status in (Status.RUNTIME, Status.CORRECTNESS, Status.TIMEOUT), found.complaint


@pytest.mark.parametrize(
    ("values", "present", "absent"),
    [
        (
            {},
            ["SWIZZLE_64B", "sts_async", "part[kBlocks]", "wgmma_wait<1>", "blockIdx.x / kBlocks"],
            ["chain", "gridDim.y", "ef::mul(s[", "kGqaRatio)", "wgmma_wait<2>"],
        ),
        (FOUR, ["SWIZZLE_32B"], ["SWIZZLE_64B"]),
        ({"tile_parts": 1}, ["first_key, unmasked)"], ["wgmma_wait<1>", "first_key + kPartKeys, "]),
        ({"tile_parts": 4}, ["first_key + 3 * kPartKeys, unmasked", "wgmma_wait<3>"], []),
        ({"pack_gqa": "on"}, ["row % kGqaRatio", "row / kGqaRatio, work.batch"], ["row, work.head"]),
        ({"tile_order": "reversed"}, ["(blocks - 1 - block)"], []),
        ({"tile_order": "heads_first"}, ["blockIdx.y / kBlocks", "(blocks - 1 - block)"], ["gridDim.x"]),
        ({"max_tree": 2}, ["ef::fmax(chain[0], chain[1])"], ["ef::fmax(chain[2]"]),
        ({"max_tree": 4}, ["ef::fmax(chain[2], chain[3])"], []),
        ({"sum_tree": 4}, ["(chain[2] + chain[3])"], []),
        ({"exp_form": "mul_sub"}, ["ef::sub(ef::mul(s["], ["ef::fma("]),
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
