"""Ctrl-C and SIGTERM while modules are imported, or where a command has no words for them, are one line."""

import os
import signal
import subprocess
import sys

import pytest
import python_processes
from places import ROOT, environment
from tables import data, table_of_cases

SENDS_AT_IMPORT = data(__file__, "SENDS_AT_IMPORT")


@table_of_cases()
@pytest.mark.parametrize(("sent", "called"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
@pytest.mark.sample(4)
def test_a_signal_while_a_module_is_imported_is_one_line_and_its_exit_code(
    tmp_path, module, words, sent, called
):
    done = subprocess.run(
        [sys.executable, "-c", SENDS_AT_IMPORT, module, str(int(sent)), *words],
        env=environment(EVOFLASH_DB=str(tmp_path / "a.db")),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=python_processes.hear_ctrl_c,
    )
    assert (done.returncode, done.stderr) == (128 + sent, f"evoflash: stopped by {called}.\n")
    assert not (tmp_path / "a.db").exists()


def test_ctrl_c_in_a_command_that_stores_nothing_is_one_line(tmp_path):
    recording = tmp_path / "recording.json"
    os.mkfifo(recording)
    process = python_processes.evoflash("replay", recording)
    with recording.open("w"):  # waits until the command reads, and lets it wait for what never comes
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert (process.returncode, said) == (130, "evoflash: stopped by Ctrl-C.\n")
