"""Every gene of flash_mma: each value runs clean in the emulator, changes the kernel, does what it says."""

from dataclasses import replace
from functools import cache

import gene_cases
import numpy as np
import pytest

from evoflash.emulator import launch as emulator
from evoflash.emulator.preflight import preflight
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.operations.attention import inputs as trials
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.forms.dense import arguments
from evoflash.operations.attention.reference import expect
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.specs import load_gpu
from evoflash.validation.validator import judge

FAMILY, H200 = load_family("flash_mma"), load_gpu("h200")
KEY = AttentionKey(
    64, "fp16", True, 2, "sm_90a"
)  # causal and grouped heads: every gene but one can be active
HALF = replace(KEY, accumulate="fp16")
BASE = {"warps": 4, "rows_per_warp": 16, "block_n": 32, "waits": "joint", "k_stages": 3, "ctas_per_sm": 1}
NEEDS = {  # what a gene needs to be active, or a value to be valid, beside BASE
    "v_stages": {"waits": "separate"},
    "lazy_tau": {"rescale": "lazy"},
    "sample": {"rescale": "sampled"},
    "store": {"epilogue": "staged"},
    "combine_threads": {"kv_splits": 2},
    "rows_per_warp": {"block_n": 16, "q_home": "smem", "layout": "xor128"},
    "ctas_per_sm": {"warps": 2, "block_n": 16, "k_stages": 2, "layout": "xor128"},
    "kv_splits": {"k_stages": 2},
}
PAIRS = {  # genes that meet in one place of the code
    "Q through the ring, O staged there, groups merged there": {
        "q_alias": "on",
        "epilogue": "staged",
        "kv_split_warps": 2,
    },
    "redo with Q in the ring": {"q_alias": "on", "rescale": "speculative"},
    "redo with a maximum of half the keys and early scores": {"early_qk": "on", "rescale": "sampled"},
    "early scores, two waits, skipped tiles": {
        "early_qk": "on",
        "waits": "separate",
        "v_stages": 2,
        "tile_skip": "on",
    },
    "early scores with one V slot": {"early_qk": "on", "waits": "separate", "k_stages": 2, "v_stages": 1},
    "keys split twice": {"kv_split_warps": 4, "kv_splits": 2, "k_stages": 2},
    "split keys of packed heads": {"kv_splits": 4, "k_stages": 2, "pack_gqa": "on"},
    "packed heads, staged": {"pack_gqa": "on", "epilogue": "staged", "tile_order": "sections"},
    "groups that see nothing, speculating": {
        "kv_split_warps": 4,
        "tile_skip": "on",
        "rescale": "speculative",
        "mask": "colskip",
    },
    "producers and a redo": {"producers": 2, "rescale": "speculative", "mask": "threshold"},
    "producers, Q in the ring, O staged there": {
        "producers": 1,
        "q_alias": "on",
        "epilogue": "staged",
        "tile_skip": "on",
    },
    "producers and split keys": {"producers": 1, "kv_splits": 2, "k_stages": 2, "q_home": "smem"},
    "prefetched pairs of matrices": {"frag_prefetch": "on", "ldsm": "x2", "q_home": "smem"},
}


def genome_of(values, key=KEY, gpu=H200):
    return gene_cases.valid_genome(FAMILY, {**BASE, **values}, key, gpu)


@cache  # every gene's default gives the same genome
def complaint_of(genome, key, seed):
    return preflight(render(genome, key, H200), FAMILY, H200, seed=seed).complaint


def key_of(name):
    return HALF if name == "qk_accumulate" else KEY


@pytest.mark.slow
@pytest.mark.parametrize("key", [KEY, HALF], ids=["KEY", "HALF"])
@pytest.mark.full
def test_the_values_of_all_genes_run_clean_a_few_in_each_genome(key):
    alone = {
        (name, value): genome_of({**NEEDS.get(name, {}), name: value}, key)
        for name, value in gene_cases.values_of(FAMILY)
        if key_of(name) == key
    }
    packs = gene_cases.packs(alone, genome_of({}, key), FAMILY.space((key,), H200))

    assert {cases: said for genome, cases in packs if (said := complaint_of(genome, key, 1))} == {}


@pytest.mark.parametrize(("name", "value"), list(gene_cases.each_value(FAMILY, under_full=True)))
def test_each_value_of_each_gene_runs_clean(name, value):
    key = key_of(name)
    genome = genome_of({**NEEDS.get(name, {}), name: value}, key)
    assert genome.as_dict()[name] == value, "the gene is not active here"

    assert complaint_of(genome, key, 1) == ""


@pytest.mark.parametrize("values", PAIRS.values(), ids=PAIRS)
@pytest.mark.sample(4)
def test_genes_that_meet_run_clean(values):
    genome = genome_of(values)
    assert values.items() <= genome.as_dict().items(), "a gene is not active here"

    assert complaint_of(genome, KEY, 2) == ""


def test_scores_summed_in_half_run_clean():
    """The accuracy class acc=fp16: the numbers are judged by its gates."""
    candidate = render(genome_of({"qk_accumulate": "fp16"}, HALF), HALF, H200)

    assert "half[t][n]" in candidate.source
    assert preflight(candidate, FAMILY, H200, seed=1).complaint == ""


@pytest.mark.parametrize("head_dim", [16, 80, 96, 256])
def test_any_multiple_of_16_is_a_head_dim(head_dim):
    """80 and 96: the chunks of a row do not divide the threads."""
    key = AttentionKey(head_dim, "bf16", True, 1, "sm_90a")
    genome = genome_of({"k_stages": 2, "block_n": 16, "q_home": "smem"}, key)

    assert complaint_of(genome, key, 3) == ""


@pytest.mark.parametrize(
    ("layout", "head_dim", "fits"),
    [("xor128", 96, False), ("xor64", 96, True), ("xor64", 80, False), ("pad8", 80, True)],
)
def test_a_swizzle_needs_whole_groups_of_chunks(layout, head_dim, fits):
    space = FAMILY.space((AttentionKey(head_dim, "fp16", False, 1, "sm_90a"),), H200)

    assert ("swizzle_fits" not in space.violations(space.genome({**BASE, "layout": layout}))) is fits


@pytest.mark.parametrize(("name", "one", "other"), list(gene_cases.adjacent_values(FAMILY)))
@pytest.mark.sample(8)
def test_no_value_is_inert(name, one, other):
    key = key_of(name)
    first, second = (
        gene_cases.machine(FAMILY, genome_of({**NEEDS.get(name, {}), name: value}, key), key, H200)
        for value in (one, other)
    )

    assert first != second


def emulate(genome, key, gpu, workload, trial_name):
    """(copies from global memory, verdict) of all launches under random scheduling; no report is allowed."""
    trial = trials.draw(trial_name, workload, seed=4)
    library = gxx.build(render(genome, key, gpu).source, name="flash_mma")
    launches = FAMILY.launches(genome, workload, gpu)
    with emulator.Memory() as memory:
        inputs = [memory.array(name, x.shape, x.dtype, fill=x) for name, x in trial.tensors.items()]
        out = memory.array("O", trial.q.shape, np.uint16, writable=True, fill=0xFFFF)
        lse = memory.array("LSE", trial.q.shape[:3], np.float32, writable=True, fill=np.nan)
        scratch = 0
        if size := launches[0].workspace_bytes:
            scratch = memory.array("workspace", (size,), np.uint8, writable=True, fill=255).ctypes.data
        given = arguments(workload, tuple(x.ctypes.data for x in (*inputs, out, lse)), workspace=scratch)
        emulations = [emulator.run_launch(library, launch, given, seed=5) for launch in launches]
        assert [report for emulation in emulations for report in emulation.reports] == []
        output = dense.output(out.copy(), lse.copy())
    copies = sum(site.requests for site in emulations[0].sites if site.op == "cp_async_global")
    expected = expect(workload, trial, where=every_row(workload))
    return copies, judge(workload, [(trial, expected, output)])


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize(
    ("values", "adverse"),
    [
        ({"rescale": "speculative"}, "rising"),
        ({"rescale": "speculative", "early_qk": "on", "kv_split_warps": 2}, "large_logits"),
        ({"rescale": "speculative", "producers": 1}, "large_logits"),
        ({"rescale": "sampled"}, "large_logits"),
        ({"rescale": "sampled", "sample": 4, "q_alias": "on"}, "large_logits"),
    ],
)
@pytest.mark.sample(4)
def test_an_outgrown_reference_is_noticed_and_the_block_done_again(values, adverse, dtype):
    """The second time shows in the copies: each K and V tile is fetched twice."""
    key = AttentionKey(64, dtype, True, 1, "sm_90a")
    genome = genome_of(values, key)
    workload = AttentionWorkload(1, 1, 1, 40, 200, 64, dtype, causal=True)

    calm, calm_verdict = emulate(genome, key, H200, workload, "equal_keys")
    twice, twice_verdict = emulate(genome, key, H200, workload, adverse)

    assert calm_verdict.passed, calm_verdict.reason
    assert twice_verdict.passed, twice_verdict.reason
    assert twice > 1.5 * calm


@pytest.mark.parametrize("trial", ["falling", "saturated", "needles", "large_values", "outliers"])
@pytest.mark.parametrize("rescale", ["speculative", "sampled"])
def test_a_guess_of_the_maximum_is_right_on_adverse_inputs(rescale, trial):
    genome = genome_of({"rescale": rescale, "exp_form": "mul_sub"})
    workload = AttentionWorkload(1, 2, 1, 70, 130, 64, "fp16", causal=True)

    _, verdict = emulate(genome, KEY, H200, workload, trial)

    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("seq_q", [9, 60])
def test_splits_without_a_key_weigh_nothing(seq_q):
    """40 keys are three tiles: five of eight splits are empty; of 60 queries the first 20 see nothing."""
    key = AttentionKey(64, "fp16", True, 1, "sm_90a")
    genome = genome_of({"kv_splits": 8, "block_n": 16, "k_stages": 2}, key)
    workload = AttentionWorkload(2, 2, 2, seq_q, 40, 64, "fp16", causal=True)

    assert [launch.entry for launch in FAMILY.launches(genome, workload, H200)] == [
        "flash_mma",
        "flash_mma_combine",
    ]
    _, verdict = emulate(genome, key, H200, workload, "normal")
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("producers", [0, 1])
@pytest.mark.parametrize("order", ["natural", "heads_first", "sections"])
@pytest.mark.parametrize(("sm_count", "ctas"), [(132, 8), (3, 3)])
def test_persistent_ctas_are_never_more_than_the_work_nor_than_the_gpu_holds(
    order, producers, sm_count, ctas
):
    """Four blocks of two heads: eight CTAs where they fit; on three SMs each takes two or three blocks."""
    gpu = replace(H200, sm_count=sm_count)
    values = {"schedule": "persistent", "tile_order": order, "producers": producers, "epilogue": "staged"}
    genome = genome_of(values, gpu=gpu)
    workload = AttentionWorkload(1, 2, 1, 200, 90, 64, "fp16", causal=True)

    (launch,) = FAMILY.launches(genome, workload, gpu)
    assert launch.grid == (ctas, 1, 1)
    _, verdict = emulate(genome, KEY, gpu, workload, "normal")
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("name", [seed.name for seed in FAMILY.seeds])
def test_each_seed_is_valid_somewhere(name):
    """On the A100, the L4 or the H200, for a head_dim of 64 or 80."""
    (seed,) = (seed for seed in FAMILY.seeds if seed.name == name)
    spaces = [
        FAMILY.space((AttentionKey(d, "fp16", True, 4, load_gpu(gpu).arch),), load_gpu(gpu))
        for gpu in ("l4", "a100", "h200")
        for d in (64, 80)
    ]

    assert any(space.is_valid(space.genome(seed.values)) for space in spaces)
