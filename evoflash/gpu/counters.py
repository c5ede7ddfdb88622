"""Runs Nsight Compute's `ncu` on one call of a kernel, and reads what it prints. Says nothing of what binds.

The GPU's clock is left alone and caches are emptied before each pass, as in a cold timing. A call is replayed
about forty times, once for each group of counters: times under it are not for comparisons. Figures are read
by the names of their metrics and in base units, which neither language nor size changes.

What runs under it is this module as a program, for which FILE is a pickled OneCall:

    python -m evoflash.gpu.counters FILE
"""

import csv
import io
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evoflash.errors import DeviceError
from evoflash.gpu.launcher import cupy, warm_up
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.benchmark import Bench
from evoflash.hardware_counters import KernelProfile, LaunchCounters
from evoflash.workload import Workload


@dataclass(frozen=True, slots=True)
class OneCall:
    """A kernel, and the workload that it is called on."""

    task: GpuTask
    workload: Workload


def run(call: OneCall) -> None:
    """The launches, the last of them between the profiler's start and its stop.

    Inputs are those of a benchmark; two launches come before the profiled one, so that code and descriptors
    are on the device.
    """
    warm_up()
    bench = Bench(call.workload, spec=call.task.spec, seed=call.task.seed)
    kernel = call.task.kernel(call.workload, dict(call.task.timed)[call.workload])
    arguments = [arena.packed_arguments(kernel) for arena in bench.arenas[:3]]
    profiler = cupy().cuda.runtime
    with bench.stream:
        for each in arguments[:2]:
            kernel.enqueue_packed(each)
        bench.stream.synchronize()
        profiler.profilerStart()
        kernel.enqueue_packed(arguments[-1])
        bench.stream.synchronize()
        profiler.profilerStop()


_PLACES = (("/opt/nvidia/nsight-compute", "*/ncu"), ("/usr/local", "cuda*/bin/ncu"))
LIMIT_S = 120.0  # of a workload; one took 14 to 24 s on a busy machine with an H100
_OF_ELAPSED, _OF_ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
_OPTIONS = (
    *("--profile-from-start", "off", "--target-processes", "all", "--clock-control", "none"),
    *("--cache-control", "all", "--set", "full", "--force-overwrite"),
)
_PAGES = {"raw": ("--print-units", "base"), "source": ("--print-source", "sass")}


def ncu_program() -> str:
    """The path of `ncu`. DeviceError where it is not installed."""
    places = [path for folder, pattern in _PLACES for path in sorted(Path(folder).glob(pattern))]
    found = shutil.which("ncu") or (str(places[-1]) if places else None)
    if found is None:
        raise DeviceError(
            "Nsight Compute is not installed, which reads a GPU's counters: install NVIDIA's package "
            "nsight-compute, or put the folder of its program ncu into PATH."
        )
    return found


def missing_profiler() -> str:
    """Why there is none here; empty where there is one."""
    try:
        ncu_program()
    except DeviceError as error:
        return str(error)
    return ""


def profile(task: GpuTask, workloads: Sequence[Workload], *, limit_s: float = LIMIT_S) -> KernelProfile:
    """The counters of a kernel on workloads that it is timed on.

    DeviceError where ncu is missing, may not read them, fails or takes longer than `limit_s` for one of them.
    """
    program = ncu_program()
    version = re.search(r"Version (\S+)", _run([program, "--version"], limit_s))
    found = {str(workload): _counters(program, OneCall(task, workload), limit_s) for workload in workloads}
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return KernelProfile(found, made, f"Nsight Compute {version[1] if version else 'of unknown version'}")


def _counters(program: str, call: OneCall, limit_s: float) -> tuple[LaunchCounters, ...]:
    with tempfile.TemporaryDirectory(prefix="evoflash-ncu-") as folder:
        plan, report = Path(folder, "call.pickle"), Path(folder, "report.ncu-rep")
        plan.write_bytes(pickle.dumps(call))
        profiled = (sys.executable, "-P", "-m", "evoflash.gpu.counters", str(plan))
        said = _run([program, *_OPTIONS, "--export", str(report), *profiled], limit_s)
        if not report.exists():
            raise DeviceError(
                f"Nsight Compute saw no launch of the kernel ({_last(said)}): try `evoflash doctor`."
            )
        raw, source = (
            _run([program, "--import", str(report), "--csv", "--page", page, *options], limit_s)
            for page, options in _PAGES.items()
        )
    return counters_of(raw, source)


def _run(words: Sequence[str], limit_s: float) -> str:
    """What the command printed. It and all that it starts are gone afterwards, however that ends."""
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=_environment(),
        start_new_session=True,
    )
    try:
        said, complaints = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise DeviceError(
            f"Nsight Compute took over {limit_s:.0f} s and was ended: try a smaller problem."
        ) from None
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode or "==ERROR==" in said:
        raise DeviceError(_complaint(process.returncode, said, complaints))
    return said


def _environment() -> dict[str, str]:
    """Numbers in it are printed as everywhere, and the profiled process finds this very package."""
    here = str(Path(__file__).resolve().parents[3])
    found = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "LC_ALL": "C", "PYTHONPATH": found}


def _complaint(code: int, said: str, complaints: str) -> str:
    everything = f"{said}\n{complaints}"
    if "ERR_NVGPUCTRPERM" in everything:
        return (
            "this user may not read the GPU's counters: run as root, or see "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM."
        )
    errors = [
        line.partition("==ERROR==")[2].strip() for line in everything.splitlines() if "==ERROR==" in line
    ]
    old = next((line for line in errors if re.search(_TOO_OLD, line, re.IGNORECASE)), "")
    if old or re.search(_TOO_OLD, complaints, re.IGNORECASE):
        why = old or _last(complaints)
        return f"this Nsight Compute is too old for the GPU or for evoflash ({why}): update it."
    if code < 0:
        return f"Nsight Compute was killed by signal {-code} ({signal.strsignal(-code)}): run it again."
    why = _last(complaints) if _is_of_target(errors) and complaints.strip() else ""
    return f"Nsight Compute failed: {why or (errors or [_last(everything)])[0]}"


_TOO_OLD = (
    r"unrecogni[sz]ed (option|argument)|unknown (section|option|metric)|failed to find metric|not supported"
)


def _is_of_target(errors: Sequence[str]) -> bool:
    """Whether it only says that the profiled process failed, which then said why itself."""
    return any("application returned an error code" in line for line in errors)


def _last(said: str) -> str:
    return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "it said nothing")


# ---- what it prints

_Figure = tuple[str, str]  # value and unit
# The first of these metrics that a report has is the figure.
_METRICS = {
    "us": ("gpu__time_duration.sum",),
    "sm_ghz": tuple(f"{unit}__cycles_elapsed.avg.per_second" for unit in ("sm", "smsp", "gpc")),
    "grid": ("launch__grid_size",),
    "block": ("launch__block_size",),
    "registers": ("launch__registers_per_thread",),
    "active_cycles": ("sm__cycles_active.avg",),
    "cycles": tuple(f"{unit}__cycles_elapsed.max" for unit in ("sm", "smsp", "gpc")),
    "warps": ("smsp__warps_active.avg.per_cycle_active",),
    "cycles_per_instruction": ("smsp__average_warp_latency_per_inst_issued.ratio",),
}
# Of each unit its counters' names; the busiest of those that a report has is the unit's share.
_UNITS = {
    "dram": r"(gpu__)?dram_+throughput",
    "l2": r"lts__throughput",
    "shared": r"l1tex__throughput",
    "tensor": r"sm__(inst_executed_)?pipe_tensor\w*",
    "exp": r"sm__inst_executed_pipe_xu",
    "issue": r"sm__inst_issued",
}
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_SCALES = {
    **{"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3},
    **{"s": 1e6, "second": 1e6, "hz": 1e-9, "khz": 1e-6, "mhz": 1e-3, "ghz": 1.0},
    **{"cycle/second": 1e-9, "cycle/usecond": 1e-3, "cycle/nsecond": 1.0, "cycle/us": 1e-3, "cycle/ns": 1.0},
}


def counters_of(raw: str, source: str) -> tuple[LaunchCounters, ...]:
    """The launches that the pages, as CSV, tell of. DeviceError where they are not as expected."""
    launches, mixes = list(_launches(raw)), list(_instructions(source))
    if not launches:
        raise DeviceError("Nsight Compute's report has no launch: try `evoflash doctor`.")
    if len(mixes) != len(launches):
        mixes = [{}] * len(launches)  # nobody knows which is whose
    return tuple(map(_launch, launches, mixes))


def _launch(metrics: Mapping[str, _Figure], mix: Mapping[str, int]) -> LaunchCounters:
    figures = {}
    for name, known in _METRICS.items():
        value = next(
            (found for each in known if (found := _number(*metrics.get(each, ("", "")))) is not None), None
        )
        if value is None:
            raise DeviceError(f"Nsight Compute's report lacks {known[0]}: update it.")
        figures[name] = value
    active = min(1.0, figures["active_cycles"] / figures["cycles"]) if figures["cycles"] else 0.0
    shares = {unit: share for unit in _UNITS if (share := _share(unit, metrics, active)) is not None}
    waits = {
        each[1]: _number(*figure) or 0.0
        for name, figure in metrics.items()
        if (each := _STALL.fullmatch(name))
    }
    waits.pop("selected", None)  # the one that issues waits for nothing
    total = sum(waits.values())
    return LaunchCounters(
        kernel=metrics["Kernel Name"][0],
        us=figures["us"],
        sm_ghz=figures["sm_ghz"],
        grid=int(figures["grid"]),
        block=int(figures["block"]),
        registers=int(figures["registers"]),
        shares=_by_size(shares),
        active_sm=active,
        warps=figures["warps"],
        cycles_per_instruction=figures["cycles_per_instruction"],
        stalls=_by_size({name: wait / total for name, wait in waits.items() if wait}),
        instructions=mix,
    )


def _share(unit: str, metrics: Mapping[str, _Figure], active: float) -> float | None:
    """Of what it can do in the launch's time; None where no counter of it was read."""
    found = []
    for name, figure in metrics.items():
        stem, of_active = name.removesuffix(_OF_ELAPSED), name.endswith(_OF_ACTIVE)
        stem = stem.removesuffix(_OF_ACTIVE)
        value = _number(*figure) if stem != name and re.fullmatch(_UNITS[unit], stem) else None
        if value is not None:
            found.append(value / 100 * (active if of_active else 1.0))
    return max(found, default=None)


def _by_size(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in sorted(shares.items(), key=lambda item: -item[1])}


def _number(value: str, unit: str) -> float | None:
    """In us, GHz or as it stands; None where it was not read."""
    try:
        number = float(value.replace(",", "")) * _SCALES.get(unit.lower(), 1.0)
    except ValueError:  # nothing, or "n/a"
        return None
    return number if math.isfinite(number) else None


def _launches(page: str) -> Iterator[dict[str, _Figure]]:
    """The metrics of each launch by their names. Two lines stand above the values: names and units."""
    lines = page.splitlines()
    begin = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    table = csv.reader(lines[begin:])
    names, units = next(table, []), next(table, [])
    for values in table:
        if len(values) == len(names):
            yield {name: (value, unit) for name, value, unit in zip(names, values, units, strict=True)}


def _instructions(page: str) -> Iterator[dict[str, int]]:
    """Of each launch how many warp instructions of each opcode it executed, most first."""
    for part in re.split(r'^"Kernel Name",.*$', page, flags=re.MULTILINE)[1:]:
        counts: Counter[str] = Counter()
        for row in csv.DictReader(io.StringIO(part.strip())):
            words = (word for word in (row.get("Source") or "").split() if not word.startswith("@"))
            counts[next(words, "").split(".")[0].rstrip(";")] += int(
                _number(row.get("Instructions Executed") or "", "") or 0
            )
        yield {name: count for name, count in counts.most_common() if name and count}


if __name__ == "__main__":
    run(pickle.loads(Path(sys.argv[1]).read_bytes()))
