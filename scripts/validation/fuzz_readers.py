"""Fuzzes readers of files: each changed input ends in an answer or one line, in time, and stays as it is.

    python -m scripts.validation.fuzz_readers --inputs 250 -o scripts/validation/records/fuzz-readers.json

Inputs are whole files of each kind, with bytes, numbers, words and lines changed or cut off; `--inputs` of
each kind are read, all of them in this process, some twenty a second. What a reader
raises at people is an EvoflashError of one line; any other exception, a reading that takes longer than the
limit, and a file that was written to, is a finding. Nothing is repaired here.
"""

import argparse
import gzip
import json
import os
import random
import signal
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer

from evoflash.app.shape_files import read_problems
from evoflash.app.verify.claim_sources import ClaimSelector, claim_of
from evoflash.cli.command_group import defaults_of
from evoflash.cli.program import app
from evoflash.errors import EvoflashError
from evoflash.kernels.family import read_family
from evoflash.kernels.standalone import export_values, genome_of
from evoflash.paths import GPUS, TEMPLATES
from evoflash.problem import parse_problem
from evoflash.replay.kernel_tuner import read_recording
from evoflash.settings import by_key, lookup
from evoflash.specs import load_gpu, read_gpu
from evoflash.store.store import open_store
from scripts.records import command, write_record

LIMIT_S = 20
FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
_WORDS = (
    *(b"", b"0", b"-1", b"1e400", b"NaN", b"null", b"true", b"[]", b"{}", b'"x"', b"\x00", b"\xff\xfe"),
    *(b"9" * 30, b"[" * 3000, b"{{", b"=", b",", b"b=1,h=1", b"Infinity", "é".encode()),
)


_CONFIG = b"""gpu = "h100"
budget = 30
quiet = true
extensions = ["a", "b"]

[search]
problem = "b=1,h=8,s=512,d=64"
budget = 100
strategy = "evolution"

[runs]
json = true

[runs.rename]
db = "runs.db"
"""


def changed(text: bytes, rng: random.Random) -> bytes:
    """The text after one to three changes."""
    for _ in range(rng.randrange(1, 4)):
        at, word = rng.randrange(len(text) + 1), rng.choice(_WORDS)
        end = at + rng.choice((1, 1, 2, 5, 20, 200))
        text = rng.choice(
            (
                text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :],
                text[:at] + text[end:],
                text[:at] + word + text[at:],
                text[:at] + word + text[end:],
                text[:end] + text[at:],
                text[:at],
            )
        )
    return text


def cache_text() -> bytes:
    """The first entries of a cache."""
    whole = gzip.decompress((FIXTURES / "recorded.json.gz").read_bytes())
    return whole[:9000].rpartition(b"},")[0] + b"}}}"


def t4_text() -> bytes:
    """Three results of two params."""
    results = [
        {
            "configuration": {"a": a, "b": "x"},
            "objectives": ["time"],
            "times": {"compilation_time": 9.0, "runtimes": [a / 10, a / 9]},
            "invalidity": "correct" if a < 3 else "timeout",
            "correctness": 1,
            "measurements": [{"name": "time", "value": a / 10, "unit": "ms"}],
        }
        for a in (1, 2, 3)
    ]
    return json.dumps(
        {"schema_version": "1.0.0", "metadata": {"timeunit": "ms"}, "results": results}
    ).encode()


def row_text() -> bytes:
    """A row of a leaderboard."""
    genome, _, _ = genome_of("flash_simt", [], problem="mission", gpu="l4")
    row = {
        "family": "flash_simt",
        "values": genome.as_dict(),
        "problem": "mission",
        "gpu": "l4",
        "score_us": 12.5,
    }
    return json.dumps([{**row, "basis": "measured", "registers": 64}]).encode()


def t4_claim_text() -> bytes:
    """A T4 result that names its kernel."""
    file = json.loads(t4_text())
    ours = {"family": "flash_simt", "problem": "mission", "gpu": "l4", "basis": "measured"}
    file["results"] = [{**file["results"][0], "evoflash": ours}]
    return json.dumps(file).encode()


def database_bytes(folder: Path) -> bytes:
    """A database with a run."""
    path = folder / "good.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((FIXTURES / "store_0001.sql").read_text())
    connection.close()
    open_store(str(path)).close()
    return path.read_bytes()


def read_database(path: Path) -> None:
    """Every run, its history, and what ranks."""
    with open_store(str(path), read_only=True) as store:
        for run in store.runs():
            store.history(run)
        store.best(None, None)


def read_problem(path: Path) -> None:
    """As a person writes it."""
    parse_problem(path.read_bytes().decode("utf-8", "replace"))


def read_config(path: Path) -> None:
    """As every command reads it: the settings, and the tables of all commands."""
    before = os.environ.get("EVOFLASH_CONFIG")
    os.environ["EVOFLASH_CONFIG"] = str(path)
    try:
        program = app()
        defaults_of(program.commands, typer.Context(program))
        for key in by_key():
            lookup(key)
    finally:
        os.environ.pop("EVOFLASH_CONFIG")
        if before is not None:
            os.environ["EVOFLASH_CONFIG"] = before


def read_header(path: Path) -> None:
    """A family, its space and the launches of its first genomes."""
    family, gpu, problem = read_family(path), load_gpu("l4"), parse_problem("mission")
    space = family.space(problem.compile_keys(gpu.arch), gpu)
    for seed in family.seeds_for(problem, space, gpu)[:2]:
        space.is_valid(seed)
        family.launches(seed, problem.workloads[0], gpu)


def readers(folder: Path) -> dict[str, tuple[str, bytes, Callable[[Path], object]]]:
    """By kind: a file's name, a whole content, and what reads it."""
    kernel = export_values("flash_simt", [], problem="mission", gpu="l4")
    claims = partial(_claim, db=str(folder / "none.db"))
    header = (TEMPLATES / "flash_direct.cu.j2").read_bytes()
    problem = b"b=1,h=8,hkv=4,s=512,d=64,dtype=fp16,causal+gqa4k_d128"
    return {
        "cache": (
            "cache.json",
            cache_text(),
            read_recording,
        ),
        "gzip": ("cache.json.gz", (FIXTURES / "recorded.json.gz").read_bytes(), read_recording),
        "T4": ("r.t4.json", t4_text(), read_recording),
        "T4 claim": ("t4.json", t4_claim_text(), claims),
        "row": ("rows.json", row_text(), claims),
        "export": ("kernel.cu", kernel.encode(), claims),
        "header": ("fuzzed.cu.j2", header, read_header),
        "config": ("evoflash.toml", _CONFIG, read_config),
        "problem": ("problem.txt", problem, read_problem),
        "linear problem": ("problem.txt", b"linear:m=1,n=1280,k=8192,dtype=fp8b128", read_problem),
        "problems": ("problems.txt", problem + b" weight=2.5\n# comment\nmission,causal\n", read_problems),
        "GPU": ("fuzzed.toml", (GPUS / "l4.toml").read_bytes(), read_gpu),
        "database": ("runs.db", database_bytes(folder), read_database),
    }


def _claim(path: Path, *, db: str) -> None:
    claim_of(str(path), ClaimSelector(), db)


@contextmanager
def limited() -> Iterator[None]:
    """TimeoutError inside after LIMIT_S."""

    def end(*_: object) -> None:
        raise TimeoutError(f"more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome_of(read: Callable[[Path], object], path: Path, content: bytes) -> tuple[str, str]:
    """`read`, `refused` or `finding`, and what was said."""
    path.write_bytes(content)
    try:
        with limited():
            read(path)
    except EvoflashError as error:
        ended = ("finding", f"several lines: {error}") if "\n" in str(error) else ("refused", str(error))
    except Exception as error:
        return "finding", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    else:
        ended = ("read", "")
    return ended if path.read_bytes() == content else ("finding", "the file was written to")


def fuzz(inputs: int, seed: int, only: str | None = None) -> Mapping[str, Any]:
    """How so many inputs of each kind ended, and each finding with its kind and number."""
    found: list[dict[str, Any]] = []
    table: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as place:
        for kind, (name, good, read) in readers(Path(place)).items():
            if only not in (None, kind):
                continue
            counts: Counter[str] = Counter()
            for number in range(inputs):
                content = changed(good, random.Random(f"{seed} {kind} {number}"))
                how, said = outcome_of(read, Path(place) / name, content)
                counts[how] += 1
                if how == "finding":
                    found.append({"kind": kind, "number": number, "said": said})
            table[kind] = dict(counts)
    return {"inputs": inputs, "seed": seed, "endings": table, "findings": found}


def main() -> None:
    """Prints the counts and writes the record; exit code 1 where there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    result = fuzz(asked.inputs, asked.seed, asked.only)
    print(json.dumps(result["endings"], indent=1))
    for each in result["findings"][:20]:
        print(each)
    if asked.output:
        write_record(asked.output, {"command": command(), **result})
    raise SystemExit(bool(result["findings"]))


if __name__ == "__main__":
    main()
