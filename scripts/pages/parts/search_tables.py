"""The table of docs/searching.md: recorded searches against baselines and a control arm.

Written into the page by scripts/pages/readme.py, from the records of scripts/searches. Measures nothing.
"""

import re
from typing import Any

from scripts import ROOT
from scripts.pages import markdown
from scripts.records import read_record

RECORDS = "scripts/searches/records"
RANKED = ("final-cold", "final-cold-boost")  # short workloads, and those timed at boost clock


def searches() -> list[tuple[str, dict[str, Any]]]:
    """The recorded searches, by file name."""
    paths = sorted((ROOT / RECORDS).glob("search-*.json*"))
    return [(path.name, read_record(path)) for path in paths]


def table(records: list[tuple[str, dict[str, Any]]]) -> str:
    """One row for each search: its winner against FlashAttention-2, the fastest baseline, the control."""
    heads = (
        "GPU, problem",
        "winner",
        "speed over `sdpa_flash`",
        "over the fastest SDPA",
        "over a random search",
        "evaluations, time (random search)",
    )
    lines = markdown.table(heads, (_cells(*record) for record in records))
    lines += ["", f"Protocol: {records[0][1]['protocol']}. The table shows cold times." if records else ""]
    lines.append(
        "Brackets: 95 % interval of the ratio within that run; another day's run may differ by more. The "
        "random search draws uniform valid genomes of `flash_mma`. Where an arm has fewer than 200 "
        "evaluations, a time limit ended it."
    )
    lines.append(
        "Made by, in the order of the rows and in the words of that day: " + _commands(records) + "."
    )
    return "\n".join(lines).rstrip() + "\n"


def _commands(records: list[tuple[str, dict[str, Any]]]) -> str:
    said = (record["command"].replace("/root/out/", "") for _, record in records)
    return "; ".join(f"`{command}`" for command in said)


def _cells(name: str, record: dict[str, Any]) -> list[str]:
    ranked = [c for c in record["comparisons"] if c["protocol"] in RANKED]
    flash = next((c for c in ranked if c["rival"] == "sdpa_flash"), None)
    hardest = min(ranked, key=lambda c: c["speedup"], default=None)
    control = next((c for c in record["over_control"] if c["protocol"] in RANKED), None)
    ours, theirs = record["arms"].values()
    return [
        f"{record['gpu']}, `{_short_name(record)}`",
        f"{record['best']['score_us']:.2f} us",
        _ratio(flash),
        _ratio(hardest) + (f" (`{hardest['rival']}`)" if hardest else ""),
        _ratio(control),
        f"[{ours['spent']}, {ours['search_s']:.0f} s](../{RECORDS}/{name}) "
        f"({theirs['spent']}, {theirs['search_s']:.0f} s)",
    ]


def _short_name(record: dict[str, Any]) -> str:
    said = re.search(r"--problem (\S+)", record["command"])
    return said[1] if said else str(record["problem"])


def _ratio(comparison: dict[str, Any] | None) -> str:
    if comparison is None:
        return "not measured"
    low, high = comparison["speedup_low"], comparison["speedup_high"]
    return f"{comparison['speedup']:.3f}x [{low:.3f}, {high:.3f}]"
