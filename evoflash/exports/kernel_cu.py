"""The kind "cu" is one .cu file that needs nothing else. kernels/standalone.py makes its text."""

from pathlib import Path

from evoflash.exports.claims import as_checked, head_lines
from evoflash.exports.exported import ExportRequest
from evoflash.kernels.standalone import export_kernel
from evoflash.written_files import write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    write_text(path, text_of(exported))
    return (path,)


def text_of(exported: ExportRequest) -> str:
    """The file's text, with what is known of the kernel at its head."""
    what, known = (exported.genome, exported.problem, exported.gpu), as_checked(exported)
    return export_kernel(*what, prefix=exported.prefix, claims=head_lines(known))
