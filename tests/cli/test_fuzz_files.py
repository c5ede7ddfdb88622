"""Fuzz: every file that a user may write, in a good state and then with bytes, lines and words of it changed.

A file that a command reads is read by that command; operators and strategies are called as a search does.
"""

import gzip
import itertools
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzzing import CASES_OF_A_FILE, FILES, cases, run
from hypothesis import given
from hypothesis import strategies as st
from places import FIXTURES
from tables import data

from evoflash.app.new_files import write
from evoflash.errors import EvoflashError
from evoflash.space import Check, Param, SearchSpace
from evoflash.store.store import open_store
from evoflash.strategies import make_strategy, operators

SPACE = SearchSpace(
    "made", (Param("x", (1, 2, 4)), Param("y", ("a", "b"))), checks=(Check("fits", lambda v: v["x"] < 4),)
)
# No loops among them: a file that never ends is not what is sought here.
WORDS = data(__file__, "WORDS")
WORDS += [
    "import x",
    "raise",
    "1/0",
    "return",
    "return 1",
    "x",
    "[x]",
    '"""',
    "#",
    "\t",
    "\x00",
    "99999999999999999999",
]
_NUMBERS = itertools.count()


def changed(text: bytes, seed: int) -> bytes:
    """The text after one to three changes of a byte, a line or a word; at times cut off or left as it is."""
    rng = random.Random(seed)
    for _ in range(rng.randrange(4)):
        lines = text.splitlines(keepends=True) or [b""]
        at, line = rng.randrange(len(text) + 1), rng.randrange(len(lines))
        word = rng.choice(WORDS).encode()
        match rng.randrange(8):
            case 0:
                text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
            case 1:
                text = text[:at] + text[at + rng.randrange(1, 20) :]
            case 2:
                text = b"".join([*lines[:line], *lines[line + 1 :]])
            case 3:
                text = b"".join([*lines[: line + 1], *lines[line:]])
            case 4 | 5:
                text = b"".join([*lines[:line], _with_word(lines[line], word, rng), *lines[line + 1 :]])
            case 6:
                text = text[:at] + word + text[at:]
            case 7:
                text = text[:at] if rng.random() < 0.3 else text
    return text


def _with_word(line: bytes, word: bytes, rng: random.Random) -> bytes:
    """The line with one of its words replaced."""
    words = line.split(b" ")
    words[rng.randrange(len(words))] = word
    return b" ".join(words)


class Place:
    """An extension folder, and the good texts that files are changed from."""

    def __init__(self, folder: Path, set_variable: Callable[[str, str], None]) -> None:
        self.folder, self.set = folder, set_variable
        self.good: dict[str, bytes] = {}
        for what, kind in (
            ("family", "template"),
            ("mutation", "operator"),
            ("gpu", "gpu"),
            ("strategy", "strategy"),
        ):
            path, _ = write(what, "good", folder / "good")
            self.good[kind] = path.read_bytes()
        self.good["config"] = (
            b'gpu = "l4"\nbudget = 20\nextensions = []\nquiet = false\n[leaderboard]\ntop = 5\n'
        )
        self.good["recorded space"] = gzip.decompress((FIXTURES / "recorded.json.gz").read_bytes())
        with sqlite3.connect(folder / "good.db") as connection:
            connection.executescript((FIXTURES / "store_0001.sql").read_text())
        connection.close()
        with open_store(str(folder / "good.db")):
            pass
        self.good["database"] = (folder / "good.db").read_bytes()

    def extension(self, kind: str, ending: str, text: bytes) -> str:
        """A folder of its own with one file, set as the extension folder; the file's name."""
        name = f"fuzzed{next(_NUMBERS)}"
        folder = self.folder / "extension"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / kind).mkdir(parents=True)
        (folder / kind / f"{name}{ending}").write_bytes(text)
        self.set("EVOFLASH_EXTENSIONS", str(folder))
        return name


def try_gpu(place: Place, text: bytes) -> None:
    place.extension("gpus", ".toml", text)
    run("gpus")


def try_template(place: Place, text: bytes) -> None:
    name = place.extension("templates", ".cu.j2", text)
    run("export", "--family", name, "--gpu", "l4", "--problem", "b=1,h=1,s=64,d=32")


def try_operator(place: Place, text: bytes) -> None:
    name = place.extension("mutations", ".py", text)
    try:
        (operator,) = (each for each in operators.operators() if each.name == name)
    except EvoflashError as error:
        check_line(error, name)
        return
    rng = np.random.default_rng(0)
    for parent in list(SPACE)[:2]:
        child = operator.child([parent] * operator.arity, SPACE, rng)
        assert child is None or SPACE.is_valid(child)


def try_strategy(place: Place, text: bytes) -> None:
    name = place.extension("strategies", ".py", text)
    try:
        strategy = make_strategy(name, SPACE, seed=0)
        proposals = [strategy.ask() for _ in range(5)]
    except EvoflashError as error:
        check_line(error, name)
    else:
        assert all(proposal is None or SPACE.is_valid(proposal.genome) for proposal in proposals)


def check_line(error: EvoflashError, name: str) -> None:
    """One line that names the file."""
    assert "\n" not in str(error)
    assert name in str(error)


def try_config(place: Place, text: bytes) -> None:
    path = place.folder / f"{next(_NUMBERS)}.toml"
    path.write_bytes(text)
    place.set("EVOFLASH_CONFIG", str(path))
    run("config")
    run("leaderboard", "--db", str(place.folder / "good.db"))


def try_recorded_space(place: Place, text: bytes) -> None:
    path = place.folder / "fuzzed.json"
    path.write_bytes(text)
    run("replay", str(path), "--budget", "2", "--repeats", "1", "--strategy", "uniform")


def try_database(place: Place, text: bytes) -> None:
    path = place.folder / "fuzzed.db"
    path.write_bytes(text)
    for arguments in (("leaderboard",), ("show", "--failures"), ("insights",)):
        run(*arguments, "--db", str(path))
    assert path.exists()


TRIED = {
    "gpu": try_gpu,
    "template": try_template,
    "operator": try_operator,
    "strategy": try_strategy,
    "config": try_config,
    "recorded space": try_recorded_space,
    "database": try_database,
}


def test_each_kind_of_file_is_tried() -> None:
    assert tuple(TRIED) == FILES


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param(kind, id=f"a {kind}") for kind in FILES])
@pytest.mark.sample(1)
def test_a_file_in_any_state_ends_in_one_line_at_worst(kind, tmp_path, monkeypatch) -> None:
    place = Place(tmp_path, monkeypatch.setenv)
    TRIED[kind](place, place.good[kind])

    @cases(CASES_OF_A_FILE)
    @given(st.integers(0, 2**32 - 1))
    def each(seed: int) -> None:
        TRIED[kind](place, changed(place.good[kind], seed))

    each()
