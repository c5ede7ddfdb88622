"""The kind "cu" is one .cu file that needs nothing else. kernels/standalone.py makes its text."""

from pathlib import Path

from evoflash.exports.claims import as_checked, head_lines
from evoflash.exports.exported import ExportRequest
from evoflash.kernels.standalone import export_kernel
from evoflash.written_files import write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the file."""
    what, known = (exported.genome, exported.problem, exported.gpu), as_checked(exported)
    write_text(path, export_kernel(*what, prefix=exported.prefix, claims=head_lines(known)))
    return (path,)
