"""Two checkouts search the same problem in turns on one GPU: what each finds, and how long each rung takes.

For a change that should change nothing, and for one that should. The searches alternate (A B B A), each with
a compile cache and a database of its own, both empty before. The second checkout's `evoflash compare` then
times each winner and the archived kernel of the problem in pairs. Judges nothing.

    python -m scripts.searches.checkouts OLD . --problem mission --budget 100 --rounds 2 -o FILE.json
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from evoflash.champions import champion_today
from evoflash.gpu.timing.noise_floor import environment
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.command_line import command

RUNGS = ("smoke", "correctness", "timing")


@dataclass(frozen=True, slots=True)
class Searched:
    """One search of one checkout: its winner, and medians in seconds over the candidates timed to the end."""

    checkout: str
    seed: int
    wall_s: float
    spent: int
    statuses: dict[str, int]
    best_us: float
    best_id: str
    median_s: dict[str, float]  # by rung, and "compile"
    quartiles_s: dict[str, tuple[float, float]]
    database: str


def searched(checkout: Path, name: str, given: argparse.Namespace, *, seed: int, folder: Path) -> Searched:
    """Run one search in a process of that checkout. CalledProcessError when it fails."""
    database = folder / f"{name}-{seed}-{time.monotonic_ns()}.db"
    words = ["search", "--gpu", given.gpu, "--problem", given.problem, "--budget", str(given.budget)]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        said = evoflash(checkout, *words, "--seed", str(seed), "--db", str(database), "--json", cache=cache)
    wall_s = time.monotonic() - begun
    best = json.loads(said)["best"]
    rows = candidates(database)
    seconds = {rung: [s for row in rows if (s := row.get(rung)) is not None] for rung in (*RUNGS, "compile")}
    return Searched(
        checkout=name,
        seed=seed,
        wall_s=round(wall_s, 1),
        spent=len(rows),
        statuses=dict(Counter(row["status"] for row in rows)),
        best_us=best["score_us"],
        best_id=best["genome"]["id"],
        median_s={rung: round(statistics.median(s), 4) for rung, s in seconds.items() if s},
        quartiles_s={rung: quartiles(s) for rung, s in seconds.items() if len(s) > 1},
        database=str(database),
    )


def quartiles(seconds: list[float]) -> tuple[float, float]:
    """The first and the third quartile, rounded to a tenth of a millisecond."""
    first, _, third = statistics.quantiles(seconds, n=4)
    return round(first, 4), round(third, 4)


def candidates(database: Path) -> list[dict[str, Any]]:
    """Status and seconds by rung of every candidate of a database that was really evaluated."""
    query = """
        SELECT e.status, e.environment_json,
               (SELECT max(b.compile_s) FROM builds b WHERE b.evaluation_id = e.id)
        FROM evaluations e WHERE e.kind = 'candidate' AND e.duplicate_of IS NULL
    """
    with sqlite3.connect(database) as connection:
        rows = connection.execute(query).fetchall()
    return [{"status": status, "compile": compile_s} | by_rung(text) for status, text, compile_s in rows]


def by_rung(environment: str) -> dict[str, float]:
    """Seconds on each rung, of a candidate that was timed; empty for one that did not come so far."""
    kept = json.loads(environment)
    return {rung: float(kept[f"{rung}_s"]) for rung in RUNGS} if "timing_s" in kept else {}


def evoflash(checkout: Path, *words: str, cache: str) -> str:
    """What the command of that checkout says on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "evoflash", *words],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": path_of(checkout), "EVOFLASH_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def path_of(checkout: Path) -> str:
    """The checkout before everything else that Python would find."""
    return os.pathsep.join([str(checkout.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])


def against_archive(checkout: Path, search: Searched, given: argparse.Namespace, *, folder: Path) -> Any:
    """The winner and the archived kernel of the problem in pairs, as `evoflash compare --json` says it.

    None where the archive has no kernel for the problem, and where the winner is that kernel.
    """
    archived = champion_today(parse_problem(given.problem), load_gpu(given.gpu))
    if archived is None or archived.genome.id == search.best_id:
        return None
    words = [search.best_id, archived.genome.id, "--problem", given.problem, "--db", search.database]
    return json.loads(evoflash(checkout, "compare", *words, "--json", cache=str(folder)))


def main() -> None:
    """Search in turns and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="CHECKOUT")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--problem", default="mission")
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2, help="searches of each checkout")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    record: dict[str, Any] = {
        "command": command(),
        "environment": environment(),
        "date": date.today().isoformat(),
        "searches": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(given.rounds):
            order = list(enumerate(given.checkouts))
            for at, checkout in order if turn % 2 == 0 else reversed(order):
                search = searched(checkout, "AB"[at], given, seed=turn, folder=Path(folder))
                against = against_archive(given.checkouts[1], search, given, folder=Path(folder))
                record["searches"].append(asdict(search) | {"against_archive": against})
                print(search, against, flush=True)
                given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
