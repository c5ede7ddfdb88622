"""Writes the tables of docs/linear.md and docs/serving.md: kernels that a search found, beside the libraries.

    python -m scripts.pages.rivals           write them
    python -m scripts.pages.rivals --check   say whether one is stale

They are made of the records `*-rivals-*.json.xz` in scripts/peers/records. Measures nothing.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, mean, mode
from typing import Any

from scripts import ROOT
from scripts.pages import markdown
from scripts.records import read_record

FOLDER = ROOT / "scripts" / "peers" / "records"
# Of each page its records, and the libraries in the order of the columns.
PAGES = {
    "linear": {
        "flashinfer_block": "FlashInfer",
        "flashinfer_block_fp8x": "FlashInfer, x rounded untimed",
        "scaled_mm": "scaled_mm",
        "cublaslt": "cuBLASLt in BF16",
    },
    "serving": {"fa3_paged": "FA3", "flashinfer_xqa": "XQA", "flashinfer_decode": "FlashInfer native"},
}
_END = "<!-- /rivals -->"


def content(record: Mapping[str, Any], libraries: Mapping[str, str]) -> str:
    """The table of one record, and what was run for it."""
    rows = record["rows"]
    heads = ("problem", "card", "us", "GB/s", *libraries.values())
    made_by = f"By `{record['command']}` on {record['date']}, {record['software']}."
    table = markdown.table(heads, (_cells(row, libraries) for row in rows))
    return "\n".join(["", *(_kinds(rows, libraries) or _means(rows)), "", *table, "", made_by, ""])


def _cells(row: Mapping[str, Any], libraries: Iterable[str]) -> list[str]:
    ratios = (row["rivals"].get(name) for name in libraries)
    shown = ("{:.3f} [{:.3f}, {:.3f}]".format(*ratio) if ratio else "" for ratio in ratios)
    ours = (row["card"].split()[1], f"{row['us']:.2f}", f"{row['gb_per_s']:,}")
    return [f"`{row['row']}`", *ours, *shown]


def _means(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How far ahead of the fastest library, by card."""
    said = []
    for card in dict.fromkeys(row["card"] for row in rows):
        least = _least([row for row in rows if row["card"] == card])
        said.append(
            f"{card}, {len(least)} problems: the fastest library takes {geometric_mean(least):.3f} times as "
            f"long as the winner (geometric mean; the least {min(least):.3f})."
        )
    return said


def digest(serving: Mapping[str, Any], linear: Mapping[str, Any]) -> str:
    """Two sentences, each of the card with most problems: pages, and FP8 linear layers beside FlashInfer, by
    their numbers of rows.
    """
    pages, layers = _of_main_card(serving["rows"]), _of_main_card(linear["rows"])
    least = _least(pages)
    by_kind: dict[str, list[float]] = {}
    for row in layers:
        if "flashinfer_block" in row["rivals"]:
            by_kind.setdefault(row["kind"], []).append(row["rivals"]["flashinfer_block"][0])
    means = [mean(each) for each in by_kind.values()]
    *others, last = (kind.rpartition(" ")[2] for kind in by_kind)
    numbers = f"{', '.join(others)} and {last}" if others else last
    return (
        f"\nPaged decoding, {len(pages)} problems, {_short(pages)}: the fastest of FlashAttention-3 and "
        f"FlashInfer took {geometric_mean(least):.2f} times as long (least {min(least):.2f}). FP8 linear "
        f"layers, {numbers} rows, {_short(layers)}: FlashInfer took {min(means):.2f} to {max(means):.2f} "
        f"(least {min(min(each) for each in by_kind.values()):.2f}).\n"
    )


def _of_main_card(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    card = mode(row["card"] for row in rows)
    return [row for row in rows if row["card"] == card]


def _short(rows: Sequence[Mapping[str, Any]]) -> str:
    return str(rows[0]["card"].split()[1])


def _least(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Of each row the ratio to the fastest library."""
    return [min(ratio[0] for ratio in row["rivals"].values()) for row in rows]


def _kinds(rows: Sequence[Mapping[str, Any]], libraries: Mapping[str, str]) -> list[str]:
    """Of each kind of rows, where the record names kinds, the mean and the least ratio to each library."""
    kinds = dict.fromkeys((row["kind"], row["card"]) for row in rows if "kind" in row)
    if not kinds:
        return []
    lines = []
    for kind, card in kinds:
        of_kind = [row["rivals"] for row in rows if (row.get("kind"), row["card"]) == (kind, card)]
        by_library = ([rivals[name][0] for rivals in of_kind if name in rivals] for name in libraries)
        shown = (f"{mean(each):.3f}, least {min(each):.3f}" if each else "" for each in by_library)
        lines.append((kind, card.split()[1], str(len(of_kind)), *shown))
    return markdown.table(("mean of", "card", "layers", *libraries.values()), lines)


def fresh_pages() -> Iterator[tuple[Path, str]]:
    """Each page, and what it should be."""
    for name, libraries in PAGES.items():
        page = ROOT / "docs" / f"{name}.md"
        fresh = content(read_record(newest(name)), libraries)
        yield page, markdown.between(page.read_text(encoding="utf-8"), "<!-- rivals -->", _END, fresh)


def newest(name: str) -> Path:
    """The latest record for a page."""
    return max(FOLDER.glob(f"{name}-rivals-*.json.xz"))


if __name__ == "__main__":
    sys.exit(markdown.run(__doc__, "scripts.pages.rivals", fresh_pages))
