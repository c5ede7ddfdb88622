"""A batch holds the launches that a kernel is asked one by one. No GPU; with real kernels: tests/on_gpu."""

from collections import Counter

import numpy as np
import pytest
from tiled_kernel import tiled

from evoflash.gpu.process.check_batch import STRIDED, plan_of, size_plan_of
from evoflash.operations.attention.inputs import AT_SIZE, check_workloads, draw
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import Reach, Rows
from evoflash.validation.metamorphic import check_correctness, names_of

SHAPES = [AttentionWorkload(2, 4, 2, 60, 131, 64), AttentionWorkload(2, 4, 2, 70, 33, 64, causal=True)]


@pytest.mark.parametrize("workload", SHAPES, ids=str)
def test_a_plan_has_every_launch_of_the_check_one_by_one(workload):
    asked = Counter()

    def kernel(trial):
        asked[trial.name] += 1
        return tiled(trial, causal=workload.causal)

    assert check_correctness(kernel, workload, seed=4).passed
    plan = plan_of(workload, 4)
    planned = Counter(run.inputs.name for run in plan.runs if not run.without and not run.is_strided)
    assert planned == asked
    assert [run.without for run in plan.runs if run.without] == [("LSE",)]
    assert sum(run.is_strided for run in plan.runs) == 1


def test_what_is_judged_has_its_own_launch_and_its_own_right_answer():
    plan = plan_of(SHAPES[0], 4)
    plain = [each for each in plan.judged if not each.words]
    assert [plan.runs[each.run].inputs.name for each in plain] == list(names_of(SHAPES[0]))
    assert {each.words for each in plan.judged if each.words} == {"without LSE: ", STRIDED}
    for one, other, _ in plan.alike:
        assert one != other
        assert plan.runs[one].inputs is plan.runs[other].inputs
    (strided,) = [at for at, run in enumerate(plan.runs) if run.is_strided]
    assert strided not in {run for pair in plan.alike for run in pair[:2]}


def test_relations_find_the_launches_of_their_inputs():
    plan = plan_of(SHAPES[1], 4)
    assert any(isinstance(each, Reach) for each in plan.relations)
    for each in plan.relations:
        sides = (each.before, each.after) if isinstance(each, Reach) else each.after.runs
        for inputs in sides:
            run = plan.runs[plan.run_of(inputs)]
            assert run.inputs is inputs
            assert not run.without
            assert not run.is_strided


def test_at_size_whole_groups_change_places():
    workload = AttentionWorkload(2, 4, 2, 60, 131, 64)
    drawn = [draw(name, workload, seed=1) for name in AT_SIZE]
    plan = size_plan_of(workload, drawn, np.random.default_rng(1))
    (relation,) = plan.exact
    assert isinstance(relation.before, Rows)
    assert relation.before.rows is not None
    rows = relation.before.rows.reshape(8, 60)
    assert (np.diff(rows, axis=1) == 1).all()
    assert sorted(rows[:, 0]) == list(range(0, 480, 60))
    assert (rows[:, 0] != np.arange(0, 480, 60)).any()
    assert [plan.runs[each.run].inputs for each in plan.judged] == drawn


def test_workloads_of_many_heads_have_few_inputs():
    key = AttentionWorkload(1, 8, 8, 64, 64, 64).compile_key("sm_90a")
    for workload in check_workloads([key]):
        assert (len(names_of(workload)) == len(AT_SIZE)) is (workload.batch * workload.heads > 64)
