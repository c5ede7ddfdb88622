"""The cores of a private cluster: every call gets an answer, whatever becomes of process, scheduler."""

import os
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from pathlib import Path

import distributed
import pytest
from cluster_jobs import parent_of
from cluster_parts import Parts, kill, started
from waiting import LIMIT_S, is_alive, until

from evoflash.errors import DeviceError, UsageError
from evoflash.evaluation import Status

pytest.importorskip("distributed")

from evoflash.evaluators.cluster import connection as connections
from evoflash.evaluators.cluster.address import MAKE_CERTIFICATE, Address, address, resources
from evoflash.evaluators.cluster.connection import CPU, Connection, connect
from evoflash.evaluators.cluster.pools import ClusterCores
from evoflash.evaluators.cluster.serving import private_cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    with private_cluster([({}, resources(gpu=None))] * 2) as where:
        yield where


@pytest.fixture
def connection(cluster):
    with connect(cluster) as made:
        yield made


@pytest.fixture
def processes(connection):
    made = ClusterCores(connection, expected=2).processes()
    yield made
    made.close()


def refuse():
    raise UsageError("this makes no sense: say something else.")


def kill_worker():
    """End the worker whose disposable process this is, as the system does when memory runs out."""
    os.kill(parent_of(os.getppid()), signal.SIGKILL)  # between them is the process that forks such ones
    time.sleep(LIMIT_S)


def kill_worker_once(note):
    if os.path.exists(note):
        return "done"
    open(note, "w").close()
    return kill_worker()


def freeze_worker_once(note):
    """Stop the worker whose disposable process this is, and its nanny: their machine falls silent."""
    if os.path.exists(note):
        return "done"
    worker = parent_of(os.getppid())
    nanny = parent_of(worker)
    Path(note).write_text(f"{nanny} {worker}")
    os.kill(nanny, signal.SIGSTOP)
    os.kill(worker, signal.SIGSTOP)
    time.sleep(LIMIT_S)


@pytest.mark.full
def test_a_call_ends_as_it_does_on_one_machine(processes):
    assert processes.submit(divmod, 7, 2, timeout_s=LIMIT_S).result(LIMIT_S).value == (3, 1)
    died = processes.submit(os._exit, 3, timeout_s=LIMIT_S).result(LIMIT_S)
    assert (died.status, died.reason) == (Status.RUNTIME, "the process ended with exit code 3")
    late = processes.submit(time.sleep, LIMIT_S, timeout_s=0.5).result(LIMIT_S)
    assert late.status is Status.TIMEOUT
    with pytest.raises(UsageError, match="say something else"):
        processes.submit(refuse, timeout_s=LIMIT_S).result(LIMIT_S)


def test_a_call_whose_worker_dies_is_made_again_by_another(processes, tmp_path):
    ending = processes.submit(kill_worker_once, str(tmp_path / "note"), timeout_s=LIMIT_S).result(LIMIT_S)
    assert ending.value == "done"


@pytest.mark.full
def test_what_ends_worker_after_worker_is_to_blame_and_nothing_else_is(processes):
    bad = processes.submit(kill_worker, timeout_s=LIMIT_S)
    good = [processes.submit(divmod, 7, at + 1, timeout_s=LIMIT_S) for at in range(3)]
    assert bad.result(LIMIT_S).status is Status.RUNTIME
    assert "it ended the 4 workers that tried it" in bad.result().reason
    assert [each.result(LIMIT_S).value for each in good] == [(7, 0), (3, 1), (2, 1)]


def test_closing_cancels_what_waits(connection):
    cores = ClusterCores(connection, expected=1)
    processes = cores.processes()
    running = processes.submit(time.sleep, 1, timeout_s=LIMIT_S)
    waiting = [processes.submit(time.sleep, 1, timeout_s=LIMIT_S) for _ in range(8)]
    processes.close()
    with pytest.raises(CancelledError):
        waiting[-1].result(LIMIT_S)
    connection.close()
    with pytest.raises(CancelledError):
        running.result(LIMIT_S)


def test_a_private_cluster_listens_on_loopback_alone_and_ends_with_whoever_started_it(tmp_path):
    script = tmp_path / "own.py"
    script.write_text(
        "import time\n"
        "from evoflash.evaluators.cluster.address import resources\n"
        "from evoflash.evaluators.cluster.serving import private_cluster\n"
        "if __name__ == '__main__':\n"
        "    with private_cluster([({}, resources(gpu=None))]):\n"
        "        print('up', flush=True)\n"
        "        time.sleep(600)\n"
    )
    log = tmp_path / "log"
    process = started(sys.executable, str(script), log=log)
    until(lambda: "up" in log.read_text(), what="the cluster is up")
    everything = {process.pid, *descendants(process.pid)}
    assert len(everything) >= 2
    assert {where for pid in everything for where in listening(pid)} == {"0100007F"}  # 127.0.0.1
    kill(process)
    until(lambda: not any(map(is_alive, everything)), what="its workers end")


def descendants(pid):
    found = []
    for each in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if each.isdecimal() and int(fields[1]) == pid:
            found += [int(each), *descendants(int(each))]
    return found


def listening(pid):
    """The addresses, in hexadecimal, that a process listens on; those of IPv6 whole."""
    links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in links:
                yield fields[1].partition(":")[0]


def test_where_no_scheduler_answers_is_said_in_one_line():
    with pytest.raises(DeviceError, match=r"^no scheduler answers at tcp://127\.0\.0\.1:1 .* start one with"):
        Connection(Address("tcp://127.0.0.1:1"), lost_after_s=1.0)


@pytest.mark.full
def test_a_scheduler_that_does_not_answer_any_more_ends_the_calls_and_what_it_takes_to_go_on_is_said(
    tmp_path,
):
    parts = Parts(tmp_path, workers=1)
    try:
        with_cluster = Connection(reachable(parts), lost_after_s=3.0)
        processes = ClusterCores(with_cluster).processes()
        assert processes.submit(divmod, 7, 2, timeout_s=LIMIT_S).result(LIMIT_S).value == (3, 1)
        waiting = processes.submit(time.sleep, LIMIT_S, timeout_s=LIMIT_S)
        os.kill(parts.scheduler.pid, signal.SIGSTOP)  # as a network that is cut: nobody says so
        with pytest.raises(
            DeviceError, match="everything evaluated so far is kept; the same command continues"
        ):
            waiting.result(LIMIT_S)
        processes.close()
        with_cluster.close()
    finally:
        parts.close()


@pytest.mark.full  # the scheduler tries for half a minute to have its nanny start it again
def test_a_worker_that_falls_silent_is_counted_as_gone_and_its_call_is_made_by_another(tmp_path, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", "1s")  # never under ten heartbeats
    parts, note = Parts(tmp_path, workers=2), tmp_path / "note"
    try:
        with connect(reachable(parts)) as connection:
            cores = ClusterCores(connection)
            until(lambda: cores.count == 2, what="both are counted")
            answer = cores.processes().submit(freeze_worker_once, str(note), timeout_s=LIMIT_S)
            assert answer.result(LIMIT_S).value == "done"
            until(lambda: len(connection.workers(CPU)) == 1, what="the silent one is gone")
    finally:
        for pid in note.read_text().split() if note.exists() else ():
            os.kill(int(pid), signal.SIGKILL)
        parts.close()


def reachable(parts):
    def answers():
        try:
            Connection(Address(parts.url), lost_after_s=2.0).close()
        except DeviceError:
            return False
        return True

    until(answers, what="the scheduler answers")
    return Address(parts.url)


@pytest.mark.full
def test_workers_that_join_late_are_waited_for_and_used(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(connections, "_SAID_AFTER_S", 0.0)
    parts = Parts(tmp_path, workers=0)
    try:
        with connect(reachable(parts)) as connection:
            cores = ClusterCores(connection)
            answer = cores.processes().submit(divmod, 7, 2, timeout_s=LIMIT_S)
            until(lambda: "waiting for a worker with CPU" in caplog.text, what="it is said")
            assert f"`evoflash worker --scheduler {parts.url}`" in caplog.text
            parts.workers = [None, None]
            parts.mend()
            assert answer.result(LIMIT_S).value == (3, 1)
            until(lambda: cores.count == 2, what="both are counted")
            assert cores.ahead == 4
    finally:
        parts.close()


def test_a_worker_with_other_code_gets_nothing_to_do_and_the_search_says_why(cluster, caplog, monkeypatch):
    monkeypatch.setattr(connections, "_SAID_AFTER_S", 0.0)
    mine = connections.code()
    monkeypatch.setattr(connections, "code", lambda: "evoflash 9, NVRTC 1, code 0")
    with connect(cluster) as connection:
        assert connection.workers(CPU) == ()
        answer = ClusterCores(connection).processes().submit(divmod, 7, 2, timeout_s=LIMIT_S)
        until(lambda: "waiting for a worker" in caplog.text, what="it is said")
        assert f"those that are there have {mine}, this search evoflash 9, NVRTC 1, code 0" in caplog.text
        assert not answer.done()


def test_of_workers_that_dask_started_itself_the_search_says_that_they_run_no_kernels(caplog, monkeypatch):
    monkeypatch.setattr(connections, "_SAID_AFTER_S", 0.0)
    alone = {"n_workers": 1, "processes": False, "protocol": "tcp://", "dashboard_address": None}
    with distributed.LocalCluster(**alone) as dasks, connect(Address(dasks.scheduler_address)) as connection:
        answer = ClusterCores(connection).processes().submit(divmod, 7, 2, timeout_s=LIMIT_S)
        until(lambda: "waiting for a worker" in caplog.text, what="it is said")
        assert "(those that are there are Dask's own, which run no kernels)" in caplog.text
        assert f"`evoflash worker --scheduler {dasks.scheduler_address}`" in caplog.text
        assert not answer.done()


@pytest.mark.full
def test_with_a_certificate_scheduler_worker_and_search_meet_by_tls_and_nobody_else_does(tmp_path):
    subprocess.run(shlex.split(MAKE_CERTIFICATE), cwd=tmp_path, check=True, capture_output=True)
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    files = ("--tls-ca-file", certificate, "--tls-cert", certificate, "--tls-key", key)
    parts = Parts(tmp_path, workers=1, scheduler=files, worker=("--tls", str(tmp_path)), scheme="tls")
    try:
        until(lambda: answers(parts, tmp_path), what="the scheduler answers")
        with connect(address(parts.url, tmp_path)) as connection:
            processes = ClusterCores(connection).processes()
            assert processes.submit(divmod, 7, 2, timeout_s=LIMIT_S).result(LIMIT_S).value == (3, 1)
        with pytest.raises(DeviceError, match="no scheduler answers"):
            Connection(Address(parts.url.replace("tls", "tcp")), lost_after_s=2.0)
    finally:
        parts.close()


def answers(parts, folder):
    try:
        Connection(address(parts.url, folder), lost_after_s=2.0).close()
    except DeviceError:
        return False
    return True
