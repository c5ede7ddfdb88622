"""Offers the frauds of the self-test to `evoflash evaluate`, each as an edit of an exported kernel.

    python -m scripts.validation.source_edits --out scripts/validation/records/source-edits.json.xz

Every one has to be rejected in the sandbox, so that none would be launched on a GPU; the honest kernels,
with an edit that changes nothing, have to be correct. A fraud that needs another launch is no edit; one
that shows on shapes alone that are too large for the emulator needs a GPU, whose rungs reject it.
Ends with 1 where one slips through.
"""

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from evoflash.app.judge.foreign import JudgeOptions, judge_file
from evoflash.kernels.standalone import export_kernel
from evoflash.problem import Problem
from evoflash.specs import load_gpu
from evoflash.trust.selftest.corpus import Fraud, build_fraud, corpus
from scripts.records import command, read_record, write_record

GPU = "h100"


def edited_export(fraud: Fraud) -> str:
    """The export of its honest kernel with the fraud in it; of a control, with a comment."""
    gpu = load_gpu(GPU)
    honest, _ = build_fraud(replace(fraud, patch=()), gpu)
    last = honest.source[honest.source.rindex("EF_EXPORT_KERNEL") :]
    edits = fraud.patch or ((last, f"// edited\n{last}"),)
    return export_kernel(replace(honest.genome, edits=edits), Problem((fraud.kernel.problem,)), gpu)


def judged(fraud: Fraud, folder: Path, *, seed: int) -> dict[str, Any]:
    """A row of the record."""
    row: dict[str, Any] = {"name": fraud.name, "kernel": fraud.kernel.name, "source": fraud.source}
    if fraud.launch:
        return {**row, "end": "no edit"}
    path = folder / "kernel.cu"
    path.write_text(edited_export(fraud))
    answer = judge_file(path, JudgeOptions(stage="smoke", seed=seed, timeout_s=300.0), db="none.db")
    is_good = answer.is_correct == fraud.is_control
    end = ("accepted" if fraud.is_control else "rejected") if is_good else "WRONG"
    if not is_good and fraud.emulated.skip:  # and no emulated run can show it: the GPU's rungs reject it
        end = "needs a GPU"
    return {
        **row,
        "end": end,
        "status": answer.status,
        "reason": answer.reason[:160],
        "line": next((each["line"] for each in answer.findings if each["severity"] == "error"), None),
        "seconds": round(answer.seconds, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="of frauds, or of their kernels; default: all")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = [
        each for each in corpus() if not options.names or {each.name, each.kernel.name} & {*options.names}
    ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for fraud in chosen:
            rows.append(judged(fraud, Path(folder), seed=options.seed))
            print(*(str(value) for value in rows[-1].values()), sep="  ", flush=True)
    if options.out and options.out.exists():  # of an earlier run, for other names
        again = {(row["kernel"], row["name"]) for row in rows}
        kept = read_record(options.out)["rows"]
        rows = [*(row for row in kept if (row["kernel"], row["name"]) not in again), *rows]
    ends = Counter(row["end"] for row in rows)
    print(dict(ends))
    if options.out:
        write_record(options.out, {"command": command(), "gpu": GPU, "ends": dict(ends), "rows": rows})
    return int(ends["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main())
