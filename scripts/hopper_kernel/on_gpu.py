"""The hand-written Hopper kernel on a GPU: whether it is right, and how long it takes beside torch's kernels.

Every configuration of cases.py is held against the fp64 reference between guard bands, first with waits that
trap instead of hanging; those that pass are timed in turns with SDPA. Prints a JSON line for each result. A
configuration that crashes or hangs costs only its own process. It takes about a minute on an H200.

    python -m scripts.hopper_kernel.on_gpu -o scripts/hopper_kernel/records/hopper-h200.json
    python -m scripts.hopper_kernel.on_gpu --compile-only -o /tmp/hopper.json     # needs no GPU
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.baselines import BaselineAbsentError, baseline
from evoflash.compilers.nvrtc import compile_candidate, first_error, nvrtc_version
from evoflash.cuda import launcher
from evoflash.cuda.arena import Original, run_once
from evoflash.errors import DeviceError
from evoflash.evaluation import Build, Verdict
from evoflash.gpu_process import cache as kept
from evoflash.isolation import IsolatedPool
from evoflash.problem import CompileKey, Workload, parse_workload
from evoflash.timing.benchmark import Bench, Contender, KernelContender
from evoflash.timing.comparison import interleaved
from evoflash.timing.protocols import Effort, Pace
from evoflash.validation.correctness import case
from evoflash.validation.reference import Sample, expect
from evoflash.validation.validator import judge
from scripts.command_line import command
from scripts.hopper_kernel.cases import ARCH, CONFIGURATIONS
from scripts.hopper_kernel.driver import TmaKernel

Record = dict[str, Any]
Plan = dict[tuple[str, CompileKey, bool], Build]  # (configuration, key, bounded)

SEED = 1
TRIALS = ("normal", "rising", "needles")
# Tails in rows and keys, one key block, one row, more queries than keys (rows without a key), many tiles.
LENGTHS = ((200, 330), (64, 64), (1, 77), (300, 130), (129, 1000))
KINDS = (
    "b=2,h=2,s=1,d=64",
    "b=2,h=4,hkv=2,s=1,d=64,causal,dtype=bf16",
    "b=1,h=2,s=1,d=128,dtype=bf16",
    "b=1,h=4,hkv=1,s=1,d=128,causal",
)
TIMED = (
    ("b=1,h=8,s=512,d=64", ("plain", "alone", "overlap", "ping_pong")),
    ("b=4,h=16,s=1024,d=64,causal", ("alone", "ping_pong", "three")),
    ("b=16,h=16,s=2048,d=64", ("overlap", "ping_pong", "three_wide", "multicast_overlap")),
    ("b=8,h=16,s=2048,d=128", ("overlap", "ping_pong", "wide", "shared_p_overlap", "multicast_overlap")),
    ("b=8,h=16,s=2048,d=128,causal", ("ping_pong",)),
)
BASELINES = ("sdpa_flash", "sdpa_cudnn")
STEADY = Effort(min_samples=5, max_samples=15, rel_error=5e-3, max_s=1.0)
BOOST = Effort(min_samples=3, max_samples=3, rel_error=1.0, max_s=3.0)
HANG_S = 5.0
COMPILE_S, CHECK_S, TIME_S = 60.0, 60.0, 120.0


# ---- what is compiled


def keys() -> tuple[CompileKey, ...]:
    """The compile keys that configurations are checked on."""
    return tuple(parse_workload(kind).compile_key(ARCH) for kind in KINDS)


def wanted(only: frozenset[str]) -> list[tuple[str, CompileKey, bool]]:
    """Everything that is compiled: checked keys twice, timed ones once more where they are others."""
    checked = [(name, key) for name in CONFIGURATIONS for key in keys()]
    timed = [(name, parse_workload(text).compile_key(ARCH)) for text, names in TIMED for name in names]
    pairs = dict.fromkeys(
        (name, key)
        for name, key in [*checked, *timed]
        if name in only and CONFIGURATIONS[name].fits(key.head_dim)
    )
    return [(name, key, bounded) for name, key in pairs for bounded in (True, False)]


def build(name: str, key: CompileKey, bounded: bool) -> Build:
    """In a worker process."""
    return compile_candidate(CONFIGURATIONS[name].candidate(key, bounded=bounded))


def compile_all(only: frozenset[str]) -> Plan:
    with IsolatedPool(len(os.sched_getaffinity(0))) as pool:
        futures = {each: pool.submit(build, *each, timeout_s=COMPILE_S) for each in wanted(only)}
        endings = {each: future.result() for each, future in futures.items()}
    return {each: ending.value for each, ending in endings.items() if ending.value is not None}


def compile_record(name: str, key: CompileKey, bounded: bool, made: Build) -> Record:
    """Spills and serialised wgmma (C75xx) fail a build, but not a bounded one: a trap costs registers."""
    return {
        "kind": "compile",
        "configuration": name,
        "key": str(key),
        "bounded": bounded,
        "passed": made.ok and (bounded or not (made.spill_bytes or made.warnings)),
        "registers": made.registers,
        "spill_bytes": made.spill_bytes,
        "warnings": made.warnings,
        "reason": "" if made.ok else first_error(made.log),
    }


# ---- in the GPU process


@dataclass(frozen=True, slots=True)
class Check:
    """A configuration to be held against the reference."""

    name: str
    builds: tuple[tuple[CompileKey, Build], ...]  # bounded ones first


@dataclass(frozen=True, slots=True)
class Race:
    """A workload on which configurations and baselines are timed in turns."""

    workload: Workload
    builds: tuple[tuple[str, Build], ...]


def check(task: Check) -> list[Record]:
    """One record; its reason names the workload, the gate and the place of the first failure."""
    record: Record = {"kind": "check", "configuration": task.name, "passed": True, "reason": "", "runs": 0}
    stream, worst = launcher.new_stream(), 0.0
    for key, made in task.builds:
        for workload in shapes(key):
            verdict = verdict_of(task.name, made, workload, stream)
            record["runs"] += len(TRIALS)
            worst = max(worst, verdict.rel_l2)
            if not verdict.passed:
                return [{**record, "passed": False, "reason": f"{verdict.reason} [{workload}]"}]
    return [{**record, "worst_rel_l2": worst}]


def shapes(key: CompileKey) -> list[Workload]:
    """The check workloads of a key."""
    batch, kv_heads = next(
        (w.batch, w.kv_heads) for w in map(parse_workload, KINDS) if w.compile_key(ARCH) == key
    )
    return [key.workload(batch, kv_heads, *lengths) for lengths in LENGTHS]


def verdict_of(name: str, made: Build, workload: Workload, stream: Any) -> Verdict:
    kernel = TmaKernel(made, CONFIGURATIONS[name], workload)
    results = []
    for trial_name in TRIALS:
        trial, expected = case(workload, trial_name, SEED)
        output = run_once(kernel, kept.arena(workload), trial, stream=stream, limit_s=HANG_S)
        results.append((trial, expected, output))
    return judge(workload, results)


def race(task: Race) -> list[Record]:
    """A record for each contender; a baseline that the machine lacks has a reason instead of times."""
    spec = launcher.spec_of(launcher.present_gpu())
    bench = Bench(task.workload, spec=spec, seed=SEED)
    kernels = {name: TmaKernel(made, CONFIGURATIONS[name], task.workload) for name, made in task.builds}
    contenders: list[Contender] = [KernelContender(name, kernel) for name, kernel in kernels.items()]
    records: list[Record] = []
    for name in BASELINES:
        try:
            contenders.append(baseline(name, bench))
        except BaselineAbsentError as absent:
            records.append({"kind": "time", "configuration": name, "passed": False, "reason": str(absent)})
    way = bench.ways[0]
    effort = BOOST if way.pace is Pace.BOOST else STEADY
    _, timings = interleaved(contenders, bench, way, effort=effort, rng=np.random.default_rng(SEED))
    for name, timing in timings.items():
        reason = complaint_at_size(kernels[name], bench) if name in kernels else ""
        records.append(
            {
                "kind": "time",
                "configuration": name,
                "workload": str(task.workload),
                "protocol": timing.protocol,
                "passed": not reason,
                "reason": reason,
                "us": round(timing.median_us, 3),
                "p10_us": round(timing.p10_us, 3),
                "p90_us": round(timing.p90_us, 3),
                "samples": timing.n,
                "tflops": round(task.workload.reported_flops / timing.median_us / 1e6, 1),
                "sm_clock_mhz": timing.sm_clock_mhz,
                "throttle": timing.throttle,
            }
        )
    return records


def complaint_at_size(kernel: TmaKernel, bench: Bench) -> str:
    """Empty when what was timed is right at the first and last rows of the first and last head."""
    w, arena = bench.workload, bench.arenas[0]
    inputs = arena.inputs
    trial = inputs.trial if isinstance(inputs, Original) else inputs
    if trial is None:
        return "nothing was loaded"
    rows = np.unique([*range(min(w.seq_q, 24)), *range(max(0, w.seq_q - 24), w.seq_q)])
    where = Sample(np.unique([0, w.batch * w.heads - 1]), rows)
    output = run_once(kernel, arena, trial, stream=bench.stream, limit_s=HANG_S)
    return judge(w, [(trial, expect(w, trial.q, trial.k, trial.v, where=where), output)]).reason


def guarded(function: Callable[[Any], list[Record]], task: Any) -> tuple[list[Record], str]:
    """Its records, or why there are none: after an error of CUDA the process is of no more use."""
    try:
        return function(task), ""
    except Exception as error:  # whatever it is, the other configurations are to be tried
        return [], (f"{type(error).__name__}: {error}".splitlines() or ["?"])[0]


class GpuProcess:
    """A process with a CUDA context; replaced when a task has spoilt it."""

    def __init__(self) -> None:
        self._pool = IsolatedPool(1)

    def run(
        self, function: Callable[[Any], list[Record]], task: Any, *, timeout_s: float
    ) -> tuple[list[Record], str]:
        """The task's records and a reason, one of which is empty."""
        ending = self._pool.submit(guarded, function, task, timeout_s=timeout_s).result()
        records, reason = ending.value or ([], ending.reason)
        if reason:
            self.close()
            self._pool = IsolatedPool(1)
        return records, reason

    def close(self) -> None:
        self._pool.close()


# ---- the order of things


def checks(plan: Plan) -> Iterable[Check]:
    for name in CONFIGURATIONS:
        builds = [
            (key, plan[name, key, bounded])
            for bounded in (True, False)
            for key in keys()
            if (name, key, bounded) in plan
        ]
        if builds and all(made.ok for _, made in builds):
            yield Check(name, tuple(builds))


def races(plan: Plan, passed: frozenset[str]) -> Iterable[Race]:
    for text, names in TIMED:
        workload = parse_workload(text)
        key = workload.compile_key(ARCH)
        yield Race(
            workload,
            tuple((n, plan[n, key, False]) for n in names if n in passed and (n, key, False) in plan),
        )


def on_gpu(plan: Plan, report: Callable[[Record], None], *, timed: bool) -> None:
    """Check every configuration, then time those that passed."""
    process, passed = GpuProcess(), set()
    try:
        for each in checks(plan):
            records, reason = process.run(check, each, timeout_s=CHECK_S)
            for record in records or [failure("check", each.name, reason)]:
                report(record)
                passed |= {each.name} if record["passed"] else set()
        for contest in races(plan, frozenset(passed)) if timed else ():
            records, reason = process.run(race, contest, timeout_s=TIME_S)
            for record in records or [failure("time", str(contest.workload), reason)]:
                report(record)
    finally:
        process.close()


def failure(kind: str, name: str, reason: str) -> Record:
    return {"kind": kind, "configuration": name, "passed": False, "reason": reason}


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(CONFIGURATIONS), help="configurations, commas between")
    parser.add_argument("--compile-only", action="store_true", help="needs no GPU")
    parser.add_argument("--no-timing", action="store_true", help="correctness only")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    unknown = set(args.only.split(",")) - set(CONFIGURATIONS)
    if unknown:
        parser.error(f"no configuration is called {sorted(unknown)[0]!r}: use {', '.join(CONFIGURATIONS)}")
    return args


def main() -> int:
    """Compile, check, time; exit 1 if anything failed, 2 without a GPU."""
    args, started = arguments(), time.monotonic()
    try:
        gpu = "" if args.compile_only else launcher.present_gpu().device_name
    except DeviceError as error:
        print(f"hopper_gpu: {error}", file=sys.stderr)
        return 2
    records: list[Record] = []

    def report(record: Record) -> None:
        records.append(record)
        print(json.dumps(record), flush=True)

    try:
        plan = compile_all(frozenset(args.only.split(",")))
        for each, made in plan.items():
            report(compile_record(*each, made))
        if gpu:
            on_gpu(plan, report, timed=not args.no_timing)
    finally:  # what was found until then is kept
        args.output.write_text(
            json.dumps(summary(records, gpu, took_s=time.monotonic() - started), indent=1) + "\n",
            encoding="utf-8",
        )
    failed = sum(not record["passed"] for record in records)
    print(f"{len(records) - failed} of {len(records)} passed", file=sys.stderr)
    return int(failed > 0)


def summary(records: list[Record], gpu: str, *, took_s: float) -> Record:
    """What the file holds."""
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "nvrtc": nvrtc_version(),
        "gpu": gpu,
        "took_s": round(took_s, 1),
        "rows": records,
    }


if __name__ == "__main__":
    sys.exit(main())
