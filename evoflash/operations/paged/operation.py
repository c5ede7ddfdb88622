"""Paged attention as the rest of evoflash knows it: one record of what the files of this folder do.

How a kernel's walk over the keys cuts paged attention's work, for the performance model.
"""

from functools import partial
from pathlib import Path

from evoflash.operation import Loop, Operation, Work
from evoflash.operations.expectations import read_thresholds
from evoflash.operations.list_shares import work_of_shares
from evoflash.operations.paged import check_shapes, form, inputs
from evoflash.operations.paged.preflight_runs import drawn_runs, preflight_runs
from evoflash.operations.paged.reference import REFERENCE, expect, sample
from evoflash.operations.paged.relations import moves_pages, relations
from evoflash.operations.paged.workload import PagedKey, PagedWorkload, distance, fitting, parse_workload


def work(workload: PagedWorkload, loop: Loop) -> Work:
    """The steps of each CTA: of a sequence's visible keys for one head of K, or of its share where several
    share them; or its share of all steps, where CTAs share a list of them. CTAs of a cluster divide each
    step. A sequence without keys takes a step, or a CTA, all the same.
    """
    w, found, step = workload, list[int](), loop.keys * loop.cluster
    for rows, keys in w.sequences:
        blocks = max(1, -(-rows * w.gqa_ratio // max(1, loop.rows)))
        first = w.first_key(rows, keys)
        steps = -(-keys // step) - min(first, keys) // step
        share = -(-steps // loop.splits)
        shares = [min(share, max(0, steps - split * share)) for split in range(loop.splits)]
        found += shares * blocks
    if loop.most_ctas:
        live_rows = min(loop.rows, w.gqa_ratio * max((rows for rows, _ in w.sequences), default=1))
        return work_of_shares(found, w.kv_heads, loop, part_bytes=4 * live_rows * (w.head_dim + 2))
    return Work(tuple(found) * loop.cluster, copies=w.kv_heads, batch=1)


def exponentials(workload: PagedWorkload) -> int:
    """One for each pair of a query and a key that it sees, in every head."""
    return workload.heads * sum(workload.visible_pairs(*each) for each in workload.sequences)


_PROBLEM_HELP = """\
Attention of 1 to 16 query rows on keys in pages, as engines serve: b=8,h=32,hkv=8,sq=1,skv=4096,d=128,page=16
  page=            keys of a page; skv= is the longest sequence's keys
  lengths=         of each: 4096/15x64, or prod, even, halves, one_long, skewed, padded, which end with skv
  window= softcap= sink     keys that a query sees; a cap of the scores; a logit of each head without a value
  ragged invariant          1 to sq query rows each; a sequence gives the same bits in any batch
For example: serving_llama8b_b1_8k   serving_tp8_skewed,dtype=fp16"""
OPERATION = Operation(
    name="paged_attention",
    parse=parse_workload,
    compile_key=PagedKey,
    probe=PagedWorkload(2, 8, 2, 1, 256, 64, 16),
    tensors=form.tensors,
    groups="rows",
    arguments=form.arguments,
    rescale=form.rescale,
    inputs=inputs.NAMES,
    draw=inputs.draw,
    timed_inputs=inputs.timed_inputs,
    sample=sample,
    expect=expect,
    relations=relations,
    thresholds=partial(read_thresholds, Path(__file__).with_name("thresholds.toml")),
    rearranged=moves_pages,
    python_inputs=inputs.python_inputs,
    device_reference=REFERENCE,
    further_scratch=form.further_scratch,
    check_workloads=check_shapes.check_workloads,
    hidden_workloads=check_shapes.hidden_workloads,
    preflight_runs=preflight_runs,
    drawn_runs=drawn_runs,
    work=work,
    fitting=fitting,
    distance=distance,
    exponentials=exponentials,
    interface=form.INTERFACE,
    interface_names=form.STRUCT.names,
    launcher=form.LAUNCHER,
    launcher_names=form.launcher_names,
    launch_form=form.LAUNCH_FORM,
    problem_help=_PROBLEM_HELP,
    usual_problem="serving_llama8b_b1_8k",
)
