"""The kind "torch" is one Python file for PyTorch with launcher and cubin inside, which needs torch alone."""

from pathlib import Path

from evoflash.exports import one_file
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact
from evoflash.written_files import write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    write_text(path, text_of(artefact(exported, command=exported.command("torch", path.name)), path.stem))
    return (path,)


def text_of(made: Artefact, module: str) -> str:
    """The file of a compiled kernel that is imported under the name `module`."""
    return one_file.text_of("torch", (made,), module)
