"""A function that crashes, hangs or raises costs its own call; the next one is answered. No GPU needed."""

import ctypes
import os
import signal
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from evoflash.errors import DeviceError, UsageError
from evoflash.evaluation import Status
from evoflash.isolation import Ending, IsolatedPool
from evoflash.launcher import present_gpu
from evoflash.worker import GpuWorker


def double(number):
    return 2 * number


def die_of_a_bad_pointer():
    ctypes.string_at(0)


def leave(code):
    os._exit(code)


def sleep_for_ever():
    time.sleep(3600)


def hang_in_c():
    """Deaf to every signal but KILL, as a call into a driver is."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)


def complain():
    raise UsageError("heads=0 in a workload: give a number from 1 up.")


def process_id():
    return os.getpid()


def wake(number):
    os.environ["EVOFLASH_TEST_WOKEN"] = str(number)


def woken():
    return os.environ.get("EVOFLASH_TEST_WOKEN")


@pytest.fixture(scope="module")
def pool():
    with IsolatedPool(1) as made:
        yield made


def test_a_call_returns_its_value(pool):
    assert pool.submit(double, 21, timeout_s=30).result() == Ending(42)


def test_a_segmentation_fault_costs_one_call(pool):
    crashed = pool.submit(die_of_a_bad_pointer, timeout_s=30)
    after = pool.submit(double, 3, timeout_s=30)
    assert crashed.result().status is Status.RUNTIME
    assert crashed.result().reason == f"the process died of signal {signal.SIGSEGV.value}"
    assert after.result() == Ending(6)


def test_an_exit_of_the_process_costs_one_call(pool):
    ended = pool.submit(leave, 3, timeout_s=30).result()
    assert (ended.status, ended.reason) == (Status.RUNTIME, "the process ended with exit code 3")
    assert pool.submit(double, 4, timeout_s=30).result() == Ending(8)


@pytest.mark.parametrize("hang", [sleep_for_ever, hang_in_c])
def test_a_hang_is_killed_and_costs_one_call(pool, hang):
    hung = pool.submit(hang, timeout_s=0.5)
    after = pool.submit(double, 5, timeout_s=30)
    assert hung.result().status is Status.TIMEOUT
    assert "0.5 s" in hung.result().reason
    assert after.result() == Ending(10)


def test_a_crash_is_followed_by_another_process(pool):
    first = pool.submit(process_id, timeout_s=30).result().value
    assert pool.submit(process_id, timeout_s=30).result().value == first
    pool.submit(die_of_a_bad_pointer, timeout_s=30).result()
    assert pool.submit(process_id, timeout_s=30).result().value != first


def nap(seconds):
    time.sleep(seconds)
    return os.getpid()


def break_pool_of(pool):
    """What pebble does to itself when a process dies before the message that it took a task was read."""
    while not pool._pool._pool_manager.task_manager.tasks:
        time.sleep(0.01)
    pool._pool._pool_manager.handle_broken_pool(BrokenProcessPool("All workers expired"))


def test_calls_under_way_when_pebble_gives_up_its_pool_are_answered_by_a_new_one():
    with IsolatedPool(1) as fresh:
        before = fresh.submit(process_id, timeout_s=30).result().value
        under_way, behind = fresh.submit(nap, 0.2, timeout_s=30), fresh.submit(double, 6, timeout_s=30)
        break_pool_of(fresh)
        assert under_way.result(timeout=30).value != before
        assert behind.result(timeout=30) == Ending(12)


def test_what_breaks_pools_again_and_again_is_said_in_one_line():
    with IsolatedPool(1) as fresh:
        fresh.submit(process_id, timeout_s=30).result()
        answer = fresh.submit(sleep_for_ever, timeout_s=30)
        for _ in range(2):
            while not fresh._pool.active:
                time.sleep(0.01)
            break_pool_of(fresh)
        with pytest.raises(DeviceError, match="could not be kept running"):
            answer.result(timeout=30)


def test_a_users_mistake_is_raised_not_recorded(pool):
    with pytest.raises(UsageError, match="heads=0"):
        pool.submit(complain, timeout_s=30).result()


def test_every_process_is_initialised_also_the_one_after_a_crash():
    with IsolatedPool(1, initializer=wake, initargs=(7,)) as pool:
        pool.submit(leave, 1, timeout_s=30).result()
        assert pool.submit(woken, timeout_s=30).result().value == "7"


def test_an_idle_process_that_dies_is_replaced():
    with IsolatedPool(1) as pool:
        os.kill(pool.submit(process_id, timeout_s=30).result().value, signal.SIGKILL)
        time.sleep(0.5)  # pebble looks at its processes ten times a second
        assert pool.submit(double, 6, timeout_s=30).result() == Ending(12)


def test_closing_leaves_no_process_and_no_open_call():
    pool = IsolatedPool(1)
    process = pool.submit(process_id, timeout_s=30).result().value
    open_call = pool.submit(sleep_for_ever, timeout_s=600)
    time.sleep(0.3)
    pool.close()
    assert open_call.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_without_a_gpu_the_worker_says_what_to_do():
    try:
        present_gpu()
    except DeviceError:
        with pytest.raises(DeviceError, match=r"--evaluator emulated|pip install"):
            GpuWorker()
    else:
        pytest.skip("there is a GPU here")


def test_a_worker_process_multiplies_with_one_thread() -> None:
    with IsolatedPool(1) as pool:
        assert pool.submit(os.getenv, "OPENBLAS_NUM_THREADS", timeout_s=30).result().value == "1"
