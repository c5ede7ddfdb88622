"""Checks in one batch of launches: the verdicts of launches one by one, and what they find, they find."""

from dataclasses import replace

import numpy as np
import pytest
from on_gpu import planted

from evoflash.evaluation import Rung, Status
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.batch import Slab
from evoflash.gpu.process import cache, checks
from evoflash.gpu.process.checks import CheckSubject
from evoflash.operation import operation_of
from evoflash.operations.attention.check_shapes import check_workloads
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import thresholds_of
from evoflash.validation.cases import large_case
from evoflash.validation.plan import STRIDED, CheckLaunch

pytestmark = [pytest.mark.gpu, pytest.mark.takes_turns]

PROBLEM = AttentionWorkload(1, 4, 2, 128, 128, 64, causal=True)
SIZE = AttentionWorkload(2, 4, 2, 300, 500, 64)
LIMIT_S = 20.0  # of a launch, beside those of others


@pytest.fixture(autouse=True)
def room(monkeypatch):
    """Whatever other processes have of the GPU's memory."""
    monkeypatch.setattr(cache, "has_room", lambda _: True)


def subjects_of(spec, cubins, fault="none"):
    """A planted kernel on every check shape of the problem."""
    shapes = check_workloads([PROBLEM.compile_key(spec.arch)])
    task = planted.task_of(spec, cubins, checks=shapes, fault=fault)
    return [CheckSubject(task.kernel(*each), each[0], task.seed, LIMIT_S) for each in task.checks]


def numbers(verdict):
    return verdict.rel_l2, verdict.max_over_rms, verdict.lse_error, verdict.honest_ratio


def test_a_right_kernel_has_the_same_verdicts_in_a_batch_and_alone(spec, cubins):
    subjects = subjects_of(spec, cubins)
    together = list(checks.on_check_shapes(subjects))
    alone = [checks.on_check_shape(subject) for subject in subjects]
    assert all(verdict.passed for verdict in (*together, *alone))
    for one, other in zip(together, alone, strict=True):
        assert one.workload == other.workload
        assert numbers(one) == pytest.approx(numbers(other), rel=1e-9)


@pytest.mark.parametrize("fault", ["drops the last key", "leaves a NaN", "gives another result each time"])
def test_a_batch_rejects_what_launches_one_by_one_reject(spec, cubins, fault):
    subjects = subjects_of(spec, cubins, fault)
    batch, _ = cache.check_batch(tuple(subject.workload for subject in subjects), subjects[0].seed)
    kernels = [subject.kernel for subject in subjects]
    together = batch.verdicts(kernels, limit_s=LIMIT_S, is_deterministic=True)
    alone = [checks.on_check_shape(subject) for subject in subjects]
    assert not all(verdict.passed for verdict in together)
    assert [verdict.passed for verdict in together] == [verdict.passed for verdict in alone]


def test_a_kernel_that_takes_a_tensor_for_dense_is_found(spec, cubins):
    shape = AttentionWorkload(1, 2, 2, 40, 64, 64)
    task = planted.task_of(spec, cubins, checks=[shape], fault="takes Q for dense")
    subject = CheckSubject(task.kernel(*task.checks[0]), shape, task.seed, LIMIT_S)
    (verdict,) = checks.on_check_shapes([subject])
    assert verdict.reason.startswith(STRIDED)
    assert not verdict.reason.endswith("(in a batch of launches)")  # alone it is found too


@pytest.mark.parametrize(
    ("fault", "reason"), [("writes just past O", "wrote outside O"), ("writes into K", "changed its input K")]
)
def test_a_fault_of_memory_is_named_as_that_of_one_launch(worker, spec, cubins, fault, reason):
    subjects = [AttentionWorkload(1, 4, 2, 40, 64, 64)]
    task = planted.task_of(spec, cubins, checks=[replace(subjects[0], heads=64), *subjects], fault=fault)
    outcome = worker.submit(task).result()
    assert (outcome.status, outcome.rung) == (Status.CORRECTNESS, Rung.SMOKE)
    assert reason in outcome.reason


@pytest.mark.parametrize("is_strided", [False, True])
def test_a_slab_says_what_was_changed_in_it(spec, is_strided):
    specs = operation_of(SIZE).tensors(SIZE)
    inputs = large_case(SIZE, "normal", 1)[0]
    slab = Slab(
        SIZE,
        [CheckLaunch(inputs), CheckLaunch(inputs, is_strided=is_strided)],
        rng=np.random.default_rng(1),
    )

    def said(address):
        from evoflash.gpu.launcher import cupy, new_stream, wait

        stream = new_stream()
        slab.restore(stream)
        wait(stream, limit_s=1)
        memory = cupy().cuda.UnownedMemory(address, 1, slab)
        cupy().ndarray(1, np.uint8, cupy().cuda.MemoryPointer(memory, 0))[0] ^= 1
        cupy().cuda.runtime.deviceSynchronize()
        fault = slab.fault(1)
        assert isinstance(fault, MemoryFaultError)
        return str(fault)

    for each in specs:
        begin = slab.address(1, each.name)
        assert said(begin - 1) == f"wrote outside {each.name}: 1 bytes before its start, the last 1 ahead"
        if each.role == "input":
            assert said(begin) == f"changed its input {each.name}"
    if is_strided:
        assert said(slab.address(1, "O") + 128) == "wrote between the rows of O"
    assert said(slab.address(0, "O")) == "wrote where it must not, in the memory of another launch"


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
def test_the_device_knows_what_is_right_at_size(spec, cubins, dtype, causal):
    workload = replace(SIZE, dtype=dtype, causal=causal)
    task = planted.task_of(spec, cubins, checks=[], timed=[workload])
    subject = CheckSubject(task.kernel(*task.timed[0]), workload, task.seed, LIMIT_S)
    assert cache.size_batch(workload, task.seed) is not None
    verdict, alone = checks.at_size(subject), checks._at_size_alone(subject)
    assert verdict.passed, verdict.reason
    assert alone.passed
    of_rows = ("rel_l2", "max_over_rms", "honest_ratio")
    for name in of_rows:
        assert getattr(verdict, name) == pytest.approx(getattr(alone, name), rel=0.05), name
    # The device takes the logarithm of sums in fp32; check_batch.py lets it be off by a tenth of the limit.
    assert verdict.lse_error == pytest.approx(alone.lse_error, abs=0.1 * thresholds_of(workload).lse_absolute)


def test_a_batch_that_goes_by_what_a_kernel_spoilt_says_so(spec, cubins):
    subjects = subjects_of(spec, cubins)[:2]
    batch, _ = cache.check_batch(tuple(subject.workload for subject in subjects), subjects[0].seed)
    batch.verify()
    slab = batch._plans[0].slab
    byte = slab._image[slab._places[0].payloads["K"][0] :][:1]
    byte.set(byte.get() ^ np.uint8(1))
    with pytest.raises(MemoryFaultError, match="own copy of K"):
        batch.verify()
    byte.set(byte.get() ^ np.uint8(1))
    batch.verify()
