"""The kind "cupy" is one Python file, `attention.py`, with the kernel inside, for CuPy's arrays.

It holds evoflash.runtime, the kernel and a function of arrays. Launches nothing.
"""

from pathlib import Path

from evoflash.exports import one_file
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact
from evoflash.written_files import write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    write_text(path, text_of(artefact(exported, command=exported.command("cupy", path.name)), path.stem))
    return (path,)


def text_of(made: Artefact, module: str) -> str:
    """The file of a compiled kernel that is imported under the name `module`."""
    return one_file.text_of("cupy", (made,), module)
