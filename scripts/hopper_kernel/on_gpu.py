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
from datetime import date
from pathlib import Path

from evoflash.errors import DeviceError
from evoflash.evaluation import Build
from evoflash.gpu import launcher
from evoflash.isolation import IsolatedPool
from evoflash.kernels.nvrtc import compile_candidate, first_error, nvrtc_version
from evoflash.operations.attention.workload import AttentionKey, parse_workload
from scripts.command_line import command
from scripts.hopper_kernel.cases import ARCH, CONFIGURATIONS
from scripts.hopper_kernel.gpu_tasks import KINDS, Check, GpuProcess, Race, Record, check, race

Plan = dict[tuple[str, AttentionKey, bool], Build]  # (configuration, key, bounded)

TIMED = (
    ("b=1,h=8,s=512,d=64", ("plain", "alone", "overlap", "ping_pong")),
    ("b=4,h=16,s=1024,d=64,causal", ("alone", "ping_pong", "three")),
    ("b=16,h=16,s=2048,d=64", ("overlap", "ping_pong", "three_wide", "multicast_overlap")),
    ("b=8,h=16,s=2048,d=128", ("overlap", "ping_pong", "wide", "shared_p_overlap", "multicast_overlap")),
    ("b=8,h=16,s=2048,d=128,causal", ("ping_pong",)),
)
COMPILE_S, CHECK_S, TIME_S = 60.0, 60.0, 120.0


# ---- what is compiled


def keys() -> tuple[AttentionKey, ...]:
    """The compile keys that configurations are checked on."""
    return tuple(parse_workload(kind).compile_key(ARCH) for kind in KINDS)


def wanted(only: frozenset[str]) -> list[tuple[str, AttentionKey, bool]]:
    """Everything that is compiled: checked keys twice, timed ones once more where they are others."""
    checked = [(name, key) for name in CONFIGURATIONS for key in keys()]
    timed = [(name, parse_workload(text).compile_key(ARCH)) for text, names in TIMED for name in names]
    pairs = dict.fromkeys(
        (name, key)
        for name, key in [*checked, *timed]
        if name in only and CONFIGURATIONS[name].fits(key.head_dim)
    )
    return [(name, key, bounded) for name, key in pairs for bounded in (True, False)]


def build(name: str, key: AttentionKey, bounded: bool) -> Build:
    """In a worker process."""
    return compile_candidate(CONFIGURATIONS[name].candidate(key, bounded=bounded))


def compile_all(only: frozenset[str]) -> Plan:
    with IsolatedPool(len(os.sched_getaffinity(0))) as pool:
        futures = {each: pool.submit(build, *each, timeout_s=COMPILE_S) for each in wanted(only)}
        endings = {each: future.result() for each, future in futures.items()}
    return {each: ending.value for each, ending in endings.items() if ending.value is not None}


def compile_record(name: str, key: AttentionKey, bounded: bool, made: Build) -> Record:
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
