"""What the emulator costs: CPU seconds of g++, of one run, of the whole pre-flight, and memory.

Every family is measured on its first seed for the problem, and tests/kernels/hopper.cu (TMA, mbarriers,
wgmma) on shapes like theirs, each in a process of its own, the kernel built anew each time; NVRTC and
rendering are not counted. Medians over --repeats. Decides nothing, times no GPU.

    python -m scripts.families.emulator_cost -o scripts/families/records/emulator-cost.json
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from evoflash.emulator.preflight import emulate, preflight
from evoflash.evaluation import Candidate
from evoflash.kernels import gxx
from evoflash.kernels.family import Family, known_families, load_family
from evoflash.kernels.renderer import render
from evoflash.operation import Delivery
from evoflash.operations.attention.workload import parse_workload
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.command_line import command
from scripts.hopper_kernel.cases import ARCH, CONFIGURATIONS
from scripts.hopper_kernel.on_emulator import run_hopper

_SEED = 1
HOPPER = "hopper.cu"
# Rings used twice with tails, a tail of one key, a stub, one tile.
_HOPPER_SHAPES: tuple[tuple[int, int, Delivery], ...] = (
    (137, 291, "lazy"),
    (129, 257, "random"),
    (137, 5, "eager"),
    (137, 64, "lazy"),
)


def _cpu_s() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _measured(family: Family, candidate: Candidate, problem: str, gpu: str) -> dict[str, float]:
    """One repeat: CPU seconds of g++ alone, g++ and one run, and the whole pre-flight after g++."""
    workload, spec = parse_problem(problem).workloads[0], load_gpu(gpu)
    begin = _cpu_s()
    library = gxx.build(candidate.source, name=family.name)
    built = _cpu_s()
    launches = family.launches(candidate.genome, workload, spec)
    emulations, verdict = emulate(
        library, launches, workload, "normal", delivery="lazy", schedule="fifo", seed=_SEED
    )
    run_s = sum(emulation.seconds for emulation in emulations)
    if not verdict.passed or any(emulation.reports for emulation in emulations):
        raise SystemExit(f"{family.name} is not clean on {workload}: {verdict.reason}.")
    before = _cpu_s()
    found = preflight(candidate, family, spec, seed=_SEED)
    after = _cpu_s()
    if found.complaint:
        raise SystemExit(f"{family.name}: {found.complaint}.")
    return {
        "gxx_s": built - begin,
        "gxx_and_run_s": built - begin + run_s,
        "preflight_s": built - begin + after - before,
    }


def _of_family(name: str, problem: str, gpu: str) -> Callable[[], dict[str, float]]:
    if name == HOPPER:
        return partial(_hopper, problem)
    family, spec, what = load_family(name), load_gpu(gpu), parse_problem(problem)
    keys = what.compile_keys(spec.arch)
    genome = family.seeds_for(what, family.space(keys, spec), spec)[0]
    candidate = render(genome, keys[0], spec)
    return partial(_measured, family, candidate, problem, gpu)


def _hopper(problem: str) -> dict[str, float]:
    """The same of the Hopper kernel, on the problem and on shapes as a family's pre-flight has them."""
    configuration, workload = CONFIGURATIONS["overlap"], parse_workload(problem)
    text = configuration.source(workload.compile_key(ARCH))
    begin = _cpu_s()
    gxx.build(text, name="hopper")
    built = _cpu_s()
    first = run_hopper(text, configuration, workload)
    before = _cpu_s()
    outcomes = [first]
    for seq_q, seq_kv, delivery in _HOPPER_SHAPES:
        shape = replace(workload, heads=1, kv_heads=1, seq_q=seq_q, seq_kv=seq_kv)
        outcomes.append(run_hopper(text, configuration, shape, delivery=delivery))
    after = _cpu_s()
    if any(outcome.emulation.reports or not outcome.verdict.passed for outcome in outcomes):
        raise SystemExit("the Hopper kernel is not clean.")
    return {
        "gxx_s": built - begin,
        "gxx_and_run_s": built - begin + first.emulation.seconds,
        "preflight_s": built - begin + after - before,
    }


def _child(family_name: str, problem: str, gpu: str, repeats: int) -> None:
    """Measures one family and prints JSON: apart from the others, so that its memory can be told."""
    gxx.runtime()
    measure = _of_family(family_name, problem, gpu)
    rows = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            kept = Path(os.environ["EVOFLASH_CACHE_DIR"]) / "emulator"
            Path(cache, "emulator").mkdir()
            for built in kept.glob("*/runtime.so"):
                Path(cache, "emulator", built.parent.name).symlink_to(built.parent)
            with _cache(cache):
                rows.append(measure())
    medians = {name: round(statistics.median(row[name] for row in rows), 4) for name in rows[0]}
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    compiler = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({**medians, "rss_mb": round(megabytes), "gxx_rss_mb": round(compiler)}))


@contextmanager
def _cache(folder: str) -> Iterator[None]:
    before = os.environ["EVOFLASH_CACHE_DIR"]
    os.environ["EVOFLASH_CACHE_DIR"] = folder
    try:
        yield
    finally:
        os.environ["EVOFLASH_CACHE_DIR"] = before


def main() -> None:
    """One process for each family, one table, one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problem", default="b=1,h=2,s=256,d=64")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--family", help="only this one")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    if options.child:
        return _child(options.family, options.problem, options.gpu, options.repeats)
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        for family in [options.family] if options.family else [*known_families(), HOPPER]:
            words = [sys.executable, "-m", "scripts.families.emulator_cost", "--child", "--family", family]
            words += ["--problem", options.problem, "--gpu", options.gpu, "--repeats", str(options.repeats)]
            environment = {**os.environ, "EVOFLASH_CACHE_DIR": cache}
            answer = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            if answer.returncode:
                raise SystemExit(answer.stderr)
            rows[family] = json.loads(answer.stdout.splitlines()[-1])
            print(family, rows[family], flush=True)
    if options.out:
        document = {
            "what": "CPU seconds and memory of the emulator, medians",
            "command": command(),
            "date": str(date.today()),
            "machine": f"{os.cpu_count()} cores, {gxx.compiler_version()}",
            "load_1min": round(os.getloadavg()[0], 1),
            "problem": options.problem,
            "repeats": options.repeats,
            "families": rows,
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
