"""Searches problems that no row and no archived kernel is of, then compares the winners with the libraries.

    python -m scripts.peers.holdout --rows "b=3,h=12,s=1536,d=64,causal" -o holdout.json
    CUDA_VISIBLE_DEVICES=0 python -m scripts.peers.holdout --part 0/2 -o holdout-0.json       # two GPUs

Each problem is one `evoflash search`, as a user would run it: shipped archive, all families, an empty cache
of compiled kernels, a limit of wall time after which it gets Ctrl-C. Then its winner is checked and timed in
turns with the libraries, as run.py does it; they were made ready before the first search. The file is written
anew after each problem.
"""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evoflash.errors import EvoflashError
from evoflash.evaluation import Evaluation
from evoflash.gpu.launcher import present_spec
from evoflash.gpu.process import outcome as rung_times
from evoflash.store.store import open_store
from scripts import ROOT
from scripts.peers import run as peers
from scripts.peers.rows import ROWS, Ours
from scripts.peers.timing import Setup, compiled

UNSEEN = (
    "b=3,h=12,s=1536,d=64,causal",
    "b=2,h=32,hkv=8,s=3000,d=128,causal",
    "b=32,h=8,s=384,d=64,causal,dtype=bf16",
    "b=1,h=24,s=6144,d=128",
    "b=6,h=20,s=700,d=64",
    "b=1,h=40,hkv=10,sq=777,skv=5000,d=128,causal",
    "b=5,h=16,s=1280,d=128,dtype=bf16",
    "b=8,h=32,hkv=4,sq=1,skv=6000,d=128",
)
_PIPES: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
_GRACE_S = 20.0  # what a search that was told to stop may take for it


def searched(row: str, options: argparse.Namespace, folder: Path) -> tuple[tuple[Ours, ...], dict[str, Any]]:
    """One search from nothing: its winner, and what it spent."""
    db = folder / "search.db"
    began_s = time.monotonic()
    words, variables = command(row, options, db), environment(folder, options)
    process = subprocess.Popen(words, cwd=ROOT, env=variables, text=True, preexec_fn=_hears_ctrl_c, **_PIPES)
    is_stopped, said = _waited(process, limit_s=options.limit)
    spent = {"wall_s": round(time.monotonic() - began_s, 1), "exit_code": process.returncode}
    if process.returncode:
        spent["reason"] = said
    if not db.exists():
        return (), {**spent, "reason": said, "stopped": is_stopped}
    winner, known = what_it_did(str(db))
    if winner is None:
        return (), {**spent, **known, "reason": said, "stopped": is_stopped}
    ours = Ours(winner.genome, winner.score_us, "the search for this problem")
    return (ours,), {**spent, **known, "stopped": is_stopped, "found_us": winner.score_us}


def _hears_ctrl_c() -> None:
    """What a script starts with & ignores Ctrl-C, and so would everything that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def command(row: str, options: argparse.Namespace, db: Path) -> list[str]:
    """The search, as a person would type it."""
    words = [sys.executable, "-m", "evoflash", "search", "--problem", row, "--db", str(db)]
    words += options.search_option
    if options.minutes:
        words += ["--minutes", f"{options.minutes:g}"]
    else:
        words += ["--budget", str(options.budget), "--time-limit", f"{options.search_limit:.0f}"]
    return [*words, "--gpu", options.gpu] if options.gpu else words


def environment(folder: Path, options: argparse.Namespace) -> dict[str, str]:
    """An empty cache; and modules from where the option says, since a user need not have every library."""
    found = {**os.environ, "EVOFLASH_CACHE_DIR": str(folder / "cache"), "EVOFLASH_QUIET": "1"}
    if options.search_pythonpath is not None:
        found["PYTHONPATH"] = options.search_pythonpath
    return found


def _waited(process: "subprocess.Popen[str]", *, limit_s: float) -> tuple[bool, str]:
    """Whether it had to be stopped, and the last line that it said."""
    is_stopped = False
    try:
        _, said = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        is_stopped = True
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
    return is_stopped, (said.strip().splitlines() or ["it said nothing"])[-1]


def what_it_did(db: str) -> tuple[Evaluation | None, dict[str, Any]]:
    """The best of the search in the database, its evaluations by outcome, and its seconds by rung."""
    with open_store(db, read_only=True) as store:
        (run,) = store.runs()
        history = [evaluation for _, evaluation in store.history(run)]
        winner, spent = store.best_of(run), store.spent_budget(run)
    counted = [e for e in history if not e.duplicate_of]
    seconds = {"compile": sum(build.compile_s for e in counted for build in e.builds)}
    for rung, took_s in (pair for e in counted for pair in rung_times.seconds_by_rung(e).items()):
        seconds[rung] = seconds.get(rung, 0.0) + took_s
    return winner, {
        "spent": spent,
        "statuses": dict(Counter(str(e.status) for e in counted)),
        "families": dict(Counter(e.genome.family for e in counted)),
        "seconds_by_rung": {rung: round(s, 1) for rung, s in seconds.items()},
    }


def compare(row: str, ours: tuple[Ours, ...], process: peers.Held, table: peers.Table) -> list[str]:
    """Check and time the winner in turns with the libraries; the row again where a library ended that."""
    process.rows[row] = ours
    making = process.pool.submit(compiled, row, ours, process.setup, timeout_s=table.options.row_limit)
    ending = peers.answer_of(making)
    if ending.value is None:
        table.keep(row, {"row": row, "failure": f"not compiled: {ending.reason}"})
        return []
    process.jobs[row] = ending.value
    return peers.run(row, process, table)


def measure(rows: Sequence[str], table: peers.Table, setup: Setup) -> None:
    """Make the libraries ready for every problem, then search and compare one after the other."""
    with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
        held = {row: started(row, table, setup, Path(folder) / str(at)) for at, row in enumerate(rows)}
        try:
            for process in held.values():
                peers.made(process, table)
            print(f"ready after {time.monotonic() - table.began_s:.0f} s", flush=True)
            for row in rows:
                ours = _ours(row, table)
                if ours:
                    _until_compared(row, ours, held, table, setup, Path(folder))
        finally:
            for process in held.values():
                process.pool.close()


def started(row: str, table: peers.Table, setup: Setup, notes: Path) -> peers.Held:
    """A process that makes the libraries ready for a problem, but those that ended one before."""
    notes.touch()
    libraries = tuple(name for name in setup.libraries if name not in table.lost[row])
    own = replace(setup, libraries=libraries, notes=str(notes))
    return peers.start({row: ()}, own, limit_s=max(1.0, table.left_s()))


def _ours(row: str, table: peers.Table) -> tuple[Ours, ...]:
    """What the search found; nothing, and a line in the table, where it found none or was not begun."""
    if table.left_s() < table.options.limit + table.options.least:
        table.keep(row, {"row": row, "failure": "not begun: the time was over"})
        return ()
    with tempfile.TemporaryDirectory(prefix="evoflash-holdout-") as folder:
        ours, search = searched(row, table.options, Path(folder))
    print(f"{row}: {search}", flush=True)
    table.extra[row] = {"search": search}
    if not ours:
        table.keep(row, {"row": row, "failure": f"the search found nothing: {search.get('reason')}"})
    return ours


def _until_compared(
    row: str,
    ours: tuple[Ours, ...],
    held: dict[str, peers.Held],
    table: peers.Table,
    setup: Setup,
    folder: Path,
) -> None:
    """Compare; where a library took the process down, again without it."""
    for number in range(peers.TRIES):
        if held[row].ended:
            held[row] = started(row, table, setup, folder / f"{len(held)}-{number}-{len(table.rows)}")
            peers.made(held[row], table)
        if not held[row].ended and not compare(row, ours, held[row], table):
            return
    reasons = table.lost[row].values() or [table.rows.get(row, {}).get("failure", "")]
    table.keep(row, {"row": row, "failure": f"no comparison: {'; '.join(reasons)}"})


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    peers.add_timing_options(parser, UNSEEN, time_limit_s=590.0, least_s=20.0)
    parser.add_argument("--gpu", default="", help="as evoflash search; default: the one present")
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--minutes", type=float, help="of each search, in the place of a budget")
    parser.add_argument("--limit", type=float, default=350.0, help="seconds of wall time of a search in all")
    parser.add_argument("--search-limit", type=float, default=230.0, help="of it before the final timing")
    parser.add_argument("--search-option", action="append", default=[], help="a further word for the search")
    parser.add_argument("--search-pythonpath", help="PYTHONPATH of the search; default: this process's")
    return parser.parse_args()


def part_of(rows: Sequence[str], part: str) -> list[str]:
    """The rows of "0/2" or "1/2", dealt out in turn."""
    which, _, parts = part.partition("/")
    return list(rows[int(which) :: int(parts)])


def main() -> int:
    """Search, compare, write; 1 where a problem has no figures."""
    options, began_s = arguments(), time.monotonic()
    spec, seed = present_spec(None), secrets.randbits(32) if options.seed is None else options.seed
    rows = part_of(options.rows.split(), options.part)
    if seen := set(rows) & set(ROWS):
        sys.exit(f"holdout: {', '.join(seen)} is a row of the anchors: choose others.")
    setup = Setup(spec, seed, tuple(options.libraries.split(",")), peers.rounds(options), notes="")
    head = {**peers.head(options, spec, seed), "made_by": "scripts.peers.holdout", "limit_s": options.limit}
    head["budget"], head["minutes"] = options.budget, options.minutes
    table = peers.Table(options, head, {row: {} for row in rows}, began_s)
    measure(rows, table, setup)
    done = sum(not each.get("failure") for each in table.rows.values())
    print(f"{done} of {len(rows)} problems in {time.monotonic() - began_s:.0f} s: {options.output}")
    return int(done < len(rows))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvoflashError as error:
        sys.exit(f"holdout: {error}")
