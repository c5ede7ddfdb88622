"""Reads genes.toml: which gene stands for which technique, and the two settings that show what it brings.

It checks every row against the families' headers. It compiles and measures nothing.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.kernels.family import load_family
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.space import Genome, Param, Value
from evoflash.specs import GpuSpec

TABLE = Path(__file__).with_name("genes.toml")
# The numbers of the techniques that must have a row.
ASKED = (*range(1, 23), *range(26, 30), 31, *range(33, 37))


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two settings of a row: a genome and the workload that it runs on."""

    family: str
    values: tuple[tuple[str, Value], ...]
    shown: tuple[tuple[str, Value], ...]  # the values in which the sides differ
    problem: str  # as written in the table

    @property
    def workload(self) -> AttentionWorkload:
        return parse_workload(self.problem)

    def genome(self, gpu: GpuSpec) -> Genome:
        """The genome; UsageError when it is not valid on the GPU for the side's workload."""
        space = load_family(self.family).space((self.workload.compile_key(gpu.arch),), gpu)
        genome = space.genome(dict(self.values))
        broken = space.violations(genome)
        stray = sorted(set(dict(self.values)) - set(genome.as_dict()))
        if broken or stray:
            why = f"fails {', '.join(broken)}" if broken else f"sets {', '.join(stray)}, which is inactive"
            raise UsageError(f"{self.family}({', '.join(f'{k}={v}' for k, v in self.values)}) {why}.")
        return genome


@dataclass(frozen=True, slots=True)
class Row:
    """A technique, where the search reaches it, and two settings of it; or why there is none."""

    number: int
    technique: str
    genes: tuple[str, ...]  # "family" or "family.gene"
    sides: tuple[Side, Side] | None
    why_none: str = ""
    note: str = ""


def read_rows(path: Path = TABLE) -> tuple[Row, ...]:
    """The rows in the order of their numbers; UsageError names the row that cannot be read."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = []
    for entry in table["row"]:
        try:
            rows.append(_row(entry))
        except (KeyError, UsageError) as error:
            raise UsageError(f"{path.name}: row {entry.get('number', '?')}: {error}") from None
    return tuple(sorted(rows, key=lambda row: row.number))


def _row(entry: Mapping[str, Any]) -> Row:
    row = Row(
        number=entry["number"],
        technique=entry["technique"],
        genes=tuple(entry.get("genes", ())),
        sides=None if "none" in entry else (_side(entry, "a"), _side(entry, "b")),
        why_none=entry.get("none", ""),
        note=entry.get("note", ""),
    )
    for gene in row.genes:
        param_of(gene)
    if row.sides is not None and not row.genes:
        raise UsageError("names no gene: say where the search reaches it.")
    return row


def _side(entry: Mapping[str, Any], which: str) -> Side:
    # A side may be of another family or on another problem than the row; `base` belongs to the row's family.
    family, own = entry.get(f"{which}_family", entry["family"]), entry[which]
    base = entry.get("base", {}) if family == entry["family"] else {}
    return Side(
        family=family,
        values=tuple(sorted({**base, **own}.items())),
        shown=tuple(own.items()),
        problem=entry.get(f"{which}_problem", entry["problem"]),
    )


def param_of(gene: str) -> Param | None:
    """The param that "family.gene" names, None for a whole family; UsageError for an unknown one."""
    name, _, gene_name = gene.partition(".")
    family = load_family(name)
    if not gene_name:
        return None
    for param in family.params:
        if param.name == gene_name:
            return param
    raise UsageError(f"{name} has no gene '{gene_name}': it has {', '.join(p.name for p in family.params)}.")
