"""The account of a soak: is the database whole, what became of what was planted, where the time went.

Reads a database and the lines in which commands reported what was stored; runs nothing (see run.py).
"""

import itertools
import json
import sqlite3
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from scripts.soak.planting import ADDRESS, HANG, HOST, NAN, plant_of

Row = dict[str, Any]

# What must become of a planted genome that gets as far as its fault.
EXPECTED = {ADDRESS: "runtime", HOST: "runtime", HANG: "timeout", NAN: "correctness"}
_EARLIER = ("compile", "constraints")  # rejected before its fault is met


def judged(database: Path) -> list[Row]:
    """Every proposal in order, with what became of it."""
    query = """
        select l.genome_id as genome, e.status, e.rung, e.reason, e.duplicate_of, e.environment_json
        from lineage l left join evaluations e on e.run_id = l.run_id and e.genome_id = l.genome_id
        order by l.run_id, l.position"""
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def whole(database: Path, rows: list[Row], reported: list[Row], budget: int) -> Row:
    """What must hold of the database, whatever the commands died of."""
    with sqlite3.connect(database) as connection:
        (integrity,) = connection.execute("pragma integrity_check").fetchone()
        (runs,) = connection.execute("select count(*) from runs").fetchone()
        (loose,) = connection.execute(
            "select count(*) from evaluations where kind = 'candidate' and genome_id not in "
            "(select genome_id from lineage)"
        ).fetchone()
    genomes = Counter(row["genome"] for row in rows)
    spent = sum(row["duplicate_of"] is None for row in rows)
    return {
        "integrity_check": integrity,
        "runs": runs,
        "proposals": len(rows),
        "proposals_with_other_than_one_row": sum(count > 1 for count in genomes.values())
        + sum(row["status"] is None for row in rows),
        "rows_without_proposal": loose,
        "reported_as_stored_but_lost": len({line["genome"] for line in reported} - set(genomes)),
        "spent": spent,
        "budget": budget,
        "overspent": max(0, spent - budget),
    }


def is_whole(account: Row) -> bool:
    """Nothing lost, nothing twice, nothing spent beyond the budget."""
    zero = (
        *("proposals_with_other_than_one_row", "rows_without_proposal"),
        *("reported_as_stored_but_lost", "overspent"),
    )
    return (
        account["integrity_check"] == "ok"
        and account["runs"] == 1
        and not any(account[name] for name in zero)
    )


def verdicts(rows: list[Row]) -> Row:
    """Planted genomes by fault and what became of them; those that were judged wrongly; the healthy ones."""
    by_fault: dict[str, Counter[str]] = {fault: Counter() for fault in EXPECTED}
    wrong, healthy, losses = [], Counter[str](), []
    for row in rows:
        fault = plant_of(row["genome"])
        if not fault:
            healthy[row["status"]] += 1
            if row["status"] not in ("correct", "screened", *_EARLIER):
                losses.append({name: row[name] for name in ("genome", "status", "rung", "reason")})
            continue
        by_fault[fault][f"{row['status']} at {row['rung']}"] += 1
        if row["status"] not in (EXPECTED[fault], *_EARLIER):
            wrong.append({"fault": fault} | {n: row[n] for n in ("genome", "status", "rung", "reason")})
    return {
        "planted": sum(count.total() for count in by_fault.values()),
        "by_fault": {fault: dict(count) for fault, count in by_fault.items()},
        "planted_and_judged_wrongly": wrong,
        "healthy": dict(healthy),
        "healthy_and_rejected": losses,  # honest failures among them: read their reasons
    }


def seconds(reported: list[Row], wall_s: float) -> Row:
    """Where the commands' wall time went.

    A candidate's is the time from the row before it to its own: the GPU takes them one by one. What the row
    after a planted one took longer than the median is put to the planted one's account too.
    """
    own: dict[str, list[float]] = {fault: [] for fault in ("", *EXPECTED)}
    after: list[float] = []
    for before, line in itertools.pairwise(reported):
        if before["leg"] != line["leg"]:
            continue
        took_s = line["at_s"] - before["at_s"]
        fault = plant_of(line["genome"])
        if plant_of(before["genome"]) and not fault:
            after.append(took_s)
        own[fault].append(took_s)
    median_s = statistics.median(own[""]) if own[""] else 0.0
    planted_s = sum(sum(own[fault]) for fault in EXPECTED)
    stalled_s = sum(max(0.0, took_s - median_s) for took_s in after)
    searched_s = sum(map(sum, own.values()))
    return {
        "wall": round(wall_s, 1),
        "start_up_and_finals": round(wall_s - searched_s, 1),
        "median_healthy": round(median_s, 3),
        "median_by_fault": {f: round(statistics.median(own[f]), 3) for f in EXPECTED if own[f]},
        "longest_by_fault": {f: round(max(own[f]), 3) for f in EXPECTED if own[f]},
        "on_planted": round(planted_s, 1),
        "stalls_after_them": round(stalled_s, 1),
        "share_of_wall": round((planted_s + stalled_s) / wall_s, 4) if wall_s else 0.0,
        "share_without_start_up": round((planted_s + stalled_s) / searched_s, 4) if searched_s else 0.0,
    }


def on_the_gpu(rows: list[Row]) -> Row:
    """Medians, in seconds, over the candidates that were timed: their rungs after compilation."""
    rungs = ("smoke_s", "correctness_s", "timing_s")
    spent = [json.loads(row["environment_json"] or "{}") for row in rows if row["status"] == "correct"]
    timed = [[float(each.get(rung, 0)) for rung in rungs] for each in spent if "timing_s" in each]
    if not timed:
        return {"candidates": 0}
    columns = zip(*timed, strict=True)
    middle = {rung: round(statistics.median(x), 3) for rung, x in zip(rungs, columns, strict=True)}
    whole_s = [sum(each) for each in timed]
    share = statistics.median((each[0] + each[1]) / sum(each) for each in timed)
    return {
        "candidates": len(timed),
        **middle,
        "whole_s": round(statistics.median(whole_s), 3),
        "longest_s": round(max(whole_s), 3),
        "validators_share": round(share, 3),
    }
