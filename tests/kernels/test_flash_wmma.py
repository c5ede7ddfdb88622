"""The family flash_wmma: golden texts, random kernels in the emulator, planted mistakes, checks."""

from dataclasses import replace

import numpy as np
import pytest

from evoflash.emulator.preflight import preflight
from evoflash.evaluation import Candidate, Status
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import lint, render
from evoflash.kernels.standalone import export_kernel
from evoflash.operations.attention.workload import AttentionKey
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

FAMILY, L4, H200 = load_family("flash_wmma"), load_gpu("l4"), load_gpu("h200")
FULL = AttentionKey(64, "fp16", False, 1, "sm_89")
CAUSAL = AttentionKey(80, "bf16", True, 4, "sm_90a")
# The ladder's first tensor-core kernel, the best hand-written shape, and a warp that is alone with its rows.
PLAIN = {
    "block_m": 32,
    "block_n": 32,
    "rows_per_warp": 16,
    "warps_n": 2,
    "pv": "scalar",
    "softmax": "serial",
    "copy": "sync",
    "vec": 4,
    "epilogue": "plain",
}
SHARED = {
    "block_m": 48,
    "block_n": 32,
    "rows_per_warp": 16,
    "warps_n": 2,
    "pv": "wmma",
    "softmax": "shuffle",
    "lanes_per_row": 4,
    "copy": "async_cg",
    "vec": 16,
    "stages": 2,
    "o_home": "registers",
    "pad": 16,
    "epilogue": "vectorised",
}
ALONE = {
    **SHARED,
    "warps_n": 1,
    "rows_per_warp": 16,
    "sync": "warp",
    "waits": "separate",
    "stages": 3,
    "q_home": "fragments",
    "o_home": "fragments",
    "rescale": "lazy",
    "epilogue": "streaming",
}
IN_MEMORY = {
    **SHARED,
    "copy": "sync",
    "k_layout": "transposed",
    "o_home": "smem",
    "softmax": "serial",
    "q_home": "fragments",
}
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
def test_the_golden_kernels_pass_the_emulator(name):
    gpu = GOLDEN[name][1]

    assert preflight(kernel(*GOLDEN[name]), FAMILY, gpu, seed=1).complaint == ""


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_kernels_compile_without_spills(name):
    build = compile_candidate(kernel(*GOLDEN[name]))

    assert build.ok, build.log
    assert build.spill_bytes == 0


@pytest.mark.cover
@pytest.mark.parametrize("head_dim", [16, 48, 80, 128, 256])
@pytest.mark.parametrize(("dtype", "causal", "gqa"), [("fp16", True, 1), ("bf16", False, 2)])
@pytest.mark.sample(2)
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


@pytest.mark.parametrize(
    ("values", "check"),
    [
        ({"rows_per_warp": 32}, "rows_fill_warps"),
        ({"block_n": 48}, "columns_fill_warps"),
        ({"pad": 8}, "rows_aligned"),
        ({"lanes_per_row": 32}, "lanes_fill_rows"),
        ({"vec": 8}, "copy_is_possible"),
        ({"block_m": 128, "warps_n": 4, "block_n": 64}, "warps_in_block"),
    ],
)
def test_a_named_check_refuses_what_cannot_work(values, check):
    space = FAMILY.space((FULL,), L4)

    assert check in space.violations(space.genome({**SHARED, **values}))


def test_bf16_rows_may_be_padded_by_half_of_what_f16_rows_need():
    space = FAMILY.space((replace(FULL, dtype="bf16"),), L4)

    assert space.violations(space.genome({**SHARED, "pad": 8})) == ()


def test_sums_in_half_precision_are_refused():
    space = FAMILY.space((replace(FULL, accumulate="fp16"),), L4)

    assert space.violations(space.genome(SHARED)) == ("sums_in_float",)


def test_the_estimate_of_shared_memory_is_what_the_kernel_touches():
    """One granule less and the emulator sees an access beyond the end."""
    for key, gpu, values in GOLDEN.values():
        candidate = kernel(key, gpu, values)
        text = candidate.source.replace("ef::smem_base()", "ef::smem_base() + 32")
        assert "OOB-shared" in preflight(replace(candidate, source=text), FAMILY, gpu, seed=0).complaint


@pytest.mark.parametrize(
    ("values", "edit", "status", "says"),
    [
        pytest.param(
            SHARED,
            ("ef::syncthreads();  // the scores are here", ""),
            Status.RUNTIME,
            "race",
            id="softmax before the scores",
        ),
        pytest.param(
            SHARED,
            ("ef::syncthreads();  // the probabilities are here", ""),
            Status.RUNTIME,
            "race",
            id="P V before the probabilities",
        ),
        pytest.param(
            SHARED,
            ("ef::syncthreads();  // the product is here", ""),
            Status.RUNTIME,
            "uninit",
            id="output before the product",
        ),
        pytest.param(
            SHARED,
            ("ef::syncthreads();  // tile j is here", "// tile j is here"),
            Status.RUNTIME,
            "race",
            id="tile not handed over",
        ),
        pytest.param(SHARED, ("ef::cp_async_wait<0>();", ""), Status.RUNTIME, "async", id="no wait"),
        pytest.param(
            SHARED,
            ("fetch(j + kStages - 1);", "fetch(j + kStages);"),
            Status.RUNTIME,
            "",
            id="ring one too far",
        ),
        pytest.param(
            ALONE,
            ("ef::cp_async_wait<4>();\n    grew", "grew"),
            Status.RUNTIME,
            "async",
            id="V not waited for",
        ),
        pytest.param(
            ALONE,
            ("ef::syncwarp();  // the scores are here", ""),
            Status.RUNTIME,
            "race",
            id="a warp races with itself",
        ),
        pytest.param(
            ALONE, ("if (grew) {", "if (grew && j > 0) {"), Status.CORRECT, "", id="nothing to shrink yet"
        ),
        pytest.param(
            ALONE,
            ("if (grew) {", "if (grew && j < 2) {"),
            Status.CORRECTNESS,
            "",
            id="shrinks the first tiles only",
        ),
        pytest.param(
            IN_MEMORY,
            ("ef::syncwarp();  // WMMA does not say which", "// WMMA does not say which"),
            Status.RUNTIME,
            "race-WAR",
            id="overwritten while read",
        ),
        pytest.param(
            IN_MEMORY,
            ("ef::wmma_load_b_row(b, k_tile", "ef::wmma_load_b_row(b, v_tile"),
            Status.RUNTIME,
            "uninit",
            id="V for K",
        ),
        pytest.param(
            SHARED,
            ("ef::wmma_b_col<element> b;", "ef::wmma_b_row<element> b;"),
            None,
            "",
            id="loaded by columns, declared by rows",
        ),
        pytest.param(
            SHARED,
            (
                "ef::wmma_fill(product[m][d], 0.0f);",
                "ef::wmma_fill(product[m][d], 0.0f), product[m][d].x[0] = threadIdx.x % 32 < 4 ? 1.f : 0.f;",
            ),
            Status.CORRECTNESS,
            "",
            id="as if the layout were known",
        ),
        pytest.param(
            PLAIN,
            ("column + 1 < columns ?", "column + 1 <= columns ?"),
            Status.CORRECTNESS,
            "",
            id="one key too many",
        ),
        pytest.param(
            PLAIN,
            ("o[r][c][e] *= shrink;", "o[r][c][e] *= 1.0f;"),
            Status.CORRECTNESS,
            "",
            id="never shrinks",
        ),
        pytest.param(
            PLAIN,
            ("ef::syncthreads();  // every warp has left tile j", ""),
            Status.RUNTIME,
            "race",
            id="tile overwritten while read",
        ),
    ],
)
def test_a_planted_mistake_is_found(values, edit, status, says):
    candidate = kernel(FULL, L4, values, edit)
    if status is None:
        assert not compile_candidate(candidate).ok
        return
    found = preflight(candidate, FAMILY, L4, seed=0)

    assert found.status is status, found.complaint
    assert says in found.complaint


@pytest.mark.parametrize("name", GOLDEN)
def test_the_exported_file_compiles_without_an_include_path(name):
    from cupy.cuda import nvrtc

    key, gpu, values = GOLDEN[name]
    problem = parse_problem(
        f"b=1,h=8,hkv={8 // key.gqa_ratio},s=512,d={key.head_dim},dtype={key.dtype}"
        + (",causal" if key.causal else "")
    )
    text = export_kernel(FAMILY.space((key,), gpu).genome(values), problem, gpu)
    program = nvrtc.createProgram(text, "kernel.cu", [], [])

    nvrtc.compileProgram(program, ["-std=c++17", f"-arch={gpu.arch}"])
    for unused in ("mma_m16n8k16", "ldmatrix", "bar_arrive"):
        assert unused not in text
