"""What a case comes to: its outputs on a GPU held against the right ones, and the emulator's word on it."""

import resource
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.operations.attention import inputs
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.reference import expect
from evoflash.operations.expectations import every_row
from evoflash.validation.validator import judge
from scripts.sanitizer.cases import SEED, Key, Record, case, fault_of, in_emulator

Fault = Any  # fault_corpus.Fault
Found = Any  # fault_corpus.Found

SLOW = ("bank-conflict", "uncoalesced")  # kinds of the emulator's counters
_EXCESS = 1.5  # of a line's cost over what it is without the fault


def wrong(key: Key, folder: Path, right: Path) -> str:
    """What is wrong with the outputs in a job's folder; "" where nothing is."""
    made = case(key)
    outputs = {buffer.name: folder / f"{buffer.name}.out" for buffer in made.buffers if buffer.is_output}
    if made.workload is None:
        differing = [
            name for name, path in outputs.items() if path.read_bytes() != (right / path.name).read_bytes()
        ]
        return f"{', '.join(differing)} differs" if differing else ""
    workload, trial = made.workload, inputs.draw(key.trial, made.workload, seed=SEED)
    out = np.fromfile(outputs["O"], np.uint16).reshape(trial.q.shape)
    lse = np.fromfile(outputs["LSE"], np.float32).reshape(trial.q.shape[:3])
    expected = expect(workload, trial, where=every_row(workload))
    return judge(workload, [(trial, expected, dense.output(out, lse))]).reason


def emulated(key: Key) -> Record:
    """What the emulator says of the case, and what g++, the run and the comparison cost; in a worker."""
    fault = fault_of(key)
    begin, cpu = time.perf_counter(), _cpu_s()
    found = in_emulator(key.kernel, fault)
    record = {"seconds": time.perf_counter() - begin, "cpu_s": _cpu_s() - cpu, "wrong": found.wrong}
    if fault is None:
        return {**record, "found": bool(found.reports), "kind": _kinds(found)}
    return {**record, **_as_expected(fault, found)}


def _as_expected(fault: Fault, found: Found) -> Record:
    """Whether the expected report is there, with its line."""
    kind = fault.expect_kind
    if kind == "wrong-result":
        return {"found": bool(found.wrong) and not found.reports, "kind": kind, "line": 0}
    if kind in SLOW:
        line = _slow_line(fault, found)
        return {"found": line > 0, "kind": kind, "line": line}
    for report in found.reports:
        if report.kind == kind and fault.expect_line in found.line(report.line):
            return {"found": True, "kind": kind, "line": report.line, "message": report.message}
    return {"found": False, "kind": _kinds(found), "line": 0}


def _kinds(found: Found) -> str:
    return ", ".join(sorted({report.kind for report in found.reports}))


def _slow_line(fault: Fault, found: Found) -> int:
    """A line of the fault that costs more, over its ideal, than the same text in the right kernel; else 0."""
    before = max((excess for _, excess in _costs(fault, _right(fault.kernel))), default=1.0)
    line, after = max(_costs(fault, found), key=lambda cost: cost[1], default=(0, 1.0))
    return line if after >= _EXCESS * before else 0


@cache
def _right(kernel: str) -> Found:
    return in_emulator(kernel, None)


def _costs(fault: Fault, found: Found) -> list[tuple[int, float]]:
    return [
        (site.line, site.actual / site.ideal)
        for site in found.sites
        if fault.expect_line in found.line(site.line)
    ]


def _cpu_s() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
