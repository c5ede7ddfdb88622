"""Writes the README's measured tables from docs/measurements/*.json; `--check` says whether they are stale.

No figure enters the README by hand: what stands between the markers is what the files say.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
MEASUREMENTS = ROOT / "docs" / "measurements"
BEGIN, END = "<!-- leaderboard -->", "<!-- /leaderboard -->"


def searches() -> list[tuple[str, dict[str, Any]]]:
    """The recorded searches, by file name."""
    paths = sorted(MEASUREMENTS.glob("search-*.json"))
    return [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def table(records: list[tuple[str, dict[str, Any]]]) -> str:
    """One row for each search: the winner against torch's FlashAttention-2 and the fastest baseline."""
    heads = (
        "GPU, problem",
        "winner, cold",
        "speed over `sdpa_flash`, cold",
        "the same, hot",
        "over the fastest SDPA, cold",
        "search: time, correct",
    )
    lines = [_row(heads), _row(["---"] * len(heads)), *(_row(_cells(*record)) for record in records)]
    lines += ["", f"Protocol: {records[0][1]['protocol']}." if records else ""]
    lines.append(
        "Brackets: 95 % interval of the ratio within that run; another day's run may differ by more."
    )
    lines += [f"Made by `{record['command']}` on {record['date']}." for _, record in records]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(name: str, record: dict[str, Any]) -> list[str]:
    rivals = record["comparisons"]
    flash = {c["protocol"]: c for c in rivals if c["rival"] == "sdpa_flash"}
    cold = [c for c in rivals if "cold" in c["protocol"] and "sustained" not in c["protocol"]]
    hardest = min(cold, key=lambda c: c["speedup"], default=None)
    share = 100 * record["correct_of_compiled"]
    return [
        f"{record['gpu']}, `{record['problem']}`",
        f"{record['best']['score_us']:.2f} us",
        _ratio(flash.get("final-cold")),
        _ratio(flash.get("final-hot")),
        _ratio(hardest) + (f" (`{hardest['rival']}`)" if hardest else ""),
        f"[{record['search_s']:.0f} s, {share:.0f} %](docs/measurements/{name})",
    ]


def _ratio(comparison: dict[str, Any] | None) -> str:
    if comparison is None:
        return "not measured"
    low, high = comparison["speedup_low"], comparison["speedup_high"]
    return f"{comparison['speedup']:.3f}x [{low:.3f}, {high:.3f}]"


def updated(readme: str) -> str:
    """The README with its table made anew."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(searches())}{END}{after}"


def main() -> int:
    """Write, or with --check compare."""
    stored = README.read_text(encoding="utf-8")
    fresh = updated(stored)
    if "--check" in sys.argv:
        if fresh != stored:
            print("README.md: its tables are older than docs/measurements: run scripts/update_readme.py.")
        return int(fresh != stored)
    README.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
