"""A batch says of a kernel what launches one by one say: the comparisons are run by the emulator."""

from types import SimpleNamespace

import numpy as np
import pytest
from comparing_device import Device
from tiled_kernel import tiled

from evoflash.gpu.comparisons import MemoryPair, RowComparison, UntouchedRows, read_results
from evoflash.gpu.memory import layouts_of
from evoflash.gpu.process import check_batch
from evoflash.gpu.process.right_answers import RightRows
from evoflash.numerics import encode
from evoflash.operation import operation_of
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.operations.linear.inputs import draw
from evoflash.operations.linear.reference import expect
from evoflash.operations.linear.workload import LinearWorkload
from evoflash.validation.plan import check_one_by_one, plan_of, size_plan_of
from evoflash.workload import Output

SHAPES = [AttentionWorkload(2, 4, 2, 20, 70, 64), AttentionWorkload(1, 4, 2, 40, 33, 64, "bf16", True)]
FAULTS = ["", "in normal", "again", "without", "apart", "permuted", "keys changed", "exchanged", "part of V"]


class Slab:
    """Where a batch finds what launches wrote."""

    def __init__(self, device, plan, outputs):
        specs = operation_of(plan.workload).tensors(plan.workload)
        self._addresses = {}
        for at, (planned, output) in enumerate(zip(plan.launches, outputs, strict=True)):
            for name, layout in layouts_of(specs, is_strided=planned.is_strided).items():
                if name in output.tensors:
                    self._addresses[at, name] = device.put(layout.image(output.tensors[name]))

    def address(self, launch, name):
        return self._addresses[launch, name]

    def inputs(self, launch):
        return launch


def kernel(workload, fault):
    """One launch, wrong where the fault says."""
    launched = []

    def launch(planned):
        again = any(planned.inputs is each for each in launched)
        launched.append(planned.inputs)
        plain = not planned.without and not planned.is_strided
        wrong = {
            "in normal": planned.inputs.name == "normal",
            "again": again and plain,
            "without": bool(planned.without),
            "apart": planned.is_strided,
        }.get(fault, bool(fault) and fault in planned.inputs.name)
        output = tiled(planned.inputs, dtype=workload.dtype, causal=workload.causal)
        left = {name: each for name, each in output.tensors.items() if name not in planned.without}
        left["O"] = left["O"] ^ np.uint16(0x8000 if wrong and fault != "again" else wrong)
        return type(output)(left)

    return launch


def batch_verdict(plan, launch, monkeypatch):
    device = Device()

    def place(values):
        return SimpleNamespace(data=SimpleNamespace(ptr=device.put(np.ascontiguousarray(values))))

    def right(workload, inputs, expected):
        """What the device computes of a sample, here of all rows by the host."""
        rows = expected.rows["Y"]
        return RightRows(np.arange(workload.m), rows.scale, (place(rows.right[0].astype(np.float32)),))

    monkeypatch.setattr(check_batch, "on_device", place)
    monkeypatch.setattr(check_batch, "compute_right", right)
    with device.memory:
        slab = Slab(device, plan, [launch(planned) for planned in plan.launches])
        on_slab = check_batch._PlanOnSlab(plan, slab)
        found = {}
        for kind in (RowComparison, MemoryPair, UntouchedRows):
            asked = [each for each in on_slab.comparisons if isinstance(each, kind)]
            answers = device.ask(asked) if asked else ()
            found[kind] = iter(read_results(answers) if kind is RowComparison else answers)
        return on_slab.verdict(found, is_deterministic=True)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("workload", SHAPES, ids=str)
@pytest.mark.sample(5)
def test_the_verdict_is_that_of_launches_one_by_one(workload, fault, monkeypatch):
    plan = plan_of(workload, 4)
    alone = check_one_by_one(plan, kernel(workload, fault))
    together = batch_verdict(plan, kernel(workload, fault), monkeypatch)
    assert alone.passed is (not any(each in fault for each in asked_of(plan, fault)))
    assert together.passed is alone.passed, (together.reason, alone.reason)
    assert together.reason.split(":")[0].split(" in ")[0] == alone.reason.split(":")[0].split(" in ")[0]
    for name in ("rel_l2", "max_over_rms", "lse_error", "honest_ratio"):
        assert getattr(together, name) == pytest.approx(getattr(alone, name), rel=1e-9)


def asked_of(plan, fault):
    """The fault, where the plan has a launch that shows it."""
    names = " ".join(planned.inputs.name for planned in plan.launches)
    return (
        [fault] if fault in ("in normal", "again", "without", "apart") or (fault and fault in names) else []
    )


LINEAR = LinearWorkload(6, 136, 400, "fp8b128", x="e4m3")


@pytest.mark.parametrize(
    ("at", "says"),
    [
        (None, ""),
        ("normal", "normal"),
        ("far_scales", "in far_scales"),
        ("again", "two runs on the same input differ"),
        ("rows exchanged", "exchanged rows: the output is not the same to the bit"),
    ],
)
def test_rows_of_a_linear_layer_at_size_change_places_one_by_one(at, says, monkeypatch):
    """Rows that change places are no whole groups: each is compared with the one whose place it took."""
    cases = [
        (x, expect(LINEAR, x, where=every_row(LINEAR)))
        for x in (draw(name, LINEAR, seed=1) for name in ("normal", "far_scales"))
    ]
    plan, launched = size_plan_of(LINEAR, cases, np.random.default_rng(1)), []

    def launch(planned):
        again = any(planned.inputs is each for each in launched)
        launched.append(planned.inputs)
        honest = expect(LINEAR, planned.inputs, where=every_row(LINEAR)).rows["Y"].honest[0]
        y = encode(honest, "bf16")
        if at is not None and (again if at == "again" else planned.inputs.name.endswith(at)):
            y[3, 78] ^= np.uint16(1 if at in ("again", "rows exchanged") else 0x8000)
        return Output({"Y": y})

    verdict = batch_verdict(plan, launch, monkeypatch)

    assert verdict.passed is (at is None)
    assert says in verdict.reason, verdict.reason
