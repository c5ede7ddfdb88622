"""Mutation testing: each synchronisation and bounds predicate of the shipped kernels weakened, and emulated.

For each family a grid of genomes (mutation_grid.py) is rendered; mutants.py weakens one thing at a time, and
the mutant goes through the pre-flight. It ends as reported (with the report's kind), wrong (a result that the
validator refuses), or refused (by g++). What a pre-flight lets through meets two more of other seeds and a
workload of many heads; what survives these must stand in docs/equivalent_mutants.toml with the reason why it
is no fault (equivalents.py). Exits 1 if anything else survives. Needs no GPU.

    python scripts/mutation_testing.py --families all -o docs/measurements/mutation-testing.json

When only the list has changed, what survived is held against it again, without emulating anything:

    python scripts/mutation_testing.py --review -o docs/measurements/mutation-testing.json
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from equivalents import Equivalent, equivalents
from mutants import Mutant
from mutation_grid import Core, Task, grid, tasks

from evoflash import hostcompiler
from evoflash.evaluation import Candidate
from evoflash.family import Family, known_families, load_family
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.hostcompiler import KernelBuildError
from evoflash.isolation import Ending, IsolatedPool
from evoflash.preflight import Preflight, emulate, preflight

_KEPT = ("before", "after", "group", "change", "line", "site", "context", "follows")  # of a survivor
SEEDS = (1, 2, 3)  # of a pre-flight; all but the first are for what the first lets through
_HEADS = 15  # of keys and values: more than a family puts into one section, and no multiple of it
_LIMIT_S = 180.0
_REPORT = re.compile(r"([\w-]+) at line (\d+): ")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: reported, wrong (with many heads only), refused or survived."""

    task: Task
    ending: str
    kind: str = ""  # of the first report
    line: int = 0
    reason: str = ""
    seed: int = 0  # of the pre-flight that told


def examine(task: Task) -> Outcome:
    """Emulate a mutant, under one seed after the other until one tells, then at many heads; in a worker."""
    candidate = task.core.render()
    if task.mutant:
        candidate = replace(candidate, source=task.mutant.apply(candidate.source))
    for seed in SEEDS:
        try:
            found = preflight(candidate, load_family(task.core.family), load_gpu(task.core.gpu), seed=seed)
        except KernelBuildError as error:
            return Outcome(task, "refused", reason=str(error))
        if found.complaint:
            return _told(task, found, seed)
    wrong = _wrong_with_many_heads(task.core, candidate)
    return Outcome(task, "wrong with many heads" if wrong else "survived", reason=wrong)


def _wrong_with_many_heads(core: Core, candidate: Candidate) -> str:
    """What the validator says of a workload like those that candidates are timed on: 15 heads, two blocks."""
    family, gpu = load_family(core.family), load_gpu(core.gpu)
    loop = family.loop(core.names())
    workload = core.key.workload(1, _HEADS, max(1, loop.rows // loop.pack) + 1, loop.keys)
    library = hostcompiler.build(candidate.source, name=family.name)
    launches = family.launches(core.genome, workload, gpu)
    _, verdict = emulate(library, launches, workload, "normal", delivery="eager", schedule="fifo", seed=1)
    return verdict.reason


def _told(task: Task, found: Preflight, seed: int) -> Outcome:
    report = _REPORT.match(found.complaint)
    if report is None:
        return Outcome(task, "wrong", reason=found.complaint, seed=seed)
    return Outcome(task, "reported", report[1], int(report[2]), found.complaint, seed)


def run(work: list[Task], *, workers: int, time_limit_s: float) -> Iterator[Outcome]:
    """Outcomes as they come, until the work or the time is over. What is built is gone afterwards."""
    deadline = time.monotonic() + time_limit_s
    with (
        tempfile.TemporaryDirectory() as cache,
        IsolatedPool(workers, initializer=_begin, initargs=(cache,)) as pool,
    ):
        waiting: dict[Future[Ending[Outcome]], Task] = {}
        rest = iter(work)
        while time.monotonic() < deadline:
            while len(waiting) < 2 * workers and (task := next(rest, None)) is not None:
                waiting[pool.submit(examine, task, timeout_s=_LIMIT_S)] = task
            if not waiting:
                return
            done, _ = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in done:
                yield _outcome(waiting.pop(future), future.result())


def _begin(cache: str) -> None:
    os.environ["EVOFLASH_CACHE_DIR"] = cache
    os.nice(10)


def _outcome(task: Task, ending: Ending[Outcome]) -> Outcome:
    return ending.value or Outcome(task, "reported", f"process {ending.status}", reason=ending.reason)


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """One family: counts by group and ending, by kind of report, by change; its grid, and every survivor."""
    faults = [each for each in outcomes if each.task.mutant]
    cores = list(dict.fromkeys(each.task.core for each in outcomes))
    survivors = [each for each in faults if each.ending == "survived"]
    return {
        "cores": len(cores),
        "mutants": len(faults),
        "endings": _counted((_mutant(each).group, each.ending) for each in faults),
        "reports": dict(Counter(each.kind for each in faults if each.kind).most_common()),
        "changes": _counted((_mutant(each).change, each.ending) for each in faults),
        "only_other_seeds": sum(each.seed > SEEDS[0] for each in faults),
        "broken_cores": [
            f"{each.reason}: {each.task.core.command}"
            for each in outcomes
            if each.reason and not each.task.mutant
        ],
        "grid": [{"problem": core.problem, "values": core.genome.as_dict()} for core in cores],
        "survivors": [_described(each, cores.index(each.task.core)) for each in survivors],
    }


def _mutant(outcome: Outcome) -> Mutant:
    assert outcome.task.mutant is not None
    return outcome.task.mutant


def _counted(rows: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for (name, ending), count in sorted(Counter(rows).items()):
        table.setdefault(name, {})[ending] = count
    return table


def _described(outcome: Outcome, core: int) -> dict[str, Any]:
    """A survivor: what it takes to make it again, but for its offset."""
    return {"core": core, **{name: getattr(_mutant(outcome), name) for name in _KEPT}}


def review(row: dict[str, Any], family: Family, gpu: GpuSpec, reviewed: list[Equivalent]) -> dict[str, Any]:
    """A family's summary with the reviewed list's reason at each survivor, "" where it gives none."""
    cores = [Core.read(family.name, each["problem"], each["values"], gpu.name) for each in row["grid"]]
    names = [core.names() for core in cores]
    for each in row["survivors"]:
        mutant = Mutant(start=0, **{name: each[name] for name in _KEPT})
        fitting = (entry for entry in reviewed if entry.covers(mutant, family.name, names[each["core"]]))
        each["reason"] = next((entry.reason for entry in fitting), "")
    reasons = Counter(each["reason"] for each in row["survivors"])
    return {**row, "unexplained": reasons.pop("", 0), "equivalents": dict(reasons.most_common())}


def record(outcomes: list[Outcome], args: argparse.Namespace, *, took_s: float) -> dict[str, Any]:
    """What the file holds, but for the review."""
    return {
        "command": f"python {' '.join(sys.argv)}",
        "date": date.today().isoformat(),
        "gpu": args.gpu,
        "seed": args.seed,
        "draws": args.draws,
        "took_s": round(took_s, 1),
        "families": {
            name: {
                "version": load_family(name).version,
                **summary([each for each in outcomes if each.task.core.family == name]),
            }
            for name in sorted({each.task.core.family for each in outcomes})
        },
    }


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--families", default="all", help="names with commas between them, or all")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=400, help="genomes that the grid is chosen from")
    parser.add_argument("--cores", type=int, default=1, help="kernels in which a predicate is mutated")
    parser.add_argument("--groups", default="sync,predicate")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--time-limit", type=float, default=7200.0, help="in seconds")
    parser.add_argument(
        "--review", action="store_true", help="only read the list again, for the survivors there"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def main() -> int:
    """Mutate (or read what was found before), review, write the file, print what is left."""
    args = arguments()
    found, complete = (_read(args.output), True) if args.review else _measured(args)
    gpu, reviewed = load_gpu(found["gpu"]), equivalents()
    for name, row in found["families"].items():
        found["families"][name] = review(row, load_family(name), gpu, reviewed)
    args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, row in found["families"].items():
        _print_left(name, row)
    rows = found["families"].values()
    return int(not complete or any(row["unexplained"] or row["broken_cores"] for row in rows))


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _measured(args: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """A new record, and whether the time sufficed."""
    gpu = load_gpu(args.gpu)
    names = known_families() if args.families == "all" else tuple(args.families.split(","))
    families = [load_family(name) for name in names if load_family(name).supports(gpu)]
    cores = [core for family in families for core in grid(family, gpu, seed=args.seed, draws=args.draws)]
    work = tasks(cores, cores_each=args.cores, groups=args.groups.split(","))
    print(f"{len(work)} kernels from {len(cores)} genomes", flush=True)
    started, outcomes = time.monotonic(), []
    for outcome in run(work, workers=args.workers, time_limit_s=args.time_limit):
        outcomes.append(outcome)
        if len(outcomes) % 200 == 0:
            print(f"{len(outcomes)} of {len(work)} in {time.monotonic() - started:.0f} s", flush=True)
    return record(outcomes, args, took_s=time.monotonic() - started), len(outcomes) == len(work)


def _print_left(name: str, row: dict[str, Any]) -> None:
    for each in row["survivors"]:
        if not each["reason"]:
            kernel = row["grid"][each["core"]]
            print(f"survived: {each['change']}: {each['before']}\n    {each['site']}\n    {kernel}")
    print(f"{name}: {row['mutants']} mutants of {row['cores']} kernels: {row['endings']}")
    print(f"    {sum(row['equivalents'].values())} equivalent, {row['unexplained']} unexplained")


if __name__ == "__main__":
    sys.exit(main())
