"""The performance model held against the times of the hand-written Hopper kernel. It measures nothing.

Emulates each timed configuration of cases.py on two short lengths, as pre-flight does, estimates it on the
workloads that on_gpu.py timed, and compares: row by row, and each row once more with the constants fitted to
the others. This takes seconds, or minutes where g++ has not seen the texts yet.

    cd scripts/hopper_kernel/records && RECORDS=$PWD && cd -
    python -m scripts.hopper_kernel.model $RECORDS/hopper-h200.json -o $RECORDS/model-hopper.json
    python -m scripts.hopper_kernel.model $RECORDS/hopper-h200.json --fit

--fit fits the constants to the rows of FITTED first, and prints them as they stand in
evoflash/perf_model/constants.toml.
"""

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from evoflash.errors import EvoflashError, UsageError
from evoflash.operation import Loop
from evoflash.operations.attention.loop import steps_of
from evoflash.operations.attention.preflight_runs import preflight_runs
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload, parse_workload
from evoflash.perf_model.estimate import Profile, constants, fit_counts, model_version
from evoflash.specs import load_gpu
from scripts import ROOT
from scripts.command_line import command
from scripts.hopper_kernel.cases import ARCH, CONFIGURATIONS, ENTRY, GROUP_ROWS, Configuration
from scripts.hopper_kernel.on_emulator import run_hopper
from scripts.model.report import LISTS, Space, Timed, calibrated, distance, fit, kendall_tau
from scripts.model.space_file import profile_record

GPU = "h200"
FITTED = ("b=1,h=8,s=512,d=64", "b=16,h=16,s=2048,d=64")  # the rows that the constants saw
_LIST = LISTS[1]  # of constants that only wgmma kernels have
_TOML = ROOT / "evoflash" / "perf_model" / "constants.toml"
Record = dict[str, Any]


# ---- what the model reads


def loop_of(configuration: Configuration, head_dim: int) -> Profile:
    """The main loop of a configuration, without counts."""
    c = configuration
    return Profile(
        (),
        rows=GROUP_ROWS * c.consumers,
        keys=c.tile_keys,
        stages=min(c.k_stages, c.v_stages),
        splits=1,
        uncounted=4
        * c.consumers
        * (c.tile_keys // 2 + head_dim // 2),  # a sum per score, a product per output
        cluster=c.cluster,
        overlaps=c.overlap,
        operand_bytes=2 * GROUP_ROWS * c.consumers * (head_dim + c.shared_p * c.tile_keys),  # Q, and P
    )


@cache
def profile_of(configuration: Configuration, key: AttentionKey) -> Profile:
    """Its counts on two short lengths. UsageError if the emulator finds fault with a run."""
    loop = loop_of(configuration, key.head_dim)
    planned = preflight_runs(key, Loop(loop.rows, loop.keys, loop.stages, loop.splits), whole_groups=True)
    counted = (cast(AttentionWorkload, each.workload) for each in planned if each.is_counted)
    first, second = (_counted(configuration, loop, key, workload) for workload in counted)
    return replace(loop, launches=(fit_counts((first, second)),))


def _counted(
    configuration: Configuration, loop: Profile, key: AttentionKey, workload: AttentionWorkload
) -> tuple[dict[str, int], int, int]:
    outcome = run_hopper(configuration.source(key), configuration, workload, delivery="lazy", schedule="fifo")
    if outcome.kinds or not outcome.verdict.passed:
        found = ", ".join(sorted(outcome.kinds)) or outcome.verdict.reason
        raise UsageError(f"{configuration} fails in the emulator on {workload}: {found}.")
    steps = steps_of(workload, loop.loop)
    return outcome.emulation.counters, len(steps) * workload.heads, sum(steps) * workload.heads


# ---- what was measured


@dataclass(frozen=True, slots=True)
class Measured:
    """A file of scripts/hopper_kernel/on_gpu.py: times in us and registers, by configuration."""

    path: Path
    date: str
    times: dict[str, dict[str, float]]  # by workload
    registers: dict[tuple[str, str], int]  # by name and compile key


def read_measured(path: Path) -> Measured:
    """UsageError if no configuration was timed."""
    found = json.loads(path.read_text(encoding="utf-8"))
    times: dict[str, dict[str, float]] = {}
    registers = {}
    for row in found["rows"]:
        name = row["configuration"]
        if row["kind"] == "compile" and not row["bounded"]:
            registers[name, row["key"]] = row["registers"]
        if row["kind"] == "time" and name in CONFIGURATIONS and row["passed"]:
            times.setdefault(row["workload"], {})[name] = row["us"]
    if not times:
        raise UsageError(f"{path} holds no times: run scripts/hopper_kernel/on_gpu.py on a GPU first.")
    return Measured(path, found["date"], times, registers)


def rows_of(measured: Measured) -> tuple[Space, ...]:
    """A row for each workload, as scripts/model/report.py takes them."""
    return tuple(
        Space(
            measured.path,
            ENTRY,
            workload,
            load_gpu(GPU),
            tuple(_timed(name, workload, us, measured) for name, us in times.items()),
        )
        for workload, times in ((parse_workload(text), times) for text, times in measured.times.items())
    )


def _timed(name: str, workload: AttentionWorkload, us: float, measured: Measured) -> Timed:
    configuration, key = CONFIGURATIONS[name], workload.compile_key(ARCH)
    return Timed(
        {"configuration": name},
        profile_of(configuration, key),
        (configuration.launch(workload),),
        registers=measured.registers[name, str(key)],
        spill_bytes=0,
        smem_static_bytes=0,
        us=us,
    )


# ---- what comes of it


@contextmanager
def restored_constants() -> Iterator[None]:
    """What a fit inside does to the constants ends with it."""
    before = dict(constants())
    try:
        yield
    finally:
        constants().update(before)


def is_fitted(row: Space) -> bool:
    return str(row.workload) in {str(parse_workload(text)) for text in FITTED}


def held_out(rows: Sequence[Space]) -> list[Record]:
    """Each row by constants that were fitted to the others."""
    found = []
    for row in rows:
        with restored_constants():
            chosen = fit([other for other in rows if other is not row], calibrated(_LIST), every=1)
            found.append(
                {
                    "problem": str(row.workload),
                    "constants": {name: round(value, 1) for name, value in chosen.items()},
                    "rms_log_error": round(distance([row], every=1), 3),
                    "ratios": {name: each["ratio"] for name, each in _each(row).items()},
                }
            )
    return found


def _each(row: Space) -> dict[str, Record]:
    """The row's configurations by name: measured, estimated, their ratio, and what bounds."""
    estimates = row.estimates(row.genomes)
    return {
        timed.values["configuration"]: {
            "us": timed.us,
            "model_us": round(estimate.total_us, 2),
            "ratio": round(estimate.total_us / timed.us, 3),
            "bound": estimate.bound,
            "terms_us": {name: round(us, 2) for name, us in estimate.terms.items()},
        }
        for timed, estimate in zip(row.genomes, estimates, strict=True)
    }


def row_record(row: Space) -> Record:
    """A row of the report; the rank correlation of a single configuration is none."""
    us, model_us = (np.array([each[name] for each in _each(row).values()]) for name in ("us", "model_us"))
    return {
        "problem": str(row.workload),
        "constants_saw_it": is_fitted(row),
        "kendall_tau": round(kendall_tau(model_us, us), 3) if len(us) > 1 else None,
        "rms_log_error": round(distance([row], every=1), 3),
        "configurations": _each(row),
    }


def overall(rows: Sequence[Space]) -> Record:
    """Root mean square of log(estimate / measured), each configuration with equal weight."""

    def rms(some: Sequence[Space]) -> float | None:
        squares = [math.log(each["ratio"]) ** 2 for row in some for each in _each(row).values()]
        return round(math.sqrt(sum(squares) / len(squares)), 3) if squares else None

    seen = [row for row in rows if is_fitted(row)]
    unseen = [row for row in rows if not is_fitted(row)]
    return {"all": rms(rows), "rows_that_the_constants_saw": rms(seen), "other_rows": rms(unseen)}


def document(measured: Measured, rows: Sequence[Space], command: str) -> Record:
    return {
        "command": command,
        "measured": {"file": measured.path.name, "date": measured.date},
        "model_version": model_version(),
        "model_toml_sha256": hashlib.sha256(_TOML.read_bytes()).hexdigest(),
        "note": (
            "us: cold, boost clock, from the measured file. ratio: estimate over measured. The constants "
            "were fitted to the rows that constants_saw_it marks; the form of the terms was chosen with all "
            "rows in sight, so the others are held out of the fit only. leave_one_row_out fits the constants "
            "to all rows but one."
        ),
        "constants": {name: constants()[name] for name in calibrated(_LIST)},
        "rms_log_error": overall(rows),
        "rows": [row_record(row) for row in rows],
        "leave_one_row_out": held_out(rows),
        "profiles": {
            f"{timed.values['configuration']} {row.workload.compile_key(ARCH)}": profile_record(timed.profile)
            for row in rows
            for timed in row.genomes
        },
    }


def show(rows: Sequence[Space]) -> None:
    for row in rows:
        record = row_record(row)
        print(f"{row.workload}: tau {record['kendall_tau']}, rms {record['rms_log_error']}")
        for name, each in record["configurations"].items():
            print(
                f"  {name:18} {each['us']:8.2f} us, model {each['model_us']:8.2f}, ratio {each['ratio']:.3f}"
            )
    print(f"root mean square of log(model / measured): {overall(rows)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("measured", type=Path, help="a file of scripts/hopper_kernel/on_gpu.py")
    parser.add_argument("--fit", action="store_true", help="fit the constants first, and print them")
    parser.add_argument("-o", "--output", type=Path, help="write the report here")
    options = parser.parse_args()
    if options.fit and options.output:
        parser.error(
            "a report is of the constants in constants.toml: write them there first, then leave out --fit"
        )
    measured = read_measured(options.measured)
    rows = rows_of(measured)
    if options.fit:
        for name, value in fit([row for row in rows if is_fitted(row)], calibrated(_LIST), every=1).items():
            print(f"{name} = {value:.4g}")
    show(rows)
    if options.output:
        text = json.dumps(document(measured, rows, command()), indent=1)
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except EvoflashError as error:
        sys.exit(str(error))
