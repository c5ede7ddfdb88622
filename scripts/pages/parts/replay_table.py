"""The table of docs/searching.md on replays: the default strategy beside evolution, on each recorded space.

Written into the page by scripts/pages/readme.py, from the records of `evoflash benchmark-search`. Replays
nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from scripts import ROOT
from scripts.pages import markdown
from scripts.records import read_record, stored

RECORDS = "scripts/searches/records"
NAMES = (
    "replayed-spaces.json",
    "replayed-lattice-short.json",
    "replayed-lattice-middle.json",
    "replayed-lattice-decode.json",
    "replayed-more-seeds.json",
)
_OURS, _REFERENCE = "surrogate", "evolution"
_SPACES = {  # files of recorded spaces, and how the page calls them
    "pnpoly-rtx3090.json.gz": "pnpoly, RTX 3090",
    "convolution_milo-a4000.json.gz": "convolution_milo, A4000",
    "short-h200.json.gz": "lattice `short`, H200",
    "middle-h200.json.gz": "lattice `middle`, H200",
    "decode-h200.json.gz": "lattice `decode`, H200",
}
_MEASURES = ("P mean", "median", "below 0", "within 5 %", "CPU ms")


def table() -> str:
    """A row for each space and set of seeds, and the commands that made them."""
    records = [read_record(ROOT / RECORDS / name) for name in NAMES]
    heads = ["space", "seeds", *_heads(_OURS), *_heads(_REFERENCE), "p"]
    rows = (row for record in records for row in _rows(record))
    files = (stored(ROOT / RECORDS / name).name for name in NAMES)
    linked = zip(files, records, strict=True)
    made = "; ".join(f"`{record['command']}` ([record](../{RECORDS}/{file}))" for file, record in linked)
    return "\n".join([*markdown.table(heads, rows), "", f"Made by {made}."]) + "\n"


def _heads(strategy: str) -> tuple[str, ...]:
    first, *others = _MEASURES
    return f"`{strategy}`: {first}", *others


def _rows(record: Mapping[str, Any]) -> Iterator[list[str]]:
    seeds = f"{record['first_seed']} to {record['first_seed'] + record['seeds'] - 1}"
    for space in record["spaces"]:
        found = {row["standing"]["strategy"]: row for row in space["rows"]}
        ours, reference = found[_OURS], found[_REFERENCE]
        p = f"{ours['p_value']:.1g}"
        yield [_SPACES[space["file"]], seeds, *_measures(ours), *_measures(reference), p]


def _measures(row: Mapping[str, Any]) -> tuple[str, ...]:
    standing = row["standing"]
    interval = f"[{standing['score_low']:.2f}, {standing['score_high']:.2f}]"
    return (
        f"{standing['score']:.2f} {interval}",
        f"{row['median']:.2f}",
        f"{row['below_random']:.0%}".replace("%", " %"),
        f"{standing['near_share']:.0%}".replace("%", " %"),
        f"{row['cpu_ms']:.1f}",
    )
