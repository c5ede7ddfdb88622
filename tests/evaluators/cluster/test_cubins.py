"""Machine code travels: what another machine gets names files that it has, with the same bytes."""

from dataclasses import replace
from pathlib import Path

import pytest

from evoflash.evaluation import Build, Status
from evoflash.evaluators.prepare import Preparation
from evoflash.gpu.process.finals import FinalTask
from evoflash.gpu.process.rungs import Anchor, GpuTask
from evoflash.isolation import Ending
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

pytest.importorskip("distributed")

from evoflash.evaluators.cluster.tasks import (
    pack_finals,
    pack_preparation,
    pack_task,
    unpack_finals,
    unpack_preparation,
    unpack_task,
)

SPEC, PROBLEM = load_gpu("h200"), parse_problem("b=1,h=1,s=64,d=64")
(KEY,) = PROBLEM.compile_keys(SPEC.arch)


@pytest.fixture
def there(tmp_path):
    """A folder of the machine that sends; gone() takes it away."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


def cubin(folder, name):
    (folder / name).write_bytes(name.encode())
    return str(folder / name)


def gone(folder):
    for file in folder.iterdir():
        file.unlink()


def task_of(name, path):
    return GpuTask(name, SPEC, ((KEY, path),), (), (), seed=0)


def test_a_prepared_genome_brings_its_cubins(there):
    builds = (Build("id", KEY, "", "", cubin_path=cubin(there, "a")), Build("id", KEY, "", "", ok=False))
    parcel = pack_preparation(Ending(Preparation(builds)))
    gone(there)
    found = unpack_preparation(parcel).value.builds
    assert Path(found[0].cubin_path).read_bytes() == b"a"
    assert found[1].cubin_path == ""
    assert replace(found[0], cubin_path=builds[0].cubin_path) == builds[0]


def test_a_file_that_is_here_is_not_written_again(there):
    ending = Ending(Preparation((Build("id", KEY, "", "", cubin_path=cubin(there, "a")),)))
    assert unpack_preparation(pack_preparation(ending)) == ending


def test_a_call_that_ended_without_a_genome_stays_as_it_is():
    ending = Ending(None, Status.TIMEOUT, "no answer")
    assert unpack_preparation(pack_preparation(ending)) == ending


def test_a_task_brings_its_cubin_and_that_of_its_anchor(there):
    anchor = Anchor(task_of("anchor", cubin(there, "b")), (1.0,))
    parcel = pack_task(replace(task_of("task", cubin(there, "a")), anchor=anchor))
    gone(there)
    found = unpack_task(parcel)
    assert Path(dict(found.cubins)[KEY]).read_bytes() == b"a"
    assert Path(dict(found.anchor.task.cubins)[KEY]).read_bytes() == b"b"


def test_finalists_bring_theirs(there):
    tasks = tuple(task_of(name, cubin(there, name)) for name in "ab")
    parcel = pack_finals(FinalTask(tasks, PROBLEM.workloads, SPEC, 0, noise=0.0))
    gone(there)
    assert [Path(dict(each.cubins)[KEY]).read_bytes() for each in unpack_finals(parcel).tasks] == [b"a", b"b"]
