"""Processes that share a GPU by a lock on a file: who waits for whom. Needs no GPU."""

import multiprocessing
import os
import time

import pytest
from tables import table_of_cases
from waiting import LIMIT_S

from evoflash.errors import UsageError
from evoflash.gpu import launcher
from evoflash.gpu.launcher import alone, beside_others, let_go, share_gpu_by

# A Python that loads the launcher takes 0.15 s of CPU, a fork of one that has loaded it a hundredth.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["evoflash.gpu.launcher"])
SHORT_S, LONG_S = 0.5, LIMIT_S


def other(path, how, ready, end):
    """A process that holds the GPU until it is told to end."""
    share_gpu_by(path)
    with getattr(launcher, how)():
        ready.set()
        end.wait()


def asking(path, how, got):
    share_gpu_by(path)
    with getattr(launcher, how)():
        got.set()


class FailingError(Exception):
    pass


def failing(path, ready, goes_on, end):
    """A process whose kernel fails, which lets go of the GPU when told to."""
    share_gpu_by(path)
    try:
        with alone():
            raise FailingError
    except FailingError:
        ready.set()
    goes_on.wait()
    let_go()
    end.wait()


def started(function, *args):
    process = CONTEXT.Process(target=function, args=args, daemon=True)
    process.start()
    return process


@table_of_cases()
def test_what_is_timed_runs_alone_and_launches_run_beside_one_another(tmp_path, first, second, waits):
    path, ready, end, got = str(tmp_path / "turns"), CONTEXT.Event(), CONTEXT.Event(), CONTEXT.Event()
    holder = started(other, path, first, ready, end)
    assert ready.wait(LONG_S)
    asker = started(asking, path, second, got)
    if waits:
        time.sleep(SHORT_S)
        assert not got.is_set()
        end.set()
    assert got.wait(LONG_S)
    end.set()
    holder.join(LONG_S)
    asker.join(LONG_S)


def test_the_gpu_of_a_process_that_dies_is_free(tmp_path):
    path, ready, end, got = str(tmp_path / "turns"), CONTEXT.Event(), CONTEXT.Event(), CONTEXT.Event()
    holder = started(other, path, "alone", ready, end)
    assert ready.wait(LONG_S)
    asker = started(asking, path, "alone", got)
    holder.kill()
    assert got.wait(LONG_S)
    asker.join(LONG_S)


def test_after_an_exception_the_gpu_is_kept_until_the_process_lets_go(tmp_path):
    path, (ready, goes_on, end, got) = str(tmp_path / "turns"), (CONTEXT.Event() for _ in range(4))
    holder = started(failing, path, ready, goes_on, end)
    assert ready.wait(LONG_S)
    asker = started(asking, path, "beside_others", got)
    time.sleep(SHORT_S)
    assert not got.is_set()
    goes_on.set()
    assert got.wait(LONG_S)
    end.set()
    holder.join(LONG_S)
    asker.join(LONG_S)


def nested(path, done):
    share_gpu_by(path)
    with alone(), beside_others():
        pass
    with beside_others():
        done.set()


def test_what_runs_alone_may_launch(tmp_path):
    done = CONTEXT.Event()
    process = started(nested, str(tmp_path / "turns"), done)
    assert done.wait(LONG_S)
    process.join(LONG_S)


@pytest.fixture
def no_file(monkeypatch):
    """This process shares no GPU, even where a GPU test before had it do so."""
    monkeypatch.setattr(launcher, "_share", launcher._Share())


@pytest.mark.usefixtures("no_file")
def test_a_process_that_was_given_no_file_waits_for_nobody():
    with alone(), beside_others():
        pass


def alone_by_the_variable(path, gpu, got):
    os.environ.update(EVOFLASH_GPU_TURNS=path, CUDA_VISIBLE_DEVICES=gpu)
    with alone():
        got.set()


@pytest.mark.parametrize(("gpu", "waits"), [("0", True), ("1", False)])
def test_who_names_the_same_file_and_gpu_by_the_variable_waits(tmp_path, gpu, waits):
    path, ready, end, got = str(tmp_path / "turns"), CONTEXT.Event(), CONTEXT.Event(), CONTEXT.Event()
    holder = started(other, f"{path}-0", "alone", ready, end)
    assert ready.wait(LONG_S)
    asker = started(alone_by_the_variable, path, gpu, got)
    assert got.wait(SHORT_S if waits else LONG_S) is not waits
    end.set()
    assert got.wait(LONG_S)
    holder.join(LONG_S)
    asker.join(LONG_S)


@pytest.mark.usefixtures("no_file")
def test_a_file_that_cannot_be_opened_is_told_with_its_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("EVOFLASH_GPU_TURNS", str(tmp_path / "missing" / "turns"))

    with pytest.raises(UsageError, match=r"No such file.*EVOFLASH_GPU_TURNS wants a file that you may write"):
        share_gpu_by("")


def launching(path, ready, end):
    """A process that launches without a pause."""
    share_gpu_by(path)
    while not end.is_set():
        with beside_others():
            ready.set()
            time.sleep(0.02)


def test_a_timing_has_its_turn_among_launches_without_a_pause(tmp_path):
    path, end, got = str(tmp_path / "turns"), CONTEXT.Event(), CONTEXT.Event()
    every = [CONTEXT.Event() for _ in range(4)]
    launches = [started(launching, path, ready, end) for ready in every]
    assert all(ready.wait(LONG_S) for ready in every)
    timing = started(asking, path, "alone", got)
    has_had_it = got.wait(LONG_S)
    end.set()
    for process in (timing, *launches):
        process.join(LONG_S)
    assert has_had_it
