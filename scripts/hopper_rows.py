"""Searches rows of facts/h200-anchors.md, one after the other, and lists the fastest kernel per row.

Each row is a search of its own (`evoflash search`), so that everything found is in the database, continues
where it stopped, and was checked and timed as any candidate is. The file is written anew after each row.

    python scripts/hopper_rows.py --budget 60 --time-limit 540 --db /root/out/rows.db -o /root/out/rows.json
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROWS = (
    "s2k_d64",
    "s2k_d128",
    "s2k_d128,causal",
    "mission",
    "s8k_d64",
    "s4k_d128",
    "gqa4k_d128,causal",
    "short128",
    "decode8k",
)
_LEAST_S = 20.0  # less than this is not worth starting a row in


def searched(row: str, options: argparse.Namespace, *, limit_s: float) -> dict[str, Any]:
    """One row's outcome: its fastest correct kernel, or why there is none."""
    command = [sys.executable, "-m", "evoflash", "search", "--json", "-q"]
    command += ["--gpu", options.gpu, "--problem", row, "--db", options.db]
    command += ["--family", options.family] if options.family else []
    command += ["--budget", str(options.budget), "--time-limit", f"{limit_s:.0f}"]
    command += ["--seed", str(options.seed)]
    if options.evaluator:
        command += ["--evaluator", options.evaluator]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        return outcome(row, json.loads(done.stdout))
    except json.JSONDecodeError:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}, nothing said"]
        return {"row": row, "reason": lines[-1]}


def outcome(row: str, said: dict[str, Any]) -> dict[str, Any]:
    """What is kept of the JSON that a search prints."""
    best = said.get("best")
    if not best:
        return {"row": row, "spent": said.get("spent", 0), "reason": "no correct kernel"}
    return {
        "row": row,
        "spent": said["spent"],
        "basis": best["basis"],
        "us": best["score_us"],
        "genome": best["genome"],
        "registers": [build["registers"] for build in best["builds"]],
        "comparisons": said["comparisons"],
    }


def line(found: dict[str, Any]) -> str:
    """A row as one line of the summary."""
    if "us" not in found:
        return f"{found['row']:24} {found['reason']}"
    values = " ".join(f"{name}={value}" for name, value in dict(found["genome"]["values"]).items())
    return f"{found['row']:24} {found['us']:9.2f} us {found['basis']}, {found['spent']} tried: {values}"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default=" ".join(ROWS), help="problems, spaces between")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--family", default="", help="default: those that fit the GPU, by what each brings")
    parser.add_argument("--budget", type=int, default=60, help="distinct kernels a row")
    parser.add_argument("--time-limit", type=float, default=540.0, help="seconds, for all rows together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--evaluator", default="", help="gpu or emulated; default: as evoflash search")
    parser.add_argument("--db", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def main() -> int:
    """Search row after row; what is left of the time is shared by the rows that are left."""
    options, started = arguments(), time.monotonic()
    rows, found = options.rows.split(), []
    for at, row in enumerate(rows):
        left_s = options.time_limit - (time.monotonic() - started)
        if left_s < _LEAST_S:
            break
        found.append(searched(row, options, limit_s=left_s / (len(rows) - at)))
        print(line(found[-1]), flush=True)
        record = {"command": " ".join(sys.argv), "took_s": time.monotonic() - started, "rows": found}
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if found and all("us" in each for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
