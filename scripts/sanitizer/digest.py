"""From the runs that run.py kept to rows and counts: what each tool finds of the planted faults."""

import statistics
from collections.abc import Iterable
from typing import Any

from scripts.sanitizer import said
from scripts.sanitizer.processes import PLAIN, TOOLS

Record = dict[str, Any]

_NUMBERS = "kernel", "fault", "problem", "trial"


def digest(raw: Record) -> Record:
    """What the record keeps: where it ran, a summary, a row for each fault and each right kernel."""
    by_key = {_name(case["key"]): case for case in raw["cases"]}
    rights = [right_row(case) for case in raw["cases"] if not case["key"]["fault"]]
    faults = [fault_row(case, by_key) for case in raw["cases"] if case["key"]["fault"]]
    head = {name: value for name, value in raw.items() if name != "cases"}
    return {**head, "summary": summary(faults, rights, raw["cases"]), "faults": faults, "right": rights}


def _name(key: Record) -> tuple[str, ...]:
    return tuple(key[name] for name in _NUMBERS)


def fault_row(case: Record, by_key: dict[tuple[str, ...], Record]) -> Record:
    """One fault: what the emulator, a run alone and each tool showed. A tool that was not run is absent."""
    right = by_key[_name({**case["key"], "fault": ""})]
    tools = {
        tool: said.diagnosis(
            case["runs"][tool], right["runs"].get(tool), case["text"], right["text"], case["fault_lines"]
        )
        for tool in TOOLS
        if tool in case["runs"]
    }
    return {**case["key"], "kind": case["kind"], **_common(case), "plain": _plain(case), "tools": tools}


def right_row(case: Record) -> Record:
    """One right kernel: a report of a tool is a false one."""
    tools = {
        tool: said.diagnosis(case["runs"][tool], None, case["text"], case["text"], ())
        for tool in TOOLS
        if tool in case["runs"]
    }
    alone = {tool: round(run["seconds"], 2) for tool, run in case["alone"].items()}
    return {**case["key"], **_common(case), "plain": _plain(case), "tools": tools, "alone_s": alone}


def _common(case: Record) -> Record:
    emulator = case["emulated"]
    rounded: Record = {name: round(v, 3) if isinstance(v, float) else v for name, v in emulator.items()}
    if "message" in rounded:
        rounded["message"] = " ".join(rounded["message"].split())[:200]
    return {"compile_s": round(case["compile_s"] or 0.0, 2), "error": case["error"], "emulator": rounded}


def _plain(case: Record) -> Record:
    """A run with no tool: "right", "wrong", "crashed", "hung", or "not run"."""
    run = case["runs"].get(PLAIN)
    if run is None:
        return {"outcome": "not run"}
    ending, wrong = said.ending(run), case.get("wrong", "")
    outcome = ending if ending != "done" else "wrong" if wrong else "right"
    why = wrong or next((line for line in run["output"].splitlines() if "runner: " in line), "")
    return {"outcome": outcome, "why": why[:160], "seconds": round(run["seconds"], 2)}


# ---- counts


def summary(faults: list[Record], rights: list[Record], cases: list[Record]) -> Record:
    """Counts over all faults, by what the emulator calls them, and times; `alone_s`: nothing ran beside."""
    kinds = sorted({row["kind"] for row in faults})
    return {
        "faults": len(faults),
        "all": counts(faults),
        "by_kind": {kind: counts([row for row in faults if row["kind"] == kind]) for kind in kinds},
        "right_kernels": len(rights),
        "right_on_gpu": sum(row["plain"]["outcome"] == "right" for row in rights),
        "false_reports": {
            tool: sum(row["tools"].get(tool, {}).get("outcome") == "found" for row in rights)
            for tool in TOOLS
        },
        "seconds": seconds(faults, rights),
        "emulator_cpu_s": _median(row["emulator"].get("cpu_s") for row in faults),
        "nvrtc_s": _median(case["compile_s"] for case in cases),
    }


def counts(rows: list[Record]) -> Record:
    """Of these faults: how many the emulator, each tool and any tool find, and how a run alone ends."""
    runs = {tool: [row["tools"][tool] for row in rows if tool in row["tools"]] for tool in TOOLS}
    return {
        "faults": len(rows),
        "emulator": sum(bool(row["emulator"].get("found")) for row in rows),
        "plain": {
            outcome: sum(row["plain"]["outcome"] == outcome for row in rows)
            for outcome in ("right", "wrong", "crashed", "hung", "not run")
        },
        **{
            tool: {
                "run": len(of_tool),
                "found": sum(each["outcome"] == "found" for each in of_tool),
                "at_fault": sum(each["at_fault"] for each in of_tool),
                "failed": sum(each["outcome"] == "failed" for each in of_tool),
            }
            for tool, of_tool in runs.items()
        },
        "any_tool": sum(any(t["outcome"] == "found" for t in row["tools"].values()) for row in rows),
        "any_at_fault": sum(any(t["at_fault"] for t in row["tools"].values()) for row in rows),
    }


def seconds(faults: list[Record], rights: list[Record]) -> Record:
    """Median seconds of a run: with others beside it, and alone."""
    loaded = {tool: _median(row["tools"].get(tool, {}).get("seconds") for row in faults) for tool in TOOLS}
    plain = _median(row["plain"].get("seconds") for row in faults)
    alone = {tool: _median(row["alone_s"].get(tool) for row in rights) for tool in (PLAIN, *TOOLS)}
    return {"at_once": {PLAIN: plain, **loaded}, "alone": alone}


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None
