"""A kernel's build and what the emulator counts of it, from the cache where both were made before.

Counts stay for as long as the kernel's text, the launches and the work of its small runs, and the emulator
are the same; the loop that estimates read them by is the family's of today. Estimates nothing.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from evoflash import emulator
from evoflash.emulator.preflight import small_gpu
from evoflash.evaluators.prepare import Preparation, prepare, with_preflight
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.operation import Loop, operation_of
from evoflash.paths import cache_dir, put_in_cache
from evoflash.perf_model import Counts, Profile
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec


def counted(genome: Genome, problem: Problem, gpu: GpuSpec) -> Preparation:
    """The genome's builds and profiles, or why it has none."""
    built = prepare(genome, problem, gpu, False, 0)
    if built.failure:
        return built
    kept = list(_kept(genome, problem, gpu))
    if all(file.exists() for file, *_ in kept):
        return replace(built, profiles=tuple(_read(*each) for each in kept))
    found = with_preflight(genome, problem, gpu, built, 0, only_counted=True)
    if not found.failure:
        for (file, *_), profile in zip(kept, found.profiles, strict=True):
            counts = [asdict(each) for each in profile.launches]
            put_in_cache(file, json.dumps(counts).encode())
    return found


def _kept(genome: Genome, problem: Problem, gpu: GpuSpec) -> Iterator[tuple[Path, Loop, int]]:
    """For each compile key the file of its counts, the main loop, and what of it no primitive stands for."""
    family = load_family(genome.family)
    for key in problem.compile_keys(gpu.arch):
        values, operation = genome.as_dict(), operation_of(key)
        names = family.names(values, key, gpu)
        loop = family.loop(names)
        runs = [(run, small_gpu(run, gpu)) for run in operation.preflight_runs(key, loop) if run.is_counted]
        launches = [family.launches(genome, run.workload, small) for run, small in runs]
        loops = [family.loop(family.names(values, key, small)) for _, small in runs]
        works = [operation.work(run.workload, own) for (run, _), own in zip(runs, loops, strict=True)]
        said = (render(genome, key, gpu).source_sha, *map(repr, (launches, works)), _emulator_sha())
        name = hashlib.sha256("\0".join(said).encode()).hexdigest()
        yield cache_dir() / "counts" / f"{name}.json", loop, family.uncounted_instructions(names)


@cache
def _emulator_sha() -> str:
    folder, digest = Path(emulator.__file__).parent, hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.suffix != ".pyc"):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _read(file: Path, loop: Loop, uncounted: int) -> Profile:
    launches = tuple(Counts(**each) for each in json.loads(file.read_text(encoding="utf-8")))
    return Profile(**asdict(loop), launches=launches, uncounted=uncounted)
