"""The planted faults of tests/faults under compute-sanitizer on a GPU, beside what the emulator says of them.

Every fault is compiled with line tables and runs once alone and once under each tool (memcheck, racecheck,
initcheck, synccheck), a process each; so does every kernel without its faults, for the tools' false reports.
The emulator runs the same texts on the same inputs. The numbers go to a file, and from there into
docs/emulator.md (scripts.pages.emulator). It takes about 200 s on four H200s.

    python -m scripts.sanitizer.run -o scripts/sanitizer/records/sanitizer-h200.json --raw raw.json.gz
    python -m scripts.sanitizer.run -o scripts/sanitizer/records/sanitizer-h200.json --from raw.json.gz
    python -m scripts.sanitizer.run --right -o scripts/sanitizer/records/families-h200.json  # a minute on one
    python -m scripts.sanitizer.run --dry-run                 # needs no GPU
"""

import argparse
import gzip
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from evoflash.errors import EvoflashError
from evoflash.isolation import IsolatedPool
from evoflash.kernels import gxx
from evoflash.kernels.nvrtc import nvrtc_version
from scripts.command_line import command
from scripts.sanitizer import cases
from scripts.sanitizer import digest as sanitizer_digest
from scripts.sanitizer import jobs as sanitizer_jobs
from scripts.sanitizer import outcomes as sanitizer_outcomes
from scripts.sanitizer.cases import Key
from scripts.sanitizer.processes import (
    PLAIN,
    TOOLS,
    Bench,
    Task,
    build_runner,
    find_sanitizer,
    present_gpus,
    slots,
)

Record = dict[str, Any]

PREPARE_S, EMULATE_S, JUDGE_S, RUNTIME_S = 60.0, 60.0, 30.0, 120.0
KERNEL_S = 10.0  # the runner's own limit for a job's kernels
ALONE = 3  # right kernels that are timed with nothing beside them
ENDLESS = ("DEADLOCK", "LIVELOCK", "TIMEOUT")  # kinds of faults that hang a GPU


_EMPTY: Record = {"text": "", "fault_lines": [], "compile_s": None, "error": "not compiled", "emulated": {}}


class Session:
    """Everything that is known of each case so far; several threads add to it."""

    def __init__(self, keys: Sequence[Key], folder: Path) -> None:
        self.keys = keys
        self.folders = {key: folder / f"{number:03}" for number, key in enumerate(keys)}
        self.records: dict[Key, Record] = {
            key: {**_EMPTY, "key": asdict(key), "kind": cases.expected(key), "runs": {}, "alone": {}}
            for key in keys
        }
        self.meta: Record = {}
        self._started, self._lock = time.monotonic(), threading.Lock()
        self._key_of = {path: key for key, path in self.folders.items()}

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def say(self, what: str) -> None:
        print(f"{self.elapsed_s():6.1f} s  {what}", file=sys.stderr, flush=True)

    def add(self, where: str) -> Callable[[Task, Record], None]:
        """For Bench.run: keep a run under `where`."""

        def keep(task: Task, run: Record) -> None:
            with self._lock:
                self.records[self._key_of[task.folder]][where][task.tool] = run

        return keep

    def in_pool(
        self, pool: IsolatedPool, function: Any, given: dict[Key, tuple[Any, ...]], limit_s: float
    ) -> Any:
        """function(key, *given[key]) in processes, by key; where one was lost, {"error": reason}."""
        futures = {key: pool.submit(function, key, *more, timeout_s=limit_s) for key, more in given.items()}
        values = {}
        for key, future in futures.items():
            try:
                ending = future.result()
                values[key] = ending.value if ending.value is not None else {"error": ending.reason}
            except Exception as error:  # a case that does not fit the corpus must not cost the others
                values[key] = {"error": f"{type(error).__name__}: {error}"[:300]}
        return values


# ---- the steps


def prepare(session: Session, pool: IsolatedPool) -> None:
    """Compile every case and write its job."""
    values = session.in_pool(
        pool, _write_job, {key: (str(session.folders[key]),) for key in session.keys}, PREPARE_S
    )
    for key, value in values.items():
        session.records[key].update(value)
    failed = [f"{key.name}: {value['error']}" for key, value in values.items() if value["error"]]
    session.say(f"compiled {len(values) - len(failed)} of {len(values)} cases")
    for line in failed:
        session.say(f"not compiled: {line}")


def _write_job(key: Key, folder: str) -> Record:
    return sanitizer_jobs.write_job(key, Path(folder), limit_s=KERNEL_S)


def emulate(session: Session, pool: IsolatedPool) -> None:
    """The emulator's word on every case."""
    gxx.runtime()
    values = session.in_pool(pool, sanitizer_outcomes.emulated, {key: () for key in session.keys}, EMULATE_S)
    for key, value in values.items():
        session.records[key]["emulated"] = value
    as_expected = sum(bool(value.get("found")) for key, value in values.items() if key.fault)
    session.say(
        f"the emulator reported {as_expected} of {sum(bool(key.fault) for key in session.keys)} faults"
    )


def judge(session: Session, pool: IsolatedPool) -> None:
    """Whether the outputs of the runs alone are right; before the tools' runs overwrite them."""
    ended = {
        key: (str(session.folders[key]), str(session.folders[key.right]))
        for key in session.keys
        if session.records[key]["runs"].get(PLAIN, {}).get("code") == 0
    }
    for key, value in session.in_pool(pool, _wrong, ended, JUDGE_S).items():
        session.records[key]["wrong"] = value["error"] if isinstance(value, dict) else value


def _wrong(key: Key, folder: str, right: str) -> str:
    return sanitizer_outcomes.wrong(key, Path(folder), Path(right))


def on_gpus(session: Session, bench: Bench, pool: IsolatedPool, gpus: list[int], per_gpu: int) -> None:
    """Alone; then some right kernels under the tools with nothing beside them; then all under all tools."""
    ready = [key for key in session.keys if not session.records[key]["error"]]
    # What hangs, hangs a GPU's other processes too: last.
    ready.sort(key=lambda key: session.records[key]["kind"] in ENDLESS)
    bench.run(_tasks(session, ready, (PLAIN,)), slots(gpus, per_gpu), session.add("runs"))
    session.say("plain runs done")
    judge(session, pool)
    rights = [key for key in ready if not key.fault]
    quiet = list({key.kernel: key for key in reversed(rights)}.values())[-ALONE:]
    bench.run(_tasks(session, quiet, (PLAIN, *TOOLS)), slots(gpus, 1), session.add("alone"))
    session.say("quiet runs done")
    hung = [key for key in ready if session.records[key]["runs"].get(PLAIN, {}).get("code") in (None, 3)]
    faults = [key for key in ready if key.fault and key not in hung]
    random.Random(0).shuffle(faults)  # a deadline then leaves out some of each kernel's, not all of some
    order = [*rights, *faults]
    bench.run(_tasks(session, order, tuple(TOOLS)), slots(gpus, per_gpu), session.add("runs"))
    session.say("runs under tools done, but for kernels that hang")
    faulty = [key for key in hung if key.fault]
    bench.run(_tasks(session, faulty, tuple(TOOLS)), slots(gpus, per_gpu), session.add("runs"))
    session.say("all runs done")


def _tasks(session: Session, keys: Sequence[Key], tools: tuple[str, ...]) -> list[Task]:
    return [Task(session.folders[key], tool) for key in keys for tool in tools]


def machine(gpus: list[int], per_gpu: int) -> Record:
    """What the runs ran on."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    version = [find_sanitizer(), "--version"]
    said = [
        subprocess.run(each, capture_output=True, text=True, check=False).stdout for each in (query, version)
    ]
    cpu = next(
        (line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")),
        platform.machine(),
    )
    return {
        "gpu": said[0].splitlines()[0] if said[0] else "",
        "gpus": len(gpus),
        "at_once": len(gpus) * per_gpu,
        "sanitizer": next((line for line in said[1].splitlines() if line.startswith("Version")), ""),
        "cpu": f"{cpu}, {len(os.sched_getaffinity(0))} cores",
        "options": {tool: " ".join(options) for tool, options in TOOLS.items()},
    }


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


# ---- the command


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="the digest: one row for each fault")
    parser.add_argument("--raw", type=Path, help="everything that was said, for --from (.json.gz)")
    parser.add_argument("--from", dest="source", type=Path, help="a file that --raw wrote; runs nothing")
    parser.add_argument("--dry-run", action="store_true", help="compile and emulate; no GPU")
    parser.add_argument(
        "--kernels", default=",".join(cases.kernels()), help="files of tests/faults, commas between"
    )
    parser.add_argument("--right", action="store_true", help="the kernels without their faults alone")
    parser.add_argument("--deadline", type=float, default=200.0, help="seconds after which no run is started")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of one run")
    parser.add_argument("--per-gpu", type=int, default=10, help="runs at once on each GPU")
    parser.add_argument("--no-emulator", action="store_true", help="leave its column empty")
    args = parser.parse_args()
    unknown = set(args.kernels.split(",")) - set(cases.kernels())
    if unknown:
        parser.error(f"tests/faults has no {sorted(unknown)[0]!r}: use {', '.join(cases.kernels())}")
    if not (args.dry_run or args.output):
        parser.error("say where the digest goes: -o FILE")
    return args


def measure(args: argparse.Namespace, folder: Path) -> Record:
    """Run everything, as far as the deadline allows."""
    os.environ["EVOFLASH_CACHE_DIR"] = str(folder / "cache")  # an empty one: g++'s time counts
    keys = cases.keys(tuple(args.kernels.split(",")))
    session = Session([key for key in keys if not (args.right and key.fault)], folder)
    deadline = time.monotonic() + args.deadline
    gpus = [] if args.dry_run else present_gpus()
    runner = build_runner(folder)
    with IsolatedPool(len(os.sched_getaffinity(0))) as pool:
        try:
            if not args.no_emulator:
                pool.submit(gxx.runtime, timeout_s=RUNTIME_S)  # beside NVRTC's work
            prepare(session, pool)
            if not args.no_emulator:
                emulate(session, pool)
            if gpus:
                session.meta = machine(gpus, args.per_gpu)
                bench = Bench(runner, find_sanitizer(), limit_s=args.limit, deadline=deadline)
                on_gpus(session, bench, pool, gpus, args.per_gpu)
        except (Exception, KeyboardInterrupt) as error:  # GPU time is dear: what is known until here is kept
            session.meta["stopped_by"] = f"{type(error).__name__}: {error}"[:300]
            session.say(session.meta["stopped_by"])
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "nvrtc": nvrtc_version(),
        **session.meta,
        "took_s": round(session.elapsed_s(), 1),
        "cases": list(session.records.values()),
    }


def _stored(path: Path) -> Record:
    raw: Record = json.loads(gzip.decompress(path.read_bytes()))
    return raw


def main() -> int:
    """Measure or read, write, print a summary; exit 2 for what cannot be done."""
    args = arguments()
    try:
        if args.source:
            raw = _stored(args.source)
        else:
            with tempfile.TemporaryDirectory(prefix="evoflash-", ignore_cleanup_errors=True) as folder:
                raw = measure(args, Path(folder))
    except EvoflashError as error:
        print(f"sanitizer: {error}", file=sys.stderr)
        return 2
    if args.raw and not args.source:
        args.raw.write_bytes(gzip.compress(json.dumps(raw).encode()))
    digest = sanitizer_digest.digest(raw)
    if args.output:
        args.output.write_text(json.dumps(digest, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(digest["summary"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
