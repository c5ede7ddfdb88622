"""Writes the README's measured tables from the records of scripts/searches and scripts/peers.

    python -m scripts.pages.readme             write them
    python -m scripts.pages.readme --check     say whether they are stale

No figure enters the README by hand: what stands between the markers is what the files say.
"""

import argparse
import json
import re
import sys
from typing import Any

from scripts import ROOT
from scripts.pages import h200, h200_digest, markdown
from scripts.peers import rows as peers_rows

README = ROOT / "README.md"
RECORDS = "scripts/searches/records"
RANKED = ("final-cold", "final-cold-boost")  # short workloads, and those timed at boost clock
BEGIN, END = "<!-- leaderboard -->", "<!-- /leaderboard -->"
PEERS_BEGIN, PEERS_END = "<!-- peers -->", "<!-- /peers -->"


def searches() -> list[tuple[str, dict[str, Any]]]:
    """The recorded searches, by file name."""
    paths = sorted((ROOT / RECORDS).glob("search-*.json"))
    return [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


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
        f"[{ours['spent']}, {ours['search_s']:.0f} s]({RECORDS}/{name}) "
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


def updated(readme: str) -> str:
    """The README with its tables made anew; the one of peers where it has marks for it."""
    fresh = markdown.between(readme, BEGIN, END, table(searches()))
    return markdown.between(fresh, PEERS_BEGIN, PEERS_END, peers()) if PEERS_BEGIN in readme else fresh


def peers() -> str:
    """What docs/h200.md says, in a line for each kind of row; empty before it was measured."""
    if not h200.RECORD.exists():
        return ""
    record = json.loads(h200.RECORD.read_text(encoding="utf-8"))
    return h200_digest.digest(record, peers_rows.anchors())


def main() -> int:
    """Write, or with --check compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the tables are stale")
    args = parser.parse_args()
    stored = README.read_text(encoding="utf-8")
    fresh = updated(stored)
    if args.check:
        if fresh != stored:
            print("README.md: its tables are older than the records: run scripts.pages.readme.")
        return int(fresh != stored)
    README.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
