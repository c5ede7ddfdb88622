"""Every command in every surrounding that machines have: the exit code and one line with the cause, or done.

Read-only, full and noexec file systems are mounted for the command alone (unshare), a user is unknown in a
namespace of its own, streams are closed by the shell; Python's call runs in a notebook's kernel. Not covered:
a machine with a GPU, other systems than Linux, a notebook on a read-only root, where Jupyter itself cannot
start. Scripts without a guard and from stdin: tests/test_spawning.py.
"""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import FIXTURES, ROOT, environment
from tables import data
from waiting import LIMIT_S

from evoflash.cli import program
from evoflash.store.store import open_store

COMMANDS: dict[str, dict[str, Any]] = data(__file__, "COMMANDS")
SURROUNDINGS: dict[str, dict[str, Any]] = data(__file__, "SURROUNDINGS")
SAMPLE = data(__file__, "SAMPLE", tuples=True)  # the pairs of the default run
PAIRS = [
    pytest.param(
        surrounding,
        command,
        id=f"{surrounding}: {command}",
        marks=() if (surrounding, command) in SAMPLE else pytest.mark.full,
    )
    for surrounding in SURROUNDINGS
    for command in COMMANDS
]


UNSHARE, SH = (
    shutil.which(name) or pytest.skip(f"needs {name}", allow_module_level=True) for name in ("unshare", "sh")
)


def test_no_command_is_left_out() -> None:
    assert set(COMMANDS) == set(program.app().commands)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of a finished search."""
    path = tmp_path_factory.mktemp("surroundings") / "evoflash.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((FIXTURES / "store_0001.sql").read_text())
    connection.close()
    with open_store(str(path)):
        pass  # brought to the present schema
    return path


@pytest.fixture
def words(stored: Path) -> Iterator[dict[str, str]]:
    """What the table's places in braces stand for: folders that are there, and that no surrounding hides, as
    those in /dev/shm, where scripts/test keeps the files of tests.
    """
    place = Path(tempfile.mkdtemp(prefix="evoflash-place-", dir="/var/tmp"))
    latin = os.fsdecode(os.fsencode(place) + b"/caf\xe9")
    for folder in (place, Path(latin)):
        (folder / "data" / "evoflash").mkdir(parents=True)
        shutil.copy(stored, folder / "data" / "evoflash")
    for name in ("cache", "bin", "home"):
        (place / name).mkdir()
    for name in ("env", "sh"):
        (place / "bin" / name).symlink_to(str(shutil.which(name)))
    (place / "none.txt").touch()
    (place / "scale.cu").write_text(data(__file__, "KERNEL"))
    with open_store(str(stored), read_only=True) as store:
        genome = next(e.genome.id for run in store.runs() for _, e in store.history(run) if e.is_correct)
    yield {
        "place": str(place),
        "cache": str(place / "cache"),
        "compiled": os.environ["EVOFLASH_CACHE_DIR"],
        "latin": latin,
        "genome": genome,
        "recorded": str(FIXTURES / "recorded.json.gz"),
    }
    shutil.rmtree(place)


def runs_of(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("select count(*) from runs").fetchone()
    connection.close()
    return int(count)


def expected(surrounding: str, command: str) -> tuple[int, str]:
    """The exit code, and what stands in the last line where something is in the way."""
    spoiled = SURROUNDINGS[surrounding].get("spoils", {})
    for need in (command, *COMMANDS[command].get("needs", ())):
        if need in spoiled:
            return spoiled[need]["code"], spoiled[need].get("says", "")
    return COMMANDS[command].get("code", 0), COMMANDS[command].get("says", "")


@pytest.mark.parametrize(("surrounding", "command"), PAIRS)
def test_a_command_does_its_work_or_says_in_one_line_what_is_in_its_way(
    surrounding: str, command: str, words: dict[str, str]
) -> None:
    around = SURROUNDINGS[surrounding]
    given = environment(
        NO_COLOR="1",
        CUDA_VISIBLE_DEVICES="",
        HOME=words["place"] + "/home",
        **{f"XDG_{name.upper()}_HOME": f"{words['place']}/{name}" for name in ("data", "state", "config")},
    )
    for name in ("EVOFLASH_DB", *around.get("unset", ())):
        given.pop(name, None)
    given |= {name: value.format(**words) for name, value in around.get("set", {}).items()}
    first = around.get("in", ":").format(**words)
    call = f"{sys.executable} -m evoflash {COMMANDS[command]['words'].format(**words)}"
    shell = f"cd {words['place']} && {{ {first}; }} || exit 99; exec {call} {around.get('redirect', '')}"
    user = around.get("user")
    namespace = ["-Um", f"--map-user={user}"] if user else ["-Urm"]
    before = runs_of(Path(words["place"], "data/evoflash/evoflash.db"))

    done = subprocess.run(
        [UNSHARE, *namespace, SH, "-c", shell],
        env=given,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=LIMIT_S,
        check=False,
    )

    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip(f"this surrounding cannot be made here: {done.stderr.strip()[:200]}")
    code, says = expected(surrounding, command)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    if code and command != "doctor" and "2>&-" not in around.get("redirect", ""):  # doctor's answer is data
        lines = done.stderr.rstrip().splitlines()
        assert re.search(says, lines[-1]), lines[-1]
        assert lines[-1].startswith("evoflash: ")
        assert sum(says != "" and re.search(says, line) is not None for line in lines) <= 1, "once"
    if code and "prints" not in around.get("spoils", {}):  # there the work is done, and cannot be told
        assert runs_of(Path(words["place"], "data/evoflash/evoflash.db")) == before, "a run that is none"


@pytest.mark.full
@pytest.mark.parametrize("surrounding", ["plain", "read-only cache", "full /dev/shm"])
def test_the_line_of_the_readme_works_in_a_notebook_or_says_what_is_in_its_way(
    surrounding: str, words: dict[str, str]
) -> None:
    """In Jupyter's own kernel, which is started inside of the surrounding and asked over its sockets."""
    pytest.importorskip("ipykernel", reason="notebooks need evoflash's dev extra")
    (line,) = re.findall(r"`(evoflash\.search\(.*?\)\.best)`", (ROOT / "README.md").read_text())
    cell = "import evoflash\n" + line.replace("budget=200", "budget=1, family='flash_simt'")
    around = SURROUNDINGS[surrounding]
    given = environment(
        CUDA_VISIBLE_DEVICES="",
        HOME=words["place"] + "/home",
        XDG_DATA_HOME=words["place"] + "/data",
        JUPYTER_RUNTIME_DIR=words["place"],
        PYTHONPATH=str(ROOT),
    )
    given.pop("EVOFLASH_DB", None)
    given |= {name: value.format(**words) for name, value in around.get("set", {}).items()}
    first = around.get("in", ":").format(**words)
    ask = [UNSHARE, "-Urm", SH, "-c", f'{{ {first}; }} || exit 99; exec "$@"', SH, sys.executable, "-c"]

    done = subprocess.run(
        [*ask, data(__file__, "ASK_A_KERNEL"), cell],
        env=given,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip(f"this surrounding cannot be made here: {done.stderr.strip()[:200]}")
    code, says = expected(surrounding, "search")
    error, _, shown = done.stdout.partition("\n")
    if code:
        assert re.search(says, error), done.stdout + done.stderr
    else:
        assert (error, "flash_simt" in shown) == ("", True), done.stdout + done.stderr
