"""Rows of records out of what `evoflash search --json` answered, and its database: layers, attention.

    python -m scripts.peers.found FOLDER... -o scripts/peers/records/linear-rivals-2026-11-27.json.xz
    python -m scripts.peers.found FOLDER... -o scripts/peers/records/holdout-h100-2026-11-27.json.xz

A folder is what one request of scripts.device.batch left: out/search.json and out/evoflash.db. The record is
there already and says of itself what was run; linear layers are rows for scripts.pages.rivals, all else rows
for scripts.pages.unseen. A row of the same problem on the same card is replaced, the others stay. Measures
nothing.
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evoflash.evaluation import FINAL, Evaluation, Run, Timing
from evoflash.problem import parse_problem
from evoflash.store.store import open_store
from scripts.peers.holdout import what_it_did
from scripts.records import read_record, write_record

_COLD = "final-cold"  # and with a pace behind it, of long kernels
_WEIGHTS = {"fp8b128": "FP8 in blocks", "fp8t": "FP8", "bf16": "BF16"}


@dataclass(frozen=True, slots=True)
class Found:
    """What one search left; `answer` is empty where it was cut before it could answer."""

    run: Run
    spent: Mapping[str, Any]  # as scripts.peers.holdout has it
    answer: Mapping[str, Any]
    best: Evaluation | None
    baselines: Mapping[str, Sequence[Timing]]

    @property
    def row(self) -> str:
        """The problem as it was asked for."""
        return self.run.argv[self.run.argv.index("--problem") + 1]

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """On cold inputs, the time of each library over the winner's, with its interval."""
        return [
            {"first": each["second"], "second": each["first"], "protocol": each["protocol"]}
            | {"ratio": 1 / each["ratio"], "low": 1 / each["high"], "high": 1 / each["low"]}
            for each in self.answer.get("comparisons", ())
            if each["protocol"].startswith(_COLD)
        ]


def found(folder: Path) -> Found:
    """What a request left in its folder."""
    said = (folder / "out" / "search.json").read_text(encoding="utf-8")
    database = str(folder / "out" / "evoflash.db")
    best, spent = what_it_did(database)
    with open_store(database, read_only=True) as store:
        (run,) = store.runs()
        baselines = {each.name: each.timings for each in store.baselines(run)}
        ((gpu_s,),) = store.query("select gpu_s from runs", {})[1]
    spent |= {"wall_s": round(gpu_s or 0.0, 1), "stopped": not said}  # of one GPU, held while it searched
    return Found(run, spent, json.loads(said) if said else {}, best, baselines)


def row_of(search: Found) -> dict[str, Any]:
    """The row of a search, whatever its operation is; with `failure` where no library was timed beside it."""
    if search.best is None or not search.pairs:
        is_whole = search.spent["spent"] >= search.run.budget
        failure = "cut in its finals" if is_whole else "cut in its search"
        return {"row": search.row, "search": search.spent, "failure": failure}
    is_linear = search.run.key.problem.startswith("linear:")
    return linear_row(search, search.best) if is_linear else unseen_row(search, search.best)


def linear_row(search: Found, best: Evaluation) -> dict[str, Any]:
    """A row for scripts.pages.rivals: the ratios are the library's time over ours."""
    (timing,) = (each for each in best.timings if each.protocol in FINAL)
    problem = parse_problem(search.run.key.problem)
    words = dict(word.split("=") for word in str(problem).removeprefix("linear:").split(",") if "=" in word)
    return {
        "row": search.row,
        "problem": str(problem),
        "card": best.environment["gpu"],
        "budget": search.run.budget,
        "kernel": best.genome.id,
        "family": best.genome.family,
        "protocol": timing.protocol,
        "us": round(timing.median_us, 2),
        "gb_per_s": round((problem.streamed_bytes or 0.0) / timing.median_us / 1e3),
        "rivals": {
            pair["first"]: [round(pair[name], 3) for name in ("ratio", "low", "high")]
            for pair in search.pairs
            if pair["protocol"] == timing.protocol
        },
        "kind": f"{_WEIGHTS[words['dtype']]}, m = {words['m']}",
    }


def unseen_row(search: Found, best: Evaluation) -> dict[str, Any]:
    """A row as scripts.peers.holdout writes it."""
    timings = {best.genome.id: best.timings, **search.baselines}
    return {
        "row": search.row,
        "ours": {name: getattr(best.genome, name) for name in ("id", "family", "version")}
        | {"values": best.genome.as_dict()},
        "search": search.spent,
        "timings": {
            name: [asdict(each) for each in of_name if each.protocol.startswith(_COLD)]
            for name, of_name in timings.items()
        },
        "comparisons": search.pairs,
        # A library that the check left out was timed, but not kept as a baseline.
        "wrong": {
            pair["first"]: "left out" for pair in search.pairs if pair["first"] not in search.baselines
        },
    }


def updated(rows: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows with the new ones among them, by kind and card where they have a kind; one without figures
    takes no other's place.
    """
    of_name = {_name(row): row for row in rows}
    for row in new:
        if not row.get("failure") or of_name.get(_name(row), row).get("failure"):
            of_name[_name(row)] = row
    kinds = list(dict.fromkeys(row.get("kind") for row in of_name.values()))
    return sorted(of_name.values(), key=lambda row: (kinds.index(row.get("kind")), row.get("card", "")))


def _name(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["row"], row.get("card", "")


def main() -> None:
    """Read, put the rows into the record, say them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the record")
    given = parser.parse_args()
    record = read_record(given.output)
    new = [row_of(found(folder)) for folder in given.folders]
    write_record(given.output, {**record, "rows": updated(record["rows"], new)})
    for row in new:
        print(row["row"], row.get("failure") or row.get("rivals") or row["comparisons"])


if __name__ == "__main__":
    main()
