"""Where the seconds of `evoflash search` go, by stage and by rung, and how busy the GPU is meanwhile.

A GPU is busy by two accounts: the SMs' (nvidia-smi dmon), and the share of the wall time in which a process
of it has a candidate or the finals (`gpu_process_busy`, one for each GPU; `--option --gpus=all` has several).

Each problem is searched by the command itself, in a process of its own, with an empty cache and a database of
its own; a few functions are wrapped so that they note when they were called. One JSON for all problems.

    python -m scripts.searches.stages mission b=2,h=12,s=384,d=64,causal,dtype=bf16 -o stages.json
"""

import argparse
import functools
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evoflash.gpu.launcher import devices, present_gpu
from scripts.records import command

Row = dict[str, Any]
_WARM_S = 5.0  # the search proper is what comes after so many seconds


# ---- one command, in a process of its own


def leg(log: Path, arguments: list[str]) -> None:
    """evoflash's command line as it is; what is interesting is noted with the time."""
    from evoflash.app.search import plan
    from evoflash.cli import program as cli
    from evoflash.evaluators import finals as finals_phase
    from evoflash.evaluators.measured import MeasuredEvaluator
    from evoflash.gpu.process.lane import Lane
    from evoflash.gpu.process.worker import GpuWorker
    from evoflash.store.store import Store

    file = log.open("a", buffering=1)

    def note(name: str, began_s: float, **more: Any) -> None:
        row = {"name": name, "at_s": began_s, "took_s": time.monotonic() - began_s, **more}
        file.write(json.dumps(row) + "\n")

    def noted(owner: Any, name: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def wrapper(*given: Any, **named: Any) -> Any:
            began_s = time.monotonic()
            try:
                return function(*given, **named)
            finally:
                note(name, began_s)

        setattr(owner, name, wrapper)

    def noted_until_done(owner: Any, name: str) -> None:
        """As `noted`, of what returns a future: it took until that was done."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def wrapper(*given: Any, **named: Any) -> Any:
            began_s = time.monotonic()
            future = function(*given, **named)
            future.add_done_callback(lambda _: note(name, began_s))
            return future

        setattr(owner, name, wrapper)

    add_all, gpus = Store.add_all, dict[int, int]()

    def add_all_and_say(self: Store, run: Any, outcomes: Any) -> None:
        began_s = time.monotonic()
        add_all(self, run, outcomes)
        note("add_all", began_s)
        for proposal, evaluation in outcomes:
            status = "duplicate" if evaluation.duplicate_of else str(evaluation.status)
            row = {"status": status, "rung": str(evaluation.rung), "us": evaluation.score_us}
            spent = dict(evaluation.environment)
            note("outcome", time.monotonic(), **row, operator=proposal.operator, spent=spent)

    with_room = Lane.with_room

    def with_room_and_say(self: Lane, *given: Any, **named: Any) -> Any:
        began_s, gpu = time.monotonic(), gpus.setdefault(id(self._standbys), len(gpus))
        try:
            return with_room(self, *given, **named)
        finally:
            note("in a GPU process", began_s, gpu=gpu)

    note("imported", float(os.environ["STAGES_BEGAN_S"]))
    noted(plan, "plan")
    noted(MeasuredEvaluator, "__init__")
    noted(MeasuredEvaluator, "collect")
    noted(MeasuredEvaluator, "in_turns")
    noted(finals_phase, "promote")
    noted(finals_phase, "proven")
    noted(importlib.import_module("evoflash.search"), "_fill")  # evoflash.search itself is a function
    start = GpuWorker.__init__

    def start_and_say(self: GpuWorker, *given: Any, **named: Any) -> None:
        began_s = time.monotonic()
        start(self, *given, **named)
        for gpu in self._gpus:
            gpu.lanes[0].process.references.add_done_callback(lambda _: note("references", began_s))

    GpuWorker.__init__ = start_and_say  # type: ignore[method-assign]
    for owner, name in ((MeasuredEvaluator, "_preparing"), (GpuWorker, "screen"), (GpuWorker, "submit")):
        noted_until_done(owner, name)
    Store.add_all = add_all_and_say  # type: ignore[method-assign]
    Lane.with_room = with_room_and_say  # type: ignore[method-assign]
    sys.argv = ["evoflash", *arguments]
    try:
        cli.main()
    finally:
        mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        cpu_s = [round(each.ru_utime + each.ru_stime, 2) for each in (mine, theirs)]
        note("ended", float(os.environ["STAGES_BEGAN_S"]), cpu_s=cpu_s)


# ---- the measurement


def measured(problem: str, options: list[str], folder: Path) -> Row:
    """One search."""
    log, said = folder / "notes", folder / "said"
    environment = {**os.environ, "EVOFLASH_CACHE_DIR": str(folder / "cache"), "PYTHONUNBUFFERED": "1"}
    watched = devices() if any("--gpus" in option for option in options) else (present_gpu().pci_bus_id,)
    busy = subprocess.Popen(
        ["nvidia-smi", "dmon", "-s", "u", "-d", "1", "-i", ",".join(watched)],
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    began_s = time.monotonic()
    words = [sys.executable, "-m", "scripts.searches.stages", "--leg", str(log), "search"]
    words += ["--problem", problem, "--db", str(folder / "a.db"), *options]
    with said.open("w") as file:
        code = subprocess.run(
            words, env=environment | {"STAGES_BEGAN_S": str(began_s)}, stdout=file, stderr=file
        ).returncode
    took_s = time.monotonic() - began_s
    busy.terminate()
    out, _ = busy.communicate()
    notes = [json.loads(line) for line in log.read_text().splitlines()]
    return {
        "problem": problem,
        "code": code,
        "wall_s": round(took_s, 2),
        **digest(notes, began_s, sm_of(out)),
        "gpu_process_busy": [round(busy_s(notes, gpu) / took_s, 3) for gpu in range(len(watched))],
        "said": said.read_text().splitlines()[-25:],
    }


def sm_of(dmon: str) -> list[int]:
    """The SM column's mean over the GPUs, one number a second."""
    rows = (line.split() for line in dmon.splitlines() if line.strip() and not line.startswith("#"))
    found = [(row[0], int(row[1])) for row in rows if row[1:] and row[1].isdigit()]  # its end may cut a line
    count = len({gpu for gpu, _ in found})
    each = [found[at : at + count] for at in range(0, len(found), count or 1)]
    return [round(statistics.mean(busy for _, busy in second)) for second in each]


def digest(notes: list[Row], began_s: float, sm: list[int]) -> Row:
    """Stages in seconds since the command, outcomes, seconds by rung, SM busy."""
    named = {name: [n for n in notes if n["name"] == name] for name in {n["name"] for n in notes}}
    adds = named.get("outcome", [])
    if not adds:
        return {"stages": {n["name"]: n["at_s"] - began_s for n in notes}}
    ends = [n["at_s"] + n["took_s"] - began_s for n in adds]
    last = ends[-1]
    stages = {
        "imported": _end(named, "imported", began_s),
        "planned": _end(named, "plan", began_s),
        "evaluator made": _end(named, "__init__", began_s),
        "GPU process ready": _end(named, "references", began_s),
        "first kernel prepared": round(
            min(n["at_s"] + n["took_s"] for n in named["_preparing"]) - began_s, 2
        ),
        "first outcome": round(ends[0], 2),
        "last outcome": round(last, 2),
        "promoted": _end(named, "promote", began_s),
        "timed in turns": _end(named, "in_turns", began_s),
        "proven": _end(named, "proven", began_s),
        "ended": _end(named, "ended", began_s),
    }
    proper = sm[int(_WARM_S) : int(last)]
    totals = {
        name.strip("_"): {"n": len(named[name]), "s": round(sum(n["took_s"] for n in named[name]), 2)}
        for name in ("_fill", "_preparing", "screen", "submit", "collect", "add_all")
        if name in named
    }
    return {
        "stages": stages,
        "outcomes": dict(Counter(n["status"] for n in adds)),
        "rate": round(len(adds) / (last - stages["evaluator made"]), 2),
        "sm_busy": round(statistics.mean(proper), 1) if proper else None,
        "sm": sm,
        "totals": totals,
        "cpu_s": dict(zip(("itself", "its processes"), named["ended"][0]["cpu_s"], strict=True)),
        "by_status": {status: spent_by(adds, status) for status in sorted({n["status"] for n in adds})},
        "outcome_ends": [round(end, 2) for end in ends],
        "statuses": [n["status"][:2] for n in adds],
        "us": [n["us"] and round(n["us"], 3) for n in adds],
    }


def busy_s(notes: list[Row], gpu: int) -> float:
    """Seconds in which at least one process of the GPU had something to do."""
    spans = sorted((n["at_s"], _ends(n)) for n in notes if n.get("gpu") == gpu)
    total_s, until_s = 0.0, 0.0
    for begun_s, end_s in spans:
        total_s += max(0.0, end_s - max(begun_s, until_s))
        until_s = max(until_s, end_s)
    return total_s


def spent_by(adds: list[Row], status: str) -> Row:
    """Medians of the seconds on each rung."""
    spent = [n["spent"] for n in adds if n["status"] == status]
    found: Row = {}
    for rung in ("smoke_s", "correctness_s", "timing_s", "lost_s"):
        values = [float(each[rung]) for each in spent if rung in each]
        if values:
            found[rung] = {"n": len(values), "median": round(statistics.median(values), 4)}
            found[rung]["sum"] = round(sum(values), 2)
    return found


def _ends(note: Row) -> float:
    return float(note["at_s"] + note["took_s"])


def _end(named: dict[str, list[Row]], name: str, began_s: float) -> float | None:
    return round(named[name][-1]["at_s"] + named[name][-1]["took_s"] - began_s, 2) if name in named else None


def main() -> int:
    """Search, print, write; 1 where a search failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--option", action="append", default=[], help="a further word for the search")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    rows = []
    for problem in args.problems:
        with tempfile.TemporaryDirectory(prefix="stages-") as folder:
            options = ["--budget", str(args.budget), *args.option]
            rows.append(measured(problem, options, Path(folder)))
        short = {k: v for k, v in rows[-1].items() if k not in ("sm", "outcome_ends", "statuses", "us")}
        print(json.dumps(short, indent=1), flush=True)
        if args.output:
            args.output.write_text(json.dumps({"made_by": command(), "searches": rows}) + "\n")
    return int(any(row["code"] for row in rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--leg"]:
        leg(Path(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(main())
