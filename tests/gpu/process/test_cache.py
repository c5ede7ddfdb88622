"""Check shapes go into one batch as far as the device has room: launch by launch a check takes seconds."""

import numpy as np
import pytest

from evoflash.gpu.process import cache
from evoflash.gpu.process.check_batch import bytes_on_device
from evoflash.operation import operation_of
from evoflash.operations.attention.check_shapes import check_workloads, hidden_workloads
from evoflash.operations.attention.inputs import AttentionInputs
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.validation import plan as plans
from evoflash.validation.plan import plan_of

SHAPES = tuple(AttentionWorkload(1, 2, 1, rows, 40, 64) for rows in (9, 30, 3))


@pytest.fixture
def room(monkeypatch):
    """A device on which a batch is the list of its plans' workloads."""

    def allow(most, cannot=None):
        monkeypatch.setattr(cache, "has_room", lambda size: size <= most)
        monkeypatch.setattr(cache, "can_hold", lambda plan: plan.workload != cannot)
        monkeypatch.setattr(cache, "CheckBatch", lambda plans: [plan.workload for plan in plans])
        return cache.check_batch.__wrapped__(SHAPES, 4)

    return allow


def test_what_has_no_room_is_left_out_the_largest_first(room):
    sizes = {shape: bytes_on_device(plan_of(shape, 4)) for shape in SHAPES}
    small, _, large = sorted(SHAPES, key=sizes.get)
    assert room(sum(sizes.values())) == (list(SHAPES), ())
    assert room(sum(sizes.values()) - 1) == ([shape for shape in SHAPES if shape != large], (large,))
    assert room(sizes[small]) == ([small], tuple(shape for shape in SHAPES if shape != small))
    assert room(sizes[small] - 1) == (None, SHAPES)


def test_rows_that_the_device_cannot_compare_are_left_out(room):
    assert room(1 << 30, SHAPES[1]) == ([SHAPES[0], SHAPES[2]], (SHAPES[1],))


@pytest.mark.parametrize("heads", [1, 7, 8])
def test_all_shapes_of_usual_kernels_are_one_batch(heads, monkeypatch):
    key = AttentionWorkload(1, 4 * heads, 4, 3500, 3500, 128, causal=True).compile_key("sm_90a")

    def case(workload, name, seed):  # zeros, and nothing of what is right: drawing gigabytes takes long
        inputs = [spec for spec in operation_of(workload).tensors(workload) if spec.role == "input"]
        return AttentionInputs(name, *(np.zeros(spec.shape, np.uint16) for spec in inputs)), None

    monkeypatch.setattr(plans, "case", case)
    for shapes in (check_workloads([key]), hidden_workloads([key], seed=4)):
        assert sum(bytes_on_device(plan_of(shape, 4)) for shape in shapes) < cache._BATCH_BYTES
