"""Kernels with planted mistakes on a real GPU: each costs itself, and the next candidate is right."""

import re
import time

import pytest
from on_gpu import planted

from evoflash.evaluation import Rung, Status
from evoflash.operations.attention.workload import AttentionWorkload

pytestmark = [pytest.mark.gpu, pytest.mark.alone_on_gpu]  # what hangs keeps others from their limits

SMALL = AttentionWorkload(1, 2, 1, 64, 64, 64)
SHAPES = [
    SMALL,
    AttentionWorkload(2, 4, 2, 33, 97, 64, "fp16", causal=True),
    AttentionWorkload(1, 2, 2, 130, 70, 128, "bf16", causal=True),
    AttentionWorkload(1, 4, 1, 1, 129, 128, "bf16"),
]


def test_a_correct_kernel_passes_every_shape(worker, spec, cubins):
    outcome = worker.submit(planted.task_of(spec, cubins, checks=SHAPES)).result()
    assert outcome.status is Status.CORRECT, outcome.reason
    assert [verdict.workload for verdict in outcome.verdicts] == [str(workload) for workload in SHAPES]
    for verdict in outcome.verdicts:
        print(f"\n{verdict}")


CASES = [
    (
        "writes just past O",
        Status.CORRECTNESS,
        "wrote outside O",
    ),
    ("writes far outside", Status.RUNTIME, "llegal"),
    ("never ends", Status.TIMEOUT, "did not end within"),
    ("leaves a NaN", Status.CORRECTNESS, "not finite"),
    ("drops the last key", Status.CORRECTNESS, "normal"),
    ("writes into K", Status.CORRECTNESS, "changed its input K"),
    ("gives another result each time", Status.CORRECTNESS, "two runs|tiny_values"),  # by so much of either
]


@pytest.mark.parametrize(("fault", "status", "reason"), CASES)
def test_a_bad_kernel_costs_one_candidate(worker, spec, cubins, fault, status, reason):
    bad = worker.submit(planted.task_of(spec, cubins, checks=[SMALL], fault=fault))
    good = worker.submit(planted.task_of(spec, cubins, checks=[SMALL]))
    outcome = bad.result()
    known = time.monotonic()
    after = good.result()
    print(f"\n{fault}: {outcome.status} at {outcome.rung}: {outcome.reason}")
    print(f"the next one was right {time.monotonic() - known:.2f} s later")
    assert outcome.status is status
    assert re.search(reason, outcome.reason)
    assert after.status is Status.CORRECT, after.reason


def test_two_bad_kernels_in_a_row_cost_two_candidates(worker, spec, cubins):
    tasks = [
        planted.task_of(spec, cubins, checks=[SMALL], fault=fault)
        for fault in ("never ends", "writes far outside", "none")
    ]
    started = time.monotonic()
    outcomes = [future.result() for future in [worker.submit(task) for task in tasks]]
    print(f"\nthree candidates in {time.monotonic() - started:.2f} s")
    assert [outcome.status for outcome in outcomes] == [Status.TIMEOUT, Status.RUNTIME, Status.CORRECT]


@pytest.mark.parametrize("launch", [{"smem_bytes": 1 << 20}, {"entry": "nobody"}])
def test_a_launch_that_cuda_refuses_costs_one_candidate(worker, spec, cubins, launch):
    refused = worker.submit(planted.task_of(spec, cubins, checks=[SMALL], **launch)).result()
    assert (refused.status, refused.rung) == (Status.RUNTIME, Rung.SMOKE)
    print(f"\n{launch}: {refused.reason}")
    assert worker.submit(planted.task_of(spec, cubins, checks=[SMALL])).result().status is Status.CORRECT
