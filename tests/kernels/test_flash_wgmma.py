"""Every gene of flash_wgmma: each value runs clean in the emulator, compiles whole, does what it says."""

import re
from dataclasses import replace

import gene_cases
import numpy as np
import pytest

from evoflash.emulator.call import EmulatorRun, run_call
from evoflash.emulator.preflight import emulate, preflight
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.launch import TensorMapSpec
from evoflash.numerics import decode, encode
from evoflash.operations.attention.inputs import AttentionInputs
from evoflash.operations.attention.reference import expect
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

FAMILY, H200 = load_family("flash_wgmma"), load_gpu("h200")
KEY = AttentionKey(64, "fp16", True, 2, "sm_90a")  # causal and grouped heads: every gene can be active
WIDE = AttentionKey(128, "bf16", False, 1, "sm_90a")
BASE = {
    "consumers": 2,
    "producer": "warpgroup",
    "producer_registers": 24,
    "block_n": 64,
    "ctas_per_sm": 1,
    "k_stages": 2,
    "v_stages": 2,
    "overlap": "intra",
    "turns": "gemm",
}
NEEDS = {  # what a gene needs to be active, or a value to be valid, beside BASE
    "producer=self": {"turns": "none"},
    "consumers=1": {"turns": "none"},
    "k_stages=1": {"overlap": "none"},
    "ctas_per_sm=2": {"consumers": 1, "block_n": 64},
    "ctas_per_sm=3": {"consumers": 1, "block_n": 64},
    "producer_registers=56": {"consumers": 1},
    "kv_groups=4": {"consumers": 4, "block_n": 32, "overlap": "none"},
    "lazy_tau": {"rescale": "lazy"},
    "cluster_use": {"cluster": 2, "epilogue": "direct"},
    "cluster_use=both": {"cluster": 4},
    "merge": {"kv_groups": 2, "epilogue": "direct"},
    "turns=exp": {"pv_wait": "free"},
    "q_stages": {"schedule": "persistent"},
    "section_heads": {"tile_order": "sections"},
    "kv_splits=16": {"consumers": 1, "turns": "none"},
    "combine_threads": {"kv_splits": 2},
    "tile_parts": {"overlap": "none", "turns": "none"},
    "sum_of": {"rescale": "lazy"},
    "sample": {"rescale": "sampled"},
    "turns=scores": {"overlap": "none"},
    "block_n=240": {"overlap": "none"},
    "block_n=256": {"overlap": "none", "consumers": 1},
}
TWO_TILES = {"rows_per_warpgroup": 128, "block_n": 32}  # of keys as many as fit at a head_dim of 128
PAIRS = {  # genes that meet in one place of the code
    "turns of three, over pieces of work": {
        "consumers": 3,
        "schedule": "persistent",
        "tile_order": "natural",
    },
    "turns at the exponentials, nothing overlapped": {"turns": "exp", "overlap": "none", "q_stages": 2},
    "turns without a producer": {"producer": "self", "turns": "gemm", "k_stages": 3},
    "a lone warpgroup that loads, thrice an SM": {
        "producer": "self",
        "consumers": 1,
        "ctas_per_sm": 3,
        "overlap": "none",
        "rescale": "lazy",
    },
    "Q given back early": {"schedule": "persistent", "q_home": "registers", "epilogue": "direct"},
    "Q given back late": {"schedule": "persistent", "q_stages": 2, "epilogue": "direct", "overlap": "none"},
    "packed heads, over pieces of work": {"pack_gqa": "on", "schedule": "persistent", "q_stages": 2},
    "packed heads, plain stores": {"pack_gqa": "on", "epilogue": "direct", "rescale": "lazy"},
    "packed heads in a cluster": {"pack_gqa": "on", "cluster": 2},
    "a cluster along the heads' grid": {"cluster": 4, "tile_order": "heads_first", "producer": "warp"},
    "a cluster, block order natural": {"cluster": 2, "tile_order": "natural", "l2_hints": "keep_kv"},
    "P and Q in each other's place": {"q_home": "registers", "p_home": "smem"},
    "P in shared memory, no overlap": {"p_home": "smem", "overlap": "none", "turns": "exp"},
    "divided keys": {"kv_groups": 2, "epilogue": "direct"},
    "divided keys, half the warpgroups": {
        "kv_groups": 2,
        "consumers": 4,
        "block_n": 32,
        "rescale": "lazy",
        "overlap": "none",
    },
    "divided keys without a producer": {
        "kv_groups": 2,
        "producer": "self",
        "pack_gqa": "on",
        "turns": "none",
        "p_home": "smem",
        "block_n": 32,
    },
    "a redo of divided keys": {"kv_groups": 2, "rescale": "speculative", "turns": "exp", "k_stages": 3},
    "a redo": {"rescale": "speculative", "sum_tree": 2},
    "a redo without overlap": {"rescale": "speculative", "overlap": "none", "epilogue": "direct"},
    "a redo without a producer": {
        "rescale": "speculative",
        "producer": "self",
        "k_stages": 3,
        "turns": "none",
    },
    "a redo of a lone warpgroup that loads": {
        "rescale": "speculative",
        "producer": "self",
        "consumers": 1,
        "overlap": "none",
        "v_stages": 1,
    },
    "a redo of packed heads, turns at the exponentials": {
        "rescale": "speculative",
        "turns": "exp",
        "pack_gqa": "on",
        "producer": "warp",
        "q_home": "registers",
        "block_n": 32,
    },
    "divided keys, merged by columns": {"kv_groups": 2, "merge": "columns", "epilogue": "direct"},
    "divided keys of two rows of warpgroups, merged by columns": {
        "kv_groups": 2,
        "consumers": 4,
        "merge": "columns",
        "block_n": 32,
        "p_home": "smem",
        "overlap": "none",
        "epilogue": "direct",
    },
    "a cluster that divides the keys": {"cluster": 2, "cluster_use": "keys", "epilogue": "direct"},
    "a cluster of four, half the warpgroups, along the heads' grid": {
        "cluster": 4,
        "cluster_use": "keys",
        "kv_groups": 2,
        "consumers": 4,
        "block_n": 32,
        "overlap": "none",
        "turns": "none",
        "tile_order": "heads_first",
        "epilogue": "direct",
    },
    "a cluster without a producer": {
        "cluster": 2,
        "cluster_use": "keys",
        "kv_groups": 2,
        "producer": "self",
        "pack_gqa": "on",
        "turns": "none",
        "l2_hints": "keep_kv_drop_q",
        "overlap": "none",
        "k_stages": 1,
        "v_stages": 1,
        "block_n": 32,
        "epilogue": "direct",
    },
    "pairs that share tiles divide the keys": {
        "cluster": 4,
        "cluster_use": "both",
        "kv_groups": 2,
        "producer": "warp",
        "turns": "none",
        "epilogue": "direct",
        "overlap": "none",
    },
    "pairs along the heads' grid": {
        "cluster": 4,
        "cluster_use": "both",
        "tile_order": "heads_first",
        "l2_hints": "keep_kv",
        "pack_gqa": "on",
        "epilogue": "direct",
    },
    "a redo of a divided cluster": {
        "cluster": 2,
        "cluster_use": "keys",
        "kv_groups": 2,
        "rescale": "speculative",
        "turns": "exp",
        "k_stages": 3,
        "epilogue": "direct",
    },
    "a redo of a cluster without a producer": {
        "cluster": 2,
        "cluster_use": "keys",
        "rescale": "speculative",
        "producer": "self",
        "turns": "gemm",
        "k_stages": 3,
        "epilogue": "direct",
    },
    "a redo over pieces of work": {"rescale": "speculative", "schedule": "persistent", "q_stages": 2},
    "a redo over pieces of work, plain stores": {
        "rescale": "speculative",
        "schedule": "persistent",
        "epilogue": "direct",
        "overlap": "none",
    },
    "a redo over pieces handed out, in sections": {
        "rescale": "speculative",
        "schedule": "dynamic",
        "q_stages": 2,
        "tile_order": "sections",
        "section_heads": 2,
    },
    "a redo over pieces handed out, one slot of Q": {
        "rescale": "speculative",
        "schedule": "dynamic",
        "q_home": "registers",
        "epilogue": "direct",
        "pack_gqa": "on",
    },
    "pieces handed out, turns at the exponentials": {
        "schedule": "dynamic",
        "overlap": "none",
        "turns": "exp",
        "q_stages": 2,
    },
    "sections of packed heads": {"tile_order": "sections", "section_heads": 2, "pack_gqa": "on"},
    "a sample's redo, over pieces handed out": {
        "rescale": "sampled",
        "sample": 4,
        "schedule": "dynamic",
        "max_tree": 2,
    },
    "a sample's redo without overlap": {
        "rescale": "sampled",
        "overlap": "none",
        "turns": "scores",
        "sum_of": "rounded",
    },
    "a sample's redo of divided keys": {"rescale": "sampled", "kv_groups": 2, "l2_hints": "drop_kv"},
    "scores in turn, over pieces of work": {
        "turns": "scores",
        "overlap": "none",
        "schedule": "persistent",
        "consumers": 3,
        "q_stages": 1,
    },
    "uneven rings": {"k_stages": 4, "v_stages": 1, "schedule": "persistent"},
    "tiles sat out": {"tile_skip": "on", "consumers": 4},
    "tiles sat out in turn, over pieces handed out": {
        "tile_skip": "on",
        "consumers": 4,
        "rescale": "speculative",
        "schedule": "dynamic",
        "q_stages": 2,
    },
    "tiles sat out, turns at the exponentials of three": {
        "tile_skip": "on",
        "consumers": 3,
        "block_n": 32,
        "turns": "exp",
        "rescale": "sampled",
    },
    "tiles sat out without overlap, scores in turn, rings of one slot": {
        "tile_skip": "on",
        "consumers": 3,
        "block_n": 32,
        "overlap": "none",
        "turns": "scores",
        "k_stages": 1,
        "v_stages": 1,
        "schedule": "persistent",
        "epilogue": "direct",
    },
    "tiles sat out by packed heads": {"tile_skip": "on", "pack_gqa": "on", "block_n": 32, "rescale": "lazy"},
    "tiles sat out in a cluster": {"tile_skip": "on", "cluster": 2, "consumers": 3, "block_n": 32},
    "tiles sat out by the warpgroup that loads": {
        "tile_skip": "on",
        "producer": "self",
        "consumers": 3,
        "block_n": 32,
    },
    "tiles sat out by the warpgroup that loads, without overlap, twice": {
        "tile_skip": "on",
        "producer": "self",
        "block_n": 32,
        "overlap": "none",
        "k_stages": 1,
        "rescale": "speculative",
        "turns": "none",
    },
    "half a last tile, in turn, over pieces handed out": {
        "tile_skip": "half",
        "block_n": 128,
        "rescale": "speculative",
        "schedule": "dynamic",
        "q_stages": 2,
        "max_tree": 4,
    },
    "half a last tile and tiles sat out of three, turns at the exponentials": {
        "tile_skip": "both",
        "consumers": 3,
        "rescale": "lazy",
        "sum_of": "exact",
        "turns": "exp",
        "pv_wait": "free",
    },
    "half a last tile of packed heads, Q in registers": {
        "tile_skip": "half",
        "pack_gqa": "on",
        "rescale": "sampled",
        "q_home": "registers",
        "sample": 4,
    },
    "half a last tile in a cluster": {"tile_skip": "half", "cluster": 2, "consumers": 3, "block_n": 32},
    "half a last tile and tiles sat out by the warpgroup that loads, P in shared memory": {
        "tile_skip": "both",
        "producer": "self",
        "turns": "none",
        "p_home": "smem",
        "block_n": 96,
    },
    "half a last tile of split keys": {"tile_skip": "both", "kv_splits": 2, "consumers": 3},
    "split keys of packed heads, along the heads' grid": {
        "kv_splits": 4,
        "pack_gqa": "on",
        "tile_order": "heads_first",
        "producer": "warp",
        "rescale": "lazy",
    },
    "split keys without a producer, Q in registers": {
        "kv_splits": 4,
        "producer": "self",
        "overlap": "none",
        "turns": "none",
        "q_home": "registers",
        "block_n": 48,
    },
    "split keys, divided again among warpgroups": {
        "kv_splits": 2,
        "kv_groups": 2,
        "p_home": "smem",
        "tile_order": "natural",
    },
    "split keys of two rows of warpgroups, merged by columns": {
        "kv_splits": 2,
        "kv_groups": 2,
        "consumers": 4,
        "merge": "columns",
        "pack_gqa": "on",
        "block_n": 32,
        "overlap": "none",
    },
    "a redo of split keys, turns at the exponentials": {
        "kv_splits": 4,
        "rescale": "speculative",
        "turns": "exp",
        "pv_wait": "free",
    },
    "a redo of split keys by the warpgroup that loads, in sections": {
        "kv_splits": 2,
        "rescale": "speculative",
        "producer": "self",
        "k_stages": 3,
        "turns": "none",
        "tile_order": "sections",
        "section_heads": 2,
    },
    "a sample's redo of split keys, sums exact, no overlap": {
        "kv_splits": 8,
        "rescale": "sampled",
        "sum_of": "exact",
        "block_n": 32,
        "overlap": "none",
        "turns": "scores",
    },
    "parts of a tile, keys divided in a cluster": {
        "tile_parts": 4,
        "overlap": "none",
        "turns": "none",
        "consumers": 1,
        "block_n": 128,
        "producer": "self",
        "cluster": 2,
        "cluster_use": "keys",
        "epilogue": "direct",
        "k_stages": 1,
        "v_stages": 1,
        "tile_order": "heads_first",
    },
    "parts of a tile, keys divided among warpgroups and blocks": {
        "tile_parts": 2,
        "overlap": "none",
        "turns": "none",
        "kv_groups": 2,
        "producer": "self",
        "cluster": 2,
        "cluster_use": "keys",
        "epilogue": "direct",
        "rescale": "lazy",
        "max_tree": 2,
    },
    "parts of a tile, speculation over pieces of work, tiles sat out": {
        "tile_parts": 2,
        "overlap": "none",
        "turns": "none",
        "consumers": 3,
        "block_n": 32,
        "rescale": "speculative",
        "schedule": "dynamic",
        "tile_skip": "on",
        "q_stages": 2,
    },
    "parts of a tile, a sample's redo, sums exact, tiles sat out": {
        "tile_parts": 2,
        "overlap": "none",
        "turns": "none",
        "rescale": "sampled",
        "sum_of": "exact",
        "sum_tree": 2,
        "tile_skip": "on",
        "producer": "self",
        "epilogue": "direct",
    },
    "parts of a tile, Q in registers, hints, first merge": {
        "tile_parts": 2,
        "overlap": "none",
        "turns": "none",
        "kv_groups": 2,
        "q_home": "registers",
        "l2_hints": "keep_kv",
        "block_n": 96,
        "epilogue": "direct",
        "pack_gqa": "on",
    },
    "parts of a tile of split keys": {
        "tile_parts": 4,
        "overlap": "none",
        "turns": "none",
        "kv_splits": 2,
        "consumers": 1,
        "producer": "warp",
        "pack_gqa": "on",
    },
    "tiles sat out of split keys": {"kv_splits": 2, "tile_skip": "on", "consumers": 3, "block_n": 32},
    "tiles sat out of split keys of packed heads, without overlap": {
        "kv_splits": 4,
        "tile_skip": "on",
        "pack_gqa": "on",
        "consumers": 3,
        "block_n": 32,
        "overlap": "none",
        "rescale": "speculative",
    },
    "two tiles of rows, in turn": {**TWO_TILES, "max_tree": 2},
    "two tiles of rows without overlap, turns at the exponentials": {
        **TWO_TILES,
        "overlap": "none",
        "turns": "exp",
        "rescale": "lazy",
        "schedule": "persistent",
        "q_stages": 2,
    },
    "two tiles of rows, turns at the exponentials": {**TWO_TILES, "turns": "exp", "l2_hints": "keep_kv"},
    "two tiles of rows without overlap, in turn, rings of one slot": {
        **TWO_TILES,
        "overlap": "none",
        "k_stages": 1,
        "v_stages": 1,
        "rescale": "sampled",
        "sum_of": "exact",
    },
    "a redo of two tiles of rows": {
        **TWO_TILES,
        "rescale": "speculative",
        "sum_of": "exact",
        "turns": "none",
    },
    "a redo of two tiles of rows over pieces handed out, tiles sat out": {
        **TWO_TILES,
        "rescale": "speculative",
        "schedule": "dynamic",
        "q_stages": 2,
        "tile_skip": "on",
    },
    "a redo of two tiles of rows without overlap, plain stores": {
        **TWO_TILES,
        "rescale": "speculative",
        "overlap": "none",
        "schedule": "dynamic",
        "epilogue": "direct",
        "turns": "none",
    },
    "two tiles of rows of the warpgroup that loads, tiles sat out": {
        **TWO_TILES,
        "producer": "self",
        "k_stages": 3,
        "rescale": "sampled",
        "tile_skip": "on",
    },
    "two tiles of rows of the warpgroup that loads, without overlap": {
        **TWO_TILES,
        "producer": "self",
        "overlap": "none",
        "k_stages": 1,
        "v_stages": 1,
        "rescale": "speculative",
        "tile_skip": "on",
        "turns": "exp",
    },
    "two tiles of packed heads, Q in registers, plain stores": {
        **TWO_TILES,
        "consumers": 1,
        "producer": "warp",
        "q_home": "registers",
        "pack_gqa": "on",
        "schedule": "persistent",
        "epilogue": "direct",
    },
    "two tiles of packed heads": {**TWO_TILES, "pack_gqa": "on", "tile_skip": "on", "exp_form": "mul_sub"},
    "a second P, pieces of work, a redo": {
        "overlap": "buffered",
        "rescale": "speculative",
        "schedule": "dynamic",
        "q_stages": 2,
    },
    "a second P of the warpgroup that loads, a redo": {
        "overlap": "buffered",
        "rescale": "speculative",
        "sum_of": "exact",
        "producer": "self",
        "consumers": 1,
        "epilogue": "direct",
    },
    "a second P of warpgroups that divide the keys": {
        "overlap": "buffered",
        "kv_groups": 2,
        "turns": "exp",
        "rescale": "lazy",
        "q_home": "registers",
        "block_n": 32,
    },
    "a second P, tiles sat out, heads packed, keys split": {
        "overlap": "buffered",
        "consumers": 3,
        "tile_skip": "on",
        "pack_gqa": "on",
        "kv_splits": 2,
        "block_n": 48,
    },
    "a second P in a cluster": {"overlap": "buffered", "cluster": 2, "rescale": "lazy"},
    "two tiles of rows in a cluster": {**TWO_TILES, "cluster": 2, "overlap": "none", "tile_skip": "on"},
    "an odd number of barriers before the notes of pieces of work": {
        "tile_parts": 2,
        "overlap": "none",
        "turns": "none",
        "schedule": "persistent",
        "k_stages": 1,
        "q_stages": 2,
        "block_n": 32,
    },
    "an odd number of barriers before the log of a redo": {
        "tile_parts": 4,
        "overlap": "none",
        "turns": "none",
        "rescale": "speculative",
        "schedule": "dynamic",
        "k_stages": 3,
        "block_n": 64,
    },
}


def genome_of(values, key=KEY, gpu=H200):
    return gene_cases.valid_genome(FAMILY, {**BASE, **values}, key, gpu)


def complaint_of(genome, key, seed=1):
    return gene_cases.complaint_of(FAMILY, genome, key, H200, seed=seed)


def counters(genome, key, workload, trial):
    """What the first kernel's emulation counted, of a launch that is right and without a report."""
    library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")
    launches = FAMILY.launches(genome, workload, H200)
    (emulation, *_), verdict = emulate(
        library, launches, workload, trial, delivery="lazy", schedule="random", seed=1
    )
    assert (emulation.reports, verdict.reason) == ((), "")
    return emulation.counters


def with_value(name, value, *others):
    """A genome in which the gene has the value and could have each of the others, all else equal."""
    needs = NEEDS.get(name, {})
    for each in (value, *others):
        needs = {**needs, **NEEDS.get(f"{name}={each}", {})}
    return genome_of({**needs, name: value})


@pytest.mark.slow
@pytest.mark.full
def test_the_values_of_all_genes_run_clean_a_few_in_each_genome():
    alone = {(name, value): with_value(name, value) for name, value in gene_cases.values_of(FAMILY)}
    packs = gene_cases.packs(alone, genome_of({}), FAMILY.space((KEY,), H200))

    asked = ((cases, preflight(render(genome, KEY, H200), FAMILY, H200, seed=1)) for genome, cases in packs)
    assert {cases: found.complaint for cases, found in asked if found.complaint} == {}


@pytest.mark.parametrize(("name", "value"), list(gene_cases.each_value(FAMILY, under_full=True)))
def test_each_value_of_each_gene_runs_clean(name, value):
    genome = with_value(name, value)
    assert genome.as_dict()[name] == value, "the gene is not active here"

    assert complaint_of(genome, KEY) == ""


@pytest.mark.parametrize(("name", "one", "other"), list(gene_cases.adjacent_values(FAMILY)))
@pytest.mark.sample(9)
def test_no_value_is_inert(name, one, other):
    genomes = with_value(name, one, other), with_value(name, other, one)
    first, second = (gene_cases.machine(FAMILY, genome, KEY, H200) for genome in genomes)

    assert first != second


def has_room(values, key):
    """At a head_dim of 128 three rings do not fit into an SM, nor four warpgroups with 64 keys each, nor two
    tiles of Q into registers.
    """
    both = {"q_home": "smem", "rows_per_warpgroup": 64, **BASE, **values}
    return key.head_dim == 64 or (
        both["ctas_per_sm"] < 3
        and (both["consumers"], both["block_n"]) != (4, 64)
        and (both["q_home"], both["rows_per_warpgroup"]) != ("registers", 128)
    )


@pytest.mark.parametrize(
    ("values", "key"),
    list(
        gene_cases.shared_out(
            PAIRS, {"d64": KEY, "d128": replace(WIDE, gqa_ratio=4, causal=True)}, fits=has_room, every=8
        )
    ),
)
@pytest.mark.sample(3)
def test_genes_that_meet_run_clean(values, key):
    genome = genome_of(values, key)

    assert complaint_of(genome, key, seed=2) == ""


def test_a_packed_box_must_hold_whole_queries():
    """64 rows of 3 heads each: the last query would be torn."""
    space = FAMILY.space((replace(KEY, gqa_ratio=3),), H200)

    assert space.violations(space.genome({**BASE, "pack_gqa": "on"})) == ("rows_pack",)


def test_every_seed_is_valid_for_a_shape_it_is_meant_for():
    used = set()
    shapes = ["mission", "s1k_d64,causal", "s2k_d64", "s2k_d64,causal", "s8k_d64,causal", "s2k_d128"]
    few = ["b=1,h=8,sq=256,skv=8192,d=128", "b=1,h=8,sq=1,skv=8192,d=128", "b=4,h=8,sq=1,skv=8192,d=128"]
    for name in [*shapes, "s2k_d128,causal", "s8k_d128,causal", "gqa4k_d128", "decode8k", *few]:
        problem = parse_problem(name)
        space = FAMILY.space(problem.compile_keys("sm_90a"), H200)
        meant = FAMILY.seeds_for(problem, space, H200)
        assert len(meant) >= 5
        used |= {seed.name for seed in FAMILY.seeds if space.genome(seed.values) in meant}

    assert used == {seed.name for seed in FAMILY.seeds}


@pytest.mark.full  # half a minute of the compiler
@pytest.mark.parametrize("key", [KEY, WIDE], ids=str)
def test_the_seeds_neither_spill_nor_serialise(key):
    """C7510 to C7519 are how ptxas says that it took a pipeline of wgmma apart."""
    space = FAMILY.space((key,), H200)
    genomes = {genome for seed in FAMILY.seeds if space.is_valid(genome := space.genome(seed.values))}
    builds = [compile_candidate(render(genome, key, H200)) for genome in genomes]

    assert len(builds) > 5
    assert [build.log for build in builds if not build.ok or build.spill_bytes or build.warnings] == []


@pytest.mark.full  # twelve kernels for the compiler
def test_random_genomes_compile_without_spills():
    """The named checks are the walls of registers and shared memory: at least nine of ten must hold."""
    rng, whole = np.random.default_rng(7), 0
    for key in [KEY, WIDE, replace(KEY, head_dim=128), replace(WIDE, head_dim=64)] * 3:
        build = compile_candidate(render(FAMILY.space((key,), H200).sample(rng), key, H200))
        whole += build.ok and not build.spill_bytes and not build.warnings
    assert whole >= 11


def test_divided_keys_make_more_blocks_of_fewer_rows():
    workload = AttentionWorkload(1, 8, 8, 512, 512, 64)
    grids = [
        FAMILY.launches(genome_of({"consumers": 4, "overlap": "none", "kv_groups": groups}), workload, H200)
        for groups in (1, 2, 4)
    ]

    assert [launch.grid for (launch,) in grids] == [(2, 8, 1), (4, 8, 1), (8, 8, 1)]
    assert len({launch.block for (launch,) in grids}) == 1


def test_a_redo_needs_a_block_for_itself():
    """No block of a cluster waits for another one's verdict."""
    space = FAMILY.space((KEY,), H200)
    genome = space.genome({**BASE, "rescale": "speculative", "cluster": 2})

    assert space.violations(genome) == ("redo_alone",)


@pytest.mark.cover
@pytest.mark.parametrize("schedule", ["persistent", "dynamic"])
@pytest.mark.parametrize("sms", [1, 3, 5, 200])
def test_blocks_share_all_pieces_of_work_whatever_the_gpu_holds(schedule, sms):
    """Grids are multiples of the batch: some blocks are too many. Every row outgrows its first tile."""
    workload = AttentionWorkload(3, 4, 2, 300, 300, 64, causal=True)
    gpu = replace(H200, sm_count=sms)
    values = {"rescale": "speculative", "tile_order": "sections", "section_heads": 8}
    genome = genome_of({"schedule": schedule, **values}, gpu=gpu)
    launches = FAMILY.launches(genome, workload, gpu)
    library = gxx.build(render(genome, KEY, gpu).source, name="flash_wgmma")

    emulations, verdict = emulate(
        library, launches, workload, "rising", delivery="random", schedule="random", seed=sms
    )

    assert launches[0].grid[0] * 3 >= min(sms, 3 * 4 * 3)
    assert [each.reports for each in emulations if each.reports] == []
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("epilogue", ["staged", "direct"])
def test_a_block_may_have_more_pieces_of_work_than_it_can_note(epilogue):
    """What does not fit its log is done exactly at once; of the rest, what overflows is done again."""
    workload, key = AttentionWorkload(1, 65, 65, 129, 61, 64, causal=True), replace(KEY, gqa_ratio=1)
    genome = genome_of(
        {"schedule": "dynamic", "q_stages": 2, "rescale": "speculative", "block_n": 32, "epilogue": epilogue},
        key,
    )
    launches = FAMILY.launches(genome, workload, replace(H200, sm_count=0))
    library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")

    (emulation,), verdict = emulate(
        library, launches, workload, "spikes", delivery="eager", schedule="fifo", seed=1
    )

    assert launches[0].grid == (1, 1, 1)
    assert emulation.reports == ()
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("ratio", "causal"), [(1, False), (4, True)])
def test_a_note_behind_the_last_place_is_noticed_where_tiles_are_small(ratio, causal):
    """Its mark is read where the run's log, which is shorter than the kernel's, was never written."""
    values = {"schedule": "dynamic", "rescale": "speculative", "block_n": 32, "consumers": 1, "turns": "none"}
    key = replace(KEY, causal=causal, gqa_ratio=ratio)
    candidate = render(genome_of(values, key), key, H200)
    consumer = "const bool exact = again || pieces >= kLog;"
    before, found, behind = candidate.source.rpartition(consumer)
    assert found
    source = f"{before}{consumer.replace('>=', '>')}{behind}"

    assert "uninit-shared" in preflight(replace(candidate, source=source), FAMILY, H200, seed=0).complaint
    assert preflight(candidate, FAMILY, H200, seed=0).complaint == ""


@pytest.mark.parametrize(("consumers", "overlap"), [(1, "intra"), (2, "intra"), (3, "none")])
def test_a_warpgroup_of_two_tiles_owns_twice_the_rows_and_fetches_as_many_keys(consumers, overlap):
    workload, key = AttentionWorkload(1, 2, 2, 768, 128, 64), replace(KEY, causal=False, gqa_ratio=1)
    counted = {}
    for rows in (64, 128):
        values = {"consumers": consumers, "overlap": overlap, "rows_per_warpgroup": rows, "turns": "none"}
        genome = genome_of({**values, "block_n": 32}, key)
        (launch,) = launches = FAMILY.launches(genome, workload, H200)
        assert launch.grid == (768 // (rows * consumers), 2, 1)
        assert launch.maps[0].box == (1, 1, 64, 64)
        library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")
        (emulation,), verdict = emulate(
            library, launches, workload, "rising", delivery="random", schedule="random", seed=rows
        )
        assert (emulation.reports, verdict.reason) == ((), "")
        counted[rows] = emulation.counters

    assert counted[128]["wgmma_macs"] == counted[64]["wgmma_macs"]
    once = 2 * 2 * 768 * 128  # Q and O of two heads
    assert 2 * (counted[128]["tma_bytes"] - once) == counted[64]["tma_bytes"] - once


@pytest.mark.parametrize(
    ("values", "check"),
    [
        ({"overlap": "none", "turns": "scores"}, "scores_alone"),
        ({"cluster": 2, "cluster_use": "keys", "epilogue": "direct"}, "tiles_whole"),
        ({"kv_splits": 2}, "tiles_whole"),
        ({"block_n": 96}, "regs_fit"),
    ],
)
def test_what_two_tiles_of_rows_need(values, check):
    space = FAMILY.space((KEY,), H200)

    assert space.violations(space.genome({**BASE, "rows_per_warpgroup": 128, **values})) == (check,)


def test_p_of_two_tiles_of_rows_stays_in_registers():
    genome = genome_of({"rows_per_warpgroup": 128, "p_home": "smem"})

    assert "p_home" not in genome.as_dict()


LOOSE = ("consumers", "block_n", "overlap", "turns", "q_home", "rescale", "schedule", "epilogue", "producer")


@pytest.mark.full  # twelve large kernels for the compiler
def test_two_tiles_of_rows_compile_without_spills():
    """And without C7512 to C7514: ptxas lets products overlap only where it sees what is done with."""
    rng, whole = np.random.default_rng(8), 0
    for key in [KEY, replace(WIDE, head_dim=64), replace(KEY, causal=False)] * 4:
        space = FAMILY.space((key,), H200)
        drawn = (
            {name: space.param(name).values[rng.integers(len(space.param(name).values))] for name in LOOSE}
            for _ in range(400)
        )
        genome = next(
            each for each in (space.genome({**TWO_TILES, **some}) for some in drawn) if space.is_valid(each)
        )
        build = compile_candidate(render(genome, key, H200))
        whole += build.ok and not build.spill_bytes and not build.warnings
    assert whole >= 11


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ef::wgmma_wait<1>();  // its scores are there; what was asked for last may still be under way", ""),
        ("release(k_empty + 8 * k_slot, lane);\n        release(v_empty", "release(v_empty"),
        ("const int other = 1 - t, at = j - other;", "const int other = 1 - t, at = j;"),
        ("if (exact || at == 0) maxima", "if (exact) maxima"),
        ("first_row + t * kTileRows, all_see", "first_row, all_see"),
        ("first_row + t * kTileRows;  // of", "first_row;  // of"),
        ("row = work.row + i / kPanels * kTileRows", "row = work.row"),
        ("if (j + 1 < work.tiles)", "if (j < 0)"),
        ("ef::mbar_wait(v_full + 8 * slot_of<kStagesV>(done), phase_of<kStagesV>(done));", ""),
    ],
    ids=[
        "a wait",
        "a release",
        "a tile",
        "a maximum",
        "an edge",
        "rows of O",
        "rows of Q",
        "K of the next step",
        "the first V",
    ],
)
def test_what_is_missing_between_two_tiles_of_rows_is_noticed(old, new):
    key = replace(KEY, gqa_ratio=1)
    values = {**TWO_TILES, "rescale": "speculative", "turns": "none", "epilogue": "direct"}
    candidate = render(genome_of(values, key), key, H200)
    assert candidate.source.count(old) == 1, candidate.source.count(old)

    assert gene_cases.unpatched(candidate, FAMILY, H200, seed=1, registers=168).complaint == ""
    faulty = replace(candidate, source=candidate.source.replace(old, new))
    assert preflight(faulty, FAMILY, H200, seed=1, registers=168).complaint != ""


BUFFERED = {"overlap": "buffered", "rescale": "speculative", "schedule": "dynamic", "q_stages": 2}


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("schedule", ["dynamic", "grid"])
def test_a_second_p_takes_turns_with_the_first_whatever_the_tiles(schedule, causal):
    """One to five tiles, the last not whole: what the loop of two steps leaves over."""
    key = replace(KEY, gqa_ratio=1, causal=causal)
    genome = genome_of({**BUFFERED, "schedule": schedule}, key)
    library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")
    for tiles in range(1, 6):
        workload = key.workload(1, 2, 64 * tiles, 64 * tiles - 7)
        (emulation,), verdict = emulate(
            library,
            FAMILY.launches(genome, workload, H200),
            workload,
            "rising",
            delivery="lazy",
            schedule="random",
            seed=tiles,
        )
        assert (emulation.reports, verdict.reason) == ((), ""), tiles


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pack(p[1 - from], s);", "pack(p[from], s);"),
        ("multiply_values(o, sums, p[from],", "multiply_values(o, sums, p[1 - from],"),
        ("if (work.tiles % 2 == 0) p[0] = p[1];", ""),
        ("if (j == work.tiles) break;", ""),
        ("heads < 0", "heads > 0"),
    ],
    ids=["the P in flight", "the P of no tile", "the last P", "the odd step", "the store that never runs"],
)
def test_a_p_that_is_not_the_other_one_is_noticed(old, new):
    key = replace(KEY, gqa_ratio=1)
    candidate = render(genome_of(BUFFERED, key), key, H200)
    assert candidate.source.count(old) == 1, candidate.source.count(old)

    assert gene_cases.unpatched(candidate, FAMILY, H200, seed=1, registers=168).complaint == ""
    faulty = replace(candidate, source=candidate.source.replace(old, new))
    assert preflight(faulty, FAMILY, H200, seed=1, registers=168).complaint != ""


@pytest.mark.parametrize(
    ("values", "check"),
    [
        ({"p_home": "smem"}, "p_has_two"),
        ({"rows_per_warpgroup": 128, "block_n": 32}, "p_has_two"),
        ({"consumers": 4}, "regs_fit"),
    ],
)
def test_what_a_second_p_needs(values, check):
    space = FAMILY.space((KEY,), H200)

    assert space.violations(space.genome({**BASE, "overlap": "buffered", **values})) == (check,)


@pytest.mark.parametrize(("overlap", "overlaps"), [("none", 0), ("intra", 1), ("buffered", 1)])
def test_the_model_hears_whether_products_overlap(overlap, overlaps):
    names = FAMILY.names(genome_of({"overlap": overlap}).as_dict(), KEY, H200)

    assert FAMILY.loop(names).overlaps == overlaps


@pytest.mark.full  # five large kernels for the compiler
def test_a_second_p_compiles_without_spills():
    """And without C7513: no P is rounded into registers that a product in flight reads."""
    key, wide = replace(KEY, causal=False), replace(KEY, head_dim=128)
    tight = [
        ({"consumers": 4, "block_n": 48}, key),
        ({"consumers": 3, "block_n": 96}, key),
        ({"consumers": 2, "block_n": 176, "schedule": "grid", "rescale": "online"}, key),
        ({"consumers": 2, "block_n": 128, "producer_registers": 32}, wide),
        ({"consumers": 3, "block_n": 96, "tile_skip": "on"}, KEY),
    ]
    builds = [
        compile_candidate(render(genome_of({**BUFFERED, **some}, key), key, H200)) for some, key in tight
    ]

    assert [build.log for build in builds if not build.ok or build.spill_bytes or build.warnings] == []


SKIPPING = {"tile_skip": "on", "consumers": 4, "schedule": "dynamic", "q_stages": 2}


@pytest.mark.parametrize(
    ("seq_q", "seq_kv", "own"),
    [
        (256, 256, (1, 2, 3, 4)),
        (256, 257, (2, 3, 4, 5)),  # a key further: none sees a tile less
        (256, 96, (0, 0, 1, 2)),  # 160 rows see nothing
        (130, 320, (4, 5, 5, 5)),  # the rows end in the third warpgroup: the fourth goes along
    ],
)
@pytest.mark.parametrize("more", [{}, {"schedule": "grid", "kv_splits": 4}], ids=["dynamic", "split"])
def test_a_warpgroup_multiplies_the_tiles_that_its_rows_see_and_no_others(seq_q, seq_kv, own, more):
    key = replace(KEY, gqa_ratio=1)
    workload, products = key.workload(1, 1, seq_q, seq_kv), {}
    for name in ("off", "on"):
        genome = genome_of({**SKIPPING, **more, "tile_skip": name}, key)
        products[name] = counters(genome, key, workload, "rising")["wgmma"]

    assert products["on"] * 4 * max(own) == products["off"] * sum(own)


@pytest.mark.parametrize("rescale", ["online", "speculative"])
@pytest.mark.parametrize("sms", [1, 5])
def test_rings_and_turns_stay_in_step_when_warpgroups_sit_out_tiles_of_piece_after_piece(rescale, sms):
    """Query blocks of uneven ends, some with rows that see nothing."""
    workload = AttentionWorkload(2, 2, 2, 600, 560, 64, causal=True)
    key, gpu = replace(KEY, gqa_ratio=1), replace(H200, sm_count=sms)
    genome = genome_of({**SKIPPING, "rescale": rescale}, key, gpu)
    library = gxx.build(render(genome, key, gpu).source, name="flash_wgmma")

    emulations, verdict = emulate(
        library,
        FAMILY.launches(genome, workload, gpu),
        workload,
        "rising",
        delivery="random",
        schedule="random",
        seed=sms,
    )

    assert [each.reports for each in emulations if each.reports] == []
    assert verdict.passed, verdict.reason


@pytest.mark.cover
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "ef::mbar_wait(full, phase);\n  ef::syncwarp();\n  release(empty, lane);",
            "ef::mbar_wait(full, phase);",
        ),
        ("ef::mbar_wait(full, phase);\n  ef::syncwarp();", "ef::syncwarp();"),
        ("for (int j = tiles; j < work.tiles; ++j)", "for (int j = tiles + 1; j < work.tiles; ++j)"),
        ("if (j < common) pass_turn(j);", "if (j + 1 < common) pass_turn(j);"),
        ("if (j < common) take_turn();", "if (j < tiles) take_turn();"),
        ("(group + 1) * kGroupRows", "(group + 1) * kGroupRows - 1"),
    ],
    ids=["a release", "a wait", "a tile left", "a turn passed", "a turn too many", "a tile too few"],
)
@pytest.mark.parametrize("values", [{}, {"schedule": "grid"}], ids=["dynamic", "grid"])
def test_what_is_missing_where_tiles_are_sat_out_is_noticed(old, new, values):
    genome = genome_of({**SKIPPING, **values}, replace(KEY, gqa_ratio=1))
    candidate = render(genome, replace(KEY, gqa_ratio=1), H200)
    assert candidate.source.count(old) == 1, old

    assert gene_cases.unpatched(candidate, FAMILY, H200, seed=1).complaint == ""
    faulty = replace(candidate, source=candidate.source.replace(old, new))
    assert preflight(faulty, FAMILY, H200, seed=1).complaint != ""


HALVING = {"tile_skip": "half", "block_n": 128, "rescale": "online"}


@pytest.mark.parametrize(
    ("seq_q", "seq_kv", "scores", "values"),
    [
        (256, 256, 1, 2),  # the first warpgroup of either block; the first block's only tile has whole scores
        (256, 257, 4, 4),  # a key further: one key of each block's last tile, for its last row
        (256, 320, 4, 4),  # half a tile further: half of each block's last tile
        (256, 96, 0, 1),  # 160 rows see nothing, the next 32 a quarter of the only tile
        (130, 320, 4, 4),  # the rows end in the third warpgroup: the fourth goes along
        (130, 321, 2, 2),  # and a key more, as do the rows that are none
    ],
)
@pytest.mark.parametrize("more", [{}, {"schedule": "dynamic", "rescale": "speculative", "sum_of": "exact"}])
def test_a_warpgroup_multiplies_half_of_a_last_tile_of_which_its_rows_see_no_more(
    seq_q, seq_kv, scores, values, more
):
    """How many warpgroups multiply half as many keys, and half as many values."""
    key = replace(KEY, gqa_ratio=1)
    workload, products = key.workload(1, 1, seq_q, seq_kv), {}
    for name in ("off", "half"):
        genome = genome_of({**HALVING, **more, "tile_skip": name}, key)
        products[name] = counters(genome, key, workload, "normal")["wgmma_macs"]

    assert products["off"] - products["half"] == (scores + values) * 64 * 64 * 64


@pytest.mark.parametrize("values", [{}, {"tile_skip": "both", "consumers": 3, "block_n": 96}])
@pytest.mark.parametrize("rescale", ["lazy", "speculative"])
def test_rings_and_turns_stay_in_step_when_warpgroups_take_half_a_tile_of_piece_after_piece(rescale, values):
    """Query blocks of uneven ends, some with rows that see nothing; packed heads: one query has two rows."""
    workload, gpu = AttentionWorkload(2, 4, 2, 330, 290, 64, causal=True), replace(H200, sm_count=3)
    more = {"rescale": rescale, "schedule": "dynamic", "q_stages": 2, "pack_gqa": "on"}
    genome = genome_of({**HALVING, **more, **values}, KEY, gpu)
    library = gxx.build(render(genome, KEY, gpu).source, name="flash_wgmma")

    emulations, verdict = emulate(
        library,
        FAMILY.launches(genome, workload, gpu),
        workload,
        "rising",
        delivery="random",
        schedule="random",
        seed=3,
    )

    assert [each.reports for each in emulations if each.reports] == []
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* BLOCK_N + kHalfKeys;", "* BLOCK_N + kHalfKeys + 1;"),
        ("(group + 1) * kGroupRows - 1;", "group * kGroupRows;"),
        ("halved && tiles > 1 ?", "halved ?"),
        ("j < whole;", "j < tiles;"),
        ("  multiply_values<kHalfKeys>", "  multiply_values<BLOCK_N>"),
        ("pack(p, half);", ""),
        ("hide(half, edge, j * BLOCK_N);", ";"),
    ],
    ids=["a key", "its last row", "the first tile", "a tile twice", "stale weights", "weights", "the mask"],
)
def test_what_is_wrong_with_half_a_tile_is_noticed(old, new):
    """Tiles are sat out as well: pre-flight then has a warpgroup that sees a key more than half a tile."""
    key = replace(KEY, gqa_ratio=1)
    candidate = render(genome_of({**HALVING, "tile_skip": "both", "schedule": "dynamic"}, key), key, H200)
    assert candidate.source.count(old) == 1, old

    assert gene_cases.unpatched(candidate, FAMILY, H200, seed=1).complaint == ""
    faulty = replace(candidate, source=candidate.source.replace(old, new))
    assert preflight(faulty, FAMILY, H200, seed=1).complaint != ""


@pytest.mark.parametrize(
    "missing",
    ["take_turn();", "pass_turn(j);", "release(k_empty + 8 * k_slot, lane);", "ef::wgmma_wait<1>();"],
)
def test_what_is_missing_in_the_step_of_half_a_tile_is_noticed(missing):
    key = replace(KEY, gqa_ratio=1)
    candidate = render(genome_of({**HALVING, "schedule": "dynamic"}, key), key, H200)
    before, step = candidate.source.split("HalfScores half;")
    assert missing in step

    faulty = replace(candidate, source=before + "HalfScores half;" + step.replace(missing, "", 1))
    assert preflight(faulty, FAMILY, H200, seed=1).complaint != ""


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [64, pytest.param(128, marks=pytest.mark.full)])
@pytest.mark.parametrize("tile_skip", ["half", pytest.param("both", marks=pytest.mark.full)])
@pytest.mark.full
def test_a_branch_around_half_a_tile_leaves_the_products_overlapped(tile_skip, head_dim):
    """ptxas would say C7510 to C7519 if it did not see across the branches what is in flight."""
    key = replace(KEY, head_dim=head_dim)
    for seed in FAMILY.seeds:
        genome = FAMILY.space((key,), H200).genome({**seed.values, "tile_skip": tile_skip, "block_n": 128})
        if not FAMILY.space((key,), H200).is_valid(genome) or genome.as_dict().get("tile_skip") != tile_skip:
            continue
        build = compile_candidate(render(genome, key, H200))
        assert (build.ok, build.spill_bytes, build.warnings) == (True, 0, ()), seed.name


@pytest.mark.parametrize(
    ("values", "check"),
    [
        ({"overlap": "none", "turns": "none"}, "halves_follow"),
        ({"rows_per_warpgroup": 128, "block_n": 32}, "halves_follow"),
        ({"block_n": 80}, "halves_whole"),
        ({"block_n": 32, "max_tree": 4}, "trees_fit"),
    ],
)
def test_what_half_a_tile_needs(values, check):
    space = FAMILY.space((KEY,), H200)

    assert space.violations(space.genome({**BASE, "tile_skip": "half", **values})) == (check,)


@pytest.mark.slow
def test_registers_move_only_as_far_as_there_are_some():
    """setmaxnreg waits for ever when the pool of the block is too small."""
    rng, seen, space = np.random.default_rng(3), 0, FAMILY.space((KEY,), H200)
    for _ in range(16):
        genome = space.sample(rng)
        names = FAMILY.names(genome.as_dict(), KEY, H200)
        if names["producer"] != "warpgroup":
            continue
        threads, ctas, consumers = (names[n] for n in ("threads", "ctas_per_sm", "consumers"))
        entry = 65536 // (threads * ctas) // 8 * 8  # as ptxas rounds it
        used = names["kept_regs"] + consumers * names["consumer_regs"]
        assert used <= entry * (consumers + 1)
        seen += 1
    assert seen > 3


def test_the_maps_are_those_of_the_tiles():
    workload = AttentionWorkload(2, 8, 4, 300, 400, 64, causal=True)
    (launch,) = FAMILY.launches(
        genome_of({"pack_gqa": "on", "block_n": 96, "l2_promotion": 128}), workload, H200
    )

    assert launch.maps == (
        TensorMapSpec("Q", (1, 2, 32, 64), 128, 128, heads_inside=True),
        TensorMapSpec("K", (1, 1, 96, 64), 128, 128),
        TensorMapSpec("V", (1, 1, 96, 64), 128, 128),
        TensorMapSpec("O", (1, 2, 32, 64), 128, 256, heads_inside=True),
    )


def test_blocks_of_a_cluster_fetch_a_part_each():
    workload = AttentionWorkload(2, 8, 8, 300, 400, 64, causal=True)
    (launch,) = FAMILY.launches(genome_of({"cluster": 4, "tile_order": "heads_first"}), workload, H200)

    assert (launch.grid, launch.cluster) == ((8, 4, 2), (1, 4, 1))
    assert [each.box[2] for each in launch.maps] == [64, 16, 16, 64]


def test_blocks_of_a_cluster_that_divide_the_keys_share_their_rows():
    workload = AttentionWorkload(2, 8, 8, 300, 400, 64, causal=True)
    values = {"cluster": 4, "cluster_use": "keys", "epilogue": "direct", "producer": "self", "turns": "none"}
    (launch,) = FAMILY.launches(genome_of(values), workload, H200)

    assert (launch.grid, launch.cluster) == ((12, 8, 2), (4, 1, 1))
    assert [each.box[2] for each in launch.maps] == [64, 64, 64]


@pytest.mark.parametrize(
    ("values", "check"),
    [
        ({"epilogue": "staged"}, "columns_direct"),
        ({"epilogue": "staged", "cluster": 1, "kv_groups": 2, "merge": "columns"}, "columns_direct"),
        ({"cluster": 4, "kv_groups": 4, "consumers": 4, "turns": "none"}, "columns_divide"),
        ({"cluster_use": "multicast", "producer": "self", "turns": "none"}, "shares_fed"),
        ({"cluster_use": "both"}, "pairs_divide"),
    ],
)
def test_what_a_cluster_that_divides_the_keys_needs(values, check):
    """Whole tiles of 8 columns for each warpgroup that merges, and plain stores for them."""
    space = FAMILY.space((KEY,), H200)
    genome = space.genome(
        {**BASE, "overlap": "none", "block_n": 32, "cluster": 2, "cluster_use": "keys", "epilogue": "direct"}
        | values
    )

    assert space.violations(genome) == (check,)


def test_pairs_that_share_tiles_fetch_a_half_each_and_divide_the_keys():
    workload = AttentionWorkload(2, 8, 8, 300, 400, 64, causal=True)
    values = {"cluster": 4, "cluster_use": "both", "epilogue": "direct"}
    (launch,) = FAMILY.launches(genome_of(values), workload, H200)

    assert (launch.grid, launch.cluster) == ((8, 8, 2), (4, 1, 1))
    assert [each.box[2] for each in launch.maps] == [64, 32, 32]


SPLIT = {"kv_splits": 8, "block_n": 32, "rescale": "speculative"}


@pytest.mark.parametrize("values", [{}, {"rescale": "online"}, {"producer": "self", "turns": "none"}])
@pytest.mark.parametrize("seq_q", [9, 60])
def test_splits_without_a_key_weigh_nothing(seq_q, values):
    """40 keys are two tiles: six of eight splits are empty; of 60 queries the first 20 see nothing."""
    key = replace(KEY, gqa_ratio=1)
    genome, workload = genome_of({**SPLIT, **values}, key), key.workload(2, 2, seq_q, 40)
    launches = FAMILY.launches(genome, workload, H200)
    library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")

    emulations, verdict = emulate(
        library, launches, workload, "normal", delivery="random", schedule="random", seed=seq_q
    )

    assert [launch.entry for launch in launches] == ["flash_wgmma", "flash_wgmma_combine"]
    assert [each.reports for each in emulations if each.reports] == []
    assert verdict.passed, verdict.reason


@pytest.mark.cover
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("rescale", ["online", "lazy", "sampled", "speculative"])
@pytest.mark.parametrize("trial", ["rising", "saturated", "needles"])
def test_a_query_of_packed_heads_over_many_keys_is_put_together_again(trial, rescale, dtype):
    """997 keys are 16 tiles, the last one of 37: each of eight blocks has two. Some must do theirs again."""
    key = AttentionKey(128, dtype, True, 4, "sm_90a")
    values = {"kv_splits": 8, "rescale": rescale, "pack_gqa": "on", "consumers": 1, "turns": "none"}
    genome, workload = genome_of(values, key), key.workload(2, 2, 1, 997)
    library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")
    launches = FAMILY.launches(genome, workload, H200)

    emulations, verdict = emulate(
        library, launches, workload, trial, delivery="lazy", schedule="random", seed=3
    )

    assert launches[0].grid == (8, 2, 2)
    assert [each.reports for each in emulations if each.reports] == []
    assert verdict.passed, verdict.reason


def test_only_the_split_that_outgrows_its_reference_is_done_again():
    """The last tile of four outweighs the rest: the products of the block that has it double."""
    key = replace(KEY, causal=False, gqa_ratio=1)
    values = {"kv_splits": 2, "rescale": "speculative", "consumers": 1, "turns": "none", "overlap": "none"}
    genome, workload = genome_of(values, key), AttentionWorkload(1, 1, 1, 16, 256, 64)
    library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")
    rng, products = np.random.default_rng(1), []
    for far in (100, 250):  # in the second tile of the first split; in the second tile of the second one
        q, k, v = (rng.standard_normal((1, 1, rows, 64)) for rows in (16, 256, 256))
        for ahead in (0, 8):
            q[0, 0, 5] = ahead * k[0, 0, far]
            trial = AttentionInputs("one row", *(encode(x.astype(np.float32), "fp16") for x in (q, k, v)))
            emulations, output = run_call(
                library,
                FAMILY.launches(genome, workload, H200),
                workload,
                trial,
                EmulatorRun("lazy", "fifo", 1, 60.0),
            )
            expected = expect(workload, trial, where=every_row(workload))
            assert [each.reports for each in emulations if each.reports] == []
            got = decode(output.tensors["O"], "fp16").reshape(-1)
            assert np.abs(got - np.asarray(expected.rows["O"].right).reshape(-1)).max() < 5e-3
            products.append(emulations[0].counters["wgmma"])

    calm, twice = products[0], products[1]
    assert products == [calm, twice, calm, twice]
    assert twice * 2 == calm * 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("work.key = share * most * BLOCK_N", "work.key = share * BLOCK_N"),
        ("int(blockIdx.x) % kSplits", "(int(blockIdx.x) + 1) % (kSplits - 1)"),
        ("seq_kv - seq_q - work.key + 1", "seq_kv - seq_q + 1"),
        ("const long long at = share * rows + ", "const long long at = "),
        (
            "sum == 0.0f ? 0.0f : ef::rcp(sum);  // a row that sees none",
            "ef::rcp(sum);  // a row that sees none",
        ),
        ("      if (row < seq_q) {\n        const long long at", "      {\n        const long long at"),
        ("  if (row >= seq_q) return;\n", ""),
        ("best == ef::neg_inf() ? 0.0f : best", "best"),
        ("ef::ex2(log_sum[i] - shift)", "1.0f"),
        ("row_max[h] * scale_log2 + ef::lg2(sum)", "ef::lg2(sum)"),
        ("const int left = tiles - work.key / BLOCK_N;", "const int left = tiles - work.key / BLOCK_N - 1;"),
        ("left < work.tiles ? (left > 0 ? left : 0) : work.tiles", "left > 0 ? left : 0"),
        ("const int keys = seq_kv - work.key;", "const int keys = seq_kv;"),  # the diagonal hides as much
    ],
)
@pytest.mark.sample(4)
def test_what_is_wrong_with_a_split_is_noticed(old, new):
    values = {"kv_splits": 4, "tile_skip": "on", "consumers": 3, "block_n": 32, "turns": "none"}
    key = replace(KEY, gqa_ratio=1, causal="int keys" not in old)
    candidate = render(genome_of(values, key), key, H200)
    assert candidate.source.count(old) == 1, old

    assert gene_cases.unpatched(candidate, FAMILY, H200, seed=1).complaint == ""
    faulty = replace(candidate, source=candidate.source.replace(old, new))
    assert preflight(faulty, FAMILY, H200, seed=1).complaint != ""


@pytest.mark.parametrize(
    ("values", "check"),
    [
        ({"tile_parts": 4, "block_n": 96}, "parts_divide"),
        ({"tile_parts": 4, "max_tree": 4}, "trees_fit"),
        ({"tile_parts": 2, "turns": "gemm"}, "parts_alone"),
        ({"tile_parts": 2, "p_home": "smem"}, "parts_alone"),
        ({"tile_parts": 2, "cluster": 2, "cluster_use": "multicast"}, "parts_whole"),
    ],
)
def test_what_parts_of_a_tile_need(values, check):
    space = FAMILY.space((KEY,), H200)
    genome = space.genome({**BASE, "overlap": "none", "turns": "none", **values})

    assert check in space.violations(genome)


def test_each_part_of_a_tile_of_keys_arrives_by_itself():
    """Four of 16 keys, each with a barrier of its own; values come whole."""
    genome = genome_of({"tile_parts": 4, "overlap": "none", "turns": "none"})
    (launch,) = FAMILY.launches(genome, KEY.workload(1, 2, 128, 128), H200)
    whole = FAMILY.launches(
        genome_of({"overlap": "none", "turns": "none"}), KEY.workload(1, 2, 128, 128), H200
    )[0]

    assert [each.box[2] for each in launch.maps] == [64, 16, 64, 64]
    assert launch.smem_bytes == whole.smem_bytes + 8 * 2 * 3  # two slots of three barriers more


def test_splits_make_as_many_times_the_blocks_and_a_second_kernel():
    workload = AttentionWorkload(2, 8, 4, 3, 8192, 64, causal=True)
    genome = genome_of({"kv_splits": 16, "combine_threads": 128, "pack_gqa": "on"})
    main, combine = FAMILY.launches(genome, workload, H200)

    assert (main.grid, combine.grid, combine.block) == ((16, 4, 2), (1, 8, 2), (128, 1, 1))
    assert main.workspace_bytes == combine.workspace_bytes == 16 * 2 * 8 * 3 * (64 + 1) * 4
    assert main.zeroed_bytes == 0
    assert [each.of for each in main.maps] == ["Q", "K", "V"]


def test_a_split_is_longer_than_its_ring():
    """A ring that holds all of a split's keys never turns: its last stages would only cost memory."""
    space = FAMILY.space((KEY,), H200)
    many = {**BASE, "kv_splits": 16, "consumers": 1, "turns": "none", "k_stages": 4, "pack_gqa": "on"}

    assert space.violations(space.genome(many)) == ()
    for more in ({"k_stages": 2, "v_stages": 4, "block_n": 80}, {"pack_gqa": "off"}, {"consumers": 2}):
        assert space.violations(space.genome({**many, **more})) == ("split_outlasts",)


@pytest.mark.parametrize("values", [{"cluster": 2}, {"schedule": "persistent"}, {"schedule": "dynamic"}])
def test_keys_are_split_where_a_block_is_alone_and_has_one_query_block(values):
    genome = genome_of({**values, "kv_splits": 4}).as_dict()

    assert not {"kv_splits", "combine_threads"} & genome.keys()
    assert genome["epilogue"] == "staged"


def test_persistent_blocks_are_no_more_than_the_gpu_holds():
    workload = AttentionWorkload(4, 16, 16, 4096, 4096, 64)
    (launch,) = FAMILY.launches(genome_of({"schedule": "persistent"}), workload, H200)

    assert launch.grid == (33, 1, 4)


@pytest.mark.parametrize(
    ("values", "present", "absent"),
    [
        (
            {},
            ["reg_dec<", "tma_store", "take_turn"],
            ["workspace", "persistent", "cluster", "tiles_before", "[t]", "kRowTiles", "half"],
        ),
        (
            {"overlap": "buffered"},
            ["Probabilities p[2];", "first += 2", "have(p[1 - from]"],
            ["read until here", "wait that is long"],
        ),
        (
            {"rows_per_warpgroup": 128},
            ["kGroupRows = kRowTiles * kTileRows", "other = 1 - t", "if (j + 1 < work.tiles)"],
            ["k_ring + k_slot * kTileBytes);\n      ef::mbar_wait"],
        ),
        (
            {"rows_per_warpgroup": 128, "overlap": "none"},
            ["const int tile_row", "if (t == 1) release"],
            ["other", "kLag"],
        ),
        ({"tile_skip": "on"}, ["tiles_before", "pass_over", "j < common"], []),
        ({"tile_skip": "on", "turns": "none"}, ["j < tiles"], ["common", "half", "Half", "template <int N>"]),
        ({"tile_skip": "half"}, ["j < whole", "HalfScores half", "pack(p, half)"], ["pass_over", "common"]),
        ({"tile_skip": "both"}, ["j < whole", "pass_over", "j < common", "(tiles - 1) * BLOCK_N"], []),
        ({"producer": "warp"}, ["kThreads = 128 * kConsumers + 32"], ["reg_dec", "reg_inc"]),
        ({"producer": "self", "turns": "none"}, ["No producer"], ["else {", "kTurn"]),
        ({"kv_groups": 2}, ["kMerge", "slice"], ["persistent"]),
        (
            {"kv_groups": 2, "merge": "columns", "epilogue": "direct"},
            ["hand_over<kGroupTiles>", "first_tile"],
            ["sts_async", "cluster", "slice > 0", "kKeyBlocks"],
        ),
        ({"rescale": "lazy"}, ["if (outgrown) rescale"], []),
        (
            {"rescale": "speculative"},
            ["if (exact) maxima", "judged", "(sums, p.fragment[k], one"],
            ["kTau", "tile_sum"],
        ),
        ({"rescale": "speculative", "sum_of": "exact"}, ["part", "tile_sum <= kBound"], ["Sums", "ones"]),
        ({"cluster": 2}, ["tma_load_multicast(", "cluster_sync"], ["ef::syncthreads"]),
        (
            {"cluster": 2, "cluster_use": "keys", "epilogue": "direct"},
            ["sts_async(", "cluster_arrive_relaxed", "kOwnTiles"],
            ["multicast", "cluster_sync", "kShare", "hand_over", "kMerge"],
        ),
        ({"q_home": "registers"}, ["wgmma_rs<0>"], ["wgmma_ss"]),
        ({"p_home": "smem"}, ["wgmma_ss<0, 1>"], ["wgmma_rs"]),
        ({"l2_hints": "keep_kv_drop_q"}, ["l2_evict_last", "l2_evict_first"], []),
        ({"epilogue": "direct"}, ["o_at"], ["O_map", "tma_store"]),
        (
            {"kv_splits": 4},
            ["float* workspace", "Pair{", "\nflash_wgmma_combine(", "kSplits = 4"],
            ["O_map", "o_at", "Quad", "cluster", "in_share"],
        ),
        ({"kv_splits": 4, "tile_skip": "on"}, ["in_share(tiles_before"], []),
    ],
    ids=lambda value: "-".join(map(str, value.values())) or "base" if isinstance(value, dict) else "",
)
def test_a_rendered_kernel_holds_its_genes_and_nothing_of_others(values, present, absent):
    text = render(genome_of(values), KEY, H200).source

    code = re.sub(r"//[^\n]*", "", text)
    assert [word for word in present if word not in text] == []
    assert [word for word in absent if word in code] == []


@pytest.mark.parametrize("values", [{}, *PAIRS.values()], ids=["base", *PAIRS])
def test_a_rendered_kernel_reads_as_if_written_by_hand(values):
    gene_cases.assert_reads_as_if_written_by_hand(render(genome_of(values), KEY, H200).source)


def test_a_sum_of_rounded_weights_cancels_the_rounding_of_a_key_that_outweighs_all_others():
    """The first tile's maximum stays the reference: the weight of a later key is no exact 1, but rounded.
    What is wrong with it is wrong with the sum as well.
    """
    workload = AttentionWorkload(1, 1, 1, 1, 128, 64)
    rng = np.random.default_rng(5)
    q, k = np.full((1, 1, 1, 64), 0.25), np.zeros((1, 1, 128, 64))
    errors: dict[str, list[float]] = {"exact": [], "rounded": []}
    for name, found in errors.items():
        values = {"rescale": "speculative", "consumers": 1, "turns": "none", "sum_of": name}
        key = replace(KEY, causal=False, gqa_ratio=1)
        genome = genome_of(values, key)
        library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")
        launches = FAMILY.launches(genome, workload, H200)
        for _ in range(12):
            k[0, 0, 100] = rng.uniform(2.0, 4.0)  # 4 to 8 ahead: weights up to 2900
            v = 1 + rng.random((1, 1, 128, 64))
            trial = AttentionInputs("dominated", *(encode(x.astype(np.float32), "fp16") for x in (q, k, v)))
            _, output = run_call(library, launches, workload, trial, EmulatorRun("lazy", "fifo", 1, 60.0))
            expected = expect(workload, trial, where=every_row(workload))
            got = decode(output.tensors["O"], "fp16").reshape(-1)
            ideal = decode(
                encode(np.asarray(expected.rows["O"].right, np.float32).reshape(-1), "fp16"), "fp16"
            )
            found.append(float(np.abs(got - ideal).sum()))

    assert sum(errors["rounded"]) < sum(errors["exact"]) / 2


@pytest.mark.parametrize(
    ("row", "tiles"),
    [(5, {}), (13, {}), (5, TWO_TILES), (69, TWO_TILES), (77, {**TWO_TILES, "sum_of": "exact"})],
)
@pytest.mark.parametrize("schedule", ["grid", "dynamic"])
def test_one_row_that_outgrows_its_reference_has_its_block_done_again(schedule, row, tiles):
    """Neither the first lane's rows nor, at 13 and 77, the first eight: each thread's check of either tile of
    rows must count.
    """
    workload, key = (
        AttentionWorkload(1, 1, 1, row // 16 * 16 + 16, 128, 64),
        replace(KEY, causal=False, gqa_ratio=1),
    )
    values = {"rescale": "speculative", "consumers": 1, "turns": "none", "schedule": schedule}
    genome = genome_of({**values, "block_n": 64, "overlap": "none", **tiles}, key)
    library = gxx.build(render(genome, key, H200).source, name="flash_wgmma")
    rng = np.random.default_rng(row)
    q, k, v = (rng.standard_normal((1, 1, rows, 64)) for rows in (workload.seq_q, 128, 128))
    q[0, 0, row] = 8 * k[0, 0, 100]  # some 60 ahead in the second tile: beyond what 16 bits hold
    trial = AttentionInputs("one row", *(encode(x.astype(np.float32), "fp16") for x in (q, k, v)))

    emulations, output = run_call(
        library,
        FAMILY.launches(genome, workload, H200),
        workload,
        trial,
        EmulatorRun("lazy", "fifo", 1, 60.0),
    )

    expected = expect(workload, trial, where=every_row(workload))
    assert [each.reports for each in emulations if each.reports] == []
    assert (
        np.abs(
            decode(output.tensors["O"], "fp16").reshape(-1) - np.asarray(expected.rows["O"].right).reshape(-1)
        ).max()
        < 5e-3
    )
