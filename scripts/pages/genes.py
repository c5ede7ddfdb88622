"""Writes docs/genes.md: the techniques with gene, values and measured comparison, then every gene.

    python -m scripts.pages.genes             write it
    python -m scripts.pages.genes --check     say whether it is stale

It is made of the families' headers, scripts/families/genes.toml and the record genes-h200.json beside it. No
figure enters the page by hand. Measures nothing.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evoflash.errors import EvoflashError
from evoflash.kernels.family import Family, known_families, load_family
from evoflash.kernels.header import gene_notes, header_of, read_table
from evoflash.space import Value
from evoflash.specs import GpuSpec, load_gpu
from scripts import ROOT
from scripts.families.gene_rows import Row, Side, param_of, read_rows
from scripts.pages import markdown
from scripts.records import read_record

PAGE = ROOT / "docs" / "genes.md"
RECORDS = "scripts/families/records"
_TOP = """# Genes

Made by `scripts/pages/genes.py` from the headers of templates/, scripts/families/genes.toml and a record of
measurements; edit the first two.

## Techniques

Each row is a technique of attention kernels (numbered as in the list that evoflash began from), the genes
by which a search reaches it, and one measured comparison of two settings. "B over A" is a ratio of times:
below 1 B is the faster; in brackets its 95 % interval. All values of A and B are in
scripts/families/genes.toml.
"""
_GENES_TOP = """## Every gene

"Active when" is a condition of the header: elsewhere the gene is absent from the genome. Genes of one block
are exchanged together by crossover. A gene with a star names code blocks: the emulator sees one genome of
each combination before a GPU does.
"""


def newest(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """Name and content of the measurement file with the latest date, or None."""
    paths = sorted(folder.glob("genes-*.json*"))
    records = [(path.name, read_record(path)) for path in paths]
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
    heads = ("", "technique", "reached by", "A, then B", "B over A")
    lines = markdown.table(heads, (_cells(row, by_number.get(row.number), gpu) for row in rows))
    if record:
        lines += ["", f"Measured on {record['date']}, {record['gpu']}, CUDA {record['driver_cuda']}, by"]
        lines += [f"`{record['command']}`: [{name}](../{RECORDS}/{name}). Protocol: {record['protocol']}."]
    return "\n".join(lines) + "\n"


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
    digits = 3 if f"{found['low']:.3f}" != f"{found['high']:.3f}" else 5  # no interval of width 0
    ratio, low, high = (f"{found[name]:.{digits}f}" for name in ("b_over_a", "low", "high"))
    return f"{ratio} [{low}, {high}], {found['answer']} ({times})"


def _is_of(row: Row, found: Mapping[str, Any], gpu: GpuSpec) -> bool:
    """Whether the figures are those of the genomes and workloads that the row names today."""
    return all(
        (found[name]["genome_id"], found[name]["problem"]) == (side.genome(gpu).id, str(side.workload))
        for name, side in zip("ab", row.sides or (), strict=False)
    )


def genes_of(family: Family) -> str:
    """The table of one family's genes."""
    notes = gene_notes(header_of(family.path))
    table, _ = read_table(family.path)
    blocks = {gene: block for block, genes in table.get("blocks", {}).items() for gene in genes}
    lines = [
        f"### {family.name}",
        "",
        f"{family.summary} Version {family.version}, {', '.join(family.arch)}.",
        "",
        *markdown.table(("gene", "values", "active when", "block", "what it is"), ()),
    ]
    for param in family.params:
        star = " *" if param.name in family.structural else ""
        condition = f"`{family.when[param.name].text}`" if param.name in family.when else "always"
        cells = (f"`{param.name}`{star}", _values(param.values), condition, blocks.get(param.name, ""))
        lines.append(markdown.row((*cells, notes.get(param.name, ""))))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or with --check say whether it is stale (1)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="is the page stale?")
    parser.add_argument("--gpu", default="h200")
    args = parser.parse_args()
    fresh = page(read_rows(), newest(ROOT / RECORDS), load_gpu(args.gpu))
    return markdown.keep(PAGE, fresh, made_by="scripts.pages.genes", is_check=args.check)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvoflashError as error:
        sys.exit(f"genes: {error}")
