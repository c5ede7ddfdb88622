"""Writes docs/genes.md: the techniques of the seeds with gene, values and measured A/B, then every gene.

    python scripts/genes.py                       write it from the headers, docs/genes.toml and measurements
    python scripts/genes.py --check               say whether it is stale
    python scripts/genes.py --dry-run             compile and emulate A and B of every row; no GPU needed
    python scripts/genes.py --measure -o docs/measurements/genes-h200.json      on a machine with the GPU

No figure enters the page by hand. Compiling and timing are in gene_ab.py, the rows in gene_rows.py.
"""

import argparse
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gene_ab
from gene_rows import ROOT, Row, Side, param_of, read_rows

from evoflash.errors import EvoflashError, UsageError
from evoflash.families.family import Family, known_families, load_family
from evoflash.families.header import body_of
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.space import Value

PAGE = ROOT / "docs" / "genes.md"
MEASUREMENTS = ROOT / "docs" / "measurements"
_TOP = """# Genes

Made by `scripts/genes.py` from the headers of templates/, docs/genes.toml and docs/measurements/; edit those.

## Techniques

Each row is a technique that the seeds tried or wanted (numbers of their requirement list), the genes by which
a search reaches it, and one measured comparison of two settings. "B over A" is a ratio of times: below 1 B is
the faster; in brackets its 95 % interval. All values of A and B are in docs/genes.toml.
"""
_GENES_TOP = """## Every gene

"Active when" is a condition of the header: elsewhere the gene is absent from the genome. Genes of one block
are exchanged together by crossover. A gene with a star names code blocks: the emulator sees one genome of
each combination before a GPU does.
"""


def newest(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """Name and content of the measurement file with the latest date, or None."""
    paths = sorted(folder.glob("genes-*.json"))
    records = [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    return max(records, key=lambda found: (found[1]["date"], found[0]), default=None)


def page(rows: Sequence[Row], measured: tuple[str, Mapping[str, Any]] | None, gpu: GpuSpec) -> str:
    """The whole page."""
    families = [load_family(name) for name in known_families()]
    parts = [_TOP, techniques(rows, measured, gpu), _GENES_TOP, *map(genes_of, families)]
    return "\n".join(parts)


def techniques(rows: Sequence[Row], measured: tuple[str, Mapping[str, Any]] | None, gpu: GpuSpec) -> str:
    """The table of the techniques and, below it, how and where its figures were measured."""
    name, record = measured or ("", {})
    by_number = {found["number"]: found for found in record.get("rows", ())}
    lines = [_line(("", "technique", "reached by", "A, then B", "B over A")), _line(["---"] * 5)]
    lines += [_line(_cells(row, by_number.get(row.number), gpu)) for row in rows]
    if record:
        lines += ["", f"Measured on {record['date']}, {record['gpu']}, CUDA {record['driver_cuda']}, by"]
        lines += [f"`{record['command']}`: [{name}](measurements/{name}). Protocol: {record['protocol']}."]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _cells(row: Row, found: Mapping[str, Any] | None, gpu: GpuSpec) -> list[str]:
    technique = f"{row.technique} ({row.note})" if row.note else row.technique
    if row.sides is None:
        return [str(row.number), technique, f"not a gene: {row.why_none}", "", ""]
    reached = "; ".join(map(_gene_and_values, row.genes))
    return [str(row.number), technique, reached, _settings(*row.sides), _ratio(row, found, gpu)]


def _gene_and_values(gene: str) -> str:
    param = param_of(gene)
    return f"`{gene}` {_values(param.values)}" if param else f"`{gene}`"


def _values(values: Iterable[Value]) -> str:
    return ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)


def _settings(a: Side, b: Side) -> str:
    if a.family == b.family and a.problem == b.problem:
        return f"{_shown(a)}, then {_shown(b)}; {a.family}, `{a.problem}`"
    return f"{_whole(a)}, then {_whole(b)}"


def _shown(side: Side) -> str:
    return " ".join(f"{name}={_values([value])}" for name, value in side.shown)


def _whole(side: Side) -> str:
    return f"{side.family} on `{side.problem}`"


def _ratio(row: Row, found: Mapping[str, Any] | None, gpu: GpuSpec) -> str:
    if found is None or not _is_of(row, found, gpu):
        return "not measured"
    if "failure" in found:
        return f"failed: {found['failure']}"
    times = f"{found['a']['median_us']:.2f} us, {found['b']['median_us']:.2f} us"
    return f"{found['b_over_a']:.3f} [{found['low']:.3f}, {found['high']:.3f}], {found['answer']} ({times})"


def _is_of(row: Row, found: Mapping[str, Any], gpu: GpuSpec) -> bool:
    """Whether the figures are those of the genomes and workloads that the row names today."""
    return all(
        (found[name]["genome_id"], found[name]["problem"]) == (side.genome(gpu).id, str(side.workload))
        for name, side in zip("ab", row.sides or (), strict=False)
    )


def genes_of(family: Family) -> str:
    """The table of one family's genes."""
    header = family.path.read_text(encoding="utf-8").removesuffix(body_of(family.path))
    notes = _notes(header)
    blocks = _blocks(header)
    lines = [
        f"### {family.name}",
        "",
        f"{family.summary} Version {family.version}, {', '.join(family.arch)}.",
        "",
        _line(("gene", "values", "active when", "block", "what it is")),
        _line(["---"] * 5),
    ]
    for param in family.params:
        star = " *" if param.name in family.structural else ""
        condition = f"`{family.when[param.name].text}`" if param.name in family.when else "always"
        cells = (f"`{param.name}`{star}", _values(param.values), condition, blocks.get(param.name, ""))
        lines.append(_line((*cells, notes.get(param.name, ""))))
    return "\n".join(lines) + "\n"


def _notes(header: str) -> dict[str, str]:
    """The comment beside each param's line."""
    return dict(re.findall(r"^(\w+)\s*=\s*\[[^\]]*\]\s*#\s*(.+)$", header, flags=re.MULTILINE))


def _blocks(header: str) -> dict[str, str]:
    """Gene -> the block that names it."""
    table = tomllib.loads(header.partition("{#---\n")[2].rpartition("---#}")[0])
    return {gene: block for block, genes in table.get("blocks", {}).items() for gene in genes}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="is the page stale?")
    what.add_argument("--dry-run", action="store_true", help="compile and emulate every A and B")
    what.add_argument("--measure", action="store_true", help="time every A and B on this machine's GPU")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--rows", default="", help="numbers with commas between them; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def main() -> int:
    """Do what the options say; 1 when something is stale or wrong."""
    args = _arguments()
    gpu, wanted = load_gpu(args.gpu), {int(number) for number in args.rows.split(",") if number}
    rows = read_rows()
    chosen = [row for row in rows if not wanted or row.number in wanted]
    if args.dry_run:
        return _dry_run(chosen, gpu, args)
    if args.measure:
        return _measure(chosen, gpu, args)
    fresh = page(rows, newest(MEASUREMENTS), gpu)
    if args.check:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != fresh
        if stale:
            print("docs/genes.md is older than headers, genes.toml or measurements: run scripts/genes.py.")
        return int(stale)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


def _dry_run(rows: Sequence[Row], gpu: GpuSpec, args: argparse.Namespace) -> int:
    prepared = gene_ab.prepare_sides(rows, gpu, emulate=True, workers=args.workers, seed=args.seed)
    lines = gene_ab.complaints(rows, prepared)
    print("\n".join([*lines, f"{len(prepared)} kernels compiled and emulated, {len(lines)} complaints"]))
    return int(bool(lines))


def _measure(rows: Sequence[Row], gpu: GpuSpec, args: argparse.Namespace) -> int:
    if args.output is None:
        raise UsageError("--measure needs -o FILE.json, for instance docs/measurements/genes-h200.json.")
    record = gene_ab.measure(rows, gpu, workers=args.workers, seed=args.seed)
    args.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    failed = [row["number"] for row in record["rows"] if "failure" in row]
    print(f"{len(record['rows'])} rows in {record['took_s']} s, failed: {failed or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvoflashError as error:
        sys.exit(f"genes.py: {error}")
