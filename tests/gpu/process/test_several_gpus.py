"""Two GPUs of one machine behind one queue: who is asked, what follows when one is lost, where finals are.

What runs in the GPU processes is a stand-in (tests/cluster_jobs.py), which knows its GPU by its variable;
queue and processes are real.
"""

from functools import partial

import pytest
from cluster_jobs import LostWhenTold, NotesContexts, jobs
from cluster_parts import history_on
from waiting import LIMIT_S, until

from evoflash.errors import DeviceError
from evoflash.gpu.process.finals import FinalTask
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.worker import GpuWorker
from evoflash.launch import LaunchConfig
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

SPEC, (WORKLOAD,) = load_gpu("h200"), parse_problem("b=1,h=1,s=64,d=64").workloads
TWO = ("0", "1")


def task_of(name):
    shapes = ((WORKLOAD, (LaunchConfig("kernel", (1, 1, 1), (32, 1, 1), 0),)),)
    return GpuTask(name, SPEC, (), shapes, (), seed=0, limit_s=LIMIT_S)


def test_both_gpus_work_at_the_same_time_until_one_has_hidden_shapes_and_finals(tmp_path):
    notes, meeting = tmp_path / "notes", tmp_path / "meeting"
    notes.mkdir()
    meeting.mkdir()
    with GpuWorker(jobs=jobs(NotesContexts(notes)), gpus=TWO) as gpus:
        until(lambda: len([*notes.iterdir()]) == 2, what="a context on each GPU before a first task comes")
        tasks = [gpus.submit(task_of(f"meet:{meeting}")) for _ in range(2)]
        assert {each.result(LIMIT_S).reason for each in tasks} == {*TWO}
        assert gpus.at_once == 2
        gpus.prepare_finals((WORKLOAD,), 5)
        gpus.begin_finals().result(LIMIT_S)
        assert gpus.at_once == 1
        used = [gpus.submit(task_of("good")).result(LIMIT_S).reason for _ in range(3)]
        task = FinalTask((), (WORKLOAD,), SPEC, 0, noise=0.0)
        assert [*used, gpus.finalists(task).result(LIMIT_S).reason] == ["0"] * 4


@pytest.mark.full
def test_a_lost_gpu_is_asked_no_more_and_its_task_goes_to_the_other_one_until_there_is_none(tmp_path, caplog):
    (tmp_path / "lost0").touch()
    with GpuWorker(jobs=jobs(LostWhenTold(tmp_path)), room_limit_s=0.0, gpus=("0", "1")) as gpus:
        gpus.prepare_finals((WORKLOAD,), 5)
        assert {gpus.submit(task_of("good")).result(LIMIT_S).reason for _ in range(3)} == {"1"}
        assert "going on without GPU 0: the GPU cannot be used any more" in caplog.text
        gpus.begin_finals().result(LIMIT_S)
        assert gpus.submit(task_of("good")).result(LIMIT_S).reason == "1"
        (tmp_path / "lost1").touch()
        with pytest.raises(DeviceError, match="the GPU cannot be used any more"):
            gpus.submit(task_of("crash")).result(LIMIT_S)


@pytest.mark.full  # half a minute of the compiler
def test_a_search_on_two_gpus_finds_what_one_on_one_gpu_does(tmp_path):
    one = history_on(GpuWorker, tmp_path / "one.db")
    assert len(one) >= 6
    assert history_on(partial(GpuWorker, gpus=TWO), tmp_path / "two.db") == one
