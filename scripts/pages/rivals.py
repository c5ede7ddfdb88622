"""Writes the tables of docs/linear.md and docs/serving.md: kernels that a search found, beside the libraries.

    python -m scripts.pages.rivals           write them
    python -m scripts.pages.rivals --check   say whether one is stale

They are made of the records `*-rivals-*.json.xz` in scripts/peers/records. Measures nothing.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
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
        of_card = [row for row in rows if row["card"] == card]
        least = [min(ratio[0] for ratio in row["rivals"].values()) for row in of_card]
        mean = math.exp(sum(map(math.log, least)) / len(least))
        said.append(
            f"{card}, {len(least)} problems: the fastest library takes {mean:.3f} times as long as the "
            f"winner (geometric mean; the least {min(least):.3f})."
        )
    return said


def _kinds(rows: Sequence[Mapping[str, Any]], libraries: Mapping[str, str]) -> list[str]:
    """Of each kind of rows, where the record names kinds, the mean and the least ratio to each library."""
    kinds = dict.fromkeys((row["kind"], row["card"]) for row in rows if "kind" in row)
    if not kinds:
        return []
    lines = []
    for kind, card in kinds:
        of_kind = [row["rivals"] for row in rows if (row.get("kind"), row["card"]) == (kind, card)]
        by_library = ([rivals[name][0] for rivals in of_kind if name in rivals] for name in libraries)
        shown = (f"{sum(each) / len(each):.3f}, least {min(each):.3f}" if each else "" for each in by_library)
        lines.append((kind, card.split()[1], str(len(of_kind)), *shown))
    return markdown.table(("mean of", "card", "layers", *libraries.values()), lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    is_check, stale = parser.parse_args().check, 0
    for name, libraries in PAGES.items():
        page = ROOT / "docs" / f"{name}.md"
        record = read_record(newest(name))
        text = page.read_text(encoding="utf-8")
        fresh = markdown.between(text, "<!-- rivals -->", _END, content(record, libraries))
        stale += markdown.keep(page, fresh, made_by="scripts.pages.rivals", is_check=is_check)
    return int(stale > 0)


def newest(name: str) -> Path:
    """The latest record for a page."""
    return max(FOLDER.glob(f"{name}-rivals-*.json.xz"))


if __name__ == "__main__":
    sys.exit(main())
