"""Mutation testing: each synchronisation and bounds predicate of the shipped kernels weakened, and emulated.

For each family a grid of genomes (grid.py) is rendered; mutants.py weakens one thing at a time, and the
mutant goes through the pre-flight. It ends as reported (with the report's kind), wrong (a result that the
validator refuses), or refused (by g++). What a pre-flight lets through meets two more of other seeds and, as
candidates do on a GPU, a workload of many heads and one of many keys. What survives these must stand in
equivalent_mutants.toml with the reason why it is no fault. Exits with 1 if anything else survives. Needs no
GPU.

    python -m scripts.mutation_testing.run --families all \\
        -o scripts/mutation_testing/records/mutation-testing.json

When only the list has changed, --review holds what survived against it again and emulates nothing:

    python -m scripts.mutation_testing.run --review -o scripts/mutation_testing/records/mutation-testing.json

With --again those of them that it leaves unexplained are emulated once more: the pre-flight may have become
stricter.
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
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from evoflash.compilers import gxx as hostcompiler
from evoflash.compilers.gxx import KernelBuildError
from evoflash.emulator.preflight import Preflight, emulate, preflight
from evoflash.errors import UsageError
from evoflash.evaluation import Candidate
from evoflash.families.family import Family, Loop, known_families, load_family
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.isolation import Ending, IsolatedPool
from evoflash.problem import Workload
from scripts.command_line import command
from scripts.families.in_flight import in_flight
from scripts.mutation_testing.equivalents import Equivalent, equivalents
from scripts.mutation_testing.grid import Core, Task, grid, share_of_pairs, tasks
from scripts.mutation_testing.mutants import Mutant, mutants

_KEPT = ("before", "after", "group", "change", "line", "site", "context", "follows")  # of a survivor
SEEDS = (1, 2, 3)  # of a pre-flight; all but the first are for what the first lets through
_HEADS = 127  # or packed groups: more than a family puts into one section, one short of a multiple of it
_BATCH = 5  # divides no GPU's number of SMs, so that a grid has blocks too many
_PIECES = 128  # of work that a block notes at most
_ROUNDS = 34  # of the deepest ring: a barrier that counts one arrival too few is early by one more in each
_LIMIT_S = 180.0
_REPORT = re.compile(r"([\w-]+) at line (\d+): ")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: reported or wrong (at times only at size), refused or survived."""

    task: Task
    ending: str
    kind: str = ""  # of the first report
    line: int = 0
    reason: str = ""
    seed: int = 0  # of the pre-flight that told


def examine(task: Task) -> Outcome:
    """Emulate a mutant, under one seed after the other until one tells, then at size; in a worker."""
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
    return _told_at_size(task, candidate)


def _told_at_size(task: Task, candidate: Candidate) -> Outcome:
    """What emulator and validator say of workloads with more heads and keys than the pre-flight's.

    Nothing where the limit of CPU time passes: some kernels need more of it at size, as they are.
    """
    family, gpu = load_family(task.core.family), load_gpu(task.core.gpu)
    names, library = task.core.names(), hostcompiler.build(candidate.source, name=family.name)
    for size, (workload, trial, sms) in _large(task.core, family.loop(names)).items():
        launches = family.launches(task.core.genome, workload, replace(gpu, sm_count=sms))
        emulations, verdict = emulate(
            library,
            launches,
            workload,
            trial,
            delivery="eager",
            schedule="fifo",
            seed=1,
            registers=family.registers(names),
        )
        reports = [report for emulation in emulations for report in emulation.reports]
        if any(report.kind == "TIMEOUT" for report in reports):
            continue
        for report in reports:
            return Outcome(task, f"reported with {size}", report.kind, report.line, report.message)
        if verdict.reason:
            return Outcome(task, f"wrong with {size}", reason=verdict.reason)
    return Outcome(task, "survived")


def _large(core: Core, loop: Loop) -> dict[str, tuple[Workload, str, int]]:
    """Like those that candidates are timed on, each as small as shows it: workload, trial, the GPU's SMs.

    Kernels whose blocks take piece after piece also meet a batch that does not divide the blocks that the GPU
    holds, one piece that is done again, and a block with more pieces than it can note.
    """
    key, names, sms = core.key, core.names(), load_gpu(core.gpu).sm_count
    rows, keys = max(1, loop.rows // loop.pack), _ROUNDS * loop.stages * loop.splits * loop.keys
    kv_heads = _HEADS * loop.pack // key.gqa_ratio
    found = {
        "many heads": (key.workload(1, kv_heads, rows + 1, loop.keys), "normal", sms),
        "many keys": (key.workload(1, 1, 9, keys), "normal", sms),
    }
    if not names.get("persistent", False):
        return found
    steps, slots = 2 * loop.keys * loop.splits, sms * names["ctas_per_sm"]
    # Under a causal mask the first block of a head sees nothing; the last one is a single row.
    many = -(-(rows + steps) // rows) * rows + 1
    return found | {
        "many blocks": (key.workload(_BATCH, slots // _BATCH + 1, 1, 1), "normal", sms),
        "one piece": (key.workload(1, 1, rows, rows + steps), "spikes", sms),
        "many pieces": (key.workload(1, _PIECES // 2 + 1, many, steps - 3), "spikes", 0),
    }


def _told(task: Task, found: Preflight, seed: int) -> Outcome:
    report = _REPORT.match(found.complaint)
    if report is None:
        return Outcome(task, "wrong", reason=found.complaint, seed=seed)
    return Outcome(task, "reported", report[1], int(report[2]), found.complaint, seed)


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
    cores = [core for family in families for core in _grid(family, gpu, args)]
    work = tasks(cores, cores_each=args.cores, groups=args.groups.split(","))
    print(f"{len(work)} kernels from {len(cores)} genomes", flush=True)
    started, outcomes = time.monotonic(), []
    for outcome in run(work, workers=args.workers, time_limit_s=args.time_limit):
        outcomes.append(outcome)
        if len(outcomes) % 200 == 0:
            print(f"{len(outcomes)} of {len(work)} in {time.monotonic() - started:.0f} s", flush=True)
    return record(outcomes, args, took_s=time.monotonic() - started), len(outcomes) == len(work)


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
