"""Attention as the rest of evoflash knows it, one record that names what the files of this folder do."""

from evoflash.operation import Operation
from evoflash.operations.attention import check_shapes, inputs
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.loop import consumers, exponentials, work
from evoflash.operations.attention.portfolio import PORTFOLIO
from evoflash.operations.attention.preflight_runs import drawn_runs, finalist_runs, preflight_runs
from evoflash.operations.attention.reference import REFERENCE, expect, sample
from evoflash.operations.attention.relations import keeps_heads_apart, relations
from evoflash.operations.attention.thresholds import thresholds
from evoflash.operations.attention.workload import (
    AttentionKey,
    AttentionWorkload,
    distance,
    fitting,
    parse_workload,
)

OPERATION = Operation(
    name="attention",
    parse=parse_workload,
    compile_key=AttentionKey,
    probe=AttentionWorkload(1, 1, 1, 64, 64, 64),
    tensors=dense.tensors,
    groups="heads",
    arguments=dense.call_arguments,
    rescale=dense.rescale,
    inputs=inputs.NAMES,
    draw=inputs.draw,
    timed_inputs=inputs.timed_inputs,
    sample=sample,
    expect=expect,
    relations=relations,
    thresholds=thresholds,
    rearranged=keeps_heads_apart,
    device_reference=REFERENCE,
    check_workloads=check_shapes.check_workloads,
    hidden_workloads=check_shapes.hidden_workloads,
    preflight_runs=preflight_runs,
    drawn_runs=drawn_runs,
    finalist_runs=finalist_runs,
    work=work,
    consumers=consumers,
    fitting=fitting,
    distance=distance,
    interface=dense.INTERFACE,
    interface_names=dense.interface_names,
    exponentials=exponentials,
    launcher=dense.LAUNCHER,
    launcher_names=dense.launcher_names,
    launch_form=dense.LAUNCH_FORM,
    portfolio=PORTFOLIO,
)
