"""What flash_wgmma alone has: pieces of work, redone blocks, tiles and keys that are divided."""

from dataclasses import replace

import numpy as np
import pytest
from gene_cases import cases_of
from tables import table_of_cases

from evoflash.emulator.call import EmulatorRun, run_call
from evoflash.emulator.preflight import preflight
from evoflash.kernels import gxx
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.launch import TensorMapSpec
from evoflash.numerics import decode, encode
from evoflash.operations.attention.inputs import AttentionInputs
from evoflash.operations.attention.reference import expect
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.problem import parse_problem

CASES = cases_of("flash_wgmma")
FAMILY, H200, KEY, genome_of = CASES.family, CASES.gpu, CASES.key, CASES.genome
ALONE = replace(KEY, gqa_ratio=1)
FULL = replace(ALONE, causal=False)
WIDE = AttentionKey(128, "bf16", False, 1, "sm_90a")
TWO_TILES = {"rows_per_warpgroup": 128, "block_n": 32}  # of keys as many as fit at a head_dim of 128


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


def test_divided_keys_make_more_blocks_of_fewer_rows():
    workload = AttentionWorkload(1, 8, 8, 512, 512, 64)
    grids = [
        FAMILY.launches(genome_of({"consumers": 4, "overlap": "none", "kv_groups": groups}), workload, H200)
        for groups in (1, 2, 4)
    ]

    assert [launch.grid for (launch,) in grids] == [(2, 8, 1), (4, 8, 1), (8, 8, 1)]
    assert len({launch.block for (launch,) in grids}) == 1


@pytest.mark.cover
@pytest.mark.parametrize("schedule", ["persistent", "dynamic"])
@pytest.mark.parametrize("sms", [1, 3, 5, 200])
@pytest.mark.sample(1)
def test_blocks_share_all_pieces_of_work_whatever_the_gpu_holds(schedule, sms):
    """Grids are multiples of the batch: some blocks are too many. Every row outgrows its first tile."""
    workload = AttentionWorkload(3, 4, 2, 300, 300, 64, causal=True)
    gpu = replace(H200, sm_count=sms)
    values = {"rescale": "speculative", "tile_order": "sections", "section_heads": 8}
    genome = genome_of({"schedule": schedule, **values}, gpu=gpu)

    assert FAMILY.launches(genome, workload, gpu)[0].grid[0] * 3 >= min(sms, 3 * 4 * 3)
    CASES.run_clean(genome, KEY, workload, "rising", gpu=gpu, seed=sms)


@pytest.mark.parametrize("epilogue", ["staged", "direct"])
@pytest.mark.sample(1)
def test_a_block_may_have_more_pieces_of_work_than_it_can_note(epilogue):
    """What does not fit its log is done exactly at once; of the rest, what overflows is done again."""
    workload, gpu = AttentionWorkload(1, 65, 65, 129, 61, 64, causal=True), replace(H200, sm_count=1)
    values = {"schedule": "dynamic", "q_stages": 2, "rescale": "speculative", "block_n": 32}
    genome = genome_of({**values, "epilogue": epilogue}, ALONE)

    assert FAMILY.launches(genome, workload, gpu)[0].grid == (1, 1, 1)
    CASES.run_clean(genome, ALONE, workload, "spikes", gpu=gpu, delivery="eager", schedule="fifo")


@pytest.mark.parametrize(("ratio", "causal"), [(1, False), (4, True)])
@pytest.mark.sample(1)
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
@pytest.mark.sample(1)
def test_a_warpgroup_of_two_tiles_owns_twice_the_rows_and_fetches_as_many_keys(consumers, overlap):
    workload, key = AttentionWorkload(1, 2, 2, 768, 128, 64), replace(KEY, causal=False, gqa_ratio=1)
    counted = {}
    for rows in (64, 128):
        values = {"consumers": consumers, "overlap": overlap, "rows_per_warpgroup": rows, "turns": "none"}
        genome = genome_of({**values, "block_n": 32}, key)
        (launch,) = FAMILY.launches(genome, workload, H200)
        assert launch.grid == (768 // (rows * consumers), 2, 1)
        assert launch.maps[0].box == (1, 1, 64, 64)
        (emulation,) = CASES.run_clean(genome, key, workload, "rising", seed=rows)
        counted[rows] = emulation.counters

    assert counted[128]["wgmma_macs"] == counted[64]["wgmma_macs"]
    once = 2 * 2 * 768 * 128  # Q and O of two heads
    assert 2 * (counted[128]["tma_bytes"] - once) == counted[64]["tma_bytes"] - once


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


BUFFERED = {"overlap": "buffered", "rescale": "speculative", "schedule": "dynamic", "q_stages": 2}


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("schedule", ["dynamic", "grid"])
@pytest.mark.sample(1)
def test_a_second_p_takes_turns_with_the_first_whatever_the_tiles(schedule, causal):
    """One to five tiles, the last not whole: what the loop of two steps leaves over."""
    key = replace(KEY, gqa_ratio=1, causal=causal)
    genome = genome_of({**BUFFERED, "schedule": schedule}, key)
    for tiles in range(1, 6):
        workload = key.workload(1, 2, 64 * tiles, 64 * tiles - 7)
        CASES.run_clean(genome, key, workload, "rising", delivery="lazy", seed=tiles)


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


@table_of_cases(tuples=True)
@pytest.mark.parametrize("more", [{}, {"schedule": "grid", "kv_splits": 4}], ids=["dynamic", "split"])
@pytest.mark.sample(2)
def test_a_warpgroup_multiplies_the_tiles_that_its_rows_see_and_no_others(seq_q, seq_kv, own, more):
    workload, products = ALONE.workload(1, 1, seq_q, seq_kv), {}
    for name in ("off", "on"):
        genome = genome_of({**SKIPPING, **more, "tile_skip": name}, ALONE)
        first, *_ = CASES.run_clean(genome, ALONE, workload, "rising", delivery="lazy")
        products[name] = first.counters["wgmma"]

    assert products["on"] * 4 * max(own) == products["off"] * sum(own)


@pytest.mark.parametrize("rescale", ["online", "speculative"])
@pytest.mark.parametrize("sms", [1, 5])
@pytest.mark.sample(1)
def test_rings_and_turns_stay_in_step_when_warpgroups_sit_out_tiles_of_piece_after_piece(rescale, sms):
    """Query blocks of uneven ends, some with rows that see nothing."""
    workload = AttentionWorkload(2, 2, 2, 600, 560, 64, causal=True)
    genome, gpu = genome_of({**SKIPPING, "rescale": rescale}, ALONE), replace(H200, sm_count=sms)

    CASES.run_clean(genome, ALONE, workload, "rising", gpu=gpu, seed=sms)


HALVING = {"tile_skip": "half", "block_n": 128, "rescale": "online"}


@table_of_cases()
@pytest.mark.parametrize("more", [{}, {"schedule": "dynamic", "rescale": "speculative", "sum_of": "exact"}])
@pytest.mark.sample(3)
def test_a_warpgroup_multiplies_half_of_a_last_tile_of_which_its_rows_see_no_more(
    seq_q, seq_kv, scores, values, more
):
    """How many warpgroups multiply half as many keys, and half as many values."""
    workload, products = ALONE.workload(1, 1, seq_q, seq_kv), {}
    for name in ("off", "half"):
        genome = genome_of({**HALVING, **more, "tile_skip": name}, ALONE)
        first, *_ = CASES.run_clean(genome, ALONE, workload, "normal", delivery="lazy")
        products[name] = first.counters["wgmma_macs"]

    assert products["off"] - products["half"] == (scores + values) * 64 * 64 * 64


@pytest.mark.parametrize("values", [{}, {"tile_skip": "both", "consumers": 3, "block_n": 96}])
@pytest.mark.parametrize("rescale", ["lazy", "speculative"])
@pytest.mark.sample(1)
def test_rings_and_turns_stay_in_step_when_warpgroups_take_half_a_tile_of_piece_after_piece(rescale, values):
    """Query blocks of uneven ends, some with rows that see nothing; packed heads: one query has two rows."""
    workload, gpu = AttentionWorkload(2, 4, 2, 330, 290, 64, causal=True), replace(H200, sm_count=3)
    more = {"rescale": rescale, "schedule": "dynamic", "q_stages": 2, "pack_gqa": "on"}

    CASES.run_clean(
        genome_of({**HALVING, **more, **values}, KEY, gpu), KEY, workload, "rising", gpu=gpu, seed=3
    )


@pytest.mark.parametrize(
    "missing",
    ["take_turn();", "pass_turn(j);", "release(k_empty + 8 * k_slot, lane);", "ef::wgmma_wait<1>();"],
)
@pytest.mark.sample(2)
def test_what_is_missing_in_the_step_of_half_a_tile_is_noticed(missing):
    candidate = render(genome_of({**HALVING, "schedule": "dynamic"}, ALONE), ALONE, H200)
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


@pytest.mark.slow
def test_registers_move_only_as_far_as_there_are_some():
    """setmaxnreg waits for ever when the pool of the block is too small."""
    rng, seen, space = np.random.default_rng(3), 0, FAMILY.space((KEY,), H200)
    for _ in range(8):
        genome = space.sample(rng)
        names = FAMILY.names(genome.as_dict(), KEY, H200)
        if names["producer"] != "warpgroup":
            continue
        threads, ctas, consumers = (names[n] for n in ("threads", "ctas_per_sm", "consumers"))
        entry = 65536 // (threads * ctas) // 8 * 8  # as ptxas rounds it
        used = names["kept_regs"] + consumers * names["consumer_regs"]
        assert used <= entry * (consumers + 1)
        seen += 1
    assert seen > 2


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


ALONE_IN_KEYS = {"cluster_use": "keys", "epilogue": "direct", "producer": "self", "turns": "none"}


@pytest.mark.parametrize(
    ("values", "grid", "cluster", "rows"),
    [
        ({"tile_order": "heads_first"}, (8, 4, 2), (1, 4, 1), [64, 16, 16, 64]),  # each fetches a part
        (ALONE_IN_KEYS, (12, 8, 2), (4, 1, 1), [64, 64, 64]),  # they divide the keys of the same rows
        ({"cluster_use": "both", "epilogue": "direct"}, (8, 8, 2), (4, 1, 1), [64, 32, 32]),  # pairs: both
    ],
    ids=["tiles", "keys", "both"],
)
def test_blocks_of_a_cluster_share_tiles_or_divide_the_keys(values, grid, cluster, rows):
    workload = AttentionWorkload(2, 8, 8, 300, 400, 64, causal=True)
    (launch,) = FAMILY.launches(genome_of({"cluster": 4, **values}), workload, H200)

    assert (launch.grid, launch.cluster) == (grid, cluster)
    assert [each.box[2] for each in launch.maps] == rows


SPLIT = {"kv_splits": 8, "block_n": 32, "rescale": "speculative"}


@pytest.mark.parametrize("values", [{}, {"rescale": "online"}, {"producer": "self", "turns": "none"}])
@pytest.mark.parametrize("seq_q", [9, 60])
@pytest.mark.sample(3)
def test_splits_without_a_key_weigh_nothing(seq_q, values):
    """40 keys are two tiles: six of eight splits are empty; of 60 queries the first 20 see nothing."""
    genome, workload = genome_of({**SPLIT, **values}, ALONE), ALONE.workload(2, 2, seq_q, 40)
    launches = FAMILY.launches(genome, workload, H200)

    assert [launch.entry for launch in launches] == ["flash_wgmma", "flash_wgmma_combine"]
    CASES.run_clean(genome, ALONE, workload, "normal", seed=seq_q)


@pytest.mark.cover
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("rescale", ["online", "lazy", "sampled", "speculative"])
@pytest.mark.parametrize("trial", ["rising", "saturated", "needles"])
@pytest.mark.sample(2)
def test_a_query_of_packed_heads_over_many_keys_is_put_together_again(trial, rescale, dtype):
    """997 keys are 16 tiles, the last one of 37: each of eight blocks has two. Some must do theirs again."""
    key = AttentionKey(128, dtype, True, 4, "sm_90a")
    values = {"kv_splits": 8, "rescale": rescale, "pack_gqa": "on", "consumers": 1, "turns": "none"}
    genome, workload = genome_of(values, key), key.workload(2, 2, 1, 997)

    assert FAMILY.launches(genome, workload, H200)[0].grid == (8, 2, 2)
    CASES.run_clean(genome, key, workload, trial, delivery="lazy", seed=3)


def outputs(genome, workload, q, k, v):
    """What the first launch counted, O as it came out of launches without a report, and the right one."""
    trial = AttentionInputs("given", *(encode(x.astype(np.float32), "fp16") for x in (q, k, v)))
    library = gxx.build(render(genome, FULL, H200).source, name="flash_wgmma")
    run = EmulatorRun("lazy", "fifo", 1, 60.0)
    emulations, output = run_call(library, FAMILY.launches(genome, workload, H200), workload, trial, run)
    assert [each.reports for each in emulations if each.reports] == []
    right = np.asarray(expect(workload, trial, where=every_row(workload)).rows["O"].right)
    return emulations[0], decode(output.tensors["O"], "fp16").reshape(-1), right.reshape(-1)


def test_only_the_split_that_outgrows_its_reference_is_done_again():
    """The last tile of four outweighs the rest: the products of the block that has it double."""
    values = {"kv_splits": 2, "rescale": "speculative", "consumers": 1, "turns": "none", "overlap": "none"}
    genome, workload = genome_of(values, FULL), AttentionWorkload(1, 1, 1, 16, 256, 64)
    rng, products = np.random.default_rng(1), []
    for far in (100, 250):  # in the second tile of the first split; in the second tile of the second one
        q, k, v = (rng.standard_normal((1, 1, rows, 64)) for rows in (16, 256, 256))
        for ahead in (0, 8):
            q[0, 0, 5] = ahead * k[0, 0, far]
            emulation, got, right = outputs(genome, workload, q, k, v)
            assert np.abs(got - right).max() < 5e-3
            products.append(emulation.counters["wgmma"])

    calm, twice = products[0], products[1]
    assert products == [calm, twice, calm, twice]
    assert twice * 2 == calm * 3


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


@pytest.mark.parametrize("values", [{"cluster": 2}, {"schedule": "persistent"}, {"schedule": "dynamic"}])
def test_keys_are_split_where_a_block_is_alone_and_has_one_query_block(values):
    genome = genome_of({**values, "kv_splits": 4}).as_dict()

    assert not {"kv_splits", "combine_threads"} & genome.keys()
    assert genome["epilogue"] == "staged"


def test_persistent_blocks_are_no_more_than_the_gpu_holds():
    workload = AttentionWorkload(4, 16, 16, 4096, 4096, 64)
    (launch,) = FAMILY.launches(genome_of({"schedule": "persistent"}), workload, H200)

    assert launch.grid == (33, 1, 4)


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
        genome = genome_of(values, FULL)
        for _ in range(12):
            k[0, 0, 100] = rng.uniform(2.0, 4.0)  # 4 to 8 ahead: weights up to 2900
            v = 1 + rng.random((1, 1, 128, 64))
            _, got, right = outputs(genome, workload, q, k, v)
            ideal = decode(encode(right.astype(np.float32), "fp16"), "fp16")
            found.append(float(np.abs(got - ideal).sum()))

    assert sum(errors["rounded"]) < sum(errors["exact"]) / 2


@pytest.mark.parametrize(
    ("row", "tiles"),
    [(5, {}), (13, {}), (5, TWO_TILES), (69, TWO_TILES), (77, {**TWO_TILES, "sum_of": "exact"})],
)
@pytest.mark.parametrize("schedule", ["grid", "dynamic"])
@pytest.mark.sample(5)
def test_one_row_that_outgrows_its_reference_has_its_block_done_again(schedule, row, tiles):
    """Neither the first lane's rows nor, at 13 and 77, the first eight: each thread's check of either tile of
    rows must count.
    """
    workload = AttentionWorkload(1, 1, 1, row // 16 * 16 + 16, 128, 64)
    values = {"rescale": "speculative", "consumers": 1, "turns": "none", "schedule": schedule}
    genome = genome_of({**values, "block_n": 64, "overlap": "none", **tiles}, FULL)
    rng = np.random.default_rng(row)
    q, k, v = (rng.standard_normal((1, 1, rows, 64)) for rows in (workload.seq_q, 128, 128))
    q[0, 0, row] = 8 * k[0, 0, 100]  # some 60 ahead in the second tile: beyond what 16 bits hold

    _, got, right = outputs(genome, workload, q, k, v)

    assert np.abs(got - right).max() < 5e-3
