"""Tables of what the code holds: families, packages, layers. Writes no file and measures nothing."""

import tomllib
from collections.abc import Sequence

from evoflash import operation as registry
from evoflash.kernels.family import Family, known_families, load_family
from scripts import ROOT
from scripts.pages import markdown, package_lists

_HEAD_DIMS = range(16, 257, 16)  # that a problem may have


def families() -> str:
    """A row for each family: its summary, how many genes and seeds it has, GPUs and head dimensions."""
    heads = ("family", "what it is", "genes", "seeds", "GPUs", "head dimensions")
    rows = map(_family_cells, map(load_family, known_families()))
    return "\n".join(markdown.table(heads, rows)) + "\n"


def _family_cells(family: Family) -> list[str]:
    counts = [str(len(family.params)), str(len(family.seeds))]
    is_attention = family.op == registry.DEFAULT
    dims = _spans([dim for dim in _HEAD_DIMS if _takes(family, dim)]) if is_attention else "none"
    return [f"`{family.name}`", family.summary, *counts, ", ".join(family.arch), dims]


def _takes(family: Family, head_dim: int) -> bool:
    """By the header's check of that name; a family without one takes all."""
    check = family.check.get("head_dim_fits")
    return check is None or bool(check({"head_dim": head_dim}))


def _spans(dims: Sequence[int]) -> str:
    if len(dims) == len(_HEAD_DIMS):
        return f"{dims[0]} to {dims[-1]}"
    return ", ".join(map(str, dims))


def packages() -> str:
    """The packages and modules of evoflash, floor by floor, each by its first line."""
    known = package_lists.entries(ROOT / "evoflash")
    rows = [
        (floor, f"`evoflash/{_file(key)}`", package_lists.first_sentence(known[key]))
        for floor, names in package_lists.floors()
        for name in names
        for key in (name, f"{name}/")
        if key in known
    ]
    return "\n".join(markdown.table(("floor", "where", "what"), rows)) + "\n"


def _file(name: str) -> str:
    return name if name.endswith("/") else f"{name}.py"


def layers() -> str:
    """The layers that lint-imports holds, from top to bottom."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = stated["tool"]["importlinter"]["contracts"]
    ladder = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return "\n".join(["```", *ladder, "```"]) + "\n"
