"""A function that crashes, hangs or raises costs its own call; the next one is answered."""

import contextlib
import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pebble.pool.process as pebble_process
import pytest
from places import environment
from tables import data
from waiting import LIMIT_S, is_alive, until

from evoflash.blame import begin_kernel, compiling
from evoflash.errors import DeviceError, UsageError
from evoflash.evaluation import Status
from evoflash.evaluators.pipeline import preparation_of
from evoflash.isolation import Ending, IsolatedPool


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
    assert pool.submit(double, 21, timeout_s=LIMIT_S).result() == Ending(42)


def test_a_segmentation_fault_costs_one_call(pool):
    crashed = pool.submit(die_of_a_bad_pointer, timeout_s=LIMIT_S)
    after = pool.submit(double, 3, timeout_s=LIMIT_S)
    assert crashed.result().status is Status.RUNTIME
    assert crashed.result().reason == f"the process died of signal {signal.SIGSEGV.value}"
    assert after.result() == Ending(6)


def test_an_exit_of_the_process_costs_one_call(pool):
    ended = pool.submit(leave, 3, timeout_s=LIMIT_S).result()
    assert (ended.status, ended.reason) == (Status.RUNTIME, "the process ended with exit code 3")
    assert pool.submit(double, 4, timeout_s=LIMIT_S).result() == Ending(8)


@pytest.mark.parametrize("hang", [sleep_for_ever, hang_in_c])
def test_a_hang_is_killed_and_costs_one_call(pool, hang):
    hung = pool.submit(hang, timeout_s=0.5)
    after = pool.submit(double, 5, timeout_s=LIMIT_S)
    assert hung.result().status is Status.TIMEOUT
    assert "0.5 s" in hung.result().reason
    assert after.result() == Ending(10)


def test_a_crash_is_followed_by_another_process(pool):
    first = pool.submit(process_id, timeout_s=LIMIT_S).result().value
    assert pool.submit(process_id, timeout_s=LIMIT_S).result().value == first
    pool.submit(die_of_a_bad_pointer, timeout_s=LIMIT_S).result()
    assert pool.submit(process_id, timeout_s=LIMIT_S).result().value != first


def nap(seconds):
    time.sleep(seconds)
    return os.getpid()


def break_pool_of(pool):
    """What pebble does to itself when an idle process dies while no call runs and one waits."""
    until(lambda: pool._pool._pool_manager.task_manager.tasks, what="the pool has a task")
    pool._pool._pool_manager.handle_broken_pool(BrokenProcessPool("All workers expired"))


def test_calls_under_way_when_pebble_gives_up_its_pool_are_answered_by_a_new_one(tmp_path):
    with IsolatedPool(1) as fresh:
        under_way = fresh.submit(meet_then_wait, str(tmp_path), timeout_s=LIMIT_S)
        behind = fresh.submit(double, 6, timeout_s=LIMIT_S)
        noted(tmp_path, 1)
        break_pool_of(fresh)
        assert under_way.result(timeout=LIMIT_S) == Ending(1)
        assert behind.result(timeout=LIMIT_S) == Ending(12)


def test_what_breaks_pools_again_and_again_is_said_in_one_line():
    with IsolatedPool(1) as fresh:
        fresh.submit(process_id, timeout_s=LIMIT_S).result()
        answer = fresh.submit(sleep_for_ever, timeout_s=LIMIT_S)
        for _ in range(2):
            until(lambda: fresh._pool.active, what="another pool")
            break_pool_of(fresh)
        with pytest.raises(DeviceError, match="cannot be started: they end as they begin"):
            answer.result(timeout=LIMIT_S)


def test_a_system_that_starts_no_process_is_named_as_the_cause():
    """Linux's limit on processes does not bind root: the folder in which processes begin is gone instead."""
    code = (
        "import os, tempfile\n"
        "from evoflash.isolation import IsolatedPool\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    os.chdir(folder)\n"
        "with IsolatedPool(1) as pool:\n"
        "    print(pool.submit(os.getpid, timeout_s=60).exception())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert (
        "cannot be started (No such file or directory): work in a folder that is still there" in done.stdout
    )
    assert done.stderr == ""


def test_a_users_mistake_is_raised_not_recorded(pool):
    with pytest.raises(UsageError, match="heads=0"):
        pool.submit(complain, timeout_s=LIMIT_S).result()


def test_every_process_is_initialised_also_the_one_after_a_crash():
    with IsolatedPool(1, initializer=wake, initargs=(7,)) as pool:
        pool.submit(leave, 1, timeout_s=LIMIT_S).result()
        assert pool.submit(woken, timeout_s=LIMIT_S).result().value == "7"


def test_an_idle_process_that_dies_is_replaced():
    with IsolatedPool(1) as pool:
        os.kill(killed := pool.submit(process_id, timeout_s=LIMIT_S).result().value, signal.SIGKILL)
        until(lambda: killed not in processes_of(pool), what="pebble looks at its processes")
        assert pool.submit(double, 6, timeout_s=LIMIT_S).result() == Ending(12)


def test_closing_leaves_no_process_and_no_open_call(tmp_path):
    pool = IsolatedPool(1)
    open_call = pool.submit(leave_note_and_wait, str(tmp_path), timeout_s=LIMIT_S)
    (process,) = noted(tmp_path, 1)
    pool.close()
    assert open_call.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_worker_process_multiplies_with_one_thread() -> None:
    with IsolatedPool(1) as pool:
        assert pool.submit(os.getenv, "OPENBLAS_NUM_THREADS", timeout_s=LIMIT_S).result().value == "1"


# ---- killed from outside


def meet_then_wait(folder):
    """Leave a note of this process, then wait; a second process that finds the note returns at once."""
    notes = list(Path(folder).iterdir())
    (Path(folder) / str(os.getpid())).touch()
    if not notes:
        time.sleep(3600)
    return len(notes)


def leave_note_and_wait(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(3600)


def noted(folder, count):
    """The ids of the processes that left a note, once there are `count` of them."""
    until(lambda: len(list(folder.iterdir())) >= count, what=f"{count} notes")
    return [int(note.name) for note in folder.iterdir()]


def test_a_call_whose_process_was_killed_from_outside_is_made_again(pool, tmp_path):
    call = pool.submit(meet_then_wait, str(tmp_path), timeout_s=LIMIT_S)
    os.kill(*noted(tmp_path, 1), signal.SIGKILL)
    assert call.result(timeout=LIMIT_S) == Ending(1)


def leave_note_of_server_then_wait(folder):
    """Of the server that forked this process; one that finds a note returns at once."""
    notes = list(Path(folder).iterdir())
    (Path(folder) / str(os.getppid())).touch()
    if not notes:
        begin_kernel()
        time.sleep(3600)
    return len(notes)


def test_a_call_under_way_when_the_server_that_forks_is_killed_is_made_again_by_another(pool, tmp_path):
    call = pool.submit(leave_note_of_server_then_wait, str(tmp_path), timeout_s=LIMIT_S)
    (server,) = noted(tmp_path, 1)
    os.kill(server, signal.SIGKILL)
    assert call.result(timeout=LIMIT_S) == Ending(1)
    assert len(noted(tmp_path, 2)) == 2


def test_a_call_whose_processes_are_killed_again_and_again_is_a_failure(pool, tmp_path):
    call = pool.submit(leave_note_and_wait, str(tmp_path), timeout_s=LIMIT_S)
    for count in (1, 2):
        for process in noted(tmp_path, count):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    expected = Ending(None, Status.RUNTIME, "the process died of signal 9", is_of_machine=True)
    assert call.result(timeout=LIMIT_S) == expected


# ---- what a dead process is laid to


def die_in(folder, part):
    """Leave a note of this process, then die in that part of a candidate's way, or before any of it."""
    (Path(folder) / str(os.getpid())).touch()
    if part == "compiler":
        with compiling():
            os.abort()
    if part == "kernel":
        begin_kernel()
    if part == "judgement":
        begin_kernel()
        with compiling():
            pass
    os.abort()


@pytest.mark.parametrize(
    ("part", "tries", "expected"),
    [
        ("nothing", 2, Ending(None, Status.RUNTIME, "the process died of signal 6", is_of_machine=True)),
        ("compiler", 1, Ending(None, Status.COMPILE, "the compiler died of signal 6")),
        ("kernel", 1, Ending(None, Status.RUNTIME, "the process died of signal 6")),
        ("judgement", 1, Ending(None, Status.RUNTIME, "the process died of signal 6")),
    ],
)
def test_a_death_before_a_candidate_began_is_tried_again_and_laid_to_the_machine(
    pool, tmp_path, part, tries, expected
):
    assert pool.submit(die_in, str(tmp_path), part, timeout_s=LIMIT_S).result() == expected
    assert len(list(tmp_path.iterdir())) == tries


@pytest.mark.parametrize("neighbours", [0, 1])
def test_a_death_is_laid_to_its_call_however_late_the_message_that_it_began_is_read(
    monkeypatch, tmp_path, neighbours
):
    """Pebble alone gives up its pool where no other call runs, and else takes the call to run for ever."""
    receive = pebble_process.WorkerManager.receive

    def receive_late(manager, timeout):
        message = receive(manager, timeout)
        if not isinstance(message, pebble_process.NoMessage):
            time.sleep(0.3)
        return message

    with IsolatedPool(1 + neighbours) as fresh:
        others = [fresh.submit(sleep_for_ever, timeout_s=LIMIT_S) for _ in range(neighbours)]
        until(lambda: all(each.inner for each in fresh._under_way), what="the others have begun")
        monkeypatch.setattr(pebble_process.WorkerManager, "receive", receive_late)
        ending = fresh.submit(die_in, str(tmp_path), "kernel", timeout_s=LIMIT_S).result()
        assert ending == Ending(None, Status.RUNTIME, "the process died of signal 6")
        assert not any(each.done() for each in others)
    assert len(list(tmp_path.iterdir())) == 1


def test_what_began_in_an_earlier_call_of_a_process_is_not_of_this_one(pool):
    pool.submit(begin_kernel, timeout_s=LIMIT_S).result()
    assert pool.submit(leave, 3, timeout_s=LIMIT_S).result().is_of_machine


@pytest.mark.parametrize("part", ["nothing", "kernel"])
def test_a_process_that_dies_before_the_kernel_began_is_no_outcome_of_a_genome(pool, tmp_path, part):
    ending = pool.submit(die_in, str(tmp_path), part, timeout_s=LIMIT_S).result()
    if part == "nothing":
        with pytest.raises(DeviceError, match="die before a kernel begins in them"):
            preparation_of(ending)
    else:
        assert preparation_of(ending).failure.status is Status.RUNTIME


def note_then_wait_for_word(folder, word):
    (Path(folder) / str(os.getpid())).touch()
    until(Path(word).exists, what="the word")
    return os.getpid()


def test_sigterm_to_every_process_of_a_job_ends_no_call(pool, tmp_path):
    notes, word = tmp_path / "notes", tmp_path / "word"
    notes.mkdir()
    call = pool.submit(note_then_wait_for_word, str(notes), str(word), timeout_s=LIMIT_S)
    process = pool.submit(process_id, timeout_s=LIMIT_S)
    (subject,) = noted(notes, 1)
    os.kill(subject, signal.SIGTERM)
    word.touch()
    assert call.result(timeout=LIMIT_S).value == subject == process.result(timeout=LIMIT_S).value


def processes_of(pool):
    return tuple(pool._pool._pool_manager.worker_manager.workers)


def test_a_process_outlives_the_thread_that_first_called_it():
    """It dies with the thread that started it: Linux's parent-death signal is about threads."""
    with IsolatedPool(1) as fresh:
        first = []
        caller = threading.Thread(
            target=lambda: first.append(fresh.submit(process_id, timeout_s=LIMIT_S).result().value)
        )
        caller.start()
        thread = Path(f"/proc/self/task/{caller.native_id}")
        caller.join()
        until(lambda: not thread.exists(), what="the end of the thread, for Linux too")
        assert [fresh.submit(process_id, timeout_s=LIMIT_S).result().value] == first


PARENT = data(__file__, "PARENT")


def hang_in_c_noted(folder):
    (Path(folder) / str(os.getpid())).touch()
    hang_in_c()


def test_kill_9_of_the_parent_leaves_no_process(tmp_path):
    script, notes = tmp_path / "parent.py", tmp_path / "notes"
    notes.mkdir()
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, script, notes], env=environment())
    processes = noted(notes, 2)
    parent.kill()
    parent.wait()
    assert len(processes) == 2
    until(lambda: not any(map(is_alive, processes)), what="the end of its processes")


# ---- a wall clock that jumps


@pytest.fixture(params=[3600, -3600])
def jumping_clock(monkeypatch, request):
    """An hour forward, or back, at each look."""
    true, looks = time.time, itertools.count()
    monkeypatch.setattr(time, "time", lambda: true() + request.param * next(looks))


@pytest.mark.usefixtures("jumping_clock")
def test_a_wall_clock_that_jumps_makes_no_call_late():
    with IsolatedPool(1) as fresh:
        assert fresh.submit(nap, 0.5, timeout_s=LIMIT_S).result(timeout=LIMIT_S).status is Status.CORRECT


@pytest.mark.usefixtures("jumping_clock")
def test_a_wall_clock_that_jumps_does_not_keep_a_hang_alive():
    with IsolatedPool(1) as fresh:
        hung = fresh.submit(sleep_for_ever, timeout_s=1.0).result(timeout=LIMIT_S)
        assert hung.status is Status.TIMEOUT
        assert fresh.submit(double, 7, timeout_s=LIMIT_S).result(timeout=LIMIT_S) == Ending(14)
