"""What flash_mma alone has: scores summed in half, guesses of the maximum, splits, persistent CTAs."""

from dataclasses import replace

import pytest
from gene_cases import cases_of
from tables import table_of_cases

from evoflash.emulator.preflight import preflight
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.specs import load_gpu

CASES = cases_of("flash_mma")
FAMILY, H200, KEY, genome_of = CASES.family, CASES.gpu, CASES.key, CASES.genome
HALF = replace(KEY, accumulate="fp16")
BASE = CASES.said["base"]


def test_scores_summed_in_half_run_clean():
    """The accuracy class acc=fp16: the numbers are judged by its gates."""
    candidate = render(genome_of({"qk_accumulate": "fp16"}, HALF), HALF, H200)

    assert "half[t][n]" in candidate.source
    assert preflight(candidate, FAMILY, H200, seed=1).complaint == ""


@pytest.mark.parametrize("head_dim", [16, 80, 96, 256])
@pytest.mark.sample(1)
def test_any_multiple_of_16_is_a_head_dim(head_dim):
    """80 and 96: the chunks of a row do not divide the threads."""
    key = AttentionKey(head_dim, "bf16", True, 1, "sm_90a")
    genome = genome_of({"k_stages": 2, "block_n": 16, "q_home": "smem"}, key)

    assert CASES.complaint(genome, key, seed=3) == ""


@pytest.mark.parametrize(
    ("layout", "head_dim", "fits"),
    [("xor128", 96, False), ("xor64", 96, True), ("xor64", 80, False), ("pad8", 80, True)],
)
def test_a_swizzle_needs_whole_groups_of_chunks(layout, head_dim, fits):
    space = FAMILY.space((AttentionKey(head_dim, "fp16", False, 1, "sm_90a"),), H200)

    assert ("swizzle_fits" not in space.violations(space.genome({**BASE, "layout": layout}))) is fits


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@table_of_cases()
@pytest.mark.sample(4)
def test_an_outgrown_reference_is_noticed_and_the_block_done_again(values, adverse, dtype):
    """The second time shows in the copies: each K and V tile is fetched twice."""
    key = AttentionKey(64, dtype, True, 1, "sm_90a")
    genome = genome_of(values, key)
    workload = AttentionWorkload(1, 1, 1, 40, 200, 64, dtype, causal=True)

    copies = {}
    for trial in ("equal_keys", adverse):
        first, *_ = CASES.run_clean(genome, key, workload, trial, seed=5)
        copies[trial] = sum(site.requests for site in first.sites if site.op == "cp_async_global")

    assert copies[adverse] > 1.5 * copies["equal_keys"]


@pytest.mark.parametrize("trial", ["falling", "saturated", "needles", "large_values", "outliers"])
@pytest.mark.parametrize("rescale", ["speculative", "sampled"])
def test_a_guess_of_the_maximum_is_right_on_adverse_inputs(rescale, trial):
    genome = genome_of({"rescale": rescale, "exp_form": "mul_sub"})
    workload = AttentionWorkload(1, 2, 1, 70, 130, 64, "fp16", causal=True)

    CASES.run_clean(genome, KEY, workload, trial, seed=5)


@pytest.mark.parametrize("seq_q", [9, 60])
def test_splits_without_a_key_weigh_nothing(seq_q):
    """40 keys are three tiles: five of eight splits are empty; of 60 queries the first 20 see nothing."""
    key = AttentionKey(64, "fp16", True, 1, "sm_90a")
    genome = genome_of({"kv_splits": 8, "block_n": 16, "k_stages": 2}, key)
    workload = AttentionWorkload(2, 2, 2, seq_q, 40, 64, "fp16", causal=True)

    launches = FAMILY.launches(genome, workload, H200)
    assert [launch.entry for launch in launches] == ["flash_mma", "flash_mma_combine"]
    CASES.run_clean(genome, key, workload, "normal", seed=5)


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
    CASES.run_clean(genome, KEY, workload, "normal", gpu=gpu, seed=5)


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
