"""Is every honest kernel accepted? All families, over lengths and seeds, pairwise over what else varies.

A case is a shape and a compile key; every family runs it, with another of its genomes for each seed. Lengths,
head dims, dtypes, masks, GQA ratios and Sq against Skv are covered pairwise. Gates and oracles are the
validator's. Of a long workload the reference knows a sample of rows; inputs change with each seed, and the
kinds of input take turns.

    python -m scripts.validation.honest -o scripts/validation/records/honest-h200.json
"""

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from evoflash import __version__
from evoflash.errors import UsageError
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.launcher import KernelHungError, LaunchRefusedError
from evoflash.kernels.family import families_for, load_family
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.inputs import ALL, AttentionInputs, draw
from evoflash.operations.attention.relations import relations
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.validation.metamorphic import complaint
from evoflash.validation.validator import judge
from evoflash.workload import Output
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

_SHORT = (1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)
LENGTHS = (*_SHORT, 511, 1000, 1024, 2049, 4096, 8192)
FACTORS: tuple[tuple[Any, ...], ...] = (
    LENGTHS,
    ("Sq = Skv", "Sq < Skv", "Sq > Skv"),
    (64, 128, 96),
    ("fp16", "bf16"),
    (False, True),  # causal
    (1, 4, 8),  # query heads of a key/value head
)
FEW = 300  # up to this length two batches and two key/value heads; beyond, one
ORACLE_SCORES = 1 << 21  # oracles look at every row: up to this many scores


@dataclass(slots=True)
class Case:
    """One workload, and what became of the kernels on it."""

    workload: AttentionWorkload
    runs: Counter[str] = field(default_factory=Counter)  # by family: outputs judged, and oracles asked
    kernels: dict[str, set[str]] = field(default_factory=dict)  # by family: genome ids
    rejected: list[str] = field(default_factory=list)

    def add(self, subject: Subject, reason: str) -> None:
        """One output that was judged, or the oracles; a reason is a rejection."""
        self.runs[subject.family] += 1
        self.kernels.setdefault(subject.family, set()).add(subject.genome.id)
        if reason:
            self.rejected.append(f"{subject.family} {subject.genome.id}: {reason}")


def pairwise(factors: Sequence[Sequence[Any]], rng: random.Random) -> list[tuple[Any, ...]]:
    """Rows in which every pair of values of two factors occurs: always the best of 50 random ones."""
    left = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(range(len(factors)), 2)
        for x in factors[a]
        for y in factors[b]
    }
    rows = []
    while left:
        seed = min(left, key=repr)  # one pair at least that is new
        fixed = dict(seed)
        drawn = (
            tuple(fixed.get(at, rng.choice(values)) for at, values in enumerate(factors)) for _ in range(50)
        )
        best = max(drawn, key=lambda row: len(_pairs(row) & left))
        rows.append(best)
        left -= _pairs(best)
    return rows


def _pairs(row: tuple[Any, ...]) -> set[tuple[tuple[int, Any], tuple[int, Any]]]:
    return set(itertools.combinations(enumerate(row), 2))


def workload_of(row: tuple[Any, ...]) -> AttentionWorkload:
    """The workload of a row of FACTORS' values."""
    length, relation, head_dim, dtype, causal, ratio = row
    seq_q, seq_kv = {
        "Sq = Skv": (length, length),
        "Sq < Skv": (-(-length // 3), length),
        "Sq > Skv": (length, -(-2 * length // 3)),
    }[relation]
    many = 2 if length <= FEW else 1
    key = AttentionKey(head_dim, dtype, causal, ratio, "")
    return key.workload(many, many, seq_q, seq_kv)


def trials_of(seed: int, count: int) -> tuple[str, ...]:
    """Ordinary data, and others in turns: over 20 seeds every kind comes several times."""
    others = [name for name in ALL if name != "normal"]
    return ("normal", *(others[(seed * (count - 1) + at) % len(others)] for at in range(count - 1)))


Turn = tuple[Case, int]  # a case and a seed


def references(workload: AttentionWorkload, names: Sequence[str], seed: int) -> list[Reference]:
    """What reference() says of several kinds of input."""
    return [reference(workload, name, seed, most_scores=1 << 21) for name in names]


def run_turn(machine: Machine, subject: Subject, case: Case, known: list[Reference], *, seed: int) -> str:
    """Empty when the kernel is accepted on these inputs, and, for the first seed, by the oracles."""
    workload = case.workload
    results = ((t, e, machine.run(subject, workload, t, e.sample)) for t, e in known)
    verdict = judge(workload, results)
    if verdict.passed and seed == 0 and _scores(workload) <= ORACLE_SCORES:
        return _ask_oracles(machine, subject, workload)
    return verdict.reason


def _scores(workload: AttentionWorkload) -> int:
    return workload.batch * workload.heads * workload.seq_q * workload.seq_kv


def _ask_oracles(machine: Machine, subject: Subject, workload: AttentionWorkload) -> str:
    shape = (workload.batch, workload.heads, workload.seq_q)

    def run(trial: AttentionInputs) -> Output:
        output = machine.run(subject, workload, trial, every_row(workload))
        lse = output.tensors["LSE"].reshape(shape)
        return dense.output(output.tensors["O"].reshape(*shape, workload.head_dim), lse)

    holding = relations(draw("normal", workload, seed=0), workload, seed=0)
    return complaint(run, holding, workload=workload)


def prepare(
    machine: Machine, pool: ProcessPoolExecutor, cases: Iterable[Case], args: argparse.Namespace
) -> dict[tuple[str, AttentionKey], list[Subject]]:
    """Built genomes of every family that takes the cases' compile keys."""
    families = [f.name for f in families_for(machine.gpu)]
    keys = dict.fromkeys(case.workload.compile_key(machine.gpu.arch) for case in cases)
    wanted = [
        (genome, key)
        for key, name in itertools.product(keys, families)
        for genome in genomes(name, key, machine.gpu, count=args.genomes, seeds=args.seeds_of_family)
    ]
    found: dict[tuple[str, AttentionKey], list[Subject]] = {}
    for subject in built(pool, machine, wanted):
        found.setdefault((subject.family, subject.key), []).append(subject)
    return found


def judge_all(
    machine: Machine,
    pool: ProcessPoolExecutor,
    turns: list[Turn],
    subjects: dict[tuple[str, AttentionKey], list[Subject]],
    args: argparse.Namespace,
) -> Iterator[None]:
    """Runs every turn, yielding after each; what it found is in the cases."""
    planned = [(case.workload, trials_of(seed, args.trials), seed) for case, seed in turns]
    known = ahead(pool, references, planned, many=2 * args.workers)
    for (case, seed), references_of_turn in zip(turns, known, strict=True):
        key = case.workload.compile_key(machine.gpu.arch)
        for candidates in (each for (_, of), each in subjects.items() if of == key):
            subject = candidates[seed % len(candidates)]
            try:
                reason = run_turn(machine, subject, case, references_of_turn, seed=seed)
            except LaunchRefusedError:  # blocks that wait for one another do not all fit: not this shape
                continue
            except (MemoryFaultError, KernelHungError, RuntimeError) as error:
                case.add(subject, f"seed {seed}: {type(error).__name__}: {str(error).splitlines()[0]}")
                if isinstance(machine, Silicon):
                    say("this process cannot be trusted with the GPU any more: stopped")
                    return
                continue
            case.add(subject, f"seed {seed}: {reason}" if reason else "")
        yield


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The record."""
    started = time.monotonic()
    machine, rng = machine_of(args.emulated_as), random.Random(args.seed)
    lengths = tuple(length for length in LENGTHS if length <= args.longest)
    cases = [Case(workload_of(row)) for row in pairwise((lengths, *FACTORS[1:]), rng)]
    turns = [(case, seed) for seed in range(args.seeds) for case in cases]
    done = 0
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        subjects = prepare(machine, pool, cases, args)
        count = sum(map(len, subjects.values()))
        say(f"{count} kernels built after {time.monotonic() - started:.0f} s, for {machine.name}")
        for done, _ in enumerate(judge_all(machine, pool, turns, subjects, args), start=1):
            if time.monotonic() - started > args.time_limit:
                say(f"cut by --time-limit after {done} of {len(turns)} turns")
                break
        pool.shutdown(wait=False, cancel_futures=True)
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "evoflash": __version__,
        "machine": machine.name,
        "driver_cuda": launcher.present_gpu().driver if isinstance(machine, Silicon) else None,
        "versions": {f.name: load_family(f.name).version for f in families_for(machine.gpu)},
        "seconds": round(time.monotonic() - started, 1),
        "seeds": args.seeds,
        "turns": {"planned": len(turns), "done": done},
        "kernels": count,
        "cases": [as_row(case) for case in cases],
    }


def as_row(case: Case) -> dict[str, Any]:
    """A case of the record."""
    kernels = {family: len(ids) for family, ids in sorted(case.kernels.items())}
    runs = dict(sorted(case.runs.items()))
    return {"workload": str(case.workload), "runs": runs, "kernels": kernels, "rejected": case.rejected}


def summary(record: dict[str, Any]) -> str:
    """Runs and rejections by family, and every rejection."""
    runs: Counter[str] = Counter()
    for case in record["cases"]:
        runs.update(case["runs"])
    rejected = [f"{case['workload']}: {why}" for case in record["cases"] for why in case["rejected"]]
    total, turns = runs.total(), record["turns"]
    lines = [f"{family:12} {count} runs" for family, count in sorted(runs.items())]
    lines += [
        f"{len(record['cases'])} workloads, {turns['done']} of {turns['planned']} turns, "
        f"{record['kernels']} kernels, {record['seconds']:.0f} s",
        f"{total - len(rejected)} of {total} runs accepted ({1 - len(rejected) / max(1, total):.2%})",
    ]
    return "\n".join([*lines, *rejected[:20]])


def say(message: str) -> None:
    """One line of progress."""
    print(message, file=sys.stderr, flush=True)


def main() -> None:
    """Parse, measure, write; exit code 1 when an honest kernel was rejected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="of the inputs, for each case")
    parser.add_argument("--trials", type=int, default=5, help="kinds of input for each seed")
    parser.add_argument("--genomes", type=int, default=4, help="drawn, of each family and compile key")
    parser.add_argument("--seeds-of-family", type=int, default=2, help="of the family's own, at most")
    parser.add_argument("--longest", type=int, default=max(LENGTHS), help="no longer lengths")
    parser.add_argument("--seed", type=int, default=1, help="of the cases")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds")
    parser.add_argument("--emulated-as", metavar="GPU", help="run in the emulator, in the place of this GPU")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes: there is one a core
    try:
        record = measure(args)
    except UsageError as error:
        sys.exit(f"honest: {error}")
    if args.output:
        write_record(args.output, record)
    print(summary(record))
    sys.exit(any(case["rejected"] for case in record["cases"]))


if __name__ == "__main__":
    main()
