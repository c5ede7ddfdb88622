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
from evoflash.exports.launch_json import artefact, form_of
from evoflash.exports.one_file import MODULES
from evoflash.notices import count_of
from evoflash.operation import PythonDoor, operation_of
from evoflash.runtime.dispatch import FALLBACK
from evoflash.runtime.packaged import PACKAGE_FORMAT, PACKAGE_VERSION
from evoflash.version import __version__
from evoflash.written_files import check_replaceable, is_dry_run, make_folder, note_move, write_text

KERNELS = "kernels"  # the folder of the members'


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel for one compile key."""

    exported: ExportRequest

    @property
    def folder(self) -> str:
        key = self.exported.compile_key
        form = operation_of(key).portfolio
        assert form is not None, "a portfolio is of an operation that has a dispatcher"
        return f"{KERNELS}/{self.exported.genome.id[:8]}-{form.folder(key.names())}"


@dataclass(frozen=True, slots=True)
class Package:
    """What is written: members numbered as in the rule, and what is told of the choice in portfolio.json."""

    members: Sequence[Member]
    rule: Mapping[str, Any]
    summary: Mapping[str, Any]
    shapes: int


def by_members(rule: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[int, tuple[Any, ...]]]]:
    """A rule whose points name kernels as one whose points name members; and of each member its kernel and
    its key: what it is compiled for, in the rule's order.
    """
    members: list[tuple[int, tuple[Any, ...]]] = []
    keys = []
    for key in rule["keys"]:
        kernels = sorted({point[3] for point in key["points"]} - {FALLBACK})
        first, name = len(members), tuple(value for part, value in key.items() if part != "points")
        members += [(kernel, name) for kernel in kernels]
        points = [[*point[:3], first + kernels.index(point[3])] for point in key["points"]]
        keys.append({**key, "points": points})
    return {**rule, "keys": keys}, members


def _door(package: Package) -> PythonDoor:
    form = form_of(package.members[0].exported.compile_key)
    return form.doors["portfolio"]


def _modules(package: Package) -> tuple[str, ...]:
    return (*MODULES, *_door(package).modules)


def check_folder(path: Path) -> None:
    """UsageError where a package cannot be written there: the path is anything but a new folder or one of
    such an export, a file in that was edited, or its name is none that Python imports.
    """
    if not path.name.isidentifier():
        raise UsageError(
            f"'{path.name}' is no name of a Python package: use letters, digits and underscores."
        )
    if path.exists() and not _is_ours(path):
        raise UsageError(f"{path} is there and no folder of such an export: choose another path.")
    check_replaceable(*(each for each in path.rglob("*") if _is_of_package(path, each)))


def write(package: Package, path: Path) -> None:
    """Write the folder, or renew one of such an export; other files in it are left alone.

    UsageError as for check_folder(), or where a kernel does not compile.
    """
    check_folder(path)
    beside = path.with_name(f".{path.name}.new")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        make_folder(beside)
        _fill(package, beside, path.name)
        note_move(beside, path)
        if is_dry_run():
            return
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
    """Whether writing a package would replace the file."""
    inside = path.relative_to(folder)
    modules = {each.name for each in Path(runtime.__path__[0]).glob("*.py")}
    is_compiled = "__pycache__" in inside.parts
    return not is_compiled and (inside.parts[0] == KERNELS or str(inside) in {*modules, "portfolio.json"})


def _fill(package: Package, folder: Path, name: str) -> None:
    for member in package.members:
        inside = folder / member.folder
        make_folder(inside)
        write_artefact(artefact(member.exported), inside)
    for module in _modules(package):
        text = Path(runtime.__path__[0], f"{module}.py").read_text(encoding="utf-8")
        write_text(folder / f"{module}.py", text)
    write_text(folder / "portfolio.json", json.dumps(_description(package), indent=1) + "\n")
    gpu, count = package.members[0].exported.gpu.name, len({m.exported.genome.id for m in package.members})
    words = {
        "kernels": count_of(count, "kernel"),
        "gpu": gpu,
        "shapes": count_of(package.shapes, "shape"),
        "name": name,
    }
    write_text(folder / "__init__.py", _door(package).use.format(**words, chosen_by=_chosen_by(package)))


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
        "format": PACKAGE_FORMAT,
        "version": PACKAGE_VERSION,
        "evoflash": __version__,
        "gpu": package.members[0].exported.gpu.name,
        "members": members,
        "rule": dict(package.rule),
        **package.summary,
    }
