"""Measures what honest kernels use of each gate of the validator: the record that justifies thresholds.toml.

Runs seeds and random valid genomes of every family on every kind of input, on the GPU, or in the emulator at
small shapes where there is none. Changes no gate: where the record says that one is too tight or too loose,
change evoflash/operations/attention/thresholds.toml and run this again;
tests/operations/attention/test_thresholds.py holds the two together.

    python -m scripts.validation.calibrate -o scripts/validation/records/gates-calibration.json
"""

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from evoflash import __version__
from evoflash.errors import UsageError
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.launcher import KernelHungError, LaunchRefusedError
from evoflash.kernels.family import families_for, load_family
from evoflash.operations.attention.check_shapes import check_workloads
from evoflash.operations.attention.inputs import ALL
from evoflash.operations.attention.operation import OPERATION
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.operations.expectations import thresholds_of
from evoflash.space import Genome
from evoflash.validation.validator import Errors, measure
from scripts.records import command, write_record
from scripts.validation.subjects import (
    Machine,
    Reference,
    Silicon,
    Subject,
    ahead,
    built,
    genomes,
    machine_of,
    reference,
)

# head_dim, dtype, causal, GQA ratio, what scores may be summed in: each value with each of the others'.
KEYS = (
    (64, "fp16", False, 1, "fp32"),
    (64, "bf16", True, 4, "fp32"),
    (128, "fp16", True, 1, "fp32"),
    (128, "bf16", False, 4, "fp32"),
    (64, "bf16", False, 1, "fp32"),
    (128, "fp16", False, 4, "fp32"),
    (16, "bf16", True, 1, "fp32"),
    (256, "fp16", True, 1, "fp32"),
    (64, "fp16", True, 4, "fp16"),
    (128, "fp16", False, 1, "fp16"),
)
LARGER = ((512, 512), (1024, 2048))
SMALL = ((1, 1), (3, 40), (21, 53))  # for the emulator
GATES = ("rel_l2", "honest", "max_over_rms", "lse")


@dataclass(slots=True)
class Worst:
    """The most that any run used of a gate, over what it allows, and where."""

    share: float = 0.0
    value: float = 0.0
    genome: str = ""
    workload: str = ""

    def take(self, share: float, value: float, genome: str, workload: str) -> None:
        """Keep the larger one."""
        if not share <= self.share:
            self.share, self.value, self.genome, self.workload = share, value, genome, workload


Row = tuple[str, str, str, str]  # precision, family, trial, gate


@dataclass(slots=True)
class Calibration:
    """What the runs have shown so far."""

    worst: dict[Row, Worst]
    runs: dict[tuple[str, str], int]  # by precision and family
    refused: list[str]

    def add(self, subject: Subject, workload: AttentionWorkload, errors: Errors | str) -> None:
        """One output of one kernel, or why there is none."""
        where = subject.genome.id, str(workload)
        self.runs[workload.precision, subject.family] += 1
        if isinstance(errors, str) or errors.broken:
            why = errors if isinstance(errors, str) else f"{errors.inputs}: {errors.broken}"
            self.refused.append(f"{subject.family} {where[0]} on {where[1]}, {why}")
            return
        for gate, (share, value) in used(errors, workload).items():
            row = workload.precision, subject.family, errors.inputs, gate
            self.worst[row].take(share, value, *where)

    def as_dict(self) -> dict[str, Any]:
        """Its part of the record."""
        rows = self.as_rows()
        runs = [{"precision": p, "family": f, "runs": n} for (p, f), n in sorted(self.runs.items())]
        return {
            "runs": runs,
            "refused": self.refused,
            "largest": largest(rows),
            "rows": [rounded(row) for row in rows],
        }

    def as_rows(self) -> list[dict[str, Any]]:
        """A row for each precision, family, trial and gate."""
        names = ("precision", "family", "trial", "gate")
        return [
            {**dict(zip(names, row, strict=True)), **asdict(worst)}
            for row, worst in sorted(self.worst.items())
        ]


def used(errors: Errors, workload: AttentionWorkload) -> dict[str, tuple[float, float]]:
    """By gate: the share of it that was used, and the value. One ordinary trial stands for the pool."""
    gates = thresholds_of(workload)
    limit, ratio = errors.max_over_rms_limit(gates), errors.honest_ratio(gates)
    found = {
        "honest": (ratio / gates.honest_factor, ratio),
        "max_over_rms": (errors.max_over_rms / limit, errors.max_over_rms),
        "lse": (errors.lse, errors.lse_error),
    }
    if errors.is_ordinary:
        found["rel_l2"] = errors.rel_l2 / gates.rel_l2, errors.rel_l2
    return found


Call = tuple[AttentionWorkload, str, int]  # of reference()


def calls(keys: list[AttentionKey], *, is_gpu: bool, seed: int) -> list[Call]:
    """Every trial on every shape of every key, in random order: what is cut short is a fair sample."""
    found = []
    for key in keys:
        small = tuple(key.workload(1, 1, *lengths) for lengths in SMALL)
        large = (*check_workloads([key]), *(key.workload(1, 2, *lengths) for lengths in LARGER))
        found += [(workload, name, seed) for workload in (large if is_gpu else small) for name in ALL]
    random.Random(seed).shuffle(found)
    return found


def run_all(
    machine: Machine, subjects: list[Subject], references: Iterator[Reference], planned: list[Call]
) -> Iterator[tuple[Subject, AttentionWorkload, Errors | str]]:
    """Every subject on every trial of its key; a string says how a run failed."""
    for (workload, _, _), (trial, expected) in zip(planned, references, strict=True):
        key = workload.compile_key(machine.gpu.arch)
        for subject in (each for each in subjects if each.key == key):
            try:
                output = machine.run(subject, workload, trial, expected.sample)
            except LaunchRefusedError:
                continue
            except (MemoryFaultError, KernelHungError, RuntimeError) as error:
                yield subject, workload, f"{trial.name}: {str(error).splitlines()[0]}"
                if isinstance(machine, Silicon):
                    return  # this process cannot be trusted with the GPU any more
                continue
            yield subject, workload, measure(workload, trial, expected, output)


def calibrate(args: argparse.Namespace) -> dict[str, Any]:
    """The record."""
    started = time.monotonic()
    machine = machine_of(args.emulated_as)
    names = (
        [f.name for f in families_for(machine.gpu)] if args.families == "all" else args.families.split(",")
    )
    keys = [AttentionKey(d, t, c, g, machine.gpu.arch, a) for d, t, c, g, a in KEYS[: args.keys]]
    found = Calibration(defaultdict(Worst), defaultdict(int), [])
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        subjects = built(pool, machine, wanted(names, keys, machine, args))
        say(f"{len(subjects)} kernels built after {time.monotonic() - started:.0f} s, for {machine.name}")
        planned = calls(keys, is_gpu=isinstance(machine, Silicon), seed=args.seed)
        references = ahead(pool, reference, planned, many=4 * args.workers)
        for subject, workload, errors in run_all(machine, subjects, references, planned):
            found.add(subject, workload, errors)
            if time.monotonic() - started > args.time_limit:
                say("cut by --time-limit: what ran until here is recorded")
                break
        pool.shutdown(wait=False, cancel_futures=True)
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "evoflash": __version__,
        "machine": machine.name,
        "versions": {name: load_family(name).version for name in names},
        "seconds": round(time.monotonic() - started, 1),
        "gates": {name: asdict(gates) for name, gates in OPERATION.thresholds().items()},
        "kernels": len(subjects),
        **found.as_dict(),
    }


def wanted(
    names: list[str], keys: list[AttentionKey], machine: Machine, args: argparse.Namespace
) -> list[tuple[Genome, AttentionKey]]:
    """The genomes of all families under all keys."""
    count, seeds = args.genomes, args.seeds
    pairs = itertools.product(keys, names)
    return [
        (genome, key)
        for key, name in pairs
        for genome in genomes(name, key, machine.gpu, count=count, seeds=seeds)
    ]


def largest(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """By precision and gate, the row that used most of it."""
    found: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        best = found[row["precision"]].get(row["gate"])
        if best is None or row["share"] > best["share"]:
            found[row["precision"]][row["gate"]] = rounded(row)
    return dict(found)


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """The row with figures of four digits."""
    return {key: float(f"{x:.4g}") if isinstance(x, float) else x for key, x in row.items()}


def summary(record: dict[str, Any]) -> str:
    """How much of each gate was used at most, by precision."""
    lines = [f"{sum(row['runs'] for row in record['runs'])} runs of {record['kernels']} kernels"]
    for precision, gates in record["largest"].items():
        for gate in GATES:
            if row := gates.get(gate):
                where = f"{row['family']} {row['genome']} in {row['trial']} on {row['workload']}"
                lines.append(f"{precision:12} {gate:13} {row['share']:6.2f} of the gate  {where}")
    refused = record["refused"]
    return "\n".join([*lines, f"{len(refused)} refused outright", *refused[:10]])


def say(message: str) -> None:
    """One line of progress."""
    print(message, file=sys.stderr, flush=True)


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default="all", help="names, or all")
    parser.add_argument("--genomes", type=int, default=8, help="drawn, of each family and compile key")
    parser.add_argument("--seeds", type=int, default=8, help="of the family's own, at most")
    parser.add_argument("--keys", type=int, default=len(KEYS), help="the first so many compile keys")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time-limit", type=float, default=240.0, help="seconds")
    parser.add_argument("--emulated-as", metavar="GPU", help="run in the emulator, in the place of this GPU")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes: there is one a core
    try:
        record = calibrate(args)
    except UsageError as error:
        sys.exit(f"calibrate: {error}")
    if args.output:
        write_record(args.output, record)
    print(summary(record))


if __name__ == "__main__":
    main()
