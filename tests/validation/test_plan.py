"""A plan holds every launch that a kernel is asked for, and what is said of each; on a GPU: tests/on_gpu."""

from collections import Counter

import numpy as np
import pytest
from tiled_kernel import tiled

from evoflash.operations.attention.check_shapes import check_workloads, hidden_workloads
from evoflash.operations.attention.inputs import AT_SIZE, draw
from evoflash.operations.attention.reference import expect, sample
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.validation.plan import (
    STRIDED,
    RightOutput,
    SameBits,
    check_correctness,
    check_one_by_one,
    names_of,
    plan_of,
    size_plan_of,
)
from evoflash.workload import Reach, Relation

SHAPES = [AttentionWorkload(2, 4, 2, 60, 131, 64), AttentionWorkload(2, 4, 2, 70, 33, 64, causal=True)]


@pytest.mark.parametrize("workload", SHAPES, ids=str)
def test_a_plan_has_every_launch_of_the_check_one_by_one(workload):
    asked = Counter()

    def kernel(trial):
        asked[trial.name] += 1
        return tiled(trial, causal=workload.causal)

    assert check_correctness(kernel, workload, seed=4).passed
    plan = plan_of(workload, 4)
    planned = Counter(run.inputs.name for run in plan.launches if not run.without and not run.is_strided)
    assert planned == asked
    assert [run.without for run in plan.launches if run.without] == [("LSE",)]
    assert sum(run.is_strided for run in plan.launches) == 1


def test_what_is_judged_has_its_own_launch_and_its_own_right_answer():
    plan = plan_of(SHAPES[0], 4)
    judged, alike = ([x for x in plan.checks if isinstance(x, kind)] for kind in (RightOutput, SameBits))
    plain = [each for each in judged if not each.words]
    assert [plan.launches[each.launch].inputs.name for each in plain] == list(names_of(SHAPES[0]))
    assert {each.words for each in judged if each.words} == {"without LSE: ", STRIDED}
    for each in alike:
        assert each.first != each.second
        assert plan.launches[each.first].inputs is plan.launches[each.second].inputs
    (strided,) = [at for at, run in enumerate(plan.launches) if run.is_strided]
    assert strided not in {at for each in alike for at in (each.first, each.second)}


def test_relations_find_the_launches_of_their_inputs():
    plan = plan_of(SHAPES[1], 4)
    relations = [each for each in plan.checks if isinstance(each, Relation | Reach)]
    assert any(isinstance(each, Reach) for each in relations)
    for each in relations:
        sides = (each.before, each.after) if isinstance(each, Reach) else each.after.runs
        for inputs in sides:
            run = plan.launches[plan.launch_of(inputs)]
            assert run.inputs is inputs
            assert not run.without
            assert not run.is_strided


def test_complaints_come_in_the_order_of_what_they_prove():
    """A record of two calibrations goes by these words: what is named first is what is wrong first."""
    order = [type(check).__name__ + getattr(check, "words", "") for check in plan_of(SHAPES[0], 4).checks]
    again = "two runs on the same input differ"
    names, relations = len(names_of(SHAPES[0])), order.count("Relation")
    assert order == [
        *["RightOutput"] * names,
        *[f"SameBits{again}"] * 2,
        *["Relation"] * relations,
        "RightOutputwithout LSE: ",
        f"SameBitswithout LSE: {again}",
        f"RightOutput{STRIDED}",
    ]


SIZE = AttentionWorkload(2, 4, 2, 60, 131, 64)


def size_plan():
    drawn = [draw(name, SIZE, seed=1) for name in AT_SIZE]
    where = sample(SIZE, np.random.default_rng(2))
    return size_plan_of(SIZE, [(x, expect(SIZE, x, where=where)) for x in drawn], np.random.default_rng(1))


def test_at_size_whole_groups_change_places():
    plan = size_plan()
    (moved,) = [each for each in plan.checks if isinstance(each, Relation)]
    rows = moved.before.rows.reshape(8, 60)
    assert (np.diff(rows, axis=1) == 1).all()
    assert sorted(rows[:, 0]) == list(range(0, 480, 60))
    assert (rows[:, 0] != np.arange(0, 480, 60)).any()
    assert [plan.launches[each.launch].inputs.name for each in plan.judged_together] == list(AT_SIZE)
    assert all(each.is_sampled for each in plan.judged_together)


def test_a_plan_at_size_can_be_carried_out_one_by_one():
    launched = []

    def launch(planned):
        launched.append(planned)
        return tiled(planned.inputs)

    def mixes_up_a_head(planned):
        return tiled(planned.inputs, fault="batch 0 for all" if "exchanged" in planned.inputs.name else "")

    plan = size_plan()
    assert check_one_by_one(plan, launch).passed
    assert launched == list(plan.launches)
    said = check_one_by_one(plan, mixes_up_a_head).reason
    assert said.startswith("exchanged batches and heads: the output moves by rel_l2")


@pytest.mark.parametrize(("without", "is_strided"), [(("LSE",), False), ((), True)])
def test_a_launch_that_is_wrong_in_its_layout_alone_is_named(without, is_strided):
    def launch(planned):
        is_it = (planned.without, planned.is_strided) == (without, is_strided)
        return tiled(planned.inputs, fault="last key dropped" if is_it else "")

    words = STRIDED if is_strided else "without LSE: "
    assert check_one_by_one(plan_of(SHAPES[0], 4), launch).reason.startswith(f"{words}honest in normal")


def test_workloads_of_many_heads_or_rows_have_few_inputs():
    key = AttentionWorkload(1, 8, 8, 64, 64, 64).compile_key("sm_90a")
    for workload in (*check_workloads([key]), *hidden_workloads([key], seed=4)):
        heads = workload.batch * workload.heads
        is_large = heads > 64 or heads * workload.seq_q > 1 << 15
        assert (len(names_of(workload)) == len(AT_SIZE)) is is_large
