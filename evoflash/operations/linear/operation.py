"""The linear layer as the rest of evoflash knows it: one record of what the files of this folder do.

How a kernel's walk over k cuts the linear layer's work, for the performance model. Measures nothing.
"""

from functools import partial
from pathlib import Path

from evoflash.operation import Loop, Operation, Work
from evoflash.operations.expectations import read_thresholds
from evoflash.operations.linear import form, inputs
from evoflash.operations.linear.portfolio import PORTFOLIO
from evoflash.operations.linear.preflight_runs import finalist_runs, preflight_runs
from evoflash.operations.linear.reference import REFERENCE, expect, sample
from evoflash.operations.linear.relations import keeps_rows_apart, relations
from evoflash.operations.linear.workload import (
    LinearKey,
    LinearWorkload,
    distance,
    element_bytes,
    fitting,
    parse_workload,
)


def work(workload: LinearWorkload, loop: Loop) -> Work:
    """The steps of each CTA: of its rows of W, and of its share of k where several share them."""
    steps = -(-workload.k // loop.keys)
    share = -(-steps // loop.splits)
    of_rows = [min(share, max(0, steps - split * share)) for split in range(loop.splits)]
    return Work(
        tuple(of_rows) * (-(-workload.n // (loop.rows * loop.row_cluster)) * loop.row_cluster),
        copies=1,
        batch=1,
        parts=loop.splits // loop.cluster,  # a cluster has no more than these, and merges them itself
        part_bytes=4 * loop.rows * workload.m,
        common_bytes=workload.m * workload.k * element_bytes(workload.x),
    )


_PROBLEM_HELP = """\
A linear layer of a decoding step, y = x W^T with up to 64 rows: linear:m=1,n=1280,k=8192,dtype=fp8b128
  m= n= k=         rows of x, rows of W, their length; or a layer's name for n and k, as 70b_tp8_qkv
  dtype=bf16|fp8b128|fp8t   the type of W; bias and residual are added
  x=e4m3                    x in 8 bits too, beside fp8b128; else x is BF16
For example: linear:70b_tp8_qkv,m=8,dtype=fp8b128"""
OPERATION = Operation(
    name="linear",
    parse=parse_workload,
    compile_key=LinearKey,
    probe=LinearWorkload(4, 256, 512, "fp8b128"),
    tensors=form.tensors,
    groups="batches",
    arguments=form.arguments,
    inputs=inputs.NAMES,
    draw=inputs.draw,
    timed_inputs=inputs.timed_inputs,
    sample=sample,
    expect=expect,
    relations=relations,
    rearranged=keeps_rows_apart,
    device_reference=REFERENCE,
    thresholds=partial(read_thresholds, Path(__file__).with_name("thresholds.toml")),
    check_workloads=inputs.check_workloads,
    hidden_workloads=inputs.hidden_workloads,
    preflight_runs=preflight_runs,
    finalist_runs=finalist_runs,
    work=work,
    fitting=fitting,
    distance=distance,
    interface=form.INTERFACE,
    interface_names=form.STRUCT.names,
    launcher=form.LAUNCHER,
    launcher_names=form.launcher_names,
    further_scratch=form.further_scratch,
    launch_form=form.LAUNCH_FORM,
    portfolio=PORTFOLIO,
    problem_help=_PROBLEM_HELP,
    usual_problem="linear:70b_tp8_qkv,m=1,dtype=fp8b128",
)
