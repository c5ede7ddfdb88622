"""docs/cluster.md: its commands for SSH and for Slurm are run as they stand, on this machine.

Stand-ins are ssh, scp, srun and scancel, which do here what they do elsewhere, and seq, so that two cores are
not given 24 workers. Changed are the name of the head node, the port and the budget. There is no GPU, so the
workers with one end at once, and the search is an estimate. Kubernetes' file is not run.
"""

import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from cluster_parts import ROOT, free_port
from tables import data
from waiting import LIMIT_S, until

from evoflash.evaluators.cluster.address import MAKE_CERTIFICATE

pytest.importorskip("distributed")
pytestmark = pytest.mark.full  # a minute each: workers start one by one
STAND_INS = data(__file__, "STAND_INS")


def blocks(title):
    """The commands below a heading, in their order."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def prepared(folder):
    """The environment of the commands."""
    stand_ins = folder / "bin"
    stand_ins.mkdir()
    for name, line in STAND_INS.items():
        (stand_ins / name).write_text(f"#!/bin/bash\n{line}\n")
        (stand_ins / name).chmod(0o755)
    (folder / "certs").mkdir()
    subprocess.run(shlex.split(MAKE_CERTIFICATE), cwd=folder / "certs", check=True, capture_output=True)
    path = os.pathsep.join([str(stand_ins), str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PYTHONPATH": str(ROOT), "EVOFLASH_DB": str(folder / "evoflash.db"), "SLURM_JOB_ID": "1"}
    return {**os.environ, **own, "PATH": path}


def run(folder, script):
    """The script's process, with a session of its own; where its search goes on is evoflash.db."""
    text = script.replace("8786", str(free_port())).replace("//head:", "//localhost:")
    text = re.sub(r"--budget 1000|--minutes 100", "--budget 1 --family flash_direct", text)
    text = text.replace("$(hostname)", "localhost")
    with open(folder / "log", "wb") as log:
        return subprocess.Popen(
            ["bash", "-c", text],
            cwd=folder,
            env=prepared(folder),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def evaluated(db):
    with suppress(sqlite3.OperationalError), sqlite3.connect(f"file:{db}?mode=ro", uri=True) as found:
        return found.execute("select count(*) from evaluations").fetchone()[0]
    return 0


@pytest.mark.parametrize("title", ["Machines that you reach by SSH", "Slurm"])
def test_the_commands_of_the_page_search_with_workers_by_tls(tmp_path, title):
    scheduler, *others = blocks(title)
    script = f"{scheduler.rstrip()} &\n{others[0]}" if others else scheduler
    process = run(tmp_path, script)
    try:
        until(lambda: process.poll() is not None, what="the commands have ended")
        log = (tmp_path / "log").read_text()
        assert evaluated(tmp_path / "evoflash.db") == 1, log
        if title != "Slurm":
            for host in ("node1", "node2"):
                assert "working for the searches of tls://" in (tmp_path / host / "core1.log").read_text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)
