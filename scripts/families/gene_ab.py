"""Checks and times the two settings of each technique in genes.toml on a GPU; writes no page.

    python -m scripts.families.gene_ab --dry-run                  compile and emulate them; this needs no GPU
    python -m scripts.families.gene_ab -o scripts/families/records/genes-h200.json

On the GPU each side is first checked against the reference on small shapes and at size. Then both are timed
in turns with cold inputs, and what was timed is judged once more. A failure is a line in the record, of which
`python -m scripts.pages.genes` makes docs/genes.md.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from evoflash.errors import EvoflashError
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, Preparation
from evoflash.evaluators.prepare import prepare as prepare_genome
from evoflash.gpu import launcher
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.noise_floor import environment
from evoflash.isolation import Ending, IsolatedPool
from evoflash.problem import Problem
from evoflash.specs import GpuSpec, load_gpu
from scripts.command_line import command
from scripts.families.gene_rows import Row, Side, read_rows
from scripts.families.gene_timing import EFFORT, Duel, Duelled, fight, task_of

PROTOCOL = (
    "CUDA-graph replay, A and B in turns in one process, inputs rotated over at least twice the L2 (cold), "
    "medians, 99.8 % interval of the ratio from pairs; every kernel writes O and LSE"
)
_LIMIT_S = 120.0  # of one row on the GPU

Call = tuple[Side, bool]  # a side, and whether to emulate it


def prepare_sides(
    rows: Iterable[Row], gpu: GpuSpec, *, emulate: bool, workers: int, seed: int
) -> dict[Side, Preparation]:
    """Every distinct side compiled (and emulated) in worker processes."""
    sides = list(dict.fromkeys(side for row in rows for side in row.sides or ()))
    with IsolatedPool(workers) as pool:
        futures = {
            side: pool.submit(
                prepare_genome,
                side.genome(gpu),
                Problem((side.workload,)),
                gpu,
                emulate,
                seed,
                timeout_s=PREPARE_LIMIT_S,
            )
            for side in sides
        }
        endings = {side: future.result() for side, future in futures.items()}
    for side, ending in endings.items():
        if ending.value is None:
            raise SystemExit(f"{side.genome(gpu)} on {side.problem}: {ending.reason}")
    return {side: ending.value for side, ending in endings.items() if ending.value is not None}


def complaints(rows: Iterable[Row], prepared: dict[Side, Preparation]) -> list[str]:
    """A line for each side that does not compile or that the emulator stopped."""
    return [
        f"row {row.number}, {name}: {failure.rung}: {failure.reason}"
        for row in rows
        for name, side in zip("AB", row.sides or (), strict=False)
        if (failure := prepared[side].failure)
    ]


def measure(rows: Sequence[Row], gpu: GpuSpec, *, workers: int, seed: int) -> dict[str, Any]:
    """The record of all rows with two sides, timed on the GPU that is present."""
    present, started = launcher.present_gpu(), time.monotonic()
    prepared = prepare_sides(rows, gpu, emulate=False, workers=workers, seed=seed)
    if broken := complaints(rows, prepared):
        raise SystemExit("\n".join(broken))
    duels = [
        (row, Duel(row.number, (_task(a, prepared[a], gpu, seed), _task(b, prepared[b], gpu, seed))))
        for row in rows
        if row.sides
        for a, b in [row.sides]
    ]
    duels.sort(key=lambda pair: str(pair[1].tasks[0].timed[0][0]))  # the inputs of one problem are kept
    found = {row.number: recorded(row, result, gpu) for row, result in _fought(duels)}
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "gpu": present.device_name,
        "driver_cuda": present.driver,
        "protocol": PROTOCOL,
        "effort": f"{EFFORT.min_samples} to {EFFORT.max_samples} samples, at most {EFFORT.max_s} s a side",
        "seed": seed,
        "took_s": round(time.monotonic() - started, 1),
        "environment": environment(),
        "rows": [found[number] for number in sorted(found)],
    }


def _task(side: Side, prepared: Preparation, gpu: GpuSpec, seed: int) -> GpuTask:
    return task_of(side.genome(gpu), prepared, side.workload, gpu, seed)


def _fought(duels: Sequence[tuple[Row, Duel]]) -> Iterable[tuple[Row, Duelled]]:
    """Each row's result; a process whose context was lost is replaced."""
    pool = _gpu_process()
    try:
        for row, duel in duels:
            ending: Ending[Duelled] = pool.submit(fight, duel, timeout_s=_LIMIT_S).result()
            result = ending.value or Duelled(f"{ending.status}: {ending.reason}", process_lost=True)
            print(f"row {row.number}: {result.failure or _line(result)}", flush=True)
            yield row, result
            if result.process_lost:
                pool.close()
                pool = _gpu_process()
    finally:
        pool.close()


def _gpu_process() -> IsolatedPool:
    return IsolatedPool(1, initializer=launcher.warm_up)


def _line(result: Duelled) -> str:
    a, b = (timing.median_us for timing in result.timings)
    ratio, low, high = result.ratio
    return f"{a:.2f} us, {b:.2f} us, B over A {ratio:.3f} [{low:.3f}, {high:.3f}], {result.answer}"


def recorded(row: Row, result: Duelled, gpu: GpuSpec) -> dict[str, Any]:
    """What the file keeps of a row."""
    record: dict[str, Any] = {"number": row.number}
    for at, (name, side) in enumerate(zip("ab", row.sides or (), strict=True)):
        genome = side.genome(gpu)
        record[name] = {
            "genome_id": genome.id,
            "family": genome.family,
            "version": genome.version,
            "values": genome.as_dict(),
            "problem": str(side.workload),
        }
        if result.timings:
            timing = result.timings[at]
            record[name] |= {
                "median_us": timing.median_us,
                "p10_us": timing.p10_us,
                "p90_us": timing.p90_us,
                "n": timing.n,
                "protocol": timing.protocol,
                "sm_clock_mhz": timing.sm_clock_mhz,
            }
    if result.failure:
        return record | {"failure": result.failure}
    ratio, low, high = result.ratio
    return record | {"b_over_a": ratio, "low": low, "high": high, "answer": result.answer}


# ---- the command


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="compile and emulate every A and B; no GPU")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--rows", default="", help="numbers with commas between them; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-o", "--output", type=Path, help="the record")
    args = parser.parse_args()
    if args.output is None and not args.dry_run:
        parser.error("say where the record goes: -o FILE")
    return args


def main() -> int:
    """Compile and emulate, or measure; 1 when a side was stopped or failed."""
    args = _arguments()
    gpu, wanted = load_gpu(args.gpu), {int(number) for number in args.rows.split(",") if number}
    rows = [row for row in read_rows() if not wanted or row.number in wanted]
    return _dry_run(rows, gpu, args) if args.dry_run else _measure(rows, gpu, args)


def _dry_run(rows: Sequence[Row], gpu: GpuSpec, args: argparse.Namespace) -> int:
    prepared = prepare_sides(rows, gpu, emulate=True, workers=args.workers, seed=args.seed)
    lines = complaints(rows, prepared)
    print("\n".join([*lines, f"{len(prepared)} kernels compiled and emulated, {len(lines)} complaints"]))
    return int(bool(lines))


def _measure(rows: Sequence[Row], gpu: GpuSpec, args: argparse.Namespace) -> int:
    record = measure(rows, gpu, workers=args.workers, seed=args.seed)
    args.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    failed = [row["number"] for row in record["rows"] if "failure" in row]
    print(f"{len(record['rows'])} rows in {record['took_s']} s, failed: {failed or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvoflashError as error:
        sys.exit(f"gene_ab: {error}")
