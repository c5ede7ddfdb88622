"""How a genome fills a GPU before it is compiled, worked out by hand for flash_mma on an L4 of 58 SMs."""

import pytest

from evoflash.app.search.plan import plan
from evoflash.kernels.family import load_family
from evoflash.perf_model import proportions_on
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

FAMILY, L4 = load_family("flash_mma"), load_gpu("l4")
TILE = {"warps": 4, "rows_per_warp": 16, "block_n": 64, "waits": "joint", "k_stages": 2, "layout": "xor128"}


def of(problem: str, **values: object) -> dict[str, float]:
    parsed = parse_problem(problem)
    space = FAMILY.space(parsed.compile_keys(L4.arch), L4)
    found = proportions_on(parsed, FAMILY, L4)
    return dict(zip(found.names, found.of(space.genome({**TILE, **values})), strict=True))


def test_the_busiest_sm_has_two_of_64_ctas_and_one_of_48() -> None:
    # 8 heads of 512 queries: 64 CTAs of 64 rows; or 48 of 96 rows, whose 12 warps share the keys in pairs.
    small, large = of("mission"), of("mission", warps=12, kv_split_warps=2)

    assert small == pytest.approx(
        {
            "products": 16,  # 2 CTAs, 8 steps, 64 rows, 64 keys
            "products_of_a_warp": 13,
            "warps": 3,
            "steps": 3,
            "rows": 6,
            "items": 6,
            "shared_bytes": 16.322,  # 2 CTAs of 40 KB: Q, and two slots of K and of V
            "launches": 1,
        },
        abs=0.01,
    )
    assert large["products"] == pytest.approx(15.585, abs=0.001)  # 4 steps, 96 rows, 128 keys
    assert large["steps"] == 2


def test_keys_divided_over_the_grid_are_two_launches_and_no_less_work_where_they_take_turns() -> None:
    # 128 CTAs of 4 steps; 116 of them fit on the GPU, the others come after.
    one, two = of("mission"), of("mission", kv_splits=2)

    assert (one["launches"], two["launches"]) == (1, 2)
    assert two["products"] == one["products"]


def test_of_several_workloads_it_is_the_mean() -> None:
    both = of("mission+seed_long")

    for name, value in both.items():
        assert value == pytest.approx((of("mission")[name] + of("seed_long")[name]) / 2)


def test_a_search_knows_the_proportions_of_each_of_its_families() -> None:
    planned = plan(
        gpu="l4", problem="mission", strategy="surrogate", seed=0, family=None, evaluator="emulated"
    )

    assert len(planned.fields) > 1
    for field in planned.fields:
        assert field.space.proportions is not None
        assert len(field.space.proportions.of(field.seeds[0])) == len(field.space.proportions.names)
