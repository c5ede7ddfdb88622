"""Ctrl-C and SIGTERM in every phase of a search on a GPU end it soon, whatever runs; needs no GPU.

The planted work lasts ten minutes (tests/stopping.py), and a search that waits for it fails the test.
With a real GPU: tests/on_gpu/test_machine.py.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
import python_processes
import stopping
from places import ROOT, TESTS, environment
from tables import data
from waiting import until

from evoflash.gpu.process.warm_up import Jobs
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import IsolatedPool

SOON_S = 150.0  # an idle machine takes half a second; what is waited for takes stopping.SLOW_S
BUDGET = 4
KINDS = (stopping.IN_GPU_PROCESSES, stopping.IN_PREPARING_PROCESSES, stopping.IN_MAIN_PROCESS)


class Search:
    """A search that has come to its slow step."""

    def __init__(self, folder, slow):
        self.db = folder / "a.db"
        words = ("search", "--gpu", "h200", "--family", "flash_mma", "--problem", "b=1,h=1,s=64,d=64")
        script = str(TESTS / "stopping.py")
        told = environment(NO_COLOR="1", EVOFLASH_TEST_SLOW=slow, EVOFLASH_TEST_NOTES=str(folder))
        arguments = (script, *words, "--budget", BUDGET, "--db", self.db)
        self.process = python_processes.python(*arguments, env=told, start_new_session=True)
        until(lambda: self.is_at(folder / slow), what=f"the step {slow}")

    def is_at(self, note):
        assert self.process.poll() is None, self.process.communicate()
        return note.exists()

    def killed(self):
        self.process.kill()
        return self.process.communicate()

    def stopped(self, *signals, between_s=0.0):
        """Its exit code and what it said, after the signals; killed where it does not end soon."""
        for each in signals:
            self.process.send_signal(each)
            time.sleep(between_s)
        try:
            _, said = self.process.communicate(timeout=SOON_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still there {SOON_S:g} s later: {self.killed()[1]}")
        assert "Traceback" not in said, said
        return self.process.returncode, said

    def stored(self):
        connection = sqlite3.connect(self.db)
        try:
            return connection.execute("select count(*) from evaluations").fetchone()[0]
        finally:
            connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(step, marks=pytest.mark.full if step in rest[:-1] else ())
        for first, *rest in KINDS
        for step in (first, *rest)
        if step != "finals"  # the next test's
    ],
)
@pytest.mark.sample(1)
def test_ctrl_c_ends_a_search_whatever_it_waits_for(tmp_path, slow):
    """By default in the first step and the last of each kind of process; the finals are the next test's."""
    code, said = Search(tmp_path, slow).stopped(signal.SIGINT)
    assert code == 130
    # A process may have come to its references before the search has anything to keep.
    assert said.count("the same command continues") in ((0, 1) if slow == "learn" else (1,))


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "called", "code"), [("SIGINT", "Ctrl-C", 130), ("SIGTERM", "SIGTERM", 143)])
@pytest.mark.sample(1)
@pytest.mark.full
def test_the_line_says_how_many_evaluations_are_kept(tmp_path, sent, called, code):
    search = Search(tmp_path, "finals")
    line = f"stopped by {called}: {BUDGET} of {BUDGET} evaluations are kept; the same command continues."
    found, said = search.stopped(getattr(signal, sent))
    assert (found, said.splitlines()[-1]) == (code, f"evoflash: {line}")
    assert said.count("the same command continues") == 1
    assert search.stored() == BUDGET


@pytest.mark.full
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("between_s", [0.0, 0.1])
def test_a_second_signal_while_it_ends_changes_nothing(tmp_path, second, between_s):
    code, said = Search(tmp_path, "finals").stopped(signal.SIGINT, second, between_s=between_s)
    if between_s:  # at once, either may be the first
        assert code == 130
    assert code in (130, 128 + second)
    assert said.splitlines()[-1].startswith("evoflash: stopped by ")
    assert said.count("the same command continues") == 1


# In the place of a library that the commands import: it leaves a note, and its import takes ten minutes.
LIBRARY = f"""
import os, time
from pathlib import Path
(Path(os.environ["EVOFLASH_TEST_NOTES"]) / "imported").touch()
time.sleep({stopping.SLOW_S})
"""


@pytest.mark.parametrize(("sent", "called", "code"), [("SIGINT", "Ctrl-C", 130), ("SIGTERM", "SIGTERM", 143)])
def test_a_signal_while_modules_are_imported_ends_the_command_with_one_line(tmp_path, sent, called, code):
    (tmp_path / "typer.py").write_text(LIBRARY)
    variables = environment(EVOFLASH_TEST_NOTES=str(tmp_path))
    variables["PYTHONPATH"] = os.pathsep.join([str(tmp_path), variables["PYTHONPATH"]])
    process = python_processes.evoflash("families", env=variables)
    until((tmp_path / "imported").exists, what="the import of a library")
    process.send_signal(getattr(signal, sent))
    _, said = process.communicate(timeout=SOON_S)
    (line,) = said.splitlines()
    assert process.returncode == code
    assert line.startswith(f"evoflash: stopped by {called}")


IGNORES = data(__file__, "IGNORES")


def test_where_ctrl_c_is_ignored_it_stays_so_and_sigterm_ends_the_command():
    """What a script starts with & is not to end when Ctrl-C ends the script."""
    command = [sys.executable, "-c", IGNORES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (143, "here\n"), done.stderr


# ---- closing while others are at work


def test_a_call_made_while_a_pool_closes_is_cancelled():
    pool = IsolatedPool(1)

    class Closing(dict):
        def __setitem__(self, call, value):
            pool.close()
            super().__setitem__(call, value)

    pool._under_way = Closing()
    assert pool.submit(os.getpid, timeout_s=30).cancelled()


def test_a_stand_by_that_is_made_while_the_worker_closes_is_closed_too():
    jobs = Jobs(warm_up=stopping.warm_up, precompute_references=stopping.learn)
    worker = GpuWorker(jobs=jobs)
    (gpu,) = worker._gpus
    made = gpu.standbys._begun

    def close_then_make():
        closing = threading.Thread(target=worker.close)
        closing.start()
        closing.join()
        return made()

    gpu.standbys._begun = close_then_make
    gpu.lanes[0].replace()
    assert gpu.standbys._waiting[-1].pool._is_closed
