"""The pre-flight set: random kernels pass it, and strides that are mixed up do not."""

from dataclasses import replace

import numpy as np
import pytest
from tables import data, table_of_cases

from evoflash.emulator.call import _strided_layout
from evoflash.emulator.preflight import CPU_LIMIT_S, check_finalist, cpu_limit_s, emulate, preflight
from evoflash.kernels import gxx
from evoflash.kernels.family import families_for, load_family
from evoflash.kernels.renderer import render
from evoflash.launch import LaunchConfig
from evoflash.operation import Loop, operation_of
from evoflash.operations.attention import inputs
from evoflash.operations.attention.check_shapes import hidden_workloads
from evoflash.operations.attention.preflight_runs import drawn_runs, finalist_runs, preflight_runs
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.specs import load_gpu

FAMILY, GPU = load_family("flash_mma"), load_gpu("l4")
KEYS = (
    AttentionKey(64, "fp16", False, 1, "sm_89"),
    AttentionKey(64, "bf16", True, 1, "sm_89"),
    AttentionKey(128, "fp16", True, 4, "sm_89"),
    AttentionKey(128, "bf16", False, 2, "sm_89"),
)
# A pipeline with every kind of barrier, padded rows, lazy rescaling and a staged output.
VALUES = data(__file__, "VALUES")


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.sample(1)
def test_random_genomes_pass_without_a_report(key, request):
    """Two genomes of each kind, under --full five."""
    space, rng = FAMILY.space((key,), GPU), np.random.default_rng(key.head_dim)
    for seed in range(5 if request.config.getoption("--full") else 2):
        genome = space.sample(rng)
        found = preflight(render(genome, key, GPU), FAMILY, GPU, seed=seed)
        assert found.complaint == "", genome
        assert all(verdict.passed for verdict in found.verdicts)


LOOPS = (
    Loop(rows=64, keys=32, stages=3, splits=1),
    Loop(rows=64, keys=32, stages=2, splits=4),
    Loop(rows=128, keys=128, stages=2, splits=1, most_ctas=132, noted_pieces=128),
    Loop(rows=16, keys=32, stages=1, splits=1, emulation_cost=45),
)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: f"{loop.rows}x{loop.keys}")
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_the_shapes_are_those_that_the_loop_makes_special(key, loop):
    runs = preflight_runs(key, loop)
    shapes = [run.workload for run in runs]
    long, whole = (run.workload for run in runs if run.is_counted)
    tiles = [-(-shape.seq_kv // loop.keys) for shape in shapes]

    assert -(-long.seq_kv // loop.keys) > 2 * loop.stages * loop.splits
    assert long.seq_kv % loop.keys
    assert long.seq_q % loop.rows
    assert (long.batch, long.kv_heads, whole.seq_q) == (1, 1, long.seq_q)
    assert any(shape.seq_kv < loop.keys for shape in shapes)
    square = [shape for shape in shapes if shape.seq_q == shape.seq_kv > loop.keys]
    assert any(shape.seq_q % loop.rows == 0 and shape.seq_q > loop.rows for shape in square)
    assert any(run.is_strided and run.workload.batch > 1 for run in runs)
    assert any(run.is_strided and run.workload.kv_heads > 1 for run in runs)
    assert {"needles", "lone_spikes", "zero_keys", "heavy_hidden"} < {run.inputs for run in runs}
    if key.causal:  # a row sees all of a tile but its last key: of a split's first tile, and of its second
        pairs = {shape.seq_kv for shape in shapes if shape.seq_q == 2}
        assert {(2 * loop.splits - 1) * loop.keys, 2 * loop.splits * loop.keys} <= pairs
    if loop.splits > 3:
        shares = [-(-many // loop.splits) for many in tiles]
        assert any(
            share > 1 and share * (loop.splits - 1) >= many for share, many in zip(shares, tiles, strict=True)
        )
    if loop.emulation_cost == 1:
        assert max(tiles) > 2 * loop.stages * loop.splits + 1


@pytest.mark.parametrize("splits", [1, 2, 4, 16])
@pytest.mark.parametrize("key", KEYS[:3], ids=str)
def test_a_heavy_key_is_hidden_at_the_end_of_each_part_of_a_tile_that_is_not_the_first_of_its_split(
    key, splits
):
    loop = Loop(rows=128, keys=64, stages=2, splits=splits, pack=key.gqa_ratio, part_keys=16)
    shapes = [run.workload for run in preflight_runs(key, loop) if run.inputs == "heavy_hidden"]

    diagonal = loop.rows // loop.pack - 64 // loop.pack if key.causal else 0
    hidden = [shape.seq_kv - shape.seq_q + diagonal + 1 if key.causal else shape.seq_kv for shape in shapes]
    assert {at % loop.keys for at in hidden} == {15, 31, 47, 63}
    for shape, at in zip(shapes, hidden, strict=True):
        tiles = -(-shape.seq_kv // loop.keys)
        share = -(-tiles // splits)
        assert at // loop.keys % share > 0


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: f"{loop.rows}x{loop.keys}")
def test_two_large_groups_of_query_heads_are_run_whole_once_or_as_small_ones(loop):
    key = replace(KEYS[2], gqa_ratio=32)
    runs = preflight_runs(key, loop)
    heads = [run.workload.heads for run in runs]
    pairs = [run.workload for run in runs if run.shrunk == ("kGqaRatio",)]

    # Whole, or as two groups of two heads.
    assert heads.count(2 * key.gqa_ratio) + len(pairs) == 1
    assert all((shape.heads, shape.kv_heads) == (4, 2) for shape in pairs)
    assert sum(heads) < 4 * key.gqa_ratio
    assert all(
        run.workload.gqa_ratio == key.gqa_ratio for run in preflight_runs(key, loop, whole_groups=True)
    )


DEAR = replace(LOOPS[0], rows=256, keys=128, splits=8)


@pytest.mark.parametrize("loop", [*LOOPS, DEAR], ids=lambda loop: f"{loop.rows}x{loop.keys}x{loop.splits}")
def test_a_kernel_for_single_heads_meets_two_of_them_and_no_other_ratio(loop):
    key = replace(KEYS[2], gqa_ratio=1)
    runs = preflight_runs(key, loop)

    assert {run.workload.gqa_ratio for run in runs} == {1}
    assert max(run.workload.heads for run in runs) >= 2


@pytest.mark.parametrize("loop", [*LOOPS, DEAR], ids=lambda loop: f"{loop.rows}x{loop.keys}x{loop.splits}")
def test_each_candidate_meets_shapes_of_its_own(loop):
    key = KEYS[2]
    seen = [drawn_runs(key, loop, seed=seed) for seed in range(60)]

    assert drawn_runs(key, loop, seed=3) == seen[3] != seen[4]
    ragged = [run.workload for runs in seen for run in runs if run.is_brief]
    assert {shape.seq_kv % 16 for shape in ragged} == set(range(16))
    others = [run.workload for runs in seen for run in runs if not run.is_brief]
    assert len({(shape.batch, shape.heads, shape.seq_q, shape.seq_kv) for shape in others}) > 30
    assert max(shape.batch * shape.heads // loop.pack for shape in others) <= 40


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: f"{loop.rows}x{loop.keys}")
def test_a_finalist_meets_every_tail_many_heads_many_keys_and_many_rows(loop):
    runs = finalist_runs(KEYS[0], loop, seed=1)
    ragged = [run.workload.seq_kv for run in runs if run.is_brief]
    shapes = [run.workload for run in runs if not run.is_brief]

    assert {length % loop.keys for length in ragged} == set(range(loop.keys))
    assert any(shape.batch == 2 and shape.heads // loop.pack == 41 for shape in shapes)
    assert any(shape.batch * shape.heads * shape.seq_q > 1 << 16 for shape in shapes)
    assert any(shape.seq_kv > 5000 for shape in shapes)


def test_a_finalist_of_a_cluster_that_divides_a_tile_ends_in_each_block_of_it():
    """Not on every number of keys that a whole cluster has: thousands of runs, half a second each."""
    loop = Loop(rows=8, keys=64, stages=2, splits=1, pack=4, cluster=16, shares=1, most_ctas=132)
    runs = finalist_runs(KEYS[0], loop, seed=1)
    ragged = [run.workload.seq_kv for run in runs if run.is_brief]

    assert {length % 64 for length in ragged} == set(range(64))
    assert {length // 64 for length in ragged if length % 64 == 1} >= set(range(2, 32))
    assert max(ragged) <= 2 * 16 * 64
    assert len(runs) < 200


DECODES = [
    Loop(rows=4, keys=64, stages=2, splits=1, pack=4, cluster=team, shares=1, most_ctas=132, emulation_cost=8)
    for team in (1, 2, 8, 16)
]


@pytest.mark.parametrize("loop", DECODES, ids=lambda loop: f"clusters of {loop.cluster}")
def test_a_gpu_sees_in_hidden_shapes_what_is_too_dear_for_a_finalist_of_a_decode_family(loop):
    key = KEYS[2]
    hidden = hidden_workloads([key], seed=1)
    left = [run.workload for run in finalist_runs(key, loop, seed=1) if run.is_left_to_gpu]

    assert left
    for shape in left:
        assert any(
            other.batch >= shape.batch and other.heads * other.seq_q >= shape.heads * shape.seq_q
            for other in hidden
        )


@pytest.mark.parametrize(
    "loop", [each for each in LOOPS if each.splits == 1], ids=lambda x: f"{x.rows}x{x.keys}"
)
def test_blocks_of_many_rows_leave_nothing_to_a_gpu(loop):
    assert not any(run.is_left_to_gpu for run in finalist_runs(KEYS[0], loop, seed=1))


def test_many_rows_in_the_parts_of_splits_are_left_to_a_gpu():
    loop = Loop(rows=128, keys=64, stages=2, splits=4)
    *others, last = finalist_runs(replace(KEYS[0], head_dim=128), loop, seed=1)
    assert last.is_left_to_gpu
    assert last.workload.heads * last.workload.seq_q > 1 << 16
    assert not any(run.is_left_to_gpu for run in others)


def test_a_finalist_of_large_clusters_is_not_emulated_on_what_a_gpu_sees():
    gpu = load_gpu("h100")
    key, family = replace(KEYS[2], causal=False, arch=gpu.arch), load_family("decode_dense")
    candidate = render(family.space((key,), gpu).genome({"team": 16}), key, gpu)
    loop = family.loop(family.names(candidate.genome.as_dict(), key, gpu))
    runs = finalist_runs(key, loop, seed=1)
    assert runs[-1].is_left_to_gpu
    last = next(run for run in reversed(runs) if not run.is_left_to_gpu)

    found = check_finalist(candidate, family, gpu, seed=1, part=(0, len(runs)), has_gpu=True)

    assert [verdict.workload for verdict in found.verdicts] == [str(last.workload)]


@pytest.mark.parametrize("has_gpu", [False, True])
def test_a_finalist_meets_more_batches_than_8_bits_count(has_gpu):
    key = KEYS[0]
    candidate = render(FAMILY.space((key,), GPU).genome({}), key, GPU)
    before, after = "batch = blockIdx.z", "batch = int(blockIdx.z) % 256"
    assert before in candidate.source
    wrong = replace(candidate, source=candidate.source.replace(before, after))
    runs = finalist_runs(key, FAMILY.loop(FAMILY.names(candidate.genome.as_dict(), key, GPU)), seed=1)
    number = [run.workload.batch > 256 for run in reversed(runs)].index(True)

    found = check_finalist(wrong, FAMILY, GPU, seed=1, part=(number, len(runs)), has_gpu=has_gpu)

    assert "b=257" in found.complaint


def test_the_time_limit_goes_by_the_work():
    launch, small = LaunchConfig("k", (2, 4, 1), (128, 1, 1), 0), KEYS[2].workload(1, 1, 9, 64)

    assert cpu_limit_s((launch,), small) == CPU_LIMIT_S
    assert cpu_limit_s((replace(launch, grid=(20, 64, 1)),), small) > 5 * CPU_LIMIT_S
    large = replace(small, heads=64, kv_heads=2, seq_q=960, seq_kv=960)
    assert cpu_limit_s((launch,), large) > 5 * CPU_LIMIT_S
    assert cpu_limit_s((replace(launch, grid=(1 << 30, 1, 1)),), small) <= 30 * CPU_LIMIT_S


HOPPER, H200 = load_family("flash_wgmma"), load_gpu("h200")
SPECULATIVE = data(__file__, "SPECULATIVE")
DRIFTS = data(__file__, "DRIFTS")


@pytest.mark.parametrize("name", DRIFTS)
@pytest.mark.sample(3)
def test_a_maximum_that_stays_shrinks_its_row_by_nothing(name):
    workload, family = AttentionWorkload(1, 1, 1, 20, 331, 128), load_family(name)
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


@pytest.mark.parametrize("name", [family.name for family in families_for(load_gpu("h200"))])
def test_headers_say_which_heads_share_a_cta_and_which_ctas_take_piece_after_piece(name):
    family = load_family(name)
    gpu = next(gpu for gpu in map(load_gpu, ("l4", "h200")) if family.supports(gpu))
    key = replace(KEYS[2], arch=gpu.arch)
    space = family.space((key,), gpu)
    names = {param.name for param in space.params}

    for pack in ("off", "on") if "pack_gqa" in names else ("",):
        genome = space.genome({"pack_gqa": pack} if pack else {})
        known = family.names(genome.as_dict(), key, gpu)
        shares_keys = pack == "on" or name == "decode_dense"
        assert family.loop(known).pack == (key.gqa_ratio if shares_keys else 1)
    if "schedule" in names:
        known = family.names(space.genome({"schedule": "persistent"}).as_dict(), key, gpu)
        assert family.loop(known).most_ctas == known["slots"]


@pytest.mark.parametrize(("parts", "groups"), [(1, 1), (2, 1), (4, 1), (1, 2)])
def test_the_header_says_how_many_keys_are_masked_at_a_time(parts, groups):
    key = AttentionKey(64, "fp16", False, 1, "sm_90a")
    values = {**SPECULATIVE, "tile_parts": parts, "kv_groups": groups, "consumers": groups}
    known = HOPPER.names(HOPPER.space((key,), H200).genome(values).as_dict(), key, H200)
    loop = HOPPER.loop(known)

    assert (loop.keys, loop.part_keys) == (64 * groups, 64 // parts)


STRIDED = {
    "flash_mma": (KEYS[1], VALUES),
    "flash_simt": (KEYS[0], {}),
    "flash_wmma": (KEYS[3], {}),
    "decode_dense": (KEYS[2], {}),
}


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.parametrize("tensor", "QKVO")
@pytest.mark.sample(2)
def test_a_stride_that_is_cut_to_32_bits_or_taken_from_another_tensor_is_found(name, tensor):
    key, values = STRIDED[name]
    family = load_family(name)
    candidate = render(family.space((key,), GPU).genome(values), key, GPU)
    entry = f"long long {tensor.lower()}_batch"
    assert entry in candidate.source
    before, after = candidate.source.split(entry, 1)
    head, body = after.split("{", 1)
    other = {"Q": "o", "K": "v", "V": "k", "O": "q"}[tensor]
    batch = f"{tensor.lower()}_batch"

    for value in (f"int({batch})", f"{other}_batch"):
        renamed = body.replace(batch, "cut_batch")
        text = f"{before}{entry}{head}{{\n  const long long cut_batch = {value};{renamed}"
        assert preflight(replace(candidate, source=text), family, GPU, seed=0).complaint, value


FAR, MOST_BYTES = 1 << 32, 1 << 31


@table_of_cases()
def test_32_bits_do_not_count_the_elements_of_a_strided_tensor_along_any_axis_that_may_be_long(shape, axes):
    batch, heads, rows, head_dim = shape
    workload = AttentionWorkload(batch, heads, heads, rows, rows, head_dim)
    specs = operation_of(workload).tensors(workload)

    for spec in specs[:4]:
        strides, size = _strided_layout(spec, is_far=True)
        lengths = [strides[axis] * (spec.shape[axis] - 1) for axis in range(4)]
        assert [axis for axis in range(4) if lengths[axis] > FAR] == axes[spec.name]
        assert 2 * strides[2] < MOST_BYTES
        assert size > sum(lengths)


def test_tensors_of_many_heads_are_no_further_apart_than_a_tensor_map_takes():
    workload = AttentionWorkload(2, 130, 130, 3, 3, 64)
    for spec in operation_of(workload).tensors(workload):
        if spec.spread:
            strides, _ = _strided_layout(spec, is_far=True)
            assert 2**31 < 2 * max(strides) < 2**40, spec.name


@pytest.mark.parametrize("keys", [1, 2, 4])
def test_a_loop_that_takes_a_few_keys_at_a_time_has_runs_too(keys):
    loop = Loop(rows=64, keys=keys, stages=1, splits=1)

    for key in KEYS:
        assert preflight_runs(key, loop)
        assert all(drawn_runs(key, loop, seed=seed) for seed in range(8))
        assert finalist_runs(key, loop, seed=0)
