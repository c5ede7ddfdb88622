"""The family flash_wmma: golden texts, random kernels in the emulator, planted mistakes, checks."""

from dataclasses import replace

import numpy as np
import pytest
from gene_cases import cases_of
from nvrtc_texts import compiled

from evoflash.emulator.preflight import preflight
from evoflash.evaluation import Candidate
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import lint, render
from evoflash.kernels.standalone import export_kernel
from evoflash.operations.attention.workload import AttentionKey
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

KERNELS = cases_of("flash_wmma").said["kernel"]
FAMILY, L4, H200 = load_family("flash_wmma"), load_gpu("l4"), load_gpu("h200")
FULL = AttentionKey(64, "fp16", False, 1, "sm_89")
CAUSAL = AttentionKey(80, "bf16", True, 4, "sm_90a")
# The ladder's first tensor-core kernel, the best hand-written shape, and a warp that is alone with its rows.
PLAIN, SHARED, ALONE, IN_MEMORY = (KERNELS[name] for name in ("plain", "shared", "alone", "in_memory"))
GOLDEN = {
    "plain": (FULL, L4, PLAIN),
    "shared": (FULL, L4, SHARED),
    "alone_causal": (CAUSAL, H200, ALONE),
    "in_memory": (CAUSAL, H200, IN_MEMORY),
}


def kernel(key, gpu, values, *edits: tuple[str, str]) -> Candidate:
    """The rendered kernel with pieces of its text replaced; each piece must be there."""
    candidate = render(FAMILY.space((key,), gpu).genome(values), key, gpu)
    source = candidate.source
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    return replace(
        candidate, source=source, source_sha=candidate.source_sha + "".join(new for _, new in edits)
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_the_rendered_kernel_is_the_golden_one(name, golden):
    golden(f"flash_wmma-{name}.cu", kernel(*GOLDEN[name]).source)


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.sample(2)
def test_the_golden_kernels_pass_the_emulator(name):
    gpu = GOLDEN[name][1]

    assert preflight(kernel(*GOLDEN[name]), FAMILY, gpu, seed=1).complaint == ""


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.sample(1)
def test_the_golden_kernels_compile_without_spills(name):
    build = compile_candidate(kernel(*GOLDEN[name]))

    assert build.ok, build.log
    assert build.spill_bytes == 0


@pytest.mark.cover
@pytest.mark.parametrize("head_dim", [16, 48, 80, 128, 256])
@pytest.mark.parametrize(("dtype", "causal", "gqa"), [("fp16", True, 1), ("bf16", False, 2)])
@pytest.mark.sample(1)
def test_random_genomes_are_clean_text_and_pass_the_emulator(head_dim, dtype, causal, gqa):
    key = AttentionKey(head_dim, dtype, causal, gqa, "sm_90a")
    space, rng = FAMILY.space((key,), H200), np.random.default_rng(head_dim)
    for seed in range(2):
        genome = space.sample(rng)
        candidate = render(genome, key, H200)
        assert lint(candidate.source) == ()
        assert "{{" not in candidate.source
        assert preflight(candidate, FAMILY, H200, seed=seed).complaint == "", genome


@pytest.mark.parametrize("head_dim", range(16, 257, 16))
def test_every_head_dim_has_a_kernel_on_a_small_gpu(head_dim):
    key = AttentionKey(head_dim, "fp16", False, 1, "sm_89")
    small = {**PLAIN, "block_m": 16, "block_n": 16, "warps_n": 1, "pv": "wmma", "o_home": "smem"}

    assert FAMILY.space((key,), L4).violations(FAMILY.space((key,), L4).genome(small)) == ()


@pytest.mark.parametrize("name", [seed.name for seed in FAMILY.seeds])
def test_the_seeds_are_valid_where_their_gpu_has_room(name):
    (seed,) = (seed for seed in FAMILY.seeds if seed.name == name)
    space = FAMILY.space((replace(FULL, arch="sm_90a"),), H200)

    assert space.violations(space.genome(seed.values)) == ()


def test_the_estimate_of_shared_memory_is_what_the_kernel_touches():
    """One granule less and the emulator sees an access beyond the end."""
    for key, gpu, values in GOLDEN.values():
        candidate = kernel(key, gpu, values)
        text = candidate.source.replace("ef::smem_base()", "ef::smem_base() + 32")
        assert "OOB-shared" in preflight(replace(candidate, source=text), FAMILY, gpu, seed=0).complaint


def test_a_fragment_loaded_by_columns_and_declared_by_rows_does_not_compile():
    edit = ("ef::wmma_b_col<element> b;", "ef::wmma_b_row<element> b;")

    assert not compile_candidate(kernel(FULL, L4, SHARED, edit)).ok


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.sample(1)
def test_the_exported_file_compiles_without_an_include_path(name):
    key, gpu, values = GOLDEN[name]
    problem = parse_problem(
        f"b=1,h=8,hkv={8 // key.gqa_ratio},s=512,d={key.head_dim},dtype={key.dtype}"
        + (",causal" if key.causal else "")
    )
    text = export_kernel(FAMILY.space((key,), gpu).genome(values), problem, gpu)

    compiled(text, gpu.arch)
    for unused in ("mma_m16n8k16", "ldmatrix", "bar_arrive"):
        assert unused not in text
