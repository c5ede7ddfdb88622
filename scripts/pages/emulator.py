"""Writes the tables of docs/emulator.md: the kinds of finding, and what compute-sanitizer finds of faults.

    python -m scripts.pages.emulator             write them
    python -m scripts.pages.emulator --check     say whether they are stale

The figures are those of scripts/sanitizer/records/sanitizer-h200.json. Measures nothing.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from evoflash.app.check.findings import KINDS
from scripts import ROOT
from scripts.pages import markdown
from scripts.sanitizer.processes import TOOLS

Record = dict[str, Any]

PAGE = ROOT / "docs" / "emulator.md"
MEASURED = ROOT / "scripts" / "sanitizer" / "records" / "sanitizer-h200.json"
_NOT_MEASURED = "Not measured yet.\n"
_PLAIN = {"right": "right", "wrong": "wrong", "crashed": "error", "hung": "hangs", "not run": ""}


def with_tables(page: str, measured: Path) -> str:
    """The page with its tables made anew."""
    text = tables(json.loads(measured.read_text(encoding="utf-8"))) if measured.exists() else _NOT_MEASURED
    return _between("sanitizer", _between("kinds", page, kinds()), text)


def _between(mark: str, page: str, text: str) -> str:
    return markdown.between(page, f"<!-- {mark} -->", f"<!-- /{mark} -->", text)


def kinds() -> str:
    """Every kind of finding, with what it means."""
    return _table(("kind", "what it means"), ((f"`{kind}`", each.meaning) for kind, each in KINDS.items()))


def tables(digest: Record) -> str:
    """Where and how, what each tool finds by kind of fault, times, and every fault."""
    return "\n".join((_where(digest), _by_kind(digest), _times(digest), _false(digest), _every(digest)))


def _where(digest: Record) -> str:
    options = ", ".join(f"{tool} `{given}`" for tool, given in digest["options"].items() if given)
    return (
        f"Measured on {digest['date']}: {digest['gpu']}, compute-sanitizer {digest['sanitizer']}, NVRTC "
        f"{digest['nvrtc']} with `-lineinfo`; {digest['cpu']}; {digest['at_once']} runs at once on "
        f"{digest['gpus']} GPU(s). Options besides the defaults: {options}. Made by `{digest['command']}`; "
        "every run's first lines are in [the record](../scripts/sanitizer/records/sanitizer-h200.json)."
        f"{_left_out(digest['summary']['all'])}\n"
    )


def _left_out(counts: Record) -> str:
    most = max(counts[tool]["run"] for tool in TOOLS)
    if most == counts["faults"]:
        return ""
    return (
        f" The tools ran on {most} of the {counts['faults']} faults, drawn at random, before the time on the "
        "GPU ended (kernels that hang come last); a cell gives what was found of what was run."
    )


def _by_kind(digest: Record) -> str:
    heads = (
        "the emulator's kind",
        "faults",
        "emulator",
        *TOOLS,
        "any of the four",
        "output right on the GPU",
    )
    summary = digest["summary"]
    rows = [_count_row(f"`{kind}`", counts) for kind, counts in summary["by_kind"].items()]
    return _table(heads, [*rows, _count_row("**all**", summary["all"])])


def _count_row(name: str, counts: Record) -> list[str]:
    most = max(counts[tool]["run"] for tool in TOOLS)
    tools = (_share(counts[tool]["found"], counts[tool]["run"]) for tool in TOOLS)
    found = (_share(counts["emulator"], counts["faults"]), *tools, _share(counts["any_tool"], most))
    return [name, str(counts["faults"]), *found, _number(counts["plain"]["right"])]


def _share(found: int, run: int) -> str:
    return f"{found} of {run}" if run else "not run"


def _number(count: int) -> str:
    return str(count) if count else ""


def _times(digest: Record) -> str:
    summary = digest["summary"]
    seconds, everything = summary["seconds"], summary["all"]
    rows = [["emulator", f"{summary['emulator_cpu_s']} (CPU)", "", f"{everything['emulator']}", ""]]
    for tool in TOOLS:
        counts = everything[tool]
        rows.append(
            [
                tool,
                _seconds(seconds["alone"][tool]),
                _seconds(seconds["at_once"][tool]),
                f"{counts['at_fault']} of {counts['found']}",
                _number(counts["failed"]),
            ]
        )
    alone = _seconds(seconds["alone"]["plain"])
    return _table(
        ("check", "seconds, alone", "seconds, beside others", "names the fault's line", "gave no answer"),
        rows,
    ) + (
        "\nMedians of one check of one kernel. The emulator's includes rendering, g++ and the comparison "
        f"with the reference; a tool's includes the start of its process (without a tool: {alone} s), but "
        f"not NVRTC (median {summary['nvrtc_s']} s).\n"
    )


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _false(digest: Record) -> str:
    summary = digest["summary"]
    told = ", ".join(f"{tool} {count}" for tool, count in summary["false_reports"].items())
    clean = sum(not row["emulator"].get("found") for row in digest["right"])
    rows = [
        [
            f"`{row['kernel']}` {row['problem']} {row['trial']}".strip(),
            tool,
            str(each["reports"]),
            each["said"],
        ]
        for row in digest["right"]
        for tool, each in row["tools"].items()
        if each["outcome"] == "found"
    ]
    text = (
        f"Right kernels with a false report, of {summary['right_kernels']}: {told}; emulator "
        f"{summary['right_kernels'] - clean}.\n"
    )
    return text + ("\n" + _table(("right kernel", "tool", "reports", "the first"), rows) if rows else "")


def _every(digest: Record) -> str:
    heads = ("kernel", "fault", "emulator, line", "run on the GPU", *TOOLS)
    rows = [
        [
            row["kernel"],
            row["fault"],
            _emulator(row["emulator"]),
            _PLAIN[row["plain"]["outcome"]],
            *(_tool(row["tools"].get(tool)) for tool in TOOLS),
        ]
        for row in digest["faults"]
    ]
    return (
        "### Every fault\n\n**Bold**: the report names one of the fault's own lines. `-`: no report that the "
        "right kernel does not get as well. `?`: the tool gave no answer.\n\n" + _table(heads, rows)
    )


def _emulator(emulator: Record) -> str:
    if not emulator.get("found"):
        return "-"
    line = f", {emulator['line']}" if emulator.get("line") else ""
    return f"{emulator['kind']}{line}"


def _tool(each: Record | None) -> str:
    if each is None:
        return "not run"
    if each["outcome"] != "found":
        return {"silent": "-", "failed": "?"}[each["outcome"]]
    text = _escaped(each["said"])
    return f"**{text}**" if each["at_fault"] else text


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")


def _table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(markdown.table(heads, rows)) + "\n"


def main() -> int:
    """Write the page, or with --check say whether it is stale (1)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the tables are stale")
    args = parser.parse_args()
    stored = PAGE.read_text(encoding="utf-8")
    fresh = with_tables(stored, MEASURED)
    if args.check:
        if fresh != stored:
            print("docs/emulator.md: its tables are stale: run scripts.pages.emulator.", file=sys.stderr)
        return int(fresh != stored)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
