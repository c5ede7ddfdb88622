"""The kind "torch" is one Python file for PyTorch with launcher and cubin inside, which needs torch alone."""

from pathlib import Path

from evoflash.exports.claims import as_comment, facts
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact
from evoflash.exports.one_file import embed_kernel, runtime_source
from evoflash.written_files import write_text

TORCH_MODULES = ("torch_fallback", "torch_call", "torch_operators", "torch_op", "torch_doors")

_USE = """# Put this file beside your program. It needs Python 3.10, PyTorch 2.11 and an NVIDIA driver
# of CUDA 12, or later ones.
#
#     from {module} import attention
#     out = attention(q, k, v)                  # (batch, heads, seq, head_dim), as PyTorch's own attention
#     out = attention(q, k, v, layout="bshd")   # (batch, seq, heads, head_dim)
#     out, lse = attention(q, k, v, return_lse=True)
#     out = attention(q, k, v, fallback=True)   # what the kernel does not compute, PyTorch computes
#
#     register_sdpa(attention, "mine")          # torch.nn.attention.activate_flash_attention_impl("mine")
#     register_transformers(attention, "mine")  # attn_implementation="mine"
"""

_END = """
__all__ = ["Attention", "Kernel", "Refused", "attention", "register_sdpa", "register_transformers"]

attention = Attention(KERNEL)
"""


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the file."""
    write_text(path, text_of(artefact(exported, command=exported.command("torch", path.name)), path.stem))
    return (path,)


def text_of(made: Artefact, module: str) -> str:
    """The file of a compiled kernel that is imported under the name `module`."""
    name = made.description["name"]
    return (
        f'"""Attention for PyTorch: the kernel {name}, found by evoflash."""\n'
        f"{as_comment(facts(made.description))}#\n{_USE.format(module=module)}\n"
        f"{runtime_source(*TORCH_MODULES)}\n\n# ---- the kernel\n\n{embed_kernel(made)}{_END}"
    )
