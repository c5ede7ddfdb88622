"""Starts Nsight Compute's `ncu` on one launch, and reads what it prints. Says nothing of what binds.

Its clock is left alone and caches are emptied before each pass, as in a cold timing. It replays the launch
about forty times, once for each group of counters: times under it are not for comparisons.
"""

import csv
import glob
import io
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from evoflash.errors import DeviceError
from evoflash.gpu.counters.limits import LaunchCounters
from evoflash.gpu.counters.one_call import OneCall

_PLACES = "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/bin/ncu"
_LIMIT_S = 300.0
_OPTIONS = (
    "--profile-from-start",
    "off",
    "--clock-control",
    "none",
    "--cache-control",
    "all",
    "--set",
    "full",
)
_SHARES = {
    "dram": ("DRAM Throughput", "%"),
    "l2": ("L2 Cache Throughput", "%"),
    "shared": ("L1/TEX Cache Throughput", "%"),
    "issue": ("Issue Slots Busy", "%"),
}
_TENSOR = "sm__pipe_tensor"  # what follows differs between architectures
_UNITS_OF_US = {"ns": 1e-3, "us": 1.0, "usecond": 1.0, "nsecond": 1e-3, "ms": 1e3, "msecond": 1e3}


def tool() -> str:
    """The path of `ncu`. DeviceError where it is not installed."""
    places = [path for pattern in _PLACES for path in sorted(glob.glob(pattern))]
    found = shutil.which("ncu") or (places[-1] if places else None)
    if found is None:
        raise DeviceError(
            "Nsight Compute is not installed, which reads the counters: install NVIDIA's package "
            "nsight-compute, or put the folder of its program `ncu` into PATH."
        )
    return found


def read_counters(call: OneCall) -> tuple[LaunchCounters, ...]:
    """The counters of each launch of the call. DeviceError where ncu is missing, is not allowed to read them,
    or fails.
    """
    program = tool()
    with tempfile.TemporaryDirectory(prefix="evoflash-ncu-") as folder:
        plan, report = Path(folder, "call.pickle"), Path(folder, "report.ncu-rep")
        plan.write_bytes(pickle.dumps(call))
        runs = [sys.executable, "-m", "evoflash.gpu.counters.one_call", str(plan)]
        _run([program, *_OPTIONS, "--force-overwrite", "--export", str(report), *runs])
        if not report.exists():
            raise DeviceError("Nsight Compute saw no launch: try `evoflash doctor`.")
        pages = {page: _run([program, "--import", str(report), "--csv", "--page", page]) for page in _PAGES}
    return counters_of(pages["details"], pages["raw"], pages["source"])


_PAGES = "details", "raw", "source"


def _run(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=_env()
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"Nsight Compute took over {_LIMIT_S:.0f} s: try a smaller problem.") from None
    said = done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in said:
        raise DeviceError(
            "this user may not read the GPU's counters: run as root, or see "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM."
        )
    if done.returncode or "==ERROR==" in said:
        lines = [line for line in said.splitlines() if "==ERROR==" in line] or said.splitlines()[-1:]
        raise DeviceError(f"Nsight Compute failed: {(lines or ['no word'])[0].replace('==ERROR== ', '')}")
    return done.stdout


def _env() -> dict[str, str]:
    """With this package's folder, so that the profiled process finds it as this one did."""
    here = str(Path(__file__).resolve().parents[3])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", "")))),
    }


# ---- what it prints


def counters_of(details: str, raw: str, source: str) -> tuple[LaunchCounters, ...]:
    """The launches that the three pages, as CSV, tell of. DeviceError where they are not as expected."""
    stalls, instructions = _source(source)
    found = []
    for number, figures in _launches(details).items():
        try:
            found.append(
                LaunchCounters(
                    kernel=figures["Kernel Name"][0],
                    us=_number(figures["Duration"]) * _UNITS_OF_US[figures["Duration"][1]],
                    sm_ghz=_number(figures["SM Frequency"])
                    * (1.0 if figures["SM Frequency"][1][0] == "G" else 1e-3),
                    registers=int(_number(figures["Registers Per Thread"])),
                    shares={**_shares(figures), **_tensor(raw, number)},
                    active_sm=_number(figures["SM Active Cycles"]) / _number(figures["Elapsed Cycles"]),
                    warps=_number(figures["Active Warps Per Scheduler"]),
                    cycles_per_instruction=_number(figures["Warp Cycles Per Issued Instruction"]),
                    stalls=stalls,
                    instructions=instructions,
                )
            )
        except (KeyError, ValueError, ZeroDivisionError) as missing:
            raise DeviceError(
                f"Nsight Compute's report lacks {missing}: update it (2024.1 or newer)."
            ) from None
    return tuple(found)


_Figure = tuple[str, str]  # value and unit


def _launches(details: str) -> dict[int, dict[str, _Figure]]:
    """Of each launch its figures by name; where a name comes twice, the one in per cent."""
    found: dict[int, dict[str, _Figure]] = {}
    for row in _rows(details):
        figures = found.setdefault(int(row["ID"]), {"Kernel Name": (row["Kernel Name"], "")})
        name, unit = row["Metric Name"], row["Metric Unit"]
        if name and (name not in figures or unit == "%"):
            figures[name] = row["Metric Value"], unit
    return found


def _rows(page: str) -> list[dict[str, str]]:
    """A page's table, without what stands above it."""
    lines = page.splitlines()
    begin = next((at for at, line in enumerate(lines) if line.startswith(('"ID"', '"Address"'))), len(lines))
    return list(csv.DictReader(io.StringIO("\n".join(lines[begin:]))))


def _number(figure: _Figure) -> float:
    return float(figure[0].replace(",", ""))


def _shares(figures: Mapping[str, _Figure]) -> dict[str, float]:
    known = {
        name: figures[label]
        for name, (label, unit) in _SHARES.items()
        if figures.get(label, ("", ""))[1] == unit
    }
    return {name: _number(figure) / 100 for name, figure in known.items()}


def _tensor(raw: str, number: int) -> dict[str, float]:
    """How busy the tensor cores are: the busiest of the pipe's counters in per cent."""
    row = next((row for row in _rows(raw) if row["ID"] == str(number)), {})
    busy = [
        float(value.replace(",", ""))
        for name, value in row.items()
        if name.startswith(_TENSOR) and name.endswith("pct_of_peak_sustained_active") and value
    ]
    return {"tensor": max(busy) / 100} if busy else {}


def _source(page: str) -> tuple[dict[str, float], dict[str, int]]:
    """Stalls as shares of all samples, and instructions by opcode; of all launches together."""
    stalls: Counter[str] = Counter()
    instructions: Counter[str] = Counter()
    for row in _rows(page):
        words = row["Source"].split()
        opcode = next((word for word in words if not word.startswith("@")), "").split(".")[0].rstrip(";")
        instructions[opcode] += int(float(row.get("Instructions Executed") or 0))
        for name, value in row.items():
            if name and name.startswith("stall_") and name.endswith("(Not Issued)") and value:
                stalls[name.removeprefix("stall_").removesuffix(" (Not Issued)")] += int(float(value))
    total = sum(stalls.values())
    shares = {name: round(count / total, 4) for name, count in stalls.most_common() if count}
    return shares, {name: count for name, count in instructions.most_common() if name and count}
