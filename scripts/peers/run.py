"""Our fastest kernel for each row of the H200 anchors against the libraries: checked, then timed in turns.

    python -m scripts.peers.run --db rows.db -o scripts/peers/records/peers-h200.json
    CUDA_VISIBLE_DEVICES=0 python -m scripts.peers.run --part 0/2 -o peers-0.json &     # two GPUs of one host
    CUDA_VISIBLE_DEVICES=1 python -m scripts.peers.run --part 1/2 -o peers-1.json & wait

All processes are made ready first, at once: they compile and compute references, and the GPU is busy. Then
one row after another is timed, alone. The file is written anew after each row. A row that fails is a line in
it; a library that takes its process down is left out and the rows are timed again. scripts/pages/h200.py
makes the table of it.
"""

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from evoflash import __version__
from evoflash.errors import EvoflashError
from evoflash.gpu import launcher
from evoflash.gpu.baselines.contender import culprit
from evoflash.gpu.launcher import present_spec
from evoflash.gpu.timing.noise_floor import environment
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels.nvrtc import nvrtc_version
from evoflash.specs import GpuSpec
from scripts.peers.rows import ROWS, Ours, chunks, ours, part_of
from scripts.peers.timing import Job, Setup, Timed, ready, timed
from scripts.records import command, write_record

LIBRARIES = ("sdpa_cudnn", "sdpa_flash", "triton", "fa3", "fa4", "fa4_tuned")
PROTOCOL = (
    "CUDA-graph replay, all contenders in turns in one process in an order drawn for each round, inputs "
    "rotated over at least twice the L2; final-cold: below 0.1 ms; final-cold-boost: windows of about 10 ms, "
    "each after 0.25 s of idling; final-cold-sustained: such windows back to back; medians; ratios from the "
    "rounds as pairs, 99.8 % intervals. Our kernel writes the LSE; just before it passed every check of a "
    "finalist, and what was timed was judged afterwards. Kernels of ours, and settings of FlashAttention-4 "
    "and Triton, were chosen by short times without idling"
)
TRIES = 3  # a process that died may have died of a library, which is then left out


@dataclass(slots=True)
class Held:
    """A process with its rows; `jobs` once it is ready, `ended` why it cannot be used any more."""

    rows: dict[str, tuple[Ours, ...]]
    setup: Setup
    pool: IsolatedPool
    making: "Future[Ending[tuple[Job, ...]]]"
    jobs: dict[str, Job] = field(default_factory=dict)
    ended: str = ""

    def close(self, reason: str) -> tuple[str, str]:
        """End it; the library to blame, if its note says one, and the reason in words."""
        self.pool.close()
        name, overdue = culprit(self.setup.notes)
        self.ended = overdue or reason
        return name, f"{name}: {self.ended}" if name else self.ended


@dataclass(slots=True)
class Table:
    """What is known so far, written after each row."""

    options: argparse.Namespace
    head: dict[str, Any]
    lost: dict[str, dict[str, str]]  # row -> library left out -> why
    began_s: float
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    extra: dict[str, dict[str, Any]] = field(default_factory=dict)  # what else to keep of a row

    def left_s(self) -> float:
        """Of the time limit."""
        return float(self.options.time_limit) - (time.monotonic() - self.began_s)

    def keep(self, row: str, record: dict[str, Any]) -> None:
        """Add a row, say it, and write the file."""
        self.rows[row] = {**record, **self.extra.get(row, {})}
        print(line(row, record), flush=True)
        took_s = round(time.monotonic() - self.began_s, 1)
        whole = {**self.head, "took_s": took_s, "rows": list(self.rows.values())}
        write_record(self.options.output, whole)


def start(rows: dict[str, tuple[Ours, ...]], setup: Setup, *, limit_s: float) -> Held:
    """A process that makes these rows ready."""
    pool = IsolatedPool(1)
    return Held(rows, setup, pool, pool.submit(ready, rows, setup, timeout_s=limit_s))


def attend(rows: Sequence[str], table: Table, setup: Setup, found: dict[str, tuple[Ours, ...]]) -> list[str]:
    """Time the rows, each in its process; returns those that have to be tried in another."""
    limit_s, again = max(1.0, table.left_s()), []
    with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
        held: dict[str, Held] = {}
        for number, chunk in enumerate(chunks(rows)):
            notes = Path(folder) / f"library-{number}"
            notes.touch()
            without = {name for row in chunk for name in table.lost[row]}
            libraries = tuple(name for name in setup.libraries if name not in without)
            own = replace(setup, libraries=libraries, notes=str(notes))
            process = start({row: found[row] for row in chunk}, own, limit_s=limit_s)
            held |= dict.fromkeys(chunk, process)
        try:
            for process in {id(each): each for each in held.values()}.values():
                again += made(process, table)
            print(f"ready after {time.monotonic() - table.began_s:.0f} s", flush=True)
            for row in rows:
                if not held[row].ended:
                    again += run(row, held[row], table)
        finally:
            for process in held.values():
                process.pool.close()
    return again


def made(process: Held, table: Table) -> list[str]:
    """Wait until it is ready; the rows to be tried again, where it died of a library."""
    ending = answer_of(process.making)
    if ending.value is not None:
        process.jobs = {job.row: job for job in ending.value}
        return []
    name, reason = process.close(ending.reason)
    return blamed(process, list(process.rows), name, reason, table)


def run(row: str, process: Held, table: Table) -> list[str]:
    """Time a row and keep it; the rows to be tried again, where the process was lost."""
    limit_s = min(table.options.row_limit, table.left_s())
    began_s = time.monotonic()
    if limit_s < table.options.least:
        table.keep(row, {"row": row, "failure": "not begun: the time was over"})
        return []
    ending = answer_of(process.pool.submit(timed, process.jobs[row], process.setup, timeout_s=limit_s))
    result = ending.value or Timed(failure=f"{ending.status}: {ending.reason}", process_lost=True)
    if not result.process_lost:
        table.keep(row, record(row, process, result, table.lost[row], took_s=time.monotonic() - began_s))
        return []
    name, reason = process.close(result.failure)
    others = [each for each in process.rows if each != row and each not in table.rows]
    if name:
        return blamed(process, [row, *others], name, reason, table)
    table.keep(row, {"row": row, "failure": reason})
    return others


def answer_of(future: "Future[Ending[Any]]") -> Ending[Any]:
    """The ending; what the call raised, as one."""
    try:
        return future.result()
    except Exception as error:  # of a library's import, of CUDA, of the process: all end this process
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return Ending(None, reason=f"{type(error).__name__}: {said}")


def blamed(process: Held, rows: list[str], name: str, reason: str, table: Table) -> list[str]:
    """Try the rows again without the library; without one to blame they have failed."""
    if not name:
        for row in rows:
            table.keep(row, {"row": row, "failure": reason})
        return []
    print(f"left out for {', '.join(process.rows)}: {reason}", flush=True)
    for row in process.rows:
        table.lost[row][name] = reason
    return rows


def record(row: str, process: Held, result: Timed, lost: dict[str, str], *, took_s: float) -> dict[str, Any]:
    """What the file keeps of a row."""
    found = {"row": row, "took_s": round(took_s, 1), **asdict(result)}
    found["absent"] = {**result.absent, **lost}
    del found["process_lost"], found["genome_id"]
    mine = next((each for each in process.rows[row] if each.genome.id == result.genome_id), None)
    if mine is not None:
        genome = mine.genome
        found["ours"] = {
            "id": genome.id,
            "family": genome.family,
            "version": genome.version,
            "values": genome.as_dict(),
            "source": mine.source,
            "known_us": mine.known_us,
        }
    return found


def line(row: str, found: dict[str, Any]) -> str:
    """A row in the summary: our time, and each rival's over ours in the ranking protocol."""
    if "ours" not in found:
        return f"{row:28} {found['failure']}"
    mine = found["timings"][found["ours"]["id"]][0]
    rivals = [c for c in found["comparisons"] if c["protocol"] == mine["protocol"]]
    said = " ".join(f"{c['first']} {c['ratio']:.3f}" for c in sorted(rivals, key=lambda c: c["ratio"]))
    wrong = "".join(f" WRONG {name}: {why}" for name, why in found["wrong"].items())
    return f"{row:28} {mine['median_us']:9.2f} us  {said}{wrong}  ({found['took_s']} s)"


def head(options: argparse.Namespace, spec: GpuSpec, seed: int) -> dict[str, Any]:
    """What the figures stand for."""
    return {
        **made_on(),
        "made_by": "scripts.peers.run",
        "environment": environment(),
        "protocol": PROTOCOL,
        "rounds": rounds(options),
        "libraries": options.libraries.split(","),
        "seed": seed,
        "sm_count": spec.sm_count,
    }


def made_on() -> dict[str, str]:
    """When, by which command, and on what a record was made."""
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "evoflash": __version__,
        "gpu": launcher.present_gpu().device_name,
        "driver": driver_version(),
        "nvrtc": nvrtc_version(),
    }


def driver_version() -> str:
    """The driver's own number, "580.159.04"."""
    import pynvml

    pynvml.nvmlInit()
    return str(pynvml.nvmlSystemGetDriverVersion())


def rounds(options: argparse.Namespace) -> dict[str, int]:
    """Samples a contender, by pace."""
    return {"steady": options.rounds, "boost": options.boost_rounds, "sustained": options.rounds}


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_timing_options(parser, ROWS, time_limit_s=540.0, least_s=10.0)
    parser.add_argument("--db", default="", help="search databases, commas between, beside the archive")
    parser.add_argument(
        "--candidates", type=int, default=2, help="kernels of ours a row; the fastest is timed"
    )
    return parser.parse_args()


def add_timing_options(
    parser: argparse.ArgumentParser, rows: Iterable[str], *, time_limit_s: float, least_s: float
) -> None:
    """Which problems are timed, beside which libraries, for how long, and where that is written."""
    parser.add_argument(
        "--rows", default=" ".join(rows), help="problems of one workload each, spaces between"
    )
    parser.add_argument("--part", default="0/1", help="which of how many parts of the rows: 0/2, 1/2")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="baselines, commas between")
    parser.add_argument("--rounds", type=int, default=20, help="samples a contender: cold, sustained")
    parser.add_argument("--boost-rounds", type=int, default=5, help="likewise at boost clock, 0.26 s each")
    parser.add_argument("--row-limit", type=float, default=60.0, help="seconds of one row's timing")
    parser.add_argument("--time-limit", type=float, default=time_limit_s, help="seconds in all")
    parser.add_argument("--least", type=float, default=least_s, help="seconds that a row is planned to take")
    parser.add_argument("--seed", type=int, help="of checks and inputs; default: drawn, and written down")
    parser.add_argument("-o", "--output", type=Path, required=True)


def main() -> int:
    """Choose, make ready, time, write; 1 where a row has no figures."""
    options, began_s = arguments(), time.monotonic()
    spec, seed = present_spec(None), secrets.randbits(32) if options.seed is None else options.seed
    rows = part_of(options.rows.split(), options.part)
    dbs = [db for db in options.db.split(",") if db]
    found = {row: ours(row, spec, dbs, count=options.candidates) for row in rows}
    setup = Setup(spec, seed, tuple(options.libraries.split(",")), rounds(options), notes="")
    table = Table(options, head(options, spec, seed), {row: {} for row in rows}, began_s)
    pending = list(rows)
    for _ in range(TRIES):
        if pending:
            pending = attend(pending, table, setup, found)
    for row in pending:
        table.keep(row, {"row": row, "failure": f"its process was lost {TRIES} times"})
    done = sum(not each.get("failure") for each in table.rows.values())
    print(f"{done} of {len(rows)} rows in {time.monotonic() - began_s:.0f} s: {options.output}")
    return int(done < len(rows))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvoflashError as error:
        sys.exit(f"peers: {error}")
