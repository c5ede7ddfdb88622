"""`evoflash families` shows the kernel families, their params and checks. It compiles nothing."""

import json
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from evoflash.cli.options import Json
from evoflash.views.terminal import stdout_console

if TYPE_CHECKING:
    from evoflash.kernels.family import Family


def families(
    name: Annotated[str | None, typer.Argument(help="One family; default: all of them.")] = None,
    *,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also what each gene is, and each check in words.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The kernel families, their genes and their checks.

    Example: evoflash families flash_mma --explain
    """
    from evoflash.kernels.family import known_families, load_family

    loaded = [load_family(each) for each in ((name,) if name else known_families())]
    if as_json:
        typer.echo(_as_json(loaded))
        return
    width = max(40, min(stdout_console(100).width, 120))
    blocks = (_explanation(family, width) if explain else _block(family, width) for family in loaded)
    typer.echo("\n\n".join(blocks))


def _as_json(families: "list[Family]") -> str:
    rows = [
        {
            "name": f.name,
            "version": f.version,
            "arch": f.arch,
            "summary": f.summary,
            "params": {p.name: p.values for p in f.params},
            "checks": {name: e.text for name, e in f.check.items()},
        }
        for f in families
    ]
    return json.dumps(rows, indent=2)


def _block(family: "Family", width: int) -> str:
    """A family's genes with their values, and how many points they span."""
    from evoflash.operation import load
    from evoflash.specs import load_gpu

    column = max(len(p.name) for p in family.params) + 4
    lines = _wrap_lines(_title(family), width)
    for param in family.params:
        values = " ".join(map(str, param.values))
        lines += _wrap_lines(f"  {param.name}".ljust(column) + values, width, column)
    space = family.space((load(family.op).probe.compile_key("sm_89"),), load_gpu("l4"))
    checks = f"  {space.cardinality} points before {len(family.check)} checks: {', '.join(family.check)}"
    return "\n".join([*lines, *_wrap_lines(checks, width)])


def _title(family: "Family") -> str:
    return f"{family.name} (version {family.version}, {', '.join(family.arch)}): {family.summary}"


def _wrap_lines(text: str, width: int, indent: int = 4) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)


def _explanation(family: "Family", width: int) -> str:
    """Every gene with its values, the default first, what it is and when it is active; every check."""
    from evoflash.kernels.header import body_of, gene_notes

    header = family.path.read_text(encoding="utf-8").removesuffix(body_of(family.path))
    notes = gene_notes(header)
    lines = [*_wrap_lines(_title(family), width), "", "genes (the first value is the default):"]
    for param in family.params:
        lines += _wrap_lines(f"  {param.name}: {', '.join(map(str, param.values))}", width)
        if param.name in notes:
            lines += _wrap_lines(f"      {notes[param.name]}", width, 6)
        if param.name in family.when:
            lines += _wrap_lines(f"      only where {family.when[param.name].text}", width, 6)
    lines += ["", "checks (what a genome must fulfil before it is compiled):"]
    for name, condition in family.check.items():
        lines += _wrap_lines(f"  {name.replace('_', ' ')}: {condition.text}", width, 6)
    return "\n".join(lines)
