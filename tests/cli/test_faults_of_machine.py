"""Faults of the machine put into real commands: a full disk, a lock, a second search, signals, a clock.

What is expected each time: one line and a documented exit code, nothing stored is lost, the same command
continues, no process stays. Faults of the GPU: tests/gpu/process/test_worker.py and
tests/on_gpu/test_machine.py.
"""

import contextlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import python_processes
from places import FIXTURES, ROOT, TESTS, environment
from tables import data
from waiting import LIMIT_S, has_open, is_alive, is_waiting, processes_below, until, workers_of

from evoflash.kernels.gxx import runtime

EVOFLASH = (sys.executable, "-m", "evoflash")
RECORDED = str(FIXTURES / "recorded.json.gz")
# Replays a recorded space: nothing is compiled, a hundred rows take a second.
REPLAY = ("search", "--evaluator", "replay", "--recorded", RECORDED, "--strategy", "uniform")
EMULATED = ("search", "--gpu", "l4", "--evaluator", "emulated", "--problem", "b=1,h=1,s=64,d=64")


def variables(**more: str) -> dict[str, str]:
    return environment(NO_COLOR="1", **more)


def started(*arguments: object, **options: object) -> "subprocess.Popen[str]":
    """An evoflash command in a session of its own."""
    return python_processes.evoflash(*arguments, **{"env": variables(), "start_new_session": True, **options})


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Its exit code, and its last line on stderr after a look for tracebacks."""
    _, said = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in said, said
    lines = [line for line in said.splitlines() if line.startswith("evoflash: ")]
    return process.returncode, lines[-1] if lines else said


def stored(path: Path) -> dict[str, str]:
    """Genome -> status of every candidate in the database, which must be whole."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        rows = connection.execute("select genome_id, status from evaluations where kind = 'candidate'")
        found = rows.fetchall()
    finally:
        connection.close()
    assert len(found) == len(dict(found)), "a row for each genome"
    return dict(found)


def wait_for_a_row(path: Path, search: "subprocess.Popen[str]") -> None:
    """Return once the search has stored an evaluation."""

    def has_a_row() -> bool:
        assert search.poll() is None, search.communicate()
        with contextlib.suppress(sqlite3.OperationalError, AssertionError):
            return path.exists() and len(stored(path)) >= 1
        return False

    until(has_a_row, what="an evaluation in the database")


# ---- disk full


def little_room() -> None:
    """Files may grow to 200 KB: what a write meets then is what a full disk answers, by another number."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


@pytest.mark.slow
@pytest.mark.full
def test_a_database_that_cannot_grow_ends_the_search_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    command = (*REPLAY, "--budget", "100", "--db", path)

    code, line = ended(started(*command, preexec_fn=little_room))
    before = stored(path)

    assert (code, "free some space and run the same command again" in line) == (1, True), line
    assert 0 < len(before) < 100
    assert ended(started(*command))[0] == 0
    assert before.items() <= stored(path).items()
    assert len(stored(path)) == 100


# Prints the genomes of a database.
LIST = """-c 'import sqlite3, sys; \
[print(*row) for row in sqlite3.connect(sys.argv[1]).execute("select genome_id from evaluations")]'"""
TMPFS = data(__file__, "TMPFS")


def on_a_small_disk(
    folder: Path, *, small: str, command: str, prepare: str = "", between: str = "", afterwards: str = ""
) -> str:
    """What a command says on a full disk, and what the same command says when there is room."""
    folder.mkdir()
    script = TMPFS.format(
        folder=folder,
        small=small,
        large="64m",
        prepare=prepare,
        command=command,
        between=between,
        afterwards=afterwards,
    )
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script],
        cwd=ROOT,
        env=variables(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode == 99:
        pytest.skip("no file system may be mounted here")
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.full
def test_a_full_disk_under_the_database_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "disk" / "a.db"
    command = " ".join([*EVOFLASH, *REPLAY, "--budget", "100", "--db", str(path)])

    said = on_a_small_disk(
        tmp_path / "disk",
        small="500k",
        command=command,
        between=f"{sys.executable} {LIST} {path} > {tmp_path}/before",
        afterwards=f"cp {path} {tmp_path}/copy.db",
    )

    first, _, second = said.partition("code 1\n")
    assert "the disk is full: free some space and run the same command again" in first, said
    before = (tmp_path / "before").read_text().split()
    assert second.rstrip().endswith("code 0"), said
    assert 0 < len(before) < 100
    assert set(before) < set(stored(tmp_path / "copy.db"))
    assert len(stored(tmp_path / "copy.db")) == 100


@pytest.mark.slow
@pytest.mark.full
def test_a_full_disk_under_the_kernel_cache_blames_no_kernel(tmp_path: Path) -> None:
    """The emulator's runtime is there already; what NVRTC makes has no room."""
    folder, path = tmp_path / "disk", tmp_path / "a.db"
    built = runtime().parent
    search = " ".join([*EVOFLASH, *EMULATED, "--budget", "2", "--db", str(path)])

    said = on_a_small_disk(
        folder,
        small="40k",
        prepare=f"mkdir -p {folder}/emulator; ln -s {built} {folder}/emulator/{built.name}",
        command=f"EVOFLASH_CACHE_DIR={folder} {search}",
    )

    first, _, second = said.partition("code 4\n")
    assert "free space" in first, said
    assert second.rstrip().endswith("code 0"), said
    assert set(stored(path).values()) == {"correct"}
    assert len(stored(path)) == 2


# What g++ meets when it writes more than a kilobyte.
NO_ROOM_FOR_GXX = """#!/bin/sh
trap '' XFSZ
ulimit -f 2
exec {gxx} "$@"
"""


@pytest.mark.full
def test_a_full_disk_under_gxx_blames_no_kernel(tmp_path: Path) -> None:
    built, cache = runtime().parent, tmp_path / "cache" / "emulator"
    cache.mkdir(parents=True)
    (cache / built.name).symlink_to(built)  # the runtime is there already, kernels of other tests are not
    gxx, path = tmp_path / "bin" / "g++", tmp_path / "a.db"
    gxx.parent.mkdir()
    gxx.write_text(NO_ROOM_FOR_GXX.format(gxx=shutil.which("g++")))
    gxx.chmod(0o755)
    search = (*EMULATED, "--problem", "b=1,h=1,s=65,d=64", "--budget", "2", "--db", path)

    code, line = ended(
        started(
            *search,
            env=variables(
                PATH=f"{gxx.parent}:{os.environ['PATH']}",
                TMPDIR=str(tmp_path),
                EVOFLASH_CACHE_DIR=str(cache.parent),
            ),
        )
    )

    assert (code, "g++ cannot write, the disk is full" in line) == (4, True), line
    assert stored(path) == {}
    assert ended(started(*search))[0] == 0
    assert list(stored(path).values()) == ["correct"] * 2


# ---- the database in other hands


def wait_for_the_lock(search: "subprocess.Popen[str]", path: Path) -> None:
    """Return once the search waits for a lock on its database: it has the file open and does nothing."""

    def waits() -> bool:
        assert search.poll() is None, search.communicate()
        return has_open(search.pid, path) and is_waiting(search.pid)

    until(waits, what="a search that waits for the database")


@pytest.mark.slow
@pytest.mark.full
def test_a_search_that_meets_a_lock_waits_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert ended(started(*REPLAY, "--budget", "2", "--db", path))[0] == 0
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    waiting = started(*REPLAY, "--budget", "20", "--db", path)
    wait_for_the_lock(waiting, path)
    other.execute("rollback")
    other.close()
    assert ended(waiting)[0] == 0
    assert len(stored(path)) == 20


@pytest.mark.full
def test_ctrl_c_is_heard_while_a_lock_on_the_database_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert ended(started(*REPLAY, "--budget", "2", "--db", path))[0] == 0
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    waiting = started(*REPLAY, "--budget", "20", "--db", path)
    wait_for_the_lock(waiting, path)
    waiting.send_signal(signal.SIGINT)
    code, line = ended(waiting)
    other.close()
    assert (code, line[:28]) == (130, "evoflash: stopped by Ctrl-C:"), line


HOLDER = data(__file__, "HOLDER")


@pytest.mark.full
def test_a_second_search_of_the_same_run_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert ended(started(*REPLAY, "--budget", "2", "--db", path))[0] == 0
    first = python_processes.python("-c", HOLDER, path, stderr=None)
    assert first.stdout is not None
    assert first.stdout.readline() == "mine\n"

    code, line = ended(started(*REPLAY, "--budget", "5", "--db", path))
    other_code, _ = ended(started(*REPLAY, "--budget", "5", "--seed", "7", "--db", path))
    first.kill()
    first.communicate()

    assert (code, "being continued by another process" in line) == (1, True), line
    assert other_code == 0
    assert ended(started(*REPLAY, "--budget", "5", "--db", path))[0] == 0


@pytest.mark.full
def test_searches_of_different_runs_share_a_database(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    searches = [started(*REPLAY, "--budget", "60", "--seed", seed, "--db", path) for seed in (1, 2, 3)]
    assert [ended(search)[0] for search in searches] == [0, 0, 0]
    connection = sqlite3.connect(path)
    rows = "select count(*) from evaluations group by run_id union all select count(*) from lineage"
    assert sorted(count for (count,) in connection.execute(rows)) == [60, 60, 60, 180]
    connection.close()


# ---- signals


def assert_gone(processes: list[int]) -> None:
    until(lambda: not any(map(is_alive, processes)), what="the end of its processes")


def ended_by(stop: Callable[["subprocess.Popen[str]"], None], path: Path) -> tuple[int, str]:
    """How a search ends that is stopped midway; it leaves no process, and a whole database."""
    search = started(*EMULATED, "--budget", "500", "--db", path)
    wait_for_a_row(path, search)
    workers = processes_below(search.pid)
    stop(search)
    end = ended(search)

    assert workers
    assert_gone(workers)
    assert set(stored(path).values()) == {"correct"}
    return end


@pytest.mark.full
def test_sigterm_to_a_job_ends_like_ctrl_c(tmp_path: Path) -> None:
    """A batch system sends it to every process of the job, not to the first one alone."""
    code, line = ended_by(lambda search: os.killpg(search.pid, signal.SIGTERM), tmp_path / "a.db")

    assert (code, "the same command continues" in line) == (143, True), line


def test_kill_9_leaves_no_process_and_a_whole_database(tmp_path: Path) -> None:
    assert ended_by(lambda search: search.kill(), tmp_path / "a.db")[0] == -9


@pytest.mark.full
def test_kill_9_of_a_worker_costs_no_candidate(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    search = started(*EMULATED, "--budget", "6", "--db", path)
    wait_for_a_row(path, search)
    workers = workers_of(search.pid)
    assert workers
    for worker in workers:
        os.kill(worker, signal.SIGKILL)

    assert ended(search)[0] == 0
    assert list(stored(path).values()) == ["correct"] * 6


# ---- a wall clock that jumps

CLOCK = (TESTS / "cli" / "clock.cpp").read_text()


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    command = ["g++", "-shared", "-fPIC", "-O1", "-x", "c++", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=CLOCK, text=True, check=True)
    return library


def test_the_clock_of_the_next_test_jumps(clock: Path) -> None:
    look = "import time; t = [time.time() for _ in range(9)]; print(max(t) - min(t))"
    done = subprocess.run(
        [sys.executable, "-c", look],
        env=variables(LD_PRELOAD=str(clock)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert float(done.stdout) > 3600


@pytest.mark.full
def test_a_search_under_a_jumping_clock_is_like_any_other(tmp_path: Path, clock: Path) -> None:
    path = tmp_path / "a.db"
    command = (*EMULATED, "--budget", "4", "--time-limit", "600", "--db", path)
    assert ended(started(*command, env=variables(LD_PRELOAD=str(clock))))[0] == 0
    assert list(stored(path).values()) == ["correct"] * 4
