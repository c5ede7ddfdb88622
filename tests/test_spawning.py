"""Processes are started without the caller's script and without /dev/shm, and find what a script defines."""

import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from places import environment
from tables import data
from waiting import LIMIT_S, until

from evoflash.spawning import ProcessLock, spawning

SCRIPT = data(__file__, "SCRIPT")


@pytest.mark.parametrize(
    ("from_stdin", "guard", "call", "printed"),
    [
        pytest.param(False, "True", "abs, -42", ["__main__", "42"], id="no guard"),
        pytest.param(True, "True", "abs, -42", ["__main__", "42"], id="from stdin"),
        pytest.param(
            False,
            "__name__ == '__main__'",
            "double, 21",
            ["__main__", "__mp_main__", "42"],
            id="its function",
        ),
    ],
)
def test_a_script_is_run_again_only_for_what_it_defines(
    tmp_path: Path, from_stdin: bool, guard: str, call: str, printed: list[str]
) -> None:
    text = SCRIPT.format(guard=guard, call=call)
    script = tmp_path / "script.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, "-" if from_stdin else script],
        input=text,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.stdout.splitlines(), done.stderr) == (printed, "")


def told(told_in: Connection, name: str) -> None:
    told_in.send((os.environ.get(name), os.getcwd(), "numpy" in sys.modules))
    os.write(1, b"to the output, ")
    print("and to the errors", file=sys.stderr)
    sys.exit(7)


def test_a_process_has_its_callers_surroundings_and_modules_of_the_server_that_forked_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server began before, with others."""
    monkeypatch.setenv("EVOFLASH_TEST", "now")
    monkeypatch.chdir(tmp_path)
    hears, tells = spawning().Pipe(duplex=False)
    process = spawning().Process(target=told, args=(tells, "EVOFLASH_TEST"))
    process.start()
    tells.close()
    assert hears.recv() == ("now", str(tmp_path), True)
    process.join()
    assert process.exitcode == 7
    assert capfd.readouterr() == ("to the output, ", "and to the errors\n")
    with pytest.raises(EOFError):  # nobody else has the other end
        hears.recv()


def hold(lock: ProcessLock, note: str) -> None:
    lock.acquire()
    Path(note).touch()
    signal.pause()


def test_a_lock_is_given_back_by_a_process_that_is_killed(tmp_path: Path) -> None:
    lock, note = ProcessLock(), tmp_path / "note"
    holder = spawning().Process(target=hold, args=(lock, str(note)))
    holder.start()
    until(note.exists, what="the lock is held")
    assert not lock.acquire(block=False)
    os.kill(holder.pid or 0, signal.SIGKILL)
    holder.join()
    assert lock.acquire()
    assert lock.acquire(), "it may be held twice"
    lock.release()
    lock.release()
