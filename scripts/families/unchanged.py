"""Shows that nothing a user or a stored result hangs on has changed against an earlier commit.

Compared are: rendered kernels of seeds and random genomes of every family over some problems, exported
files of every archived kernel, golden files, the help of every command, and `leaderboard --json` of a stored
database, by a digest of each. The earlier commit makes its own, in a worktree that is taken away again.
Compiles nothing, and says nothing of how fast anything is.

    python -m scripts.families.unchanged            # beside the last commit; exit code 1 if anything differs
    python -m scripts.families.unchanged main       # beside another one
"""

import argparse
import hashlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from evoflash.champions import champion_today, champions
from evoflash.kernels.family import Family, known_families, load_family
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import export_kernel
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec, load_gpu
from scripts.records import read_record, write_record

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = (
    "mission",
    "mission,causal,dtype=bf16",
    "short128,causal",
    "short256,dtype=bf16",
    "s2k_d64,causal",
    "s2k_d128",
    "s4k_d128,causal,dtype=bf16",
    "gqa4k_d128,causal",
    "decode8k",
    "b=1,h=8,hkv=2,sq=777,skv=5000,d=128,causal",
    "b=2,h=4,hkv=4,s=333,d=64,acc=fp16",
    "b=2,h=4,hkv=4,sq=100,skv=300,d=96",
    "linear:8b_o,m=1,dtype=fp8b128",
    "linear:8b_qkv,m=13,dtype=bf16,bias",
    "linear:70b_tp8_down,m=64,dtype=fp8t",
    "b=8,h=32,hkv=8,sq=1,skv=4096,d=128,page=16,dtype=bf16",
    "b=2,h=4,hkv=4,sq=3,skv=500,d=64,page=1,dtype=fp16",
)
GPUS = ("h200", "l4", "a100")
RANDOM = 24  # genomes of each family on each problem, shared out over the GPUs that the family supports
TRIES = 20_000  # random points looked at for them: a family without valid genomes there gives up

Digests = dict[str, str]  # what was made -> sha256 of its text, shortened


def digest(text: str) -> str:
    """Sixteen hex digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rendered() -> Iterator[tuple[str, str]]:
    """(family, problem, GPU and genome; digest) of every valid seed and of the random genomes."""
    for name in known_families():
        family = load_family(name)
        for text in PROBLEMS:
            problem = parse_problem(text)
            gpus = [spec for spec in map(load_gpu, GPUS) if family.supports(spec)]
            for gpu in gpus if family.op == problem.operation else ():
                yield from _rendered(family, problem, text, gpu, count=RANDOM // len(gpus))


def _rendered(
    family: Family, problem: Problem, text: str, gpu: GpuSpec, *, count: int
) -> Iterator[tuple[str, str]]:
    keys = problem.compile_keys(gpu.arch)
    space = family.space(keys, gpu)
    rng = np.random.default_rng(zlib.crc32(f"{family.name} {text} {gpu.name}".encode()))
    genomes = [*family.seeds_for(problem, space, gpu), *_drawn(space, rng, count)]
    for at, genome in enumerate(genomes):
        for key in keys:
            yield f"{family.name} {text} {gpu.name} {at} {genome.id}", digest(render(genome, key, gpu).source)


def _drawn(space: SearchSpace, rng: np.random.Generator, count: int) -> list[Genome]:
    found: dict[str, Genome] = {}
    for _ in range(TRIES):
        if len(found) == count:
            break
        genome = space.genome({p.name: p.values[int(rng.integers(len(p.values)))] for p in space.params})
        if space.is_valid(genome):
            found.setdefault(genome.id, genome)
    return list(found.values())


def exported() -> Iterator[tuple[str, str]]:
    """(GPU and problem; digest) of the exported file of every archived kernel."""
    for gpu in GPUS:
        for champion in champions(gpu):
            problem, spec = parse_problem(champion.problem), load_gpu(gpu)
            today = champion_today(problem, spec)
            text = export_kernel(today.genome, problem, spec) if today else "no kernel any more"
            yield f"{gpu} {champion.problem}", digest(text)


def golden() -> Iterator[tuple[str, str]]:
    """(file name; digest) of the stored texts that tests compare with."""
    for path in sorted((ROOT / "tests" / "golden").rglob("*.cu")):
        yield path.name, digest(path.read_text(encoding="utf-8"))


def helped() -> Iterator[tuple[str, str]]:
    """(command; digest) of the help of the program and of each of its commands, at 80 columns."""
    from evoflash.cli.program import commands

    names = sorted(command.__name__ for command in commands())
    for words in ([], *([name] for name in names)):
        yield " ".join(words), digest(_said(*words, "--help"))


def leaderboard() -> Iterator[tuple[str, str]]:
    """(rows and times of it; digest) of the leaderboard of a database of the first schema."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stored.db"
        stored = next((ROOT / "tests").rglob("store_0001.sql"))
        with sqlite3.connect(file) as database:
            database.executescript(stored.read_text(encoding="utf-8"))
        for words in (["--json"], ["--json", "--problem", "mission"]):
            yield " ".join(words), digest(_said("leaderboard", "--db", str(file), *words))


def _said(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "evoflash", *words],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.returncode}\n{done.stdout}"


PARTS = {
    "rendered": rendered,
    "exported": exported,
    "golden": golden,
    "help": helped,
    "leaderboard": leaderboard,
}


def main() -> int:
    """Compare with a commit and print for each part how many are the same; or write what is here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--only", choices=PARTS, action="append", help="compare this part alone")
    parser.add_argument("-o", "--output", type=Path, help="write what is here instead of comparing")
    given = parser.parse_args()
    if given.output:
        write_record(given.output, {name: dict(PARTS[name]()) for name in given.only or PARTS})
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before = _made_by(given.commit, Path(folder), given.only or list(PARTS))
    return max([_compared(name, before[name], dict(PARTS[name]())) for name in given.only or PARTS])


def _made_by(commit: str, folder: Path, parts: list[str]) -> dict[str, Digests]:
    """What a commit's own script writes."""
    tree, record = folder / "tree", folder / "record.json.xz"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
    try:
        asked = [*(word for part in parts for word in ("--only", part)), "-o", str(record)]
        command = [sys.executable, "-m", "scripts.families.unchanged", *asked]
        subprocess.run(command, cwd=tree, env=os.environ | {"PYTHONPATH": str(tree)}, check=True)
        made: dict[str, Digests] = read_record(record)
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    return made


def _compared(name: str, before: Digests, now: Digests) -> int:
    differing = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    print(f"{name}: {len(before) - sum(key in before for key in differing)} of {len(before)} the same")
    for key in differing[:10]:
        print(f"  differs: {key}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
