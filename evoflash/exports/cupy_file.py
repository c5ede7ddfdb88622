"""The kind "cupy" is one Python file, `attention.py`, with the kernel inside, for CuPy's arrays.

It holds evoflash.runtime, the kernel and a function of arrays. Launches nothing.
"""

from pathlib import Path

from evoflash.exports.claims import as_comment, facts
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact
from evoflash.exports.one_file import embed_kernel, runtime_source
from evoflash.written_files import write_text

_USE = """# Put this file beside your program. It needs Python 3.10, CuPy and an NVIDIA driver of CUDA 12, or
# later ones, and no compiler.
#
#     from {module} import attention
#     out = attention(q, k, v)                  # CuPy arrays, (batch, heads, rows, head_dim)
#     out = attention(q, k, v, layout="bshd")   # (batch, rows, heads, head_dim)
#     attention(q, k, v, out=out, lse=lse, scale=scale, stream=stream)
#
# Arrays of other libraries that lie on the GPU do as well. What the kernel was not verified for ends in a
# ValueError of one line.
"""
_END = """
__all__ = ["Attention", "Kernel", "Refused", "attention"]

attention = Attention(KERNEL)
"""


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the file."""
    write_text(path, text(exported, exported.command("cupy", path.name), path.stem))
    return (path,)


def text(exported: ExportRequest, command: str, module: str = "attention") -> str:
    """The file, imported under the name `module`; `command`, which makes it again, is named in it."""
    return text_of(artefact(exported, command=command), module)


def text_of(made: Artefact, module: str) -> str:
    """The file of a compiled kernel that is imported under the name `module`."""
    name = made.description["name"]
    return (
        f'"""Attention for CuPy: the kernel {name}, found by evoflash."""\n'
        f"{as_comment(facts(made.description))}#\n{_USE.format(module=module)}\n"
        f"{runtime_source('array_attention')}\n\n# ---- the kernel\n\n{embed_kernel(made)}{_END}"
    )
