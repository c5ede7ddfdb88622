"""Shows what `evoflash db check` found, as JSON or text. Checks nothing."""

import json
from collections.abc import Iterator
from dataclasses import asdict

from evoflash.store.integrity import Defect, Health

MOST = 50  # findings that are listed


def as_json(health: Health) -> str:
    """One object: revision, rows by table (null: the table is missing), every finding."""
    counts = {table: None if rows < 0 else rows for table, rows in health.rows.items()}
    found = [asdict(finding) for finding in health.findings]
    return json.dumps({"revision": health.revision, "rows": counts, "findings": found}, indent=2)


def as_text(health: Health, label: str) -> str:
    """How many rows each table has, then a line for each finding."""
    return "\n".join(_lines(health, label))


def _lines(health: Health, label: str) -> Iterator[str]:
    yield f"{label}: revision {health.revision or 'unknown'}"
    for table, rows in health.rows.items():
        yield f"{rows:9,d}  {table}" if rows >= 0 else f"  missing  {table}"
    yield from (f"wrong: {_finding_text(finding)}" for finding in health.findings[:MOST])
    if len(health.findings) > MOST:
        yield f"and {len(health.findings) - MOST} more: --json lists all of them."
    if not health.findings:
        yield "nothing is wrong with it."


def _finding_text(finding: Defect) -> str:
    row = f", row {finding.row}" if finding.row else ""
    return f"{finding.table}{row}: {finding.what}" if finding.table else finding.what
