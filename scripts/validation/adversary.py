"""Single edits in real kernels, each wrong on purpose: which rung of the ladder notices, all without a GPU.

Every fraud of the self-test's corpus whose source is "single edits" goes through the pre-flight, under three
seeds; what it lets through runs in the emulator on what the best kernel of a search without a GPU meets, then
on the shapes that a GPU's candidates are checked on. What no rung notices is left to a GPU, to sizes that
it is timed at or to luck. The kernels as they are come first: no pre-flight may complain of them.

    python -m scripts.validation.adversary -o scripts/validation/records/adversary.json
    python -m scripts.validation.adversary --folder scripts/validation/single_edits -o ...  # another set
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from evoflash.emulator.preflight import check_finalist, emulate, preflight
from evoflash.errors import EvoflashError
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels import gxx
from evoflash.operation import operation_of
from evoflash.specs import GpuSpec, load_gpu
from evoflash.trust.selftest.corpus import FOLDER, Fraud, build_fraud, corpus
from scripts.families.in_flight import in_flight
from scripts.records import command, write_record

SOURCE = "single edits"
SEEDS = (20261121, 2, 3)  # of a pre-flight: the first one's answer is what counts
# Of the check shapes: all would take minutes for the slow kernels. The second one where it is cheap.
INPUTS = {
    "attention": ("normal", "spikes"),
    "linear": ("normal", "needles"),
    "paged_attention": ("normal", "needles"),
}
_FEW_FLOPS = 1 << 28
LIMIT_S = 600.0  # of one edit
GPU = "h200"


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one edit."""

    kernel: str
    name: str
    source: str
    # "preflight", "preflight, another seed", "as a finalist", "check shapes", "" where nothing was noticed
    rung: str
    reason: str
    cpu_s: float  # of the first pre-flight, g++ included
    is_control: bool = False

    @property
    def is_good(self) -> bool:
        return bool(self.rung) != self.is_control


def chosen(only: str, folder: Path = FOLDER) -> list[Fraud]:
    """The edits and their kernels, or those of the kernels and names that `only` lists between commas."""
    words = tuple(filter(None, only.split(",")))
    edits = [fraud for fraud in corpus(folder) if fraud.source.startswith(SOURCE)]
    kernels = {fraud.kernel.name for fraud in edits}
    controls = [fraud for fraud in corpus(folder) if fraud.is_control and fraud.kernel.name in kernels]
    return [
        fraud
        for fraud in (*controls, *edits)
        if not words or fraud.kernel.name in words or fraud.name in words or fraud.source.endswith(words)
    ]


def examine(edit: tuple[Path, str]) -> Row:
    """One edit, by its folder and name, up the rungs; in a worker process."""
    folder, name = edit
    fraud, gpu = next(fraud for fraud in corpus(folder) if fraud.name == name), load_gpu(GPU)
    begin_s = time.process_time()
    complaint = _preflight(fraud, gpu, SEEDS[0])
    cpu_s = round(time.process_time() - begin_s, 2)
    rung = "preflight" if complaint else ""
    for seed in () if complaint else SEEDS[1:]:
        if complaint := _preflight(fraud, gpu, seed):
            rung = "preflight, another seed"
            break
    if not fraud.is_control and not complaint and (complaint := _as_finalist(fraud, gpu)):
        rung = "as a finalist"
    if not _is_right(fraud) and not complaint and (complaint := _check_shapes(fraud, gpu)):
        rung = "check shapes"
    return Row(fraud.kernel.name, name, fraud.source, rung, complaint, cpu_s, _is_right(fraud))


def _is_right(fraud: Fraud) -> bool:
    """Whether it is a kernel as it is, or with an edit that is no fault."""
    return fraud.is_control or not (fraud.emulated.rungs or fraud.emulated.skip)


def _preflight(fraud: Fraud, gpu: GpuSpec, seed: int) -> str:
    candidate, family = build_fraud(fraud, gpu)
    return preflight(candidate, family, gpu, seed=seed).complaint


def _as_finalist(fraud: Fraud, gpu: GpuSpec) -> str:
    candidate, family = build_fraud(fraud, gpu)
    return check_finalist(candidate, family, gpu, seed=SEEDS[0]).complaint


def _check_shapes(fraud: Fraud, gpu: GpuSpec) -> str:
    """The complaint of the first check shape that tells, with some of the inputs that a candidate meets."""
    candidate, family = build_fraud(fraud, gpu)
    library = gxx.build(candidate.source, name=family.name)
    registers = family.registers(family.names(candidate.genome.as_dict(), candidate.compile_key, gpu))
    key = candidate.compile_key
    ordinary, other = INPUTS[key.operation]
    shapes = operation_of(key).check_workloads([key])
    for shape in sorted(shapes, key=lambda shape: shape.flops):
        launches = family.launches(candidate.genome, shape, gpu)
        more = [(other, False)] if shape.flops < _FEW_FLOPS else []
        for inputs, is_strided in ((ordinary, False), *more, (ordinary, True)):
            emulations, verdict = emulate(
                library,
                launches,
                shape,
                inputs,
                delivery="random",
                schedule="random",
                seed=SEEDS[0],
                registers=registers,
                is_strided=is_strided,
            )
            reports = [report for emulation in emulations for report in emulation.reports]
            if any(report.kind == "TIMEOUT" for report in reports):
                break  # right or not, it takes the emulator too long
            for report in reports:
                return f"{report.kind} at line {report.line} [{shape}]"
            if not verdict.passed:
                return f"{verdict.reason} [{shape}]"
    return ""


def rows(frauds: list[Fraud], folder: Path = FOLDER, *, workers: int) -> Iterator[Row]:
    """The rows as they come."""
    gxx.runtime()
    names = {(folder, fraud.name): fraud for fraud in frauds}
    with IsolatedPool(workers) as pool:
        endings = in_flight(
            pool, examine, names, many=2 * workers, limit_s=LIMIT_S, time_limit_s=LIMIT_S * len(names)
        )
        yield from (_row(names[edit], ending) for edit, ending in endings)


def _row(fraud: Fraud, ending: Ending[Row]) -> Row:
    if ending.value is not None:
        return ending.value
    return Row(fraud.kernel.name, fraud.name, fraud.source, "process", ending.reason, 0.0, fraud.is_control)


def record(found: list[Row], *, took_s: float) -> dict[str, object]:
    """What the file holds: counts of the edits, right kernels that were called wrong, all rows."""
    edits = [row for row in found if not row.is_control]
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "took_s": round(took_s, 1),
        "edits": len(edits),
        "by_rung": dict(Counter(row.rung or "not noticed" for row in edits)),
        "false_alarms": [row.name for row in found if row.is_control and row.rung],
        "rows": [asdict(row) for row in sorted(found, key=lambda row: (row.kernel, row.source))],
    }


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="kernels or edits, by name or number, with commas between")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the kernels and their edits")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def main() -> int:
    """Print a line for each edit, and how many were noticed where; exit code 1 after a false alarm."""
    args = arguments()
    begin_s, found = time.monotonic(), []
    try:
        for row in rows(chosen(args.only, args.folder), args.folder, workers=args.workers):
            found.append(row)
            told = row.rung or ("right" if row.is_control else "NOT NOTICED")
            print(f"{told:24} {row.kernel:14} {row.name:42} {row.reason[:120]}", flush=True)
    except EvoflashError as error:
        print(f"adversary: {error}", file=sys.stderr)
        return 2
    made_of = record(found, took_s=time.monotonic() - begin_s)
    if args.output:
        write_record(args.output, made_of)
    print(", ".join(f"{key}: {made_of[key]}" for key in ("edits", "took_s", "by_rung", "false_alarms")))
    return int(bool(made_of["false_alarms"]))


if __name__ == "__main__":
    sys.exit(main())
