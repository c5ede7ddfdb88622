"""Two GPUs behind one queue: who is asked, what is lost with a process, a worker or a GPU, where finals are.

What runs in the GPU processes is a stand-in (tests/cluster_jobs.py); cluster, workers and processes are real.
"""

from functools import partial

import pytest
from cluster_jobs import LostWhenTold, jobs
from cluster_parts import history_on
from waiting import LIMIT_S

from evoflash.errors import DeviceError
from evoflash.evaluation import Status
from evoflash.gpu.process.finals import FinalTask
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.worker import GpuWorker
from evoflash.launch import LaunchConfig
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

pytest.importorskip("distributed")

from evoflash.evaluators.cluster.address import resources
from evoflash.evaluators.cluster.connection import connect, gpu_kind
from evoflash.evaluators.cluster.pools import ClusterGpus
from evoflash.evaluators.cluster.serving import private_cluster

pytestmark = pytest.mark.slow
SPEC, (WORKLOAD,) = load_gpu("h200"), parse_problem("b=1,h=1,s=64,d=64").workloads
KIND = gpu_kind("h200")


@pytest.fixture(scope="module")
def cluster():
    offers = [({"CUDA_VISIBLE_DEVICES": gpu}, resources(gpu="h200")) for gpu in ("0", "1")]
    with private_cluster(offers) as where:
        yield where


@pytest.fixture
def connection(cluster):
    with connect(cluster) as made:
        yield made


@pytest.fixture
def gpus(connection):
    made = ClusterGpus(connection, KIND, jobs=jobs())
    yield made
    made.close()


def task_of(name):
    shapes = ((WORKLOAD, (LaunchConfig("kernel", (1, 1, 1), (32, 1, 1), 0),)),)
    return GpuTask(name, SPEC, (), shapes, (), seed=0, limit_s=LIMIT_S)


def test_tasks_are_on_both_gpus_at_the_same_time(gpus, tmp_path):
    tasks = [gpus.submit(task_of(f"meet:{tmp_path}")) for _ in range(2)]
    assert {each.result(LIMIT_S).reason for each in tasks} == {"0", "1"}
    assert gpus.at_once == 2


@pytest.mark.full
def test_a_crash_costs_one_candidate_and_no_worker(gpus, connection):
    before = connection.workers(KIND)
    outcome = gpus.submit(task_of("crash")).result(LIMIT_S)
    assert (outcome.status, outcome.reason) == (Status.RUNTIME, "the process died of signal 6")
    assert gpus.submit(task_of("good")).result(LIMIT_S).status is Status.CORRECT
    assert connection.workers(KIND) == before


@pytest.mark.full
def test_a_task_whose_worker_dies_is_done_by_another(gpus, tmp_path):
    outcome = gpus.submit(task_of(f"kill once:{tmp_path}")).result(LIMIT_S)
    assert outcome.status is Status.CORRECT
    assert (tmp_path / "killed").exists()


@pytest.mark.full  # eight workers start one after the other
def test_only_what_ends_workers_when_it_is_alone_is_to_blame(gpus, tmp_path):
    bad = gpus.submit(task_of(f"kill:{tmp_path}"))
    good = [gpus.submit(task_of("good")) for _ in range(6)]
    assert {each.result(LIMIT_S).status for each in good} == {Status.CORRECT}
    assert bad.result(LIMIT_S).status is Status.RUNTIME
    assert "it ended the 4 workers that tried it" in bad.result().reason


@pytest.mark.full
def test_hidden_shapes_and_finals_are_all_on_one_gpu(gpus):
    gpus.prepare_finals((WORKLOAD,), 5)
    gpus.begin_finals().result(LIMIT_S)
    used = {gpus.submit(task_of("good")).result(LIMIT_S).reason for _ in range(4)}
    task = FinalTask((), (WORKLOAD,), SPEC, 0, noise=0.0)
    assert {gpus.finalists(task).result(LIMIT_S).reason} == used
    assert len(used) == 1


def test_workers_with_another_model_are_never_asked_to_time(connection):
    assert connection.workers(gpu_kind("l4")) == ()
    assert connection.models() == ("h200",)


@pytest.mark.full  # half a minute of the compiler
def test_a_search_on_two_gpus_finds_what_one_on_one_gpu_does(connection, tmp_path):
    one = history_on(GpuWorker, tmp_path / "one.db")
    assert len(one) >= 6
    assert history_on(partial(ClusterGpus, connection, KIND), tmp_path / "two.db") == one


# The last one: it takes both GPUs away.
@pytest.mark.full
def test_a_lost_gpu_leaves_and_its_task_goes_to_the_other_one_until_there_is_none(
    connection, tmp_path, caplog
):
    gpus = ClusterGpus(connection, KIND, jobs=jobs(LostWhenTold(tmp_path)))
    first = gpus.submit(task_of("good")).result(LIMIT_S).reason
    other = {"0": "1", "1": "0"}[first]
    (tmp_path / f"lost{first}").touch()
    for _ in range(100):  # the fresh process after a crash is what meets the lost GPU
        both = [gpus.submit(task_of(f"crash:{first}")) for _ in range(2)]
        assert {each.result(LIMIT_S).status for each in both} <= {Status.RUNTIME, Status.CORRECT}
        if "going on without the GPU of" in caplog.text:
            break
    assert "going on without the GPU of" in caplog.text
    assert gpus.submit(task_of("good")).result(LIMIT_S).reason == other
    (tmp_path / f"lost{other}").touch()
    with pytest.raises(
        DeviceError, match="was the last worker with its GPU: the GPU cannot be used any more"
    ):
        gpus.submit(task_of("crash")).result(LIMIT_S)
    gpus.close()
