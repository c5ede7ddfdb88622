"""What flash_direct alone has: kernels for small GPUs too, packed heads, parts in shared memory."""

from dataclasses import replace

import pytest
from gene_cases import cases_of

from evoflash.emulator.preflight import preflight
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.specs import load_gpu

CASES = cases_of("flash_direct")
FAMILY, H200, KEY, genome_of = CASES.family, CASES.gpu, CASES.key, CASES.genome
WIDE = AttentionKey(128, "bf16", False, 1, "sm_90a")
NARROW = {"block_n": 16, "max_tree": 1, "sum_tree": 1}  # fits everywhere, head_dim 128 included
COMMON, EXCHANGE = {"merge": "common"}, {"merge": "exchange"}


@pytest.mark.cover
@pytest.mark.parametrize("gpu", ["a100", "l4", "h200"])
@pytest.mark.parametrize(("dtype", "causal", "gqa"), [("fp16", False, 1), ("bf16", True, 4)])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("key_warps", [1, 4])
@pytest.mark.sample(2)
def test_each_kind_of_kernel_runs_clean_on_each_gpu(gpu, dtype, causal, gqa, head_dim, key_warps):
    spec = load_gpu(gpu)
    key = AttentionKey(head_dim, dtype, causal, gqa, spec.arch)
    genome = genome_of({**NARROW, "row_warps": 2, "key_warps": key_warps}, key, spec)

    assert CASES.complaint(genome, key, gpu=spec, seed=3) == ""


def test_the_parts_of_many_warps_may_be_more_than_a_small_gpu_has():
    gpu, key = load_gpu("l4"), replace(WIDE, arch="sm_89")
    space = FAMILY.space((key,), gpu)
    genome = space.genome({**CASES.said["base"], **NARROW, "row_warps": 4, "key_warps": 4})

    assert set(space.violations(genome)) == {"regs_fit", "smem_fits_block", "smem_fits_sm"}


@pytest.mark.cover
@pytest.mark.parametrize("name", [seed.name for seed in FAMILY.seeds])
@pytest.mark.parametrize("gpu", ["a100", "l4", "h200"])
@pytest.mark.sample(2)
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


def test_packed_heads_take_a_share_of_the_loads():
    """Four heads of the same keys and values: one pass over them in place of four."""
    key, workload = replace(KEY, gqa_ratio=4), AttentionWorkload(1, 4, 1, 16, 256, 64, "fp16", causal=True)
    loads = {}
    for pack in ("off", "on"):
        genome = genome_of({"row_warps": 4, "pack_gqa": pack}, key)
        (emulation,) = CASES.run_clean(genome, key, workload, "normal", seed=5, is_strided=True)
        loads[pack] = sum(site.requests for site in emulation.sites if site.op == "ldg")
    assert loads["on"] < loads["off"] / 2


def test_the_grid_follows_rows_heads_and_packing():
    workload = AttentionWorkload(2, 8, 4, 100, 300, 64, "fp16", causal=True)
    grids = {}
    for pack in ("off", "on"):
        (launch,) = FAMILY.launches(genome_of({"row_warps": 2, "pack_gqa": pack}), workload, H200)
        grids[pack] = (launch.grid, launch.block)

    assert grids == {"off": ((4, 8, 2), (128, 1, 1)), "on": ((7, 4, 2), (128, 1, 1))}


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
