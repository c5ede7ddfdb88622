"""Faults of the machine on a real GPU: it disappears, its memory is taken, its processes are killed.

The same decisions without a GPU are in tests/gpu/process/test_worker.py.
"""

import contextlib
import os
import signal
import subprocess
import time

import pytest
import python_processes
from on_gpu import planted
from waiting import is_alive, workers_of

from evoflash.errors import DeviceError
from evoflash.evaluation import Status
from evoflash.gpu.process.worker import GpuWorker
from evoflash.operations.attention.workload import AttentionWorkload

pytestmark = [pytest.mark.gpu, pytest.mark.alone_on_gpu]

SMALL = AttentionWorkload(1, 2, 1, 64, 64, 64)
LARGER = AttentionWorkload(8, 32, 32, 64, 64, 64)  # an arena of 10 MiB whose right answers take no time

# Takes the GPU's memory to the last megabytes, and gives it back when its input ends.
HOG = """
import sys
from cupy.cuda import runtime
runtime.free(0)
size = 1 << 36
while size >= 1 << 20:
    try:
        runtime.malloc(size)
    except runtime.CUDARuntimeError:
        size //= 2
print(runtime.memGetInfo()[0], flush=True)
sys.stdin.read()
"""

# A GPU process with a kernel that never ends, whose parent waits to be killed.
PARENT = """
import sys, time
from pathlib import Path
from on_gpu import planted
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.gpu.process.worker import GpuWorker
if __name__ == "__main__":
    with GpuWorker() as worker:
        spec, small = spec_of(present_gpu()), AttentionWorkload(1, 2, 1, 64, 64, 64)
        folder = Path(sys.argv[1])
        worker.submit(planted.task_of(spec, folder, checks=[small])).result()
        hung = worker.submit(planted.task_of(spec, folder, checks=[small], fault="never ends"))
        print("hangs", flush=True)
        hung.result()
        time.sleep(600)
"""


@contextlib.contextmanager
def memory_taken():
    """Another process holds all of the GPU's memory; stdin's end, or the block's, lets it go."""
    hog = python_processes.python("-c", HOG, stdin=subprocess.PIPE, stderr=None)
    left = int(hog.stdout.readline())
    print(f"\nthe other process left {left >> 20} MiB")
    try:
        yield hog
    finally:
        with contextlib.suppress(BrokenPipeError):
            hog.stdin.close()
        hog.wait()
        hog.stdout.close()


def good(worker, spec, cubins, workload=SMALL):
    return worker.submit(planted.task_of(spec, cubins, checks=[workload])).result()


def test_a_gpu_that_disappears_is_no_candidates_fault(spec, cubins, monkeypatch):
    """Processes that start from now on see no device: the driver's own error, as after a loss."""
    with GpuWorker() as worker:
        assert good(worker, spec, cubins).status is Status.CORRECT
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        bad = [planted.task_of(spec, cubins, checks=[SMALL], fault="writes far outside")] * 4
        outcomes = [worker.submit(task) for task in bad]
        errors = [each.exception() for each in outcomes]
        print(f"\n{errors[-1]}")
        assert isinstance(errors[-1], DeviceError)
        assert "cannot be used any more" in str(errors[-1])
        assert "the same command continues" in str(errors[-1])
        before = [each.result().status for each, error in zip(outcomes, errors, strict=True) if error is None]
        assert before == [Status.RUNTIME] * len(before)


def test_memory_that_another_process_keeps_is_said_and_what_comes_back_is_used(spec, cubins):
    with GpuWorker(room_limit_s=1.0) as worker:
        assert good(worker, spec, cubins).status is Status.CORRECT
        with memory_taken(), pytest.raises(DeviceError) as caught:
            good(worker, spec, cubins, LARGER)
        print(f"\n{caught.value}")
        assert "the same command continues" in str(caught.value)
        assert good(worker, spec, cubins, LARGER).status is Status.CORRECT


def test_memory_that_comes_back_in_time_costs_no_candidate(spec, cubins):
    with GpuWorker(room_limit_s=120.0) as worker:
        assert good(worker, spec, cubins).status is Status.CORRECT
        with memory_taken() as hog:
            waiting = worker.submit(planted.task_of(spec, cubins, checks=[LARGER]))
            time.sleep(3.0)
            assert not waiting.done()
            hog.stdin.close()
            hog.wait()
            assert waiting.result().status is Status.CORRECT


def test_kill_9_of_the_gpu_processes_costs_no_candidate(spec, cubins):
    with GpuWorker() as worker:
        assert good(worker, spec, cubins).status is Status.CORRECT
        before = workers_of(os.getpid())
        running = worker.submit(planted.task_of(spec, cubins, checks=[SMALL, LARGER]))
        for process in worker._gpus[0].lanes[0].process.pool._pool._pool_manager.worker_manager.workers:
            os.kill(process, signal.SIGKILL)
        assert running.result().status is Status.CORRECT, running.result().reason
        assert before


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_the_end_of_their_parent_leaves_no_process_and_a_gpu_that_works(spec, cubins, tmp_path, sent):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = python_processes.python(script, tmp_path, stderr=None)
    assert parent.stdout.readline() == "hangs\n"
    time.sleep(0.3)  # the kernel is on the GPU
    processes = workers_of(parent.pid)
    parent.send_signal(sent)
    parent.communicate(timeout=30)
    end_s = time.monotonic() + 60
    while any(map(is_alive, processes)) and time.monotonic() < end_s:
        time.sleep(0.05)
    assert processes
    assert not any(map(is_alive, processes))
    with GpuWorker() as worker:
        assert good(worker, spec, cubins).status is Status.CORRECT
