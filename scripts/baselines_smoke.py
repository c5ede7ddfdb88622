"""Every installed baseline on three shapes of a GPU: imported, run, judged and timed; what is absent and why.

    python scripts/baselines_smoke.py --only sdpa_flash,fa4,fa4_tuned -o baselines.json

Each library has a process of its own, so that one that dies is seen by its name. The file is written after
each; at the time limit what is missing stays so.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from evoflash.attention.workload import Workload
from evoflash.baselines import NAMES, BaselineAbsentError, BaselineFailedError, baseline
from evoflash.commands.baselines.report import chosen
from evoflash.cuda.launcher import present_spec
from evoflash.errors import EvoflashError
from evoflash.gpu import GpuSpec
from evoflash.gpu_process.checks import of_timed
from evoflash.isolation import IsolatedPool
from evoflash.problem import parse_problem
from evoflash.timing.benchmark import Bench, measure
from evoflash.timing.protocols import efforts_of

# Short and full; longer keys than queries under a causal mask with grouped heads; two long sequences.
SHAPES = ("mission", "b=2,h=8,hkv=2,sq=384,skv=640,d=128,dtype=bf16,causal", "b=2,h=16,s=4096,d=128,causal")


def main() -> None:
    """Parse, run, print, write."""
    options = _options()
    spec, began_s, records = present_spec(None), time.monotonic(), []
    for name in chosen(options.only):
        with IsolatedPool(1) as pool:
            for workload in (parse_problem(shape).workloads[0] for shape in options.shapes):
                left_s = options.time_limit - (time.monotonic() - began_s)
                if left_s < options.least:
                    sys.exit(f"stopped at the time limit, before {name} on {workload}")
                ending = pool.submit(tried, name, workload, spec, timeout_s=left_s).result()
                found = ending.value or {"state": "died", "reason": ending.reason}
                records.append({"name": name, "workload": str(workload)} | found)
                print(_line(records[-1]), flush=True)
                if options.output:
                    whole = {"gpu": spec.name, "records": records}
                    options.output.write_text(json.dumps(whole, indent=1) + "\n")


def tried(name: str, workload: Workload, spec: GpuSpec) -> dict[str, Any]:
    """In a process of its own: the library's time and the verdict on its output."""
    began_s = time.monotonic()
    bench = Bench(workload, spec=spec, seed=1)
    try:
        contender = baseline(name, bench)
        way, effort = efforts_of(bench.ways)[0]
        timing, _ = measure(contender, bench, way, effort=effort)
        verdict = of_timed(contender, bench, seed=1)
    except BaselineAbsentError as absent:
        return {"state": "absent", "reason": str(absent)}
    except BaselineFailedError as failed:
        return {"state": "failed", "reason": str(failed)}
    return {
        "state": "right" if verdict.passed else "WRONG",
        "reason": verdict.reason,
        "rel_l2": verdict.rel_l2,
        "protocol": timing.protocol,
        "us": timing.median_us,
        "sm_clock_mhz": timing.sm_clock_mhz,
        "environment": contender.environment,
        "seconds": round(time.monotonic() - began_s, 1),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help=f"of {','.join(NAMES)}; default: all")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="problems of one workload each")
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds in all")
    parser.add_argument("--least", type=float, default=15.0, help="seconds left below which none is begun")
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def _line(record: dict[str, Any]) -> str:
    parts = " ".join(f"{key}={value}" for key, value in record.get("environment", {}).items())
    time_us = f"{record['protocol']} {record['us']:.2f} us in {record['seconds']} s" if "us" in record else ""
    head = f"{record['state']:7} {record['name']:15} {record['workload']}"
    return f"{head}: {time_us} {record['reason']} {parts}"


if __name__ == "__main__":
    try:
        main()
    except EvoflashError as error:
        sys.exit(str(error))
