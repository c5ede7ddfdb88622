"""The acceptance checks, one JSON line a letter; a letter that needs a GPU says so where there is none.

a  README command 1 on a fresh clone, cold caches; 500 uniform genomes compile without spills
b  the exported file: NVRTC without -I, the same bytes again, a program that checks itself (GPU)
d  kill -9 at random moments of a search
g  scripts/test on a fresh clone
"""

import argparse
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from scripts import ROOT

PROBLEM = "b=2,h=8,hkv=2,s=1000,d=128,causal"  # of the exported file
Result = dict[str, Any]


def evoflash(*arguments: str, home: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """One evoflash command with caches and database of its own."""
    return subprocess.run(
        [sys.executable, "-m", "evoflash", *arguments],
        env=environment(home),
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        **options,
    )


def environment(home: Path) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "EVOFLASH_CACHE_DIR": str(home / "cache"),
        "EVOFLASH_DB": str(home / "evoflash.db"),
    }


@contextmanager
def fresh_home() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="evoflash-acceptance-") as folder:
        yield Path(folder)


def has_gpu() -> bool:
    """Whether the driver sees a GPU."""
    from evoflash.errors import EvoflashError
    from evoflash.gpu.launcher import present_gpu

    try:
        present_gpu()
    except EvoflashError:
        return False
    return True


@contextmanager
def fresh_clone() -> Iterator[tuple[Path, dict[str, str]]]:
    """A clean clone of HEAD, and an environment without this checkout's caches."""
    with fresh_home() as folder:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder / "clone")], check=True)
        home = folder / "home"
        home.mkdir()
        keep = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith("EVOFLASH") and k not in ("PYTHONPATH", "VIRTUAL_ENV")
        }
        yield folder / "clone", {**keep, "HOME": str(home), "XDG_CACHE_HOME": "", "XDG_DATA_HOME": ""}


def letter_a() -> Result:
    """README command 1 as it stands, and the space."""
    with fresh_clone() as (clone, variables):
        started = time.monotonic()
        command = ["scripts/evoflash", "search", "--gpu", "l4", "--budget", "200"]
        done = subprocess.run(command, cwd=clone, env=variables, text=True, capture_output=True, check=False)
        total_s = time.monotonic() - started
        setup = re.search(r"set-up took (\d+)", done.stderr)
        setup_s = float(setup[1]) if setup else 0.0
        (database,) = Path(variables["HOME"]).rglob("evoflash.db")
        rows, unchecked = _leaderboard_verdicts(database)
    space = _uniform(500)
    passed = done.returncode == 0 and total_s - setup_s <= 360 and rows > 0 and unchecked == 0
    passed &= (
        space["compiled"] == space["genomes"]
        and space["without_spills"] >= 0.95
        and space["valid_points"] >= 1e4
    )
    return {
        "passed": passed,
        "setup_s": setup_s,
        "search_s": round(total_s - setup_s, 1),
        "leaderboard_rows": rows,
        "rows_not_passed_by_the_emulator": unchecked,
        "space": space,
    }


def _leaderboard_verdicts(database: Path) -> tuple[int, int]:
    with sqlite3.connect(database) as connection:
        rows = connection.execute("select evaluation from leaderboard").fetchall()
        good = "select count(*), min(passed) from verdicts where evaluation_id = ?"
        checked = [connection.execute(good, row).fetchone() for row in rows]
    return len(rows), sum(count < 3 or not passed for count, passed in checked)


def _uniform(count: int) -> Result:
    from evoflash.evaluators.prepare import compile_only
    from evoflash.isolation import IsolatedPool
    from evoflash.kernels.family import load_family
    from evoflash.problem import parse_problem
    from evoflash.specs import load_gpu

    gpu, problem, family = load_gpu("l4"), parse_problem("mission"), load_family("flash_mma")
    space = family.space(problem.compile_keys(gpu.arch), gpu)
    rng = np.random.default_rng(500)
    with IsolatedPool(len(os.sched_getaffinity(0))) as pool:
        genomes = [space.sample(rng) for _ in range(count)]
        futures = [pool.submit(compile_only, genome, problem, gpu, timeout_s=120) for genome in genomes]
        builds = [build for future in futures for build in future.result().value or ()]
    return {
        "genomes": count,
        "arch": gpu.arch,
        "compiled": sum(b.ok for b in builds),
        "without_spills": sum(b.ok and not b.spill_bytes for b in builds) / count,
        "valid_points": _valid_points(space, rng),
    }


def _valid_points(space: Any, rng: np.random.Generator, draws: int = 200_000) -> int:
    """Distinct valid genomes, estimated by drawing from the raw product."""
    hits = sum(space.draw(rng) is not None for _ in range(draws))
    return int(space.cardinality * hits / draws)


def letter_b() -> Result:
    """The exported file."""
    from cupy.cuda import nvrtc

    gpu = "h200" if has_gpu() else "l4"
    with fresh_home() as home:
        found = evoflash(
            "search",
            "--gpu",
            gpu,
            "--problem",
            PROBLEM,
            "--budget",
            "8",
            home=home,
        )
        kernel = home / "kernel.cu"
        evoflash("best", "--export", str(kernel), home=home)
        text = kernel.read_text()
        (line,) = re.findall(r"^// evoflash (export .*)$", text, flags=re.MULTILINE)
        same = evoflash(*line.split(), home=home).stdout == text
        arch = re.search(r"-arch=(sm_\w+)", text)[1]  # type: ignore[index]
        program = nvrtc.createProgram(text, "kernel.cu", [], [])
        nvrtc.compileProgram(program, ["-std=c++17", f"-arch={arch}"])
        result: Result = {
            "passed": found.returncode == 0 and same,
            "same_bytes": same,
            "nvrtc_without_include": True,
        }
        if shutil.which("nvcc"):
            result |= _program(kernel, arch.removeprefix("sm_"), run=has_gpu())
            result["passed"] &= result["program_compiles"] and result.get("program_passes", True)
    return result


def _program(kernel: Path, arch: str, *, run: bool) -> Result:
    command = ["nvcc", "-std=c++17", "-O2", f"-gencode=arch=compute_{arch},code=sm_{arch}", str(kernel)]
    built = subprocess.run(
        [*command, "-o", str(kernel.with_suffix(""))], capture_output=True, text=True, check=False
    )
    if built.returncode or not run:
        return {"program_compiles": built.returncode == 0}
    ran = subprocess.run([str(kernel.with_suffix(""))], capture_output=True, text=True, check=False)
    return {
        "program_compiles": True,
        "program_passes": ran.returncode == 0,
        "program_says": ran.stdout.strip(),
    }


def letter_d(kills: int = 20, budget: int = 500) -> Result:
    """kill -9 at random moments, the same command each time, then to the end."""
    rng = np.random.default_rng(9)
    command = ("search", "--gpu", "l4", "--problem", "b=1,h=1,s=64,d=64", "--budget", str(budget))
    lost = 0
    with fresh_home() as home:
        database = home / "evoflash.db"
        for _ in range(kills):
            process = subprocess.Popen(
                [sys.executable, "-m", "evoflash", *command],
                env=environment(home),
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(float(rng.uniform(1.5, 8.0)))
            before = _genomes(database)
            process.send_signal(signal.SIGKILL)
            process.wait()
            lost += len(before - _genomes(database))
        reached = len(_genomes(database))
        done = evoflash(*command, home=home)
        distinct = len(_genomes(database))
        with sqlite3.connect(database) as connection:
            (integrity,) = connection.execute("pragma integrity_check").fetchone()
    passed = done.returncode == 0 and not lost and distinct == budget and integrity == "ok"
    return {
        "passed": passed,
        "kills": kills,
        "rows_lost": lost,
        "rows_at_last_kill": reached,
        "budget": budget,
        "distinct_genomes": distinct,
        "integrity_check": integrity,
    }


def _genomes(database: Path) -> set[str]:
    """Distinct genomes that count towards the budget."""
    if not database.exists():
        return set()
    query = "select distinct genome_id from evaluations where kind = 'candidate' and duplicate_of is null"
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return {row[0] for row in connection.execute(query)}
    except sqlite3.OperationalError:  # killed before the first table was made
        return set()
    finally:
        connection.close()


def letter_g() -> Result:
    """scripts/test on a fresh clone."""
    with fresh_clone() as (clone, variables):
        started = time.monotonic()
        done = subprocess.run(
            ["scripts/test"], cwd=clone, env=variables, text=True, capture_output=True, check=False
        )
        total_s = time.monotonic() - started
    lines = done.stdout.strip().splitlines()
    return {
        "passed": done.returncode == 0 and total_s <= 600,
        "total_s": round(total_s, 1),
        "pytest": lines[-1] if lines else "",
        "slowest": [line.strip() for line in lines if re.match(r"\d+\.\d+s (call|setup|teardown)", line)],
    }


LETTERS: dict[str, Callable[[], Result]] = {
    "a": letter_a,
    "b": letter_b,
    "d": letter_d,
    "g": letter_g,
}


def main() -> int:
    """Run the letters (default: all) and print a line for each; 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("letters", nargs="*", metavar="LETTER", help="default: all")
    letters = parser.parse_args().letters
    failed = False
    for letter in letters or list(LETTERS):
        result = LETTERS[letter]()
        failed |= result["passed"] is False
        print(json.dumps({"letter": letter, **result}), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
