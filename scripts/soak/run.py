"""A long search on the GPU with a tenth of its candidates planted to crash, to hang or to give NaN.

The same `evoflash search` command is started again and again: it is ended by SIGTERM and by kill -9 in turns
after so many new rows, until it has spent its budget. Then the database is held against what the commands had
reported as stored. Prints a summary; exit code 1 when anything was lost or judged wrongly.

    python -m scripts.soak.run --count 1000 --resume-every 150 --db soak.db --time-limit 540 -o soak.json

Cut by its time limit, it says so; the same command with the same database goes on.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.command_line import command
from scripts.soak.account import is_whole, judged, on_the_gpu, seconds, verdicts, whole
from scripts.soak.planting import plant

Row = dict[str, Any]

_LOOK_EVERY_S = 0.1
_GRACE_S = 30.0


# ---- one command, in a process of its own


def leg(log: Path, arguments: list[str]) -> None:
    """evoflash's command line as it is; each row that the store has committed also goes to the log."""
    from evoflash.cli import program as cli
    from evoflash.store.store import Store

    add, name = Store.add, uuid.uuid4().hex

    def add_and_say(self: Store, run: Any, evaluation: Any, proposal: Any) -> None:
        add(self, run, evaluation, proposal)
        with log.open("a") as file:
            line = {"genome": evaluation.genome.id, "leg": name, "at_s": time.monotonic()}
            file.write(json.dumps(line) + "\n")

    Store.add = add_and_say  # type: ignore[method-assign]
    sys.argv = ["evoflash", *arguments]
    cli.main()


@dataclass(frozen=True, slots=True)
class Leg:
    """How one command ended."""

    process: int
    ended_by: str  # "itself", "SIGTERM", "kill -9" or "the time limit"
    code: int
    rows: int
    seconds: float
    last_line: str


def run_leg(log: Path, command: list[str], *, rows: int, stop: signal.Signals, deadline_s: float) -> Leg:
    """Start the command; end it after so many rows, or at the deadline."""
    began_s, before, ended_by = time.monotonic(), len(lines(log)), "itself"
    said = log.with_suffix(".stderr")
    with said.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
    while process.poll() is None:
        time.sleep(_LOOK_EVERY_S)
        if time.monotonic() > deadline_s:
            ended_by, stop = "the time limit", signal.SIGTERM
        elif len(lines(log)) - before >= rows:
            ended_by = {signal.SIGTERM: "SIGTERM", signal.SIGKILL: "kill -9"}[stop]
        if ended_by != "itself":
            end(process, stop)
    last = (said.read_text().strip().splitlines() or [""])[-1]
    new, seconds = len(lines(log)) - before, time.monotonic() - began_s
    return Leg(process.pid, ended_by, process.returncode, new, round(seconds, 2), last)


def end(process: "subprocess.Popen[bytes]", stop: signal.Signals) -> None:
    process.send_signal(stop)
    try:
        process.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:  # a batch system does the same
        process.kill()
        process.wait()


def lines(log: Path) -> list[Row]:
    """What the commands reported as stored; a line that kill -9 cut short is none."""
    if not log.exists():
        return []
    whole = log.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines() if line.endswith("}")]


# ---- the soak


def soak(args: argparse.Namespace) -> Row:
    """Run the commands, then make the account; partial when the time limit cut it."""
    deadline_s = time.monotonic() + args.time_limit
    database = args.db.resolve()
    log = database.with_suffix(".log")
    legs: list[Leg] = []
    earlier = json.loads(args.legs.read_text()) if args.legs.exists() else []
    plant(database.parent / "planted")
    os.environ |= {"EVOFLASH_TEMPLATES": str(database.parent / "planted"), "PYTHONUNBUFFERED": "1"}
    words = [sys.executable, "-m", "scripts.soak.run", "--leg", str(log), "search"]
    words += ["--problem", args.problem]
    words += ["--budget", str(args.count), "--db", str(database), "--seed", str(args.seed), *args.search]
    while not legs or legs[-1].ended_by in ("SIGTERM", "kill -9"):
        stop = (signal.SIGTERM, signal.SIGKILL)[(len(earlier) + len(legs)) % 2]
        legs.append(run_leg(log, words, rows=args.resume_every, stop=stop, deadline_s=deadline_s))
        print(legs[-1], flush=True)
        args.legs.write_text(json.dumps(earlier + [leg_row(each) for each in legs]))
    every = [Leg(**each) for each in json.loads(args.legs.read_text())]
    rows, reported = judged(database), lines(log)
    account = whole(database, rows, reported, args.count)
    return {
        "made_by": command(),
        "problem": args.problem,
        "is_finished": account["spent"] >= args.count,
        "legs": [leg_row(each) for each in every],
        "database": account,
        "verdicts": verdicts(rows),
        "seconds": seconds(reported, sum(each.seconds for each in every)),
        "gpu_seconds": on_the_gpu(rows),
    }


def leg_row(each: Leg) -> Row:
    return {name: getattr(each, name) for name in Leg.__slots__}


def faults_of(result: Row) -> list[str]:
    """What the soak must not show, in words; empty when all is well so far."""
    codes = {"SIGTERM": 143, "kill -9": -signal.SIGKILL, "the time limit": 143, "itself": 0}
    found = [
        f"a command ended with {x['code']}: {x['last_line']}"
        for x in result["legs"]
        if x["code"] not in (codes[x["ended_by"]], 0)  # 0: it had spent the budget before it could be ended
    ]
    found += [] if is_whole(result["database"]) else [f"the database is not whole: {result['database']}"]
    found += [f"judged wrongly: {each}" for each in result["verdicts"]["planted_and_judged_wrongly"]]
    share = result["seconds"]["share_of_wall"]
    return found + ([f"{share:.1%} of the time went to planted candidates"] if share >= 0.2 else [])


def arguments() -> argparse.Namespace:
    """The options of the soak; what follows -- goes to `evoflash search`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="the search's budget")
    parser.add_argument("--problem", default="mission")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume-every", type=int, default=150, metavar="N", help="rows for each command")
    parser.add_argument(
        "--time-limit", type=float, default=540.0, help="seconds for all commands of this call"
    )
    parser.add_argument("--db", type=Path, default=Path("soak.db"), help="beside it: log, legs, families")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("search", nargs="*", help="further options for the search, after --")
    args = parser.parse_args()
    args.db.resolve().parent.mkdir(parents=True, exist_ok=True)
    args.legs = args.db.resolve().with_suffix(".legs")
    return args


def main() -> int:
    """Run, print, write; 1 where something is wrong."""
    args = arguments()
    result = soak(args)
    result["faults"] = faults_of(result)
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + "\n")
    for part in ("database", "seconds", "gpu_seconds", "faults"):
        print(part, json.dumps(result[part], indent=1))
    table = result["verdicts"]
    print("planted", table["planted"], json.dumps(table["by_fault"]))
    print("healthy", json.dumps(table["healthy"]), f"finished: {result['is_finished']}")
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--leg"]:
        leg(Path(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(main())
