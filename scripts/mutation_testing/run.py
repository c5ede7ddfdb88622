"""Mutation testing: each synchronisation and bounds predicate of the shipped kernels weakened, and emulated.

For each family a grid of genomes (grid.py) is rendered; mutants.py weakens one thing at a time, and the
mutant goes through the pre-flight. It ends as reported (with the report's kind), wrong (a result that the
validator refuses), or refused (by g++). What a pre-flight lets through meets two more of other seeds and, as
candidates do on a GPU, a workload of many heads and one of many keys. What survives these must stand in
equivalent_mutants.toml with the reason why it is no fault. Exits with 1 if anything else survives. Needs no
GPU.

    python -m scripts.mutation_testing.run --families all \\
        -o scripts/mutation_testing/records/mutation-testing-2026-11-25.json

When only the list has changed, --review holds what survived against it again and emulates nothing:

    python -m scripts.mutation_testing.run --review \\
        -o scripts/mutation_testing/records/mutation-testing-2026-11-25.json

A run that the --time-limit ends says in its record at which task the next one is to begin (--first);
merge.py makes one record of both.

With --again those of them that it leaves unexplained are emulated once more: the pre-flight may have become
stricter.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels.family import Family, families_for, load_family
from evoflash.specs import GpuSpec, load_gpu
from scripts.families.in_flight import in_flight
from scripts.mutation_testing.equivalents import Equivalent, equivalents
from scripts.mutation_testing.examine import SEEDS, Outcome, examine
from scripts.mutation_testing.grid import Core, Task, grid, share_of_pairs, tasks
from scripts.mutation_testing.mutants import Mutant, mutants
from scripts.records import command, read_record, write_record

_KEPT = ("before", "after", "group", "change", "line", "site", "context", "follows")  # of a survivor
_LIMIT_S = 180.0


def run(work: list[Task], *, workers: int, time_limit_s: float) -> Iterator[Outcome]:
    """Outcomes as they come, until the work or the time is over. What is built is gone afterwards."""
    with (
        tempfile.TemporaryDirectory() as cache,
        IsolatedPool(workers, initializer=_begin, initargs=(cache,)) as pool,
    ):
        endings = in_flight(
            pool, examine, work, many=2 * workers, limit_s=_LIMIT_S, time_limit_s=time_limit_s
        )
        yield from (_outcome(task, ending) for task, ending in endings)


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


def again(row: dict[str, Any], family: Family, gpu: GpuSpec) -> dict[str, Any]:
    """A reviewed summary in which what stayed unexplained has met the pre-flight of today.

    UsageError where the family's kernel is no longer the one that was mutated.
    """
    row = json.loads(json.dumps(row))
    for each in [each for each in row["survivors"] if not each["reason"]]:
        kernel = row["grid"][each["core"]]
        outcome = examine(_task(Core.read(family.name, kernel["problem"], kernel["values"], gpu.name), each))
        if outcome.ending == "survived":
            continue
        row["survivors"].remove(each)
        for table in (row["endings"][each["group"]], row["changes"][each["change"]]):
            table["survived"] -= 1
            table[outcome.ending] = table.get(outcome.ending, 0) + 1
        if outcome.kind:
            row["reports"][outcome.kind] = row["reports"].get(outcome.kind, 0) + 1
        row["only_other_seeds"] += outcome.seed > SEEDS[0]
    return row


def _task(core: Core, survivor: dict[str, Any]) -> Task:
    """The mutant that a record describes."""
    wanted = [survivor[name] for name in _KEPT]
    for mutant in mutants(core.render().source):
        if [getattr(mutant, name) for name in _KEPT] == wanted:
            return Task(core, mutant)
    raise UsageError(f"{core.family} has changed since: run the mutants anew. Gone: {survivor['site']}")


def record(outcomes: list[Outcome], args: argparse.Namespace, *, took_s: float) -> dict[str, Any]:
    """What the file holds, but for the review."""
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "gpu": args.gpu,
        "seed": args.seed,
        "draws": args.draws,
        "took_s": round(took_s, 1),
        "families": {
            name: _family([each for each in outcomes if each.task.core.family == name], args)
            for name in sorted({each.task.core.family for each in outcomes})
        },
    }


def _family(outcomes: list[Outcome], args: argparse.Namespace) -> dict[str, Any]:
    """What the file holds of one family; its share of pairs is that of the kernels that were reached."""
    cores = {each.task.core for each in outcomes}
    return {
        "version": load_family(outcomes[0].task.core.family).version,
        "share_of_pairs": round(share_of_pairs(cores, seed=args.seed, draws=args.draws), 4),
        **summary(outcomes),
    }


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--families", default="all", help="names with commas between them, or all")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=400, help="genomes that the grid is chosen from")
    parser.add_argument("--kernels", type=int, help="of a family at most; else what covers all pairs")
    parser.add_argument("--cores", type=int, default=1, help="kernels in which a predicate is mutated")
    parser.add_argument("--groups", default="sync,predicate")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--time-limit", type=float, default=7200.0, help="in seconds")
    parser.add_argument("--first", type=int, default=0, help="the task to begin at, of all families'")
    parser.add_argument("--last", type=int, help="the task to end before: another run has begun there")
    parser.add_argument(
        "--review", action="store_true", help="only read the list again, for the survivors there"
    )
    parser.add_argument("--again", action="store_true", help="emulate what is unexplained there once more")
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def main() -> int:
    """Mutate (or read what was found before), review, write the file, print what is left."""
    args = arguments()
    found, complete = (_read(args.output), True) if args.review or args.again else _measured(args)
    if args.again:
        found["again"] = command()
    gpu, reviewed = load_gpu(found["gpu"]), equivalents()
    for name, row in found["families"].items():
        family = load_family(name)
        now = review(row, family, gpu, reviewed)
        found["families"][name] = (
            review(again(now, family, gpu), family, gpu, reviewed) if args.again else now
        )
    write_record(args.output, found)
    for name, row in found["families"].items():
        _print_left(name, row)
    rows = found["families"].values()
    return int(not complete or any(row["unexplained"] or row["broken_cores"] for row in rows))


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_record(path)
    return found


def _measured(args: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """A new record, and whether the time sufficed."""
    gpu = load_gpu(args.gpu)
    all_of_them = args.families == "all"
    named = () if all_of_them else map(load_family, args.families.split(","))
    families = families_for(gpu) if all_of_them else [family for family in named if family.supports(gpu)]
    cores = [core for family in families for core in _grid(family, gpu, args)]
    work = tasks(cores, cores_each=args.cores, groups=args.groups.split(","))
    print(f"{len(work)} kernels from {len(cores)} genomes", flush=True)
    started, outcomes = time.monotonic(), dict[Task, Outcome]()
    wanted = work[args.first : args.last]
    for outcome in run(wanted, workers=args.workers, time_limit_s=args.time_limit):
        outcomes[outcome.task] = outcome
        if len(outcomes) % 200 == 0:
            print(f"{len(outcomes)} of {len(work)} in {time.monotonic() - started:.0f} s", flush=True)
    done = before_the_first_gap(wanted, outcomes)
    tasks_done = {"first": args.first, "next": args.first + len(done), "of": len(work)}
    found = record(done, args, took_s=time.monotonic() - started) | {"tasks": tasks_done}
    return found, len(done) == len(wanted)


def before_the_first_gap(work: list[Task], outcomes: Mapping[Task, Outcome]) -> list[Outcome]:
    """The outcomes in the order of the work. What lies behind a task without one is left to the next run."""
    known = itertools.takewhile(lambda task: task in outcomes, work)
    return [outcomes[task] for task in known]


def _grid(family: Family, gpu: GpuSpec, args: argparse.Namespace) -> list[Core]:
    return grid(family, gpu, seed=args.seed, draws=args.draws, most=args.kernels)


def _print_left(name: str, row: dict[str, Any]) -> None:
    for each in row["survivors"]:
        if not each["reason"]:
            kernel = row["grid"][each["core"]]
            print(f"survived: {each['change']}: {each['before']}\n    {each['site']}\n    {kernel}")
    print(f"{name}: {row['mutants']} mutants of {row['cores']} kernels: {row['endings']}")
    print(f"    {sum(row['equivalents'].values())} equivalent, {row['unexplained']} unexplained")


if __name__ == "__main__":
    sys.exit(main())
