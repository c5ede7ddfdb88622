"""The section of docs/unseen.md on searches without the archive and with one seed a family, of its records.

Written into the page by scripts/pages/unseen.py. Measures nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.pages import markdown

NEAR = 1.03  # times the archive's kernel: as good as it, for what is counted
_HEADS = ("row", "found us", "the archive's us", "found over archived", "family", "search")
_ABOUT = """What is the search worth without what was tuned by hand? Each row is one `evoflash search` of a
row of [h200.md](h200.md) with `--no-archive --no-transfer --seeds 1`: of each family only the first of the
hand-written kernels that are meant for such a shape. `evoflash compare` then checked its winner and the
archive's kernel for that row, which had been tuned by hand on an H200, and timed them in pairs. Below 1 the
found kernel is the faster."""


def ratio(row: Mapping[str, Any]) -> float | None:
    """The found kernel's time over the archive's in the first, ranking, way of timing; None without one."""
    results = row.get("results")
    return float(results[0]["ratio"]) if results else None


def ratios(record: Mapping[str, Any]) -> list[float]:
    """Of the rows of a record that have one."""
    return [found for row in record["rows"] if (found := ratio(row)) is not None]


def near(found: Sequence[float]) -> int:
    """How many of these ratios are as good as the archive's kernel, or better."""
    return sum(each <= NEAR for each in found)


def section(record: Mapping[str, Any]) -> list[str]:
    """One measurement: how many rows came near, and each row."""
    found = ratios(record)
    ahead = sum(each < 1 for each in found)
    note = f" By {record['merged']}." if record.get("merged") else ""
    return [
        f"## {record['gpu']}: rows of the table without the archive, {record['date']}",
        "",
        f"{_ABOUT} **{near(found)} of {len(found)} rows within {NEAR - 1:.0%} of the archive's kernel, "
        f"{ahead} of them faster than it.** With evoflash {record['evoflash']}, "
        f"driver {record['driver']}.{note}",
        "",
        *markdown.table(_HEADS, map(_row, record["rows"])),
        "",
        "By a script that has served and is gone (commit a05c0c20 has it):",
        "",
        "```sh",
        *([record["command"]] if isinstance(record["command"], str) else record["command"]),
        "```",
        "",
    ]


def _row(record: Mapping[str, Any]) -> list[str]:
    name = f"`{record['row']}`"
    if ratio(record) is None:
        return [name, "-", "-", f"none: {record['failure']}", "-", "-"]
    first, *others = record["results"]
    said = f"{first['ratio']:.3f} [{first['low']:.3f}, {first['high']:.3f}]"
    sustained = [f"; {each['ratio']:.3f} under the power cap" for each in others if _is_sustained(each)]
    times = (f"{first[kernel]['median_us']:.2f}" for kernel in ("first", "second"))
    search = record["search"]
    spent = f"{search['spent']} evaluations, {search['wall_s']:.0f} s"
    return [name, *times, "".join([said, *sustained]), record["found"]["family"], spent]


def _is_sustained(result: Mapping[str, Any]) -> bool:
    return str(result["protocol"]).endswith("sustained")
