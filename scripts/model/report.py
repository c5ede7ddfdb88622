"""How well the performance model ranks recorded genomes, and (--fit) the constants that fit them best.

Reads files of record_space.py: all that the model looks at is in them, so nothing is compiled, emulated or
measured here. A genome's time is its cold one, or its hot one where only that was taken (long launches, whose
inputs are as good as cold).

    python -m scripts.model.report scripts/model/records/space-h200-*.json --json report.json
    python -m scripts.model.report scripts/model/records/space-h200-*.json --fit

--fit prints calibrated constants as they stand in evoflash/perf_model/constants.toml; it sees every second
genome of each file, so that the other half says what the fit is worth (`held_out_tau`).
"""

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.errors import EvoflashError, UsageError
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.perf_model.estimate import Estimate, Profile, constants, estimate, model_version
from evoflash.specs import GpuSpec, load_gpu
from scripts import ROOT
from scripts.command_line import command
from scripts.model.space_file import read_profile

TOP = 30  # of the model's order: the truly fastest should be among them
SEARCHED = 10  # of the model's order: what a search that trusts it would measure
_STEPS = (1.5, 1.2, 1.07, 1.02)  # of the search for constants: factors tried up and down, one after the other
_TOML = ROOT / "evoflash" / "perf_model" / "constants.toml"


@dataclass(frozen=True, slots=True)
class Timed:
    """A recorded genome: what the model reads, and what was measured."""

    values: dict[str, Any]
    profile: Profile
    launches: tuple[LaunchConfig, ...]
    registers: int
    spill_bytes: int
    smem_static_bytes: int
    us: float

    def estimated(self, workload: AttentionWorkload, gpu: GpuSpec) -> Estimate:
        return estimate(
            self.profile,
            self.launches,
            workload,
            gpu,
            registers=self.registers,
            spill_bytes=self.spill_bytes,
            smem_static_bytes=self.smem_static_bytes,
        )


@dataclass(frozen=True, slots=True)
class Space:
    """One file: a family's timed genomes on one workload and GPU."""

    path: Path
    family: str
    workload: AttentionWorkload
    gpu: GpuSpec
    genomes: tuple[Timed, ...]

    def estimates(self, genomes: Sequence[Timed]) -> list[Estimate]:
        return [genome.estimated(self.workload, self.gpu) for genome in genomes]


def read_space(path: Path) -> Space:
    """The genomes of a file that were right, and timed. UsageError names the file if there are too few."""
    found = json.loads(path.read_text(encoding="utf-8"))
    genomes = tuple(_timed(row) for row in found["genomes"] if row.get("hot_us") and "profile" in row)
    if len(genomes) < 2:
        raise UsageError(f"{path} holds {len(genomes)} timed genomes: record it on a GPU first.")
    return Space(path, found["family"], parse_workload(found["problem"]), load_gpu(found["gpu"]), genomes)


def _launch(recorded: dict[str, Any]) -> LaunchConfig:
    fields: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in recorded.items()}
    return LaunchConfig(**fields)


def _timed(row: dict[str, Any]) -> Timed:
    launches = tuple(map(_launch, row["launches"]))
    return Timed(
        row["values"],
        read_profile(row["profile"]),
        launches,
        row["registers"],
        row["spill_bytes"],
        row["smem_static_bytes"],
        us=float(np.median(row["cold_us"] or row["hot_us"])),
    )


def kendall_tau(a: np.ndarray, b: np.ndarray) -> float:
    """Kendall's tau-b: 1 when two lists rank alike, -1 when oppositely, ties accounted for."""
    i, j = np.triu_indices(len(a), 1)
    x, y = np.sign(a[i] - a[j]), np.sign(b[i] - b[j])
    return float((x * y).sum() / np.sqrt(np.count_nonzero(x) * np.count_nonzero(y)))


def compared(space: Space) -> dict[str, Any]:
    """A file's row of the report."""
    found = space.estimates(space.genomes)
    us, model_us = np.array([g.us for g in space.genomes]), np.array([e.total_us for e in found])
    best, order = us.argmin(), model_us.argsort(kind="stable")
    error = np.log(model_us / us)
    bounds = [e.bound for e in found]
    return {
        "file": space.path.name,
        "family": space.family,
        "problem": str(space.workload),
        "n": len(us),
        "kendall_tau": round(kendall_tau(model_us, us), 3),
        "held_out_tau": round(kendall_tau(model_us[1::2], us[1::2]), 3),
        "rank_of_true_best": int((model_us < model_us[best]).sum()) + 1,
        f"best_of_top_{SEARCHED}_over_best": round(float(us[order[:SEARCHED]].min() / us[best]), 3),
        "best_us": round(float(us[best]), 3),
        "median_us": round(float(np.median(us)), 3),
        "ratio": round(float(np.exp(error.mean())), 3),
        "ratio_spread": round(float(np.exp(error.std())), 3),
        "bounds": {name: bounds.count(name) for name in sorted(set(bounds))},
    }


# ---- calibration


def fit(spaces: Sequence[Space], names: Sequence[str], *, every: int = 2) -> dict[str, float]:
    """The constants of those names that bring every second genome's estimates nearest to its time.

    constants() has them afterwards. `every`: 1 takes all genomes, 3 every third.
    """
    table, chosen = constants(), {name: float(constants()[name]) for name in names}
    least = distance(spaces, every=every)
    for step in _STEPS:
        improved = True
        while improved:
            improved = False
            for name in names:
                for factor in (step, 1 / step):
                    table[name] = chosen[name] * factor
                    found = distance(spaces, every=every)
                    if found < least - 1e-6:
                        chosen[name], least, improved = table[name], found, True
                        break
                    table[name] = chosen[name]
    return chosen


def distance(spaces: Sequence[Space], *, every: int) -> float:
    """Root of the mean square of log(estimate / measured), each file with equal weight."""
    return math.sqrt(float(np.mean([np.mean(_errors(space, every) ** 2) for space in spaces])))


def _errors(space: Space, every: int) -> np.ndarray:
    some = space.genomes[::every]
    model_us = [e.total_us for e in space.estimates(some)]
    errors: np.ndarray = np.log(np.array(model_us) / np.array([g.us for g in some]))
    return errors


LISTS = ("calibrated", "calibrated_on_wgmma")  # of constants.toml


def calibrated(which: str = LISTS[0]) -> tuple[str, ...]:
    """The constants that --fit may change, as constants.toml lists them."""
    return tuple(constants()[which])


# ---- output


def document(spaces: Iterable[Space], command: str) -> dict[str, Any]:
    return {
        "command": command,
        "model_version": model_version(),
        "model_toml_sha256": hashlib.sha256(_TOML.read_bytes()).hexdigest(),
        "note": (
            "Times are of one GPU in short bursts. What the constants were fitted to stands in "
            "constants.toml; "
            "--fit sees every second genome of these files, and held_out_tau is over the others. "
            "rank_of_true_best counts in the model's order."
        ),
        "rows": [compared(space) for space in spaces],
    }


def show(rows: list[dict[str, Any]]) -> None:
    names = ("file", "n", "kendall_tau", "held_out_tau", "rank_of_true_best", "ratio", "ratio_spread")
    table = [names, *(tuple(str(row[name]) for name in names) for row in rows)]
    widths = [max(len(line[at]) for line in table) for at in range(len(names))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("spaces", type=Path, nargs="+", help="files of scripts/model/record_space.py")
    parser.add_argument("--fit", action="store_true", help="calibrate first, and print the constants")
    parser.add_argument(
        "--constants", choices=LISTS, default=LISTS[0], help="which of constants.toml's lists to fit"
    )
    parser.add_argument("--json", type=Path, help="write the report here")
    options = parser.parse_args()
    spaces = [read_space(path) for path in options.spaces]
    if options.fit:
        for name, value in fit(spaces, calibrated(options.constants)).items():
            print(f"{name} = {value:.4g}")
    report = document(spaces, command())
    show(report["rows"])
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except EvoflashError as error:
        sys.exit(str(error))
