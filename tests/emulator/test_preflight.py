"""The pre-flight set: random kernels of the family pass it, and mistakes planted in a real kernel do not."""

from dataclasses import replace

import numpy as np
import pytest

from evoflash.attention import inputs
from evoflash.attention.loop import kv_tiles
from evoflash.attention.shapes import shapes
from evoflash.attention.workload import CompileKey, Workload
from evoflash.compilers import gxx
from evoflash.emulator.preflight import emulate, preflight
from evoflash.evaluation import Candidate, Status
from evoflash.families.family import load_family
from evoflash.families.renderer import render
from evoflash.gpu import load_gpu
from evoflash.operation import Loop

FAMILY, GPU = load_family("flash_mma"), load_gpu("l4")
KEYS = (
    CompileKey(64, "fp16", False, 1, "sm_89"),
    CompileKey(64, "bf16", True, 1, "sm_89"),
    CompileKey(128, "fp16", True, 4, "sm_89"),
    CompileKey(128, "bf16", False, 2, "sm_89"),
)
# A pipeline with every kind of barrier, padded rows, lazy rescaling and a staged output.
VALUES = {
    "warps": 2,
    "block_n": 32,
    "waits": "separate",
    "k_stages": 2,
    "v_stages": 2,
    "q_home": "smem",
    "rescale": "lazy",
    "epilogue": "staged",
}


def planted(key: CompileKey, *edits: tuple[str, str]) -> Candidate:
    """The kernel with pieces of its text replaced; each piece must be there."""
    candidate = render(FAMILY.space((key,), GPU).genome(VALUES), key, GPU)
    source = candidate.source
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    return replace(candidate, source=source)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_random_genomes_pass_without_a_report(key):
    space, rng = FAMILY.space((key,), GPU), np.random.default_rng(key.head_dim)
    for seed in range(5):
        genome = space.sample(rng)
        found = preflight(render(genome, key, GPU), FAMILY, GPU, seed=seed)
        assert found.complaint == "", genome
        assert all(verdict.passed for verdict in found.verdicts)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_the_shapes_wrap_every_ring_and_stay_small(key):
    long, _, short, *_ = shapes(key, Loop(rows=64, keys=32, stages=3, splits=1))

    assert max(kv_tiles(long, 64, 32)) >= 2 * 3 + 1
    assert long.seq_kv % 32
    assert long.seq_q % 64
    assert short.seq_kv < 32
    assert long.batch * long.kv_heads == 1


def test_an_intact_kernel_is_the_control():
    assert preflight(planted(KEYS[1]), FAMILY, GPU, seed=0).complaint == ""


@pytest.mark.parametrize(
    ("edits", "status", "says"),
    [
        ([("ef::syncthreads();  // K tile j is here", "// K tile j is here")], Status.RUNTIME, "race"),
        ([("ef::syncthreads();  // V tile j is here", "// V tile j is here")], Status.RUNTIME, "race"),
        ([("ef::cp_async_wait<2 * (kStagesK - 1)>();", "")], Status.RUNTIME, "async"),
        ([("fetch_v(j + kStagesV - 1);", "fetch_v(j + kStagesV);")], Status.RUNTIME, ""),
        (
            [
                (
                    "ef::cp_async16_zfill(chunk_at(tile, row, chunk), source, first + row < rows)",
                    "ef::cp_async16(chunk_at(tile, row, chunk), source)",
                ),
            ],
            Status.RUNTIME,
            "OOB-global",
        ),
        ([("% 2 >= limit", "% 2 > limit")], Status.CORRECTNESS, ""),
        ([("row_sum[t][h] *= shrink;", "")], Status.CORRECTNESS, ""),
        (
            [("for (int j = 0; j < tiles; ++j)", "for (int j = 0; j < tiles - (tiles > 3); ++j)")],
            Status.RUNTIME,
            "async-at-exit",
        ),
        ([("k_row, tile", "k_row, 1 + tile")], Status.CORRECTNESS, ""),
        ([("if (block_row + tile_row < seq_q)\n", "")], Status.RUNTIME, "OOB-global"),
        (
            [
                (
                    "const u32 v_ring = k_ring + kStagesK * kTileBytes;",
                    "const u32 v_ring = k_ring + kStagesK * kTileBytes + 256;",
                )
            ],
            Status.RUNTIME,
            "OOB-shared",
        ),
        ([("quad_sum(row_sum[t][h])", "row_sum[t][h]")], Status.CORRECTNESS, ""),
        (
            [
                (
                    "return ef::fmax(x, ef::shfl_xor(x, 2));",
                    "return lane_zero() ? ef::fmax(x, ef::shfl_xor(x, 2)) : x;",
                ),
                (
                    "EF_DEV float quad_max",
                    "EF_DEV bool lane_zero() { return threadIdx.x % 32 == 0; }\nEF_DEV float quad_max",
                ),
            ],
            Status.RUNTIME,
            "divergence",
        ),
    ],
)
def test_a_planted_mistake_is_found(edits, status, says):
    found = preflight(planted(KEYS[1], *edits), FAMILY, GPU, seed=0)

    assert found.complaint, "the mistake went unnoticed"
    assert found.status is status, found.complaint
    assert says in found.complaint


DRIFTS = {  # genomes that rescale at every key or tile: a shrink that is not exactly 1 adds up there
    "flash_simt": {"lanes_per_row": 8, "softmax": "online_per_key", "vec": 8},
    "flash_wmma": {"block_n": 16},
    "flash_mma": {"block_n": 16, "warps": 2},
    "flash_direct": {"block_n": 16, "key_warps": 1},
    "flash_cluster": {"block_n": 32, "tile_parts": 1},
}


@pytest.mark.parametrize("name", DRIFTS)
def test_a_maximum_that_stays_shrinks_its_row_by_nothing(name):
    workload, family = Workload(1, 1, 1, 20, 331, 128), load_family(name)
    key = workload.compile_key(GPU.arch)
    genome = family.space((key,), GPU).genome(DRIFTS[name])
    library = gxx.build(render(genome, key, GPU).source, name=name)
    trial = inputs.draw("saturated", workload, seed=3)

    _, verdict = emulate(
        library,
        family.launches(genome, workload, GPU),
        workload,
        trial.name,
        delivery="eager",
        schedule="fifo",
        seed=3,
    )

    assert verdict.passed, verdict.reason
    assert verdict.honest_ratio < 1.3
