"""Attention as the rest of evoflash knows it, one record that names what the files of this folder do."""

from functools import partial
from pathlib import Path

from evoflash.operation import Operation
from evoflash.operations.attention import check_shapes, inputs
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.loop import exponentials, work
from evoflash.operations.attention.portfolio import PORTFOLIO
from evoflash.operations.attention.preflight_runs import drawn_runs, finalist_runs, preflight_runs
from evoflash.operations.attention.reference import REFERENCE, expect, sample
from evoflash.operations.attention.relations import keeps_heads_apart, relations
from evoflash.operations.attention.workload import (
    AttentionKey,
    AttentionWorkload,
    distance,
    fitting,
    parse_workload,
)
from evoflash.operations.expectations import read_thresholds

_PROBLEM_HELP = """\
Behind a name, or in its place, with commas between:
  b= h= hkv= d=    batch, query heads, key/value heads, head dimension
  s= sq= skv=      both lengths, the query length, the key/value length
  causal           a query sees no later key
  dtype=fp16|bf16  the type of Q, K, V and O
  acc=fp16         scores may be summed in fp16, an accuracy class of its own
Several problems joined by + are ranked by the geometric mean of their times.
For example: mission,causal   s2k_d64,dtype=bf16   b=4,h=32,hkv=8,s=4096,d=128   mission+mission,causal"""
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
    thresholds=partial(read_thresholds, Path(__file__).with_name("thresholds.toml")),
    rearranged=keeps_heads_apart,
    device_reference=REFERENCE,
    further_scratch=dense.further_scratch,
    check_workloads=check_shapes.check_workloads,
    hidden_workloads=check_shapes.hidden_workloads,
    preflight_runs=preflight_runs,
    drawn_runs=drawn_runs,
    finalist_runs=finalist_runs,
    work=work,
    fitting=fitting,
    distance=distance,
    interface=dense.INTERFACE,
    interface_names=dense.interface_names,
    exponentials=exponentials,
    launcher=dense.LAUNCHER,
    launcher_names=dense.launcher_names,
    launch_form=dense.LAUNCH_FORM,
    portfolio=PORTFOLIO,
    problem_help=_PROBLEM_HELP,
    usual_problem="mission",
)
