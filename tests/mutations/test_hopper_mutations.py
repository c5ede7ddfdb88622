"""The operators for warpgroups on flash_wgmma's real space: what each changes, and when it is refused."""

import itertools
from functools import cache

import numpy as np
import pytest

from evoflash.gene_edits import largest, nearest, one_of, refit, set_back
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.space import Check, Genome, Param, SearchSpace, Value
from evoflash.specs import load_gpu
from evoflash.strategies.operators import operators

FAMILY, H200 = load_family("flash_wgmma"), load_gpu("h200")
OPERATORS = {operator.name: operator for operator in operators()}
GENERIC = {"nudge", "reset", "toggle_structure", "crossover", "two_genes"}  # they know no gene by name
GROUPED, WIDE = "b=1,h=8,hkv=2,s=2048,d=64,causal", "b=8,h=16,s=4096,d=128"
NAMED = [
    "add_consumer",
    "drop_consumer",
    "pair_row_tiles",
    "ctas_for_consumers",
    "keys_for_stages",
    "specialize_producer",
    "self_load",
    "shift_registers",
    "overlap_pv",
    "drop_overlap",
    "double_buffer_p",
    "take_turns",
    "end_turns",
    "pin_pv_wait",
    "poll_barriers",
    "p_to_registers",
    "p_to_smem",
    "split_kv_warpgroups",
    "join_kv_warpgroups",
    "multicast",
    "divide_keys_in_cluster",
    "merge_by_columns",
    "prefetch_query",
    "hand_out_pieces",
    "section_heads",
    "fill_rings",
    "fill_registers",
    "follow_max",
    "unpack_gqa",
    "split_tile",
]
BASE = {
    "consumers": 2, "producer": "warpgroup", "producer_registers": 24, "block_n": 64, "ctas_per_sm": 1,
    "k_stages": 2, "v_stages": 2, "overlap": "intra", "turns": "gemm",
}  # fmt: skip
BROAD = {**BASE, "block_n": 176}  # FlashAttention-3's at head_dim 128: at the wall of registers


@cache
def hopper(text: str) -> tuple[SearchSpace, tuple[Genome, ...]]:
    """A problem's space on the H200; seeds, meant for its shape or not, a walk from them, and random ones."""
    problem = parse_problem(text)
    space = FAMILY.space(problem.compile_keys(H200.arch), H200)
    seeds, rng = (space.genome(seed.values) for seed in FAMILY.seeds), np.random.default_rng(0)
    walk = list(dict.fromkeys(seed for seed in seeds if space.is_valid(seed)))
    while len(walk) < 60:
        parent = walk[int(rng.integers(len(walk)))]
        walk.append(OPERATORS["reset"].child([parent], space, rng) or parent)
    return space, (*walk, *(space.sample(rng) for _ in range(12)))


def moves(name: str, text: str, has: dict[str, Value]) -> list[dict[str, Value | None]]:
    """What the bare operator changes in one valid parent, each outcome once; None: the gene is gone."""
    space, _ = hopper(text)
    parent = space.genome(has)
    assert space.is_valid(parent), space.violations(parent)
    rng = np.random.default_rng(1)
    made = {OPERATORS[name].mutate([parent], space, rng) for _ in range(100)} - {None}
    return [difference(parent, child) for child in made if space.is_valid(child)]


def difference(parent: Genome, child: Genome) -> dict[str, Value | None]:
    before, after = parent.as_dict(), child.as_dict()
    return {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}


LONE = {"consumers": 1, "turns": "none"}
NO_OVERLAP = {"overlap": "none", "tile_parts": 1}
FREED = {"pv_wait": None}
BUFFERED = {"overlap": "buffered", **FREED}
SINGLE = {"overlap": "intra", "pv_wait": "pinned"}  # of what had a second P
PINNED = {"overlap": "intra", "pv_wait": "pinned", "tile_parts": None}
STEPPED, UNSTEPPED = {"tile_skip": "off"}, {"tile_skip": None}  # warpgroups may, or can not, sit out tiles
WHOLE, UNSPLIT = {"kv_splits": 1}, {"kv_splits": None}  # blocks of a grid may, or can not, divide the keys
TILED, UNTILED = {"rows_per_warpgroup": 64}, {"rows_per_warpgroup": None}  # or share them: keys are divided
SPLIT = {"schedule": "grid", "q_stages": None, "merge": "first", **WHOLE, **UNTILED, **UNSTEPPED}
PAIRED = {"rows_per_warpgroup": 128, "p_home": None}
FOLLOWED = {"rescale": "lazy", "lazy_tau": 8}
APART = {"cluster": 1, "cluster_use": None, "schedule": "grid"}
DIVIDED = {"cluster": 2, "cluster_use": "keys", "epilogue": "direct"}
IN_TURN, ON_DEMAND = {"schedule": "persistent", "q_stages": 2}, {"schedule": "dynamic", "q_stages": 2}
OFF_GRID = {"schedule": None, **UNSPLIT}
ALONE = {"schedule": "grid", "q_stages": None}
DEALT = {"combine_threads": 64, "epilogue": None}
PACKED = ({}, {"pack_gqa": "on"})
LONGER = (
    [(8, {"block_n": 32})],
    [(8, {}), (16, {})],
)  # splits that heads of their own, or packed, have room for
SIZES = (2, 4, 8, 16, 32, 64)
SECTIONS = [{"tile_order": "sections", "section_heads": size} for size in SIZES]
# Operator, what the parent has besides BASE, all that may come of it.
ROUNDED = {"sum_of": "rounded", "sum_tree": None}
SPECULATIVE = {"rescale": "speculative", **ROUNDED}
SAMPLED = {"rescale": "sampled", "sample": 2, **ROUNDED}
MOVES = [
    ("add_consumer", {}, [{"consumers": 3}, {"consumers": 4}]),
    ("add_consumer", {"block_n": 128}, [{"consumers": 3}, {"consumers": 4, "block_n": 64}]),
    (
        "add_consumer",
        LONE,
        [{"consumers": n, "turns": turns, **STEPPED} for n in (2, 3) for turns in ("none", "gemm")],
    ),
    ("add_consumer", {"consumers": 4}, []),
    ("drop_consumer", {}, [{"consumers": 1, "turns": None, "block_n": 256, **UNSTEPPED}]),
    ("drop_consumer", {"kv_groups": 2, "consumers": 4}, [{"consumers": 2, "block_n": 208}]),
    ("drop_consumer", LONE, []),
    (
        "pair_row_tiles",
        {},
        [PAIRED, {**PAIRED, "consumers": 1, "turns": None, **UNSTEPPED}],
    ),
    (
        "pair_row_tiles",
        {**NO_OVERLAP, "turns": "scores", "block_n": 128},
        [
            {**PAIRED, "turns": "none", "block_n": 112},
            {**PAIRED, "consumers": 1, "turns": None, **UNSTEPPED},
        ],
    ),
    ("pair_row_tiles", {"consumers": 4, "p_home": "smem"}, [{**PAIRED, "consumers": 2}]),
    (
        "pair_row_tiles",
        {"overlap": "buffered"},
        [{**PAIRED, **SINGLE}, {**PAIRED, **SINGLE, "consumers": 1, "turns": None, **UNSTEPPED}],
    ),
    ("pair_row_tiles", {"kv_groups": 2}, []),
    ("pair_row_tiles", {"rows_per_warpgroup": 128}, []),
    ("ctas_for_consumers", {}, [{"consumers": 1, "turns": None, "ctas_per_sm": 2, **UNSTEPPED}]),
    (
        "ctas_for_consumers",
        {**LONE, "ctas_per_sm": 2},
        [{"consumers": 2, "turns": "none", "ctas_per_sm": 1, **STEPPED}],
    ),
    (
        "ctas_for_consumers",
        {"cluster": 2},
        [{"consumers": 1, "turns": None, "ctas_per_sm": 2, **APART, **WHOLE, **UNSTEPPED}],
    ),
    ("ctas_for_consumers", LONE, []),
    ("specialize_producer", {"producer": "warp"}, [{"producer": "warpgroup", "producer_registers": 24}]),
    (
        "specialize_producer",
        {"producer": "self"},
        [
            {"producer": "warp", "schedule": "grid"},
            {"producer": "warpgroup", "producer_registers": 24, "schedule": "grid"},
        ],
    ),
    ("specialize_producer", {}, []),
    (
        "self_load",
        {"producer": "warp"},
        [
            {"producer": "self", "schedule": None},
            {"producer": "self", "schedule": None, "ctas_per_sm": 2},
        ],
    ),
    (
        "self_load",
        {"producer": "warp", "cluster": 2},
        [
            {"producer": "self", "cluster": 1, "cluster_use": None, **WHOLE},
            {"producer": "self", "cluster": 1, "cluster_use": None, "ctas_per_sm": 2, **WHOLE},
        ],
    ),
    ("self_load", {"producer": "warp", **DIVIDED},
     [{"producer": "self"}, {"producer": "self", "ctas_per_sm": 2}]),
    ("self_load", {"producer": "self"}, []),
    ("shift_registers", {}, [{"producer_registers": 32}]),
    (
        "shift_registers",
        {"producer_registers": 32},
        [{"producer_registers": 24}, {"producer_registers": 24, "block_n": 80}, {"producer_registers": 40}],
    ),
    ("shift_registers", {"producer": "warp"}, []),
    ("overlap_pv", {**NO_OVERLAP, "k_stages": 1}, [{**PINNED, "k_stages": 2}]),
    (
        "overlap_pv",
        {**NO_OVERLAP, "turns": "exp"},
        [{**PINNED}, {**PINNED, "turns": "gemm"}],
    ),
    ("overlap_pv", {}, []),
    (
        "drop_overlap",
        {},
        [
            {**NO_OVERLAP, **FREED, "block_n": 256},
            {**NO_OVERLAP, **FREED, "block_n": 256, "turns": "exp"},
            {**NO_OVERLAP, **FREED, "consumers": 3},
        ],
    ),
    (
        "drop_overlap",
        {"overlap": "buffered"},
        [
            *({**NO_OVERLAP, "block_n": 256, **turn} for turn in ({}, {"turns": "exp"})),
            *({**SINGLE, "block_n": 240, **turn} for turn in ({}, {"turns": "exp"})),
            *({**less, "consumers": 3} for less in (NO_OVERLAP, SINGLE)),
        ],
    ),
    ("drop_overlap", NO_OVERLAP, []),
    ("double_buffer_p", {}, [BUFFERED]),
    ("double_buffer_p", {"consumers": 4}, [{**BUFFERED, "block_n": 48}]),
    ("double_buffer_p", {"p_home": "smem"}, []),
    ("double_buffer_p", NO_OVERLAP, []),
    ("double_buffer_p", {"overlap": "buffered"}, []),
    (
        "take_turns",
        {},
        [{"turns": "exp"}, *({"turns": kind, **NO_OVERLAP, **FREED} for kind in ("exp", "scores"))],
    ),
    (
        "take_turns",
        {**NO_OVERLAP, "turns": "none"},
        [{"turns": "gemm"}, {"turns": "gemm", **PINNED}, {"turns": "exp"}, {"turns": "scores"}],
    ),
    (
        "take_turns",
        {"overlap": "buffered", "turns": "none"},
        [{"turns": "gemm"}, {"turns": "exp"}, *({"turns": kind, **NO_OVERLAP} for kind in ("exp", "scores"))],
    ),
    ("take_turns", LONE, []),
    ("end_turns", {}, [{"turns": "none"}]),
    ("end_turns", {"turns": "none"}, []),
    ("pin_pv_wait", {}, [{"pv_wait": "free"}]),
    ("pin_pv_wait", {"pv_wait": "free"}, [{"pv_wait": "pinned"}]),
    ("pin_pv_wait", NO_OVERLAP, []),
    ("poll_barriers", {}, [{"barrier_wait": "poll"}]),
    ("poll_barriers", {"barrier_wait": "poll"}, [{"barrier_wait": "sleep"}]),
    (
        "split_tile",
        {},
        [{**NO_OVERLAP, **FREED, "turns": "none", "tile_parts": count} for count in (2, 4)],
    ),
    (
        "split_tile",
        {**NO_OVERLAP, "turns": "none", "tile_parts": 2},
        [{"tile_parts": 1}, {"tile_parts": 4}],
    ),
    ("p_to_registers", {"p_home": "smem"}, [{"p_home": "registers"}]),
    ("p_to_registers", {}, []),
    ("p_to_smem", {}, [{"p_home": "smem", "block_n": 256}]),
    ("p_to_smem", NO_OVERLAP, []),
    ("p_to_smem", {"p_home": "smem"}, []),
    (
        "split_kv_warpgroups",
        {"schedule": "persistent"},
        [
            {"kv_groups": 2, **SPLIT},
            {"kv_groups": 2, "consumers": 4, **SPLIT},
            {"kv_groups": 4, "consumers": 4, **SPLIT},
        ],
    ),
    ("split_kv_warpgroups", {"kv_groups": 4, "consumers": 4}, []),
    (
        "split_kv_warpgroups",
        DIVIDED,
        [
            {"kv_groups": groups, **wider, **UNTILED}
            for groups, wider in ((2, {}), (2, {"consumers": 4}), (4, {"consumers": 4}))
        ],
    ),
    (
        "join_kv_warpgroups",
        {"kv_groups": 2},
        [
            {"kv_groups": 1, "merge": None, **TILED, **STEPPED},
            {"kv_groups": 1, "merge": None, "consumers": 1, "turns": None, **TILED},
        ],
    ),
    ("join_kv_warpgroups", {}, []),
    (
        "multicast",
        {"rescale": "speculative", "tile_order": "natural"},
        [
            {"cluster": count, "cluster_use": "multicast", **OFF_GRID, **FOLLOWED, **order}
            for count in (2, 4)
            for order in ({}, {"tile_order": "reversed"}, {"tile_order": "heads_first"})
        ],
    ),
    ("multicast", {"cluster": 4}, [{"cluster": 2}]),
    ("multicast", {"producer": "self"}, []),
    ("multicast", DIVIDED, []),
    (
        "divide_keys_in_cluster",
        {},
        [
            {"cluster": count, "cluster_use": use, "epilogue": "direct", **OFF_GRID, **UNSTEPPED}
            for count, use in ((2, "keys"), (4, "keys"), (4, "both"))
        ],
    ),
    ("divide_keys_in_cluster", DIVIDED,
     [{"cluster": 4}, {"cluster": 4, "cluster_use": "both"}, {**APART, **WHOLE, **STEPPED}]),
    ("divide_keys_in_cluster", {**DIVIDED, "producer": "self", "turns": "none"},
     [{"cluster": 4}, {"cluster": 1, "cluster_use": None, **WHOLE, **STEPPED}]),
    ("divide_keys_in_cluster", {"cluster": 2},
     [{**count, "cluster_use": use, "epilogue": "direct", **UNSTEPPED}
      for count, use in (({}, "keys"), ({"cluster": 4}, "keys"), ({"cluster": 4}, "both"))]),
    ("divide_keys_in_cluster", {"kv_groups": 4, "consumers": 4},
     [{"cluster": count, "cluster_use": use, "merge": None, "epilogue": "direct", **OFF_GRID}
      for count, use in ((2, "keys"), (4, "both"))]),
    ("divide_keys_in_cluster", {"kv_splits": 2, "kv_groups": 4, "consumers": 4},
     [{"cluster": count, "cluster_use": use, "merge": None, "epilogue": "direct", "combine_threads": None}
      | OFF_GRID for count, use in ((2, "keys"), (4, "both"))]),
    ("merge_by_columns", {"kv_groups": 2}, [{"merge": "columns", "epilogue": "direct"}]),
    ("merge_by_columns", {"kv_groups": 2, "merge": "columns", "epilogue": "direct"}, [{"merge": "first"}]),
    ("merge_by_columns", {"kv_groups": 2, "kv_splits": 2}, [{"merge": "columns"}]),
    ("merge_by_columns", {}, []),
    ("prefetch_query", {}, [{**word, **UNSPLIT} for word in (IN_TURN, ON_DEMAND)]),
    ("prefetch_query", {"cluster": 2}, [{**APART, **word} for word in (IN_TURN, ON_DEMAND)]),
    ("prefetch_query", {"rescale": "speculative"}, [{**word, **UNSPLIT} for word in (IN_TURN, ON_DEMAND)]),
    ("prefetch_query", {"schedule": "dynamic"}, [IN_TURN, {"q_stages": 2}]),
    ("prefetch_query", IN_TURN, []),
    ("prefetch_query", {"producer": "self"}, []),
    ("hand_out_pieces", {"tile_order": "sections"}, [{**ON_DEMAND, **UNSPLIT}]),
    ("hand_out_pieces", {}, [{**ON_DEMAND, **UNSPLIT, **order} for order in ({}, *SECTIONS)]),
    (
        "hand_out_pieces",
        {**IN_TURN, "rescale": "speculative", "tile_order": "sections"},
        [{"schedule": "dynamic"}],
    ),
    (
        "hand_out_pieces",
        {"kv_groups": 2, "tile_order": "sections"},
        [{"kv_groups": 1, "merge": None, **ON_DEMAND, **UNSPLIT, **TILED, **STEPPED}],
    ),
    ("hand_out_pieces", {"cluster": 2}, [{**APART, **ON_DEMAND, **o} for o in ({}, *SECTIONS)]),
    ("hand_out_pieces", {"schedule": "dynamic"}, []),
    ("hand_out_pieces", {"producer": "self"}, []),
    ("section_heads", {}, SECTIONS),
    (
        "section_heads",
        {"tile_order": "sections", "section_heads": 16},
        [{"section_heads": size} for size in (4, 8, 32, 64)],
    ),
    (
        "section_heads",
        {"tile_order": "sections", "section_heads": 2},
        [{"section_heads": 4}, {"section_heads": 8}],
    ),
    ("section_heads", {"cluster": 2}, []),
    (
        "go_persistent",
        {},
        [{"schedule": word, "q_stages": 1, **UNSPLIT} for word in ("persistent", "dynamic")],
    ),
    ("go_persistent", ON_DEMAND, [{"schedule": "persistent"}, {**ALONE, **WHOLE}]),
    ("split_kv", {}, [{"kv_splits": count, **DEALT, **packed} for count in (2, 4) for packed in PACKED]),
    (
        "split_kv",
        {"kv_splits": 16, "pack_gqa": "on"},
        [{"combine_threads": 128}, {"combine_threads": 256}, {"kv_splits": 8}],
    ),
    (
        "split_kv",
        {"kv_splits": 8, "k_stages": 4, "v_stages": 1, "pack_gqa": "on"},
        [
            {"combine_threads": 128},
            {"combine_threads": 256},
            {"kv_splits": 4},
            {"kv_splits": 16, "k_stages": 2},
        ],
    ),
    *(
        (
            "split_kv",
            has,
            [
                {"kv_splits": count, **DEALT, **packed, **alone, **shorter}
                for packed in PACKED
                for count, shorter in ((2, {}), (4, {}), *LONGER[bool(packed)])
            ],
        )
        for has, alone in ((ON_DEMAND, ALONE), ({"cluster": 2}, APART))
    ),
    (
        "reverse_order",
        {},
        [{"tile_order": "natural"}, {"tile_order": "heads_first"}, *SECTIONS],
    ),
    (
        "swap_scheduler",
        ON_DEMAND,
        [
            {**order, **grid}
            for order in ({"tile_order": "natural"}, {"tile_order": "heads_first"}, *SECTIONS)
            for grid in ({**ALONE, **WHOLE}, {"schedule": "persistent"})
        ],
    ),
    ("keys_for_stages", {}, []),  # there is room for either: other operators' moves
    ("fill_rings", {}, [{"k_stages": 4, "v_stages": 4}]),
    ("fill_rings", {"k_stages": 4, "v_stages": 3}, []),
    ("fill_registers", {}, [{"block_n": 240}]),
    ("fill_registers", {"block_n": 224}, []),
    (
        "follow_max",
        {"rescale": "speculative", **ON_DEMAND},
        [{"rescale": "lazy", "lazy_tau": 8}],
    ),
    ("follow_max", {"rescale": "lazy"},
     [{"rescale": "online", "lazy_tau": None, "sum_of": None, "sum_tree": 1}]),
    ("follow_max", {}, []),
    ("skip_max", {"schedule": "persistent"}, [SPECULATIVE, SAMPLED]),
    ("skip_max", ON_DEMAND, [SPECULATIVE, SAMPLED]),
    ("skip_max", {"rescale": "sampled", "sample": 2},
     [{"sample": 4}, {"rescale": "speculative", "sample": None}]),
    (
        "skip_max",  # a redo takes registers
        {"consumers": 4, "block_n": 48, "q_home": "registers", "producer_registers": 32},
        [{**SPECULATIVE, "block_n": 32}, {**SAMPLED, "block_n": 32}],
    ),
    (
        "skip_max",  # and a log
        {**ON_DEMAND, **NO_OVERLAP, "block_n": 208, "k_stages": 4, "v_stages": 1, "p_home": "smem"},
        [{**SPECULATIVE, "block_n": 192}, {**SAMPLED, "block_n": 192}],
    ),
    ("skip_max", {"cluster": 2}, [{**SPECULATIVE, **APART, **WHOLE}, {**SAMPLED, **APART, **WHOLE}]),
    (
        "unpack_gqa",
        {"pack_gqa": "on"},
        [{"pack_gqa": "off"}, {"pack_gqa": "off", "tile_order": "heads_first"}],
    ),
    ("unpack_gqa", {}, []),
    ("cheaper_mask", {}, [{"tile_skip": which} for which in ("half", "on", "both")]),
    ("cheaper_mask", {"tile_skip": "on"}, [{"tile_skip": "both"}]),
    ("cheaper_mask", {"tile_skip": "both"}, []),
    ("cheaper_mask", DIVIDED, []),
    (
        "l2_hints",
        {},
        [*({"l2_hints": hint} for hint in ("keep_kv", "keep_kv_drop_q", "drop_kv")), {"l2_promotion": 128}],
    ),
]  # fmt: skip
THREE = {"block_n": 144}  # where one ring has a third stage
AT_THE_WALL = [
    # the same beside BROAD, at head_dim 128, where registers and shared memory bind
    ("double_buffer_p", {}, [{**BUFFERED, "block_n": 144}]),
    ("add_consumer", {}, [{"consumers": 3, "block_n": 80}]),
    (
        "specialize_producer",
        {"producer": "self", "block_n": 112},
        [
            {"producer": "warp", "schedule": "grid", "block_n": 96},
            {"producer": "warpgroup", "producer_registers": 24, "schedule": "grid"},
        ],
    ),
    ("shift_registers", {"block_n": 192}, [{"producer_registers": 32, "block_n": 176}]),
    ("p_to_smem", {}, [{"p_home": "smem", "block_n": 192, "v_stages": 1}]),
    (
        "split_kv_warpgroups",
        {},
        [{"kv_groups": 2, "merge": "first", "block_n": 128, "v_stages": 1, **UNTILED}],
    ),
    ("prefetch_query", {}, [{**word, "block_n": 160, **UNSPLIT} for word in (IN_TURN, ON_DEMAND)]),
    (
        "hand_out_pieces",
        {"rescale": "speculative", "tile_order": "sections"},
        [{**ON_DEMAND, "block_n": 160, **UNSPLIT}],
    ),
    (
        "keys_for_stages",
        {"overlap": "none", "block_n": 192},
        [
            {"k_stages": 1, "block_n": 256},
            {"v_stages": 1, "block_n": 256},
            {"k_stages": 1, "v_stages": 1, "block_n": 256},
            {"k_stages": 3, **THREE},
            {"v_stages": 3, **THREE},
            {"k_stages": 3, "v_stages": 3, "block_n": 128},
        ],
    ),
    ("fill_registers", {}, []),
    ("fill_rings", {}, []),
]


def same(one: list[dict[str, Value | None]], other: list[dict[str, Value | None]]) -> bool:
    return sorted(str(sorted(d.items())) for d in one) == sorted(str(sorted(d.items())) for d in other)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "has", "all_of_it"), MOVES, ids=[f"{m[0]}-{m[1]}" for m in MOVES])
@pytest.mark.sample(41)
def test_a_move_makes_all_that_it_promises_and_nothing_else(name, has, all_of_it) -> None:
    got = moves(name, GROUPED, {**BASE, **has})
    assert same(got, all_of_it), got


@pytest.mark.slow
@pytest.mark.parametrize(("name", "has", "all_of_it"), AT_THE_WALL, ids=[m[0] for m in AT_THE_WALL])
@pytest.mark.sample(4)
def test_a_move_at_the_wall_makes_the_tile_pay_or_is_refused(name, has, all_of_it) -> None:
    got = moves(name, WIDE, {**BROAD, **has})
    assert same(got, all_of_it), got


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.sample(10)
def test_a_named_operator_finds_something_to_do_in_both_spaces_or_says_why_not(name: str) -> None:
    for text in (GROUPED, WIDE):
        space, walk = hopper(text)
        rng = np.random.default_rng(3)
        made = [OPERATORS[name].mutate([parent], space, rng) for parent in walk]
        pairs = [(parent, child) for parent, child in zip(walk, made, strict=True) if child]
        # Valid without the repair that a search would try, and never the parent again.
        assert all(child != parent and space.is_valid(child) for parent, child in pairs)
        assert any(made) or (name, text) == ("unpack_gqa", WIDE)  # no heads to unpack there


@pytest.mark.slow
def test_every_value_of_a_structural_gene_is_reached_by_an_operator_that_knows_what_it_does() -> None:
    space, walk = hopper(GROUPED)
    wanted = {(name, value) for name in FAMILY.structural for value in space.param(name).values}
    rng = np.random.default_rng(5)
    named = [operator for name, operator in OPERATORS.items() if name not in GENERIC]
    for operator, parent in itertools.product(named, walk):
        child = operator.mutate([parent], space, rng)
        wanted -= set(difference(parent, child).items()) if child else set()
    assert not wanted


def test_the_other_families_are_left_to_the_operators_that_they_had() -> None:
    problem, gpu = parse_problem("b=1,h=8,s=512,d=64,causal"), load_gpu("l4")
    family = load_family("flash_mma")
    space, rng = family.space(problem.compile_keys(gpu.arch), gpu), np.random.default_rng(0)
    parents = [*family.seeds_for(problem, space, gpu), *(space.sample(rng) for _ in range(8))]
    for name, parent in itertools.product(sorted(set(NAMED) - {"follow_max"}), parents):
        assert OPERATORS[name].mutate([parent], space, rng) is None, name


ROOM = SearchSpace(
    "room",
    (Param("a", (1, 2, 3, 4)), Param("b", (1, 2, 3, 4, 5, 6)), Param("c", (1, 2, 3, 4, 5, 6)),
     Param("on", ("no", "yes"))),
    checks=(Check("sum", lambda v: 2 * v["a"] + v["b"] + v["c"] <= 14),),
    when={"on": lambda v: v["a"] > 1},
)  # fmt: skip
FULL = ROOM.genome({"a": 1, "b": 6, "c": 6})


def test_the_nearest_child_takes_the_fewest_steps_and_the_first_gene_first() -> None:
    for slack, expected in ((("b", "c"), (2, 6)), (("c", "b"), (6, 2)), (("b",), (2, 6))):
        values = nearest(FULL, ROOM, {"a": 3}, slack).as_dict()
        assert (values["a"], values["b"], values["c"]) == (3, *expected)
    both = nearest(FULL, ROOM, {"a": 4}, ("b", "c")).as_dict()
    assert both["b"] + both["c"] == 6


def test_the_nearest_child_needs_no_step_where_none_is_asked_and_there_may_be_none() -> None:
    free = ROOM.genome({"a": 1, "b": 2, "c": 2})
    assert difference(free, nearest(free, ROOM, {"a": 3}, ("b", "c"))) == {"a": 3, "on": "no"}
    assert nearest(FULL, ROOM, {"a": 4}, ("b",)) is None  # one gene alone cannot give so much
    assert nearest(FULL, ROOM, {"elsewhere": 1}, ("b",)) is None
    assert nearest(FULL, ROOM, {"a": 2}, ("elsewhere",)) is None


def test_the_largest_child_fills_what_the_changes_leave() -> None:
    assert difference(FULL, largest(FULL, ROOM, {"a": 2, "c": 5}, "b")) == {
        "a": 2,
        "on": "no",
        "c": 5,
        "b": 5,
    }
    assert largest(FULL, ROOM, {"a": 4, "c": 6}, "b") is None
    assert largest(FULL, ROOM, {"a": 2}, "elsewhere") is None


def test_refit_tries_the_other_options_before_it_gives_up() -> None:
    options = [None, {}, {"a": 4}, {"a": 2}]
    made = {refit(FULL, ROOM, np.random.default_rng(s), options, slack=("b",)) for s in range(20)}
    assert made == {nearest(FULL, ROOM, {"a": 2}, ("b",))}
    assert refit(FULL, ROOM, np.random.default_rng(0), [None, {"a": 4}], slack=("b",)) is None


def test_one_of_several_children_each_in_turn_and_none_of_none() -> None:
    other = ROOM.genome({"a": 1})
    assert {one_of([None, FULL, other], np.random.default_rng(s)) for s in range(20)} == {FULL, other}
    assert one_of([None], np.random.default_rng(0)) is None


def test_set_back_names_only_what_stands_elsewhere() -> None:
    assert set_back(FULL, a=1, b=2, on="yes") == {"b": 2}
