"""Makes one record of mutation testing out of several: families beside each other, parts of one added up.

Mutates nothing. Parts of a family are runs over different tasks of one grid (--first and --time-limit of
run.py): their counts and survivors are added up, and the kernels that several of them had count once.

    python -m scripts.mutation_testing.merge part1.json part2.json \\
        -o scripts/mutation_testing/records/mutation-testing-2026-11-25.json
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.kernels.family import load_family
from scripts.mutation_testing.grid import Core, share_of_pairs

_TOLD = ("command", "date", "took_s", "cut", "again", "tasks")  # of each record that went in


def merged(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record; UsageError where they are of different GPUs, draws or versions of a family."""
    first = records[0]
    for name in ("gpu", "seed", "draws"):
        if any(record[name] != first[name] for record in records):
            raise UsageError(f"the records differ in their {name}: only parts of one grid can be merged.")
    names = sorted({name for record in records for name in record["families"]})
    return {
        "merged": [told for record in records for told in _told(record)],
        "gpu": first["gpu"],
        "seed": first["seed"],
        "draws": first["draws"],
        "families": {
            name: _family(name, [r["families"][name] for r in records if name in r["families"]], first)
            for name in names
        },
    }


def _told(record: dict[str, Any]) -> list[dict[str, Any]]:
    """What a record says of the run that made it, or of the runs that were merged into it."""
    runs: list[dict[str, Any]] = record.get("merged", [{key: record[key] for key in _TOLD if key in record}])
    return runs


def _family(name: str, rows: list[dict[str, Any]], record: dict[str, Any]) -> dict[str, Any]:
    if len(rows) == 1:
        return rows[0]
    if len({row["version"] for row in rows}) > 1:
        raise UsageError(f"the records have several versions of {name}: run its mutants anew.")
    kernels = list({json.dumps(kernel): kernel for row in rows for kernel in row["grid"]}.values())
    survivors = [
        {**each, "core": kernels.index(row["grid"][each["core"]])}
        for row in rows
        for each in row["survivors"]
    ]
    reasons = Counter(each["reason"] for each in survivors)
    cores = [Core.read(name, kernel["problem"], kernel["values"], record["gpu"]) for kernel in kernels]
    return {
        "version": load_family(name).version,
        "share_of_pairs": round(share_of_pairs(cores, seed=record["seed"], draws=record["draws"]), 4),
        "cores": len(kernels),
        "mutants": sum(row["mutants"] for row in rows),
        "endings": _tables(row["endings"] for row in rows),
        "reports": dict(sum((Counter(row["reports"]) for row in rows), Counter()).most_common()),
        "changes": _tables(row["changes"] for row in rows),
        "only_other_seeds": sum(row["only_other_seeds"] for row in rows),
        "broken_cores": [broken for row in rows for broken in row["broken_cores"]],
        "grid": kernels,
        "survivors": survivors,
        "unexplained": reasons.pop("", 0),
        "equivalents": dict(reasons.most_common()),
    }


def _tables(tables: Any) -> dict[str, dict[str, int]]:
    """Counts by two names, added up."""
    total: dict[str, Counter[str]] = {}
    for table in tables:
        for name, counts in table.items():
            total.setdefault(name, Counter()).update(counts)
    return {name: dict(sorted(counts.items())) for name, counts in sorted(total.items())}


def main() -> int:
    """Merge and print a line for each family; exit code 1 where a mutant is unexplained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    found = merged([json.loads(path.read_text(encoding="utf-8")) for path in options.records])
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, row in found["families"].items():
        print(f"{name}: {row['mutants']} mutants of {row['cores']} kernels, {row['unexplained']} unexplained")
    return int(any(row["unexplained"] for row in found["families"].values()))


if __name__ == "__main__":
    sys.exit(main())
