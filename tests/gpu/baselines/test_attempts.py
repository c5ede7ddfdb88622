"""A baseline that crashes, hangs or exits costs itself; real processes, a stand-in for the GPU's part."""

import ctypes
import os
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tables import table_of_cases
from waiting import LIMIT_S

from evoflash.evaluation import Status, Timing
from evoflash.gpu.baselines import BaselineFailedError
from evoflash.gpu.baselines.contender import attempt, begin_step, culprit, end_steps, note_in
from evoflash.gpu.process.finals import FinalReport, FinalTask, rounds, run_noting
from evoflash.isolation import Ending, IsolatedPool
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

WORKLOADS = parse_problem("mission").workloads


def task_of(*names):
    return FinalTask((), WORKLOADS, load_gpu("h200"), 1, baselines=names)


def report_of(names):
    timing = Timing(str(WORKLOADS[0]), "final-cold", 1.0, 1.0, 1.0, 1)
    return FinalReport({name: (timing,) for name in names}, (), {}, {"fa3 on x": "not installed"}, {})


def busy(name):
    """What a library of that name does to its process."""
    if name == "flashinfer":
        ctypes.string_at(0)
    if name == "fa4":
        os._exit(7)
    if name == "xformers":
        time.sleep(3600)
    if name == "fa3":
        raise BaselineFailedError("fa3: illegal address")


def finals(task, *, hang_limit_s=LIMIT_S):
    """Like finals.run_finals, but for the GPU: each baseline is tried, then all are timed."""
    note_in(task.notes)
    try:
        for name in task.baselines:
            with attempt(name, limit_s=hang_limit_s if name == "xformers" else LIMIT_S):
                busy(name)
    except BaselineFailedError as failed:
        return Ending(None, Status.RUNTIME, str(failed))
    return Ending(report_of(task.baselines))


def hasty_finals(task):
    return finals(task, hang_limit_s=0.3)


def silent_finals(task):
    """Dies where no note is: in the replays, say."""
    if "fa4" in task.baselines:
        os._exit(9)
    return Ending(report_of(task.baselines))


def in_processes(function, tasks=None):
    def run_once(task):
        if tasks is not None:
            tasks.append(task)
        with IsolatedPool(1) as pool:
            ending = pool.submit(function, task, timeout_s=LIMIT_S).result()
        return ending.value or Ending(None, ending.status, ending.reason)

    return run_once


@pytest.mark.slow
@table_of_cases()
@pytest.mark.sample(1)
def test_a_baseline_that_ends_its_process_costs_itself(name, reason, caplog):
    ending = rounds(task_of("sdpa_flash", name, "sdpa_math"), in_processes(finals))
    assert ending.value is not None
    assert list(ending.value.timings) == ["sdpa_flash", "sdpa_math"]
    assert ending.value.absent == {"fa3 on x": "not installed", f"{name} on {WORKLOADS[0]}": reason}
    assert f"baseline {name} is left out: {reason}" in caplog.text


def test_a_baseline_that_hangs_is_ended_by_the_watchdog_of_its_process():
    ending = rounds(task_of("xformers", "sdpa_flash"), in_processes(hasty_finals))
    assert list(ending.value.timings) == ["sdpa_flash"]
    assert "it took more than 0:00:00.3" in ending.value.absent[f"xformers on {WORKLOADS[0]}"]


def test_a_baseline_that_takes_long_is_said_once(monkeypatch, caplog):
    from evoflash.gpu.process import finals as final_rounds

    monkeypatch.setattr(final_rounds, "_PATIENCE_S", 0.05)

    def run_once(task):
        note_in(task.notes)
        with attempt("flashinfer"):
            deadline = time.monotonic() + LIMIT_S
            while "baseline flashinfer" not in caplog.text and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.1)
        return Ending(report_of(task.baselines))

    assert rounds(task_of("sdpa_flash", "flashinfer"), run_once).value is not None
    assert caplog.text.count("waiting for baseline flashinfer: ") == 1


def test_several_that_fail_cost_a_round_each():
    tasks = []
    ending = rounds(task_of("flashinfer", "sdpa_flash", "fa4"), in_processes(finals, tasks))
    assert [task.baselines for task in tasks] == [
        ("flashinfer", "sdpa_flash", "fa4"),
        ("sdpa_flash", "fa4"),
        ("sdpa_flash",),
    ]
    assert list(ending.value.timings) == ["sdpa_flash"]


def test_a_death_that_no_note_explains_costs_all_libraries_but_torch():
    ending = rounds(task_of("sdpa_flash", "fa3", "fa4"), in_processes(silent_finals))
    assert list(ending.value.timings) == ["sdpa_flash"]
    assert "nothing says which baseline" in ending.value.absent[f"fa3 on {WORKLOADS[0]}"]


def test_a_failure_without_libraries_is_not_tried_again():
    tasks = []
    lost = Ending(None, Status.TIMEOUT, "a finalist did not end within 30 s")

    def run_once(task):
        tasks.append(task)
        return lost

    assert rounds(task_of("sdpa_flash"), run_once) == lost
    assert len(tasks) == 1


def finals_of_kernels(task):
    """The finalists named so hang while they are timed, as run_finals says it."""
    note_in(task.notes)
    if hung := [each.genome_id for each in task.tasks if each.genome_id.startswith("hangs")]:
        end_steps(hung[0])
        return Ending(None, Status.TIMEOUT, f"{hung[0]} did not end within 5 s")
    return Ending(report_of([*(each.genome_id for each in task.tasks), *task.baselines]))


@pytest.mark.parametrize(
    ("names", "timed"),
    [(("hangs", "right", "hangs too"), ["right", "sdpa_flash"]), (("hangs",), [])],
    ids=["two of three", "all"],
)
def test_a_finalist_that_hangs_costs_itself(names, timed, caplog):
    finalists = tuple(SimpleNamespace(genome_id=name) for name in names)

    report = rounds(replace(task_of("sdpa_flash"), tasks=finalists), finals_of_kernels).value

    assert list(report.timings) == timed
    assert report.hung == {x: f"{x} did not end within 5 s" for x in names if x != "right"}
    assert "finalist hangs is left out: hangs did not end within 5 s" in caplog.text


def stuck_finals(task):
    note_in(task.notes)
    begin_step("the verdict", limit_s=0.2)
    with attempt("sdpa_flash"):
        time.sleep(0.3)
    time.sleep(3600)


def test_finals_that_stand_still_end_and_the_place_is_told():
    """What a baseline takes on the way is none of the step's time."""
    tasks = []
    ending = rounds(task_of("sdpa_flash", "fa4"), in_processes(stuck_finals, tasks))
    place = r"in stuck_finals \(baselines/test_attempts.py:\d+\)"
    assert (ending.value, ending.status) == (None, Status.TIMEOUT)
    assert re.fullmatch(rf"the verdict: it took more than 0:00:00\.2\d* \(h:mm:ss\), {place}", ending.reason)
    assert len(tasks) == 1


def test_a_baseline_that_came_through_leaves_no_note(tmp_path):
    notes = tmp_path / "notes"
    notes.touch()
    with IsolatedPool(1) as pool:
        assert pool.submit(note_two, str(notes), timeout_s=LIMIT_S).result().value == ("fa4", "")
    assert culprit(notes) == ("", "")


def note_two(path):
    """The note while the second of two baselines is under way; an attempt within another changes nothing."""
    note_in(path)
    with attempt("fa3"):
        pass
    with attempt("fa4"), attempt("fa4"):
        return culprit(path)


def test_the_gpu_process_notes_in_the_tasks_file_and_knows_a_failed_baseline(tmp_path, monkeypatch):
    from evoflash.gpu.process import finals as finals_retry
    from evoflash.gpu.process.warm_up import Jobs

    notes = tmp_path / "notes"
    notes.touch()

    def fail(task):
        with attempt("fa4"):
            raise BaselineFailedError("fa4: illegal address")

    monkeypatch.setattr(finals_retry, "run_finals", fail)
    ending = run_noting(replace(task_of("fa4"), notes=str(notes)))
    assert ending == Ending(None, Status.RUNTIME, "fa4: illegal address")
    assert culprit(notes) == ("fa4", "")
    assert Jobs().finals is run_noting


@pytest.fixture(autouse=True)
def no_notes_left(monkeypatch):
    from evoflash.gpu.baselines import contender as attempts

    monkeypatch.setattr(attempts, "_notes", None)
    monkeypatch.setattr(attempts, "_step", None)
