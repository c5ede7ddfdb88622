"""What the rungs on the GPU make of a kernel's failures, and what they note; shapes that kernels meet there.

No GPU: what climbs is put in the ladder's place. With real kernels: tests/on_gpu.
"""

import itertools
from dataclasses import replace

import pytest

from evoflash.evaluation import Rung, Status
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.launcher import KernelHungError, LaunchRefusedError, cuda_errors
from evoflash.gpu.process.outcome import GpuOutcome, climb_rungs
from evoflash.gpu.process.rungs import GpuTask
from evoflash.operations.attention.check_shapes import check_workloads, hidden_workloads
from evoflash.operations.attention.workload import parse_workload
from evoflash.specs import known_gpus, load_gpu

TASK = GpuTask("genome", load_gpu("h200"), (), (), (), seed=0)
START = GpuOutcome("genome", Status.CORRECT, Rung.SMOKE)
KEY = parse_workload("gqa4k_d128,causal").compile_key("sm_90a")


def climb_and_raise(error):
    def climb(task, outcome):
        yield replace(outcome, environment={"gpu": "H200"})
        yield replace(outcome, rung=Rung.CORRECTNESS, environment={"gpu": "H200"})
        raise error

    return climb


@pytest.mark.parametrize(
    ("error", "status", "lost"),
    [
        (LaunchRefusedError("its blocks do not fit"), Status.CONSTRAINTS, False),
        (MemoryFaultError("wrote outside O"), Status.CORRECTNESS, True),
        (KernelHungError("did not end within 3 s"), Status.TIMEOUT, True),
        (cuda_errors()[0](700), Status.RUNTIME, True),
    ],
)
def test_a_failure_is_data_with_the_rung_and_the_seconds_until_there(error, status, lost):
    outcome = climb_rungs(TASK, START, climb_and_raise(error))

    assert (outcome.status, outcome.rung, outcome.process_lost) == (status, Rung.CORRECTNESS, lost)
    assert outcome.reason
    assert set(outcome.environment) == {"gpu", "smoke_s", "correctness_s"}


def test_seconds_go_to_the_rung_that_was_being_climbed(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(
        "evoflash.gpu.process.outcome.time.monotonic", lambda: next(ticks)
    )  # a second between any two looks

    def climb(task, outcome):  # as the rungs do: each step builds on the one before
        yield outcome
        outcome = replace(outcome, rung=Rung.CORRECTNESS)
        yield outcome
        yield outcome
        yield replace(outcome, rung=Rung.DONE)

    outcome = climb_rungs(TASK, START, climb)
    assert dict(outcome.environment) == {"smoke_s": "2.0000", "correctness_s": "2.0000"}
    timed = climb_rungs(TASK, replace(outcome, rung=Rung.TIMING), climb_once)
    assert dict(timed.environment) == {"smoke_s": "2.0000", "correctness_s": "2.0000", "timing_s": "1.0000"}


def climb_once(task, outcome):
    yield replace(outcome, rung=Rung.DONE)


def test_other_errors_are_nobodys_data():
    with pytest.raises(ZeroDivisionError):
        climb_rungs(TASK, START, climb_and_raise(ZeroDivisionError()))


def test_check_shapes_lie_off_every_tile_grid():
    shapes = check_workloads([KEY])
    assert {w.compile_key("sm_90a") for w in shapes} == {KEY}
    assert sum(w.batch > 1 and w.kv_heads > 1 for w in shapes) >= 6
    assert any(w.seq_q == 1 == w.seq_kv for w in shapes)
    assert any(w.seq_kv > 1024 for w in shapes)


def test_check_shapes_have_what_kernels_treat_in_a_way_of_its_own():
    shapes = check_workloads([KEY])
    assert any(w.batch > 1 and w.seq_q == w.seq_kv > 128 and w.seq_q % 128 == 0 for w in shapes)
    assert any(w.seq_kv > 40 * 128 for w in shapes)
    assert any(w.heads > 32 and w.kv_heads >= 8 and w.batch > 1 for w in shapes)
    assert any(w.heads > 128 and w.seq_kv > 256 for w in shapes)
    assert any(w.seq_q > 1024 for w in shapes)
    for sm_count in (load_gpu(name).sm_count for name in known_gpus()):
        assert any(sm_count % w.batch and w.batch * w.heads > sm_count for w in shapes)


def test_masked_rows_and_seeing_ones_share_a_tile():
    """A block of 16 or more rows that all see nothing, or all see something, hides what mixes them up."""
    masked = [w.seq_q - w.seq_kv for w in check_workloads([KEY]) if w.seq_q > w.seq_kv]
    assert masked
    assert all(rows % 16 for rows in masked)


def test_hidden_shapes_are_new_with_each_seed_and_one_is_long():
    first, again, other = (hidden_workloads([KEY], seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert not set(first) & (set(other) | set(check_workloads([KEY])))
    for seed in range(20):
        shapes = hidden_workloads([KEY], seed=seed)
        assert max(w.seq_kv for w in shapes) >= 1500
        assert any(w.seq_q > w.seq_kv for w in shapes)  # rows that see nothing
        assert len({(w.batch, w.kv_heads) for w in shapes}) > 1
        assert max(w.heads * w.seq_q for w in shapes) > 1 << 16  # rows that 16 bits do not count
        assert max(w.batch for w in shapes) > 1 << 8  # nor 8 bits these
        assert {w.compile_key("sm_90a") for w in shapes} == {KEY}
