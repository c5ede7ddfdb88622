"""The kind "cu" is one .cu file that needs nothing else. kernels/standalone.py makes its text."""

from pathlib import Path

from evoflash.exports.exported import ExportRequest
from evoflash.kernels.standalone import export_kernel
from evoflash.written_files import write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the file."""
    write_text(path, export_kernel(exported.genome, exported.problem, exported.gpu, prefix=exported.prefix))
    return (path,)
