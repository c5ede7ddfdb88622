"""The command `evoflash families`: the kernel families, their params and checks. Compiles nothing."""

import json
from typing import TYPE_CHECKING

import typer

from evoflash.commands.options import Json

if TYPE_CHECKING:
    from evoflash.families.family import Family


def families(as_json: Json = False) -> None:
    """The kernel families and their params.

    Example: evoflash families
    """
    from evoflash.families.family import known_families, load_family

    loaded = [load_family(name) for name in known_families()]
    typer.echo(_as_json(loaded) if as_json else "\n\n".join(map(_block, loaded)))


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


def _block(family: "Family") -> str:
    """A family's params with their values, and how many points they span."""
    from evoflash.gpu import load_gpu
    from evoflash.operations import load

    width = max(len(p.name) for p in family.params)
    lines = [f"{family.name} (version {family.version}, {', '.join(family.arch)}): {family.summary}"]
    lines += [f"  {p.name:{width}}  {' '.join(map(str, p.values))}" for p in family.params]
    space = family.space((load(family.op).probe.compile_key("sm_89"),), load_gpu("l4"))
    lines.append(f"  {space.cardinality} points before {len(family.check)} checks: {', '.join(family.check)}")
    return "\n".join(lines)
