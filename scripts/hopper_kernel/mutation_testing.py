"""Mutation testing of the hand-written Hopper kernel, as scripts.mutation_testing.run does it with families.

Synchronisation is mutated in each of mutants.CORES, a predicate in some. A mutant must be found out in each
configuration in which it counts; one that counts in none has survived. It exits with 1 where a survivor does
not stand in scripts/mutation_testing/equivalent_mutants.toml. Needs no GPU; 25 minutes of two cores.

    python -m scripts.hopper_kernel.mutation_testing \\
        -o scripts/hopper_kernel/records/mutation-testing-hopper.json
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from evoflash.isolation import Ending, IsolatedPool
from scripts.command_line import command
from scripts.hopper_kernel.cases import CONFIGURATIONS
from scripts.hopper_kernel.mutants import cores, examine, tasks
from scripts.mutation_testing.equivalents import Equivalent, equivalents
from scripts.mutation_testing.examine import Outcome
from scripts.mutation_testing.grid import Task
from scripts.mutation_testing.run import summary

LIMIT_S = 180.0  # of a mutant


def run(work: list[Task], *, workers: int) -> list[Outcome]:
    """What becomes of each; what is built is gone afterwards."""
    outcomes: list[Outcome] = []
    rest = iter(work)
    with (
        tempfile.TemporaryDirectory() as cache_folder,
        IsolatedPool(workers, initializer=_begin, initargs=(cache_folder,)) as pool,
    ):
        waiting: dict[Future[Ending[Outcome]], Task] = {}
        while True:
            while len(waiting) < 2 * workers and (task := next(rest, None)) is not None:
                waiting[pool.submit(examine, task, timeout_s=LIMIT_S)] = task
            if not waiting:
                return nowhere(outcomes)
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                task, ending = waiting.pop(future), future.result()
                crashed = Outcome(task, "reported", f"process {ending.status}", reason=ending.reason)
                outcomes.append(ending.value or crashed)


def _begin(folder: str) -> None:
    os.environ["EVOFLASH_CACHE_DIR"] = folder
    os.nice(10)


def nowhere(outcomes: list[Outcome]) -> list[Outcome]:
    """Without those of mutants that count in other configurations; what counts in none has survived once."""
    seen = {_change(each) for each in outcomes if each.ending != "elsewhere"}
    kept = [each for each in outcomes if each.ending != "elsewhere"]
    for each in outcomes:
        if _change(each) not in seen:
            seen.add(_change(each))
            kept.append(replace(each, ending="survived"))
    return kept


def _change(outcome: Outcome) -> tuple[object, ...]:
    mutant = outcome.task.mutant
    return (mutant.line, mutant.what_at, mutant.after) if mutant else ()


def reviewed(outcomes: list[Outcome]) -> dict[str, Any]:
    """The counts, and every survivor with the reason that the reviewed list gives, "" where it gives none."""
    row, entries = summary(outcomes), equivalents()
    survivors = [each.task for each in outcomes if each.task.mutant and each.ending == "survived"]
    for told, task in zip(row["survivors"], survivors, strict=True):
        told["reason"] = next((entry.reason for entry in entries if _covers(entry, task)), "")
    reasons = Counter(told["reason"] for told in row["survivors"])
    return {**row, "unexplained": reasons.pop("", 0), "equivalents": dict(reasons.most_common())}


def _covers(entry: Equivalent, task: Task) -> bool:
    return task.mutant is not None and entry.covers(task.mutant, task.core.family, task.core.names())


def main() -> int:
    """Mutate, write the file, print the counts and every survivor that nobody has explained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--configurations", default="", help="names with commas between them; all if not given"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    names = args.configurations.split(",") if args.configurations else CONFIGURATIONS
    started = time.monotonic()
    row = reviewed(run(tasks(cores(names)), workers=args.workers))
    head = {"command": command(), "date": date.today().isoformat()}
    took = {"took_s": round(time.monotonic() - started, 1)}
    args.output.write_text(json.dumps({**head, **took, **row}, indent=1) + "\n", encoding="utf-8")
    for each in row["survivors"]:
        if not each["reason"]:
            core = row["grid"][each["core"]]
            print(f"survived: {each['change']}: {each['before']}\n    {each['site']}\n    {core}")
    print(
        f"{row['mutants']} mutants of {row['cores']} kernels: {row['endings']}, broken: {row['broken_cores']}"
    )
    return int(bool(row["unexplained"] or row["broken_cores"]))


if __name__ == "__main__":
    sys.exit(main())
