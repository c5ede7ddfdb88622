"""`evoflash watch` beside a search that another process runs: it follows the search to its end."""

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT
from rich.console import Console
from waiting import LIMIT_S, until

from evoflash.app.runs import current_runs, follow
from evoflash.errors import NoKernelError, StoreError
from evoflash.store.run_status import RunStatus
from evoflash.views import runs as report


@pytest.fixture
def searching(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A search of three kernels by another process, whatever it has done so far."""
    command = ["search", "--gpu", "l4", "--family", "flash_simt", "--budget", "3", "--evaluator", "emulated"]
    command += ["--problem", "b=1,h=1,s=64,d=16"]
    process = subprocess.Popen(
        [sys.executable, "-m", "evoflash", *command, "-q", "--db", str(tmp_path / "evoflash.db")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    yield process
    process.kill()  # only where the test has failed is it still there
    process.communicate()


def running(path: Path) -> list[RunStatus]:
    """The runs that a process works on; none while there is no database."""
    try:
        return [each for each in current_runs(str(path)).runs if each.process is not None]
    except (StoreError, NoKernelError):
        return []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++")
def test_a_live_search_is_followed_until_its_process_lets_it_go(searching, tmp_path) -> None:
    path, out = tmp_path / "evoflash.db", io.StringIO()
    first = until(lambda: running(path), what="a run that is going on")
    assert [each.process for each in first] == [searching.pid]
    assert report.lines(first[0])[1].startswith(f"  running, process {searching.pid}: ")

    (last,) = report.watch(follow(str(path), every_s=0.1), Console(file=out, width=80))
    told, _ = searching.communicate(timeout=LIMIT_S)

    assert searching.returncode == 0
    assert (last.process, last.evaluated, last.run.budget) == (None, 3, 3)
    finished, best, took = out.getvalue().splitlines()[-3:]
    assert finished.startswith("  finished: 3 of 3 evaluated")
    assert best.split(",")[0] == f"  best ~{last.best_us:.2f} us ESTIMATED"
    assert took.endswith(" CPU minutes")
    assert told.decode().startswith(f"{last.best_id}  flash_simt  ~{last.best_us:.2f} us ESTIMATED")
