"""The kind "cubin" is NAME.cubin with its launch.json as NAME.json, which evoflash.runtime launches."""

import json
from pathlib import Path

from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact, file_names
from evoflash.written_files import check_replaceable, write_bytes, write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the description and the cubins; of several architectures NAME.sm_90a.cubin and so on."""
    stem = path.name.removesuffix(".cubin")
    made = artefact(exported, file_names(stem, exported), command=exported.command("cubin", path.name))
    written = write_artefact(made, path.parent, f"{stem}.json")
    return (*written[1:], written[0])


def write_artefact(made: Artefact, folder: Path, name: str = "launch.json") -> tuple[Path, ...]:
    """Writes the description under that name, and the cubins under those that it says: first the cubins, so
    that a description never names files that are not there.
    """
    files = {folder / made.description["images"][arch]["file"]: cubin for arch, cubin in made.images.items()}
    check_replaceable(folder / name, *files)
    for path, cubin in files.items():
        write_bytes(path, cubin)
    write_text(folder / name, json.dumps(made.description, indent=2) + "\n")
    return (folder / name, *files)
