"""Writes several kernels and their dispatcher as a folder that is a Python package. Chooses no kernel.

The folder holds the kernels, the dispatcher with the rule that names one of them for a shape, and evoflash's
runtime. `evoflash portfolio` asks for it.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash import runtime
from evoflash.errors import UsageError
from evoflash.evaluation import Basis
from evoflash.exports.cubin import write_artefact
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import artefact
from evoflash.exports.one_file import MODULES
from evoflash.runtime.dispatch import FALLBACK
from evoflash.version import __version__
from evoflash.written_files import check_replaceable, write_text

KERNELS = "kernels"  # the folder of the members'


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel for one compile key."""

    exported: ExportRequest

    @property
    def folder(self) -> str:
        genome, key = self.exported.genome, self.exported.compile_key.names()
        mask = "causal" if key["causal"] else "full"
        what = f"d{key['head_dim']}-{key['dtype']}-{mask}-gqa{key['gqa_ratio']}"
        return f"{KERNELS}/{genome.id[:8]}-{what}"


@dataclass(frozen=True, slots=True)
class Package:
    """What is written: members numbered as in the rule, and what is told of the choice in portfolio.json."""

    members: Sequence[Member]
    rule: Mapping[str, Any]
    summary: Mapping[str, Any]
    shapes: int


def by_members(rule: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[int, tuple[Any, ...]]]]:
    """A rule whose points name kernels as one whose points name members; and of each member its kernel and
    its key: head_dim, dtype, causal, gqa_ratio.
    """
    members: list[tuple[int, tuple[Any, ...]]] = []
    keys = []
    for key in rule["keys"]:
        kernels = sorted({point[3] for point in key["points"]} - {FALLBACK})
        first, name = len(members), tuple(key[part] for part in ("head_dim", "dtype", "causal", "gqa_ratio"))
        members += [(kernel, name) for kernel in kernels]
        points = [[*point[:3], first + kernels.index(point[3])] for point in key["points"]]
        keys.append({**key, "points": points})
    return {**rule, "keys": keys}, members


_FORMAT, _VERSION = "evoflash portfolio", 1  # of runtime/torch_portfolio.py, which imports torch
_MODULES = (
    *MODULES,
    *("torch_fallback", "torch_call", "torch_operators", "torch_op", "torch_doors", "dispatch"),
    "torch_portfolio",
)
_INIT = '''"""Attention for PyTorch: {count} kernels for {gpu}, chosen by evoflash for {shapes} shapes.

{chosen_by}

    from {name} import attention
    out = attention(q, k, v, causal=True)         # (batch, heads, seq, head_dim); layout="bshd" for the other
    out, lse = attention(q, k, v, return_lse=True)

What no kernel was chosen for PyTorch's scaled_dot_product_attention computes; fallback=False refuses it.
portfolio.json has the kernels, their times and the rule by which the dispatcher goes.
"""

from pathlib import Path

from . import torch_doors
from .launch import Refused
from .torch_portfolio import Portfolio, as_fused

__all__ = ["Portfolio", "Refused", "attention", "register_sdpa", "register_transformers"]

attention = Portfolio.read(Path(__file__).parent)


def register_sdpa(name="{name}"):
    """For torch.nn.attention.activate_flash_attention_impl(name)."""
    torch_doors.register_sdpa(as_fused(attention), name)


def register_transformers(name="{name}"):
    """For Transformers' attn_implementation=name."""
    torch_doors.register_transformers(as_fused(attention), name)
'''


def write(package: Package, path: Path) -> None:
    """Write the folder, or renew one of such an export; other files in it are left alone.

    UsageError where the path is anything else, its name is none that Python imports, or a kernel does not
    compile.
    """
    if not path.name.isidentifier():
        raise UsageError(
            f"'{path.name}' is no name of a Python package: use letters, digits and underscores."
        )
    if path.exists() and not _is_ours(path):
        raise UsageError(f"{path} is there and no folder of such an export: choose another path.")
    check_replaceable(*(each for each in path.rglob("*") if _is_of_package(path, each)))
    beside = path.with_name(f".{path.name}.new")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        _fill(package, beside, path.name)
        path.mkdir(exist_ok=True)
        shutil.rmtree(path / KERNELS, ignore_errors=True)
        for part in beside.iterdir():
            part.replace(path / part.name)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): choose another path.") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    return path.is_dir() and (not any(path.iterdir()) or (path / "portfolio.json").exists())


def _is_of_package(folder: Path, path: Path) -> bool:
    """Whether writing the package would replace the file."""
    names = {f"{module}.py" for module in _MODULES} | {"portfolio.json", "__init__.py"}
    inside = path.relative_to(folder)
    is_compiled = "__pycache__" in inside.parts
    return not is_compiled and (inside.parts[0] == KERNELS or str(inside) in names)


def _fill(package: Package, folder: Path, name: str) -> None:
    for member in package.members:
        inside = folder / member.folder
        inside.mkdir(parents=True)
        write_artefact(artefact(member.exported), inside)
    for module in _MODULES:
        text = Path(runtime.__path__[0], f"{module}.py").read_text(encoding="utf-8")
        write_text(folder / f"{module}.py", text)
    write_text(folder / "portfolio.json", json.dumps(_description(package), indent=1) + "\n")
    gpu, count = package.members[0].exported.gpu.name, len({m.exported.genome.id for m in package.members})
    words = {"count": count, "gpu": gpu, "shapes": package.shapes, "name": name}
    write_text(folder / "__init__.py", _INIT.format(**words, chosen_by=_chosen_by(package)))


def _chosen_by(package: Package) -> str:
    """Where the times are from by which the kernels were chosen."""
    if package.summary.get("basis") == Basis.MEASURED.value:
        return "They were chosen by times that were measured on that GPU."
    return (
        "They were chosen by ESTIMATES of a performance model: no time was measured, regrets are estimates\n"
        "too. Choose again on the GPU before you rely on them."
    )


def _description(package: Package) -> dict[str, Any]:
    members = [
        {
            "folder": member.folder,
            "kernel": member.exported.genome.id,
            "family": member.exported.genome.family,
        }
        for member in package.members
    ]
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "evoflash": __version__,
        "gpu": package.members[0].exported.gpu.name,
        "members": members,
        "rule": dict(package.rule),
        **package.summary,
    }
