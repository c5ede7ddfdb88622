"""Offers the frauds of the self-test to `evoflash evaluate`, each as an edit of an exported kernel.

    python -m scripts.validation.source_edits --out scripts/validation/records/source-edits.json.xz
    python -m scripts.validation.source_edits --foreign --out scripts/validation/records/foreign-kernels.json

Every one has to be rejected in the sandbox, so that none would be launched on a GPU; the honest kernels,
with an edit that changes nothing, have to be correct. A fraud that needs another launch is no edit; one
that shows on shapes alone that are too large for the emulator needs a GPU, whose rungs reject it.
With --foreign the kernels of tests/app/judge/test_foreign.toml and the edited honest ones instead, each by
the command as a user types it, but for bubblewrap, with the seconds from its start to its answer and those
that it took of the processors; the first also builds the emulator.
Ends with 1 where one slips through.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
# The command, in the sandbox that the seconds of its processes can be counted of.
_BY_LANDLOCK = """\
from evoflash.cli.program import main
from evoflash.sandbox import boundary
works = boundary._works
boundary._works = lambda kind: kind == "landlock" and works(kind)
main()
"""
_MOST_SHORT = 300  # lines
FOREIGN = Path("tests/app/judge/test_foreign.toml")


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


def foreign_text(
    tables: Mapping[str, Any],
    *,
    base: str | None = None,
    body: str | None = None,
    above: str | None = None,
    edits: Sequence[Sequence[str]] = (),
) -> str:
    """A kernel of the tables: one statement of its own for every thread, or a whole kernel, edited."""
    text: str = tables[base] if base else tables["frame"].replace("BODY", body or "")
    text = text.replace('#include "ef.h"\n', f'#include "ef.h"\n{above or ""}\n')
    for before, after in edits:
        assert before in text, before
        text = text.replace(before, after)
    return text


def _foreign_kernels() -> Iterator[tuple[str, str, str]]:
    """Names, texts and statuses: of the tables, and of honest exports that were edited, which are long."""
    tables = tomllib.loads(FOREIGN.read_text(encoding="utf-8"))
    for case in (each for rows in tables.values() if isinstance(rows, list) for each in rows):
        parts = {key: value for key, value in case.items() if key in ("base", "body", "above", "edits")}
        yield case["id"], foreign_text(tables, **parts), case.get("status", "")
    for fraud in corpus():
        if fraud.is_control and not fraud.launch:
            yield f"{fraud.kernel.name}, {fraud.name}", edited_export(fraud), "correct"


def foreign_rows(folder: Path, names: Sequence[str], *, seed: int) -> Iterator[dict[str, Any]]:
    """What the command says of each kernel of the tables; one without a status there is not correct."""
    for name, text, wanted in _foreign_kernels():
        if names and name not in names:
            continue
        path = folder / "kernel.cu"
        path.write_text(text.replace("FOLDER", str(folder)))
        words = ["-c", _BY_LANDLOCK, "evaluate", str(path), "--json", "--seed", str(seed)]
        begun, times = time.monotonic(), os.times()
        done = subprocess.run([sys.executable, *words], capture_output=True, check=False)
        took, after = time.monotonic() - begun, os.times()
        answer = json.loads(done.stdout)
        is_as_wanted = answer["status"] == wanted if wanted else answer["status"] != "correct"
        yield {
            "name": name,
            "lines": len(text.splitlines()),
            "wanted": wanted or "not correct",
            "status": answer["status"],
            "end": "as it must be" if is_as_wanted and os.listdir(folder) == [path.name] else "WRONG",
            "seconds": round(took, 2),
            "cpu_seconds": round(sum(after[2:4]) - sum(times[2:4]), 2),
        }


def spread(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Of seconds: median and nine tenths."""
    found = {}
    for name in ("seconds", "cpu_seconds"):
        values = [row[name] for row in rows]
        found[name] = [round(statistics.quantiles(values, n=10)[at], 2) for at in (4, 8)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="of frauds, or of their kernels; default: all")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--foreign", action="store_true", help="The kernels of the judge's tests instead.")
    options = parser.parse_args()
    if options.foreign:
        return judge_foreign(options.names, options.out, seed=options.seed)
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


def judge_foreign(names: Sequence[str], out: Path | None, *, seed: int) -> int:
    """1 where a verdict is another than it must be."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        os.environ["EVOFLASH_CACHE_DIR"] = cache  # in which no kernel is compiled yet
        for row in foreign_rows(Path(folder), names, seed=seed):
            rows.append(row)
            print(*row.values(), sep="  ", flush=True)
    ends = dict(Counter(row["end"] for row in rows))
    groups = {f"up to {_MOST_SHORT} lines": range(_MOST_SHORT + 1), "longer": range(_MOST_SHORT + 1, 1 << 20)}
    kept = {name: [row for row in rows if row["lines"] in lines] for name, lines in groups.items()}
    found = {name: spread(each) for name, each in kept.items() if len(each) > 1}
    print(ends, "p50 and p90:", found)
    if out:
        write_record(out, {"command": command(), "ends": ends, "p50_and_p90": found, "rows": rows})
    return int("WRONG" in ends)


if __name__ == "__main__":
    sys.exit(main())
