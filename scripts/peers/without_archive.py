"""Searches rows of the table without the archive and with one seed a family, against the archive's kernels.

    python -m scripts.peers.without_archive --rows "s1k_d64 short128" --minutes 2 -o without-archive.json

Each search is `evoflash search --no-archive --no-transfer --seeds 1` as a user would run it, from an empty
database and an empty cache of compiled kernels; then `evoflash compare` checks its winner and the archive's
kernel for the row and times them in pairs. The file is written anew after each row. Chooses no kernel itself.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evoflash.champions import Champion
from evoflash.errors import EvoflashError
from evoflash.gpu.launcher import present_spec
from evoflash.problem import parse_problem
from scripts import ROOT
from scripts.peers import holdout, run
from scripts.peers.rows import ROWS, Ours, archived
from scripts.records import write_record

ALONE = ["--no-archive", "--no-transfer", "--seeds=1"]
PROTOCOL = "evoflash compare: pairs in one process; ratios: found kernel over the archive's"
NEAR = 1.03  # times the archive's kernel: as good as it, for what is counted


def compared(found: str, champion: str, row: str, db: Path, *, limit_s: float) -> dict[str, Any]:
    """What `evoflash compare` says of the two: the ratios are the found kernel's time over the archive's."""
    words = [sys.executable, "-m", "evoflash", "compare", found, champion, "--problem", row]
    words += ["--db", str(db), "--json", "--quiet"]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"failure": f"no comparison within {limit_s:.0f} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["it said nothing"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout)
    return {"results": answer["results"], "notes": answer["notes"]}


def measured(row: str, champion: Champion, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One row: the search, then its winner beside the archive's kernel."""
    ours, search = holdout.searched(row, options, folder)
    record: dict[str, Any] = {"row": row, "archived": champion.genome.id, "search": search}
    if not ours:
        return {**record, "failure": f"the search found nothing: {search.get('reason')}"}
    found = compared(
        ours[0].genome.id, champion.genome.id, row, folder / "search.db", limit_s=options.row_limit
    )
    return {**record, "found": kernel(ours[0]), **found}


def kernel(ours: Ours) -> dict[str, Any]:
    """The winner, so that it can be made again."""
    return {"id": ours.genome.id, **asdict(ours.genome), "values": ours.genome.as_dict()}


def ratio(record: Mapping[str, Any]) -> float | None:
    """The found kernel's time over the archive's in the first, ranking, way of timing; None without one."""
    results = record.get("results")
    return float(results[0]["ratio"]) if results else None


def ratios(record: Mapping[str, Any]) -> list[float]:
    """Of the rows of a whole record that have one."""
    return [found for row in record["rows"] if (found := ratio(row)) is not None]


def near(found: Sequence[float]) -> int:
    """How many of these ratios are as good as the archive's kernel, or better."""
    return sum(each <= NEAR for each in found)


def line(record: dict[str, Any]) -> str:
    """A row in the summary."""
    said = ratio(record)
    if said is None:
        return f"{record['row']:28} {record['failure']}"
    first = record["results"][0]
    span = f"[{first['low']:.3f}, {first['high']:.3f}]"
    return f"{record['row']:28} {said:.3f} {span} of the archive's time, {first['protocol']}"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", required=True, help="rows of the table, spaces between")
    parser.add_argument("--gpu", default="", help="as evoflash search; default: the one present")
    parser.add_argument("--minutes", type=float, default=3.0, help="of each search")
    parser.add_argument("--limit", type=float, default=225.0, help="seconds of wall time of a search in all")
    parser.add_argument("--row-limit", type=float, default=90.0, help="seconds of one comparison")
    parser.add_argument("--time-limit", type=float, default=590.0, help="seconds in all: none is begun later")
    parser.add_argument("--least", type=float, default=30.0, help="seconds of a comparison, when planning")
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def records(
    known: dict[str, Champion], options: argparse.Namespace, *, ends_s: float
) -> Iterator[dict[str, Any]]:
    """Each row's, as it is done; one that would end too late is not begun."""
    for row, champion in known.items():
        if ends_s - time.monotonic() < options.limit + options.least:
            yield {"row": row, "failure": "not begun: the time was over"}
            continue
        with tempfile.TemporaryDirectory(prefix="evoflash-without-archive-") as folder:
            yield measured(row, champion, options, Path(folder))


def main() -> int:
    """Search, compare, write; 1 where a row has no figures."""
    options, began_s = arguments(), time.monotonic()
    options.search_option, options.search_pythonpath = ALONE, None
    spec, rows = present_spec(None), options.rows.split()
    known = {row: found for row in rows if row in ROWS and (found := archived(parse_problem(row), spec))}
    if strange := [row for row in rows if row not in known]:
        sys.exit(f"without_archive: {', '.join(strange)} is no row with an archived kernel: see ROWS.")
    whole: dict[str, Any] = {**run.made_on(), "protocol": PROTOCOL, "rows": []}
    for record in records(known, options, ends_s=began_s + options.time_limit):
        print(line(record), flush=True)
        whole["rows"].append(record)
        whole["took_s"] = round(time.monotonic() - began_s, 1)
        write_record(options.output, whole)
    timed = ratios(whole)
    print(f"{near(timed)} of {len(timed)} within {NEAR - 1:.0%} of the archive's kernel: {options.output}")
    return int(len(timed) < len(rows))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvoflashError as error:
        sys.exit(f"without_archive: {error}")
