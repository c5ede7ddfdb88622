"""The simulation's bounds: what is known of its results without simulating."""

import pytest

pytest.importorskip("distributed", reason="needs Dask: pip install 'evoflash[cluster]'")

from scripts.cluster.efficiency import STAGES, Costs, gpu_costs, rate


def test_one_gpu_is_as_fast_as_its_own_work_allows():
    assert rate(1, Costs(0.1, 0.3, 0.5, 0.0)) == pytest.approx(4.0, rel=0.05)


def test_without_work_for_the_search_process_gpus_add_up():
    costs = Costs(0.1, 0.3, 0.5, 0.0)
    assert rate(8, costs) == pytest.approx(8 * rate(1, costs), rel=0.05)


def test_the_search_process_bounds_what_any_number_of_gpus_reach():
    assert rate(64, Costs(0.05, 0.2, 0.4, 0.1)) == pytest.approx(10.0, rel=0.01)


def test_the_scheduler_bounds_it_as_well():
    assert rate(64, Costs(0.05, 0.2, 0.4, 0.01, 0.1)) == pytest.approx(10.0, rel=0.01)


def test_the_recorded_searches_give_costs_of_a_gpu():
    look_s, proof_s, proven = gpu_costs(STAGES)
    assert 0 < look_s < proof_s
    assert 0 < proven < 1
