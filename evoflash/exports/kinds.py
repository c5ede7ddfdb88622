"""The registry of export kinds, one line for each. A kind's writer is `write(exported, path)` of its module.

A writer returns the paths that it wrote, the one asked for first, and raises UsageError before it writes
anything where the kernel cannot leave in that form.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evoflash.errors import UsageError, did_you_mean

if TYPE_CHECKING:  # it loads families and the archive, and a help text is asked for in a tenth of a second
    from evoflash.exports.exported import ExportRequest

Writer = Callable[["ExportRequest", Path], tuple[Path, ...]]


@dataclass(frozen=True, slots=True)
class ExportKind:
    """A form in which a kernel is exported."""

    name: str  # what --kind says
    endings: tuple[str, ...]  # of a path that means it without --kind
    summary: str
    module: str  # of evoflash.exports
    has_code: bool = True  # machine code: of several architectures where the user asks for them
    writer: str = "write"  # its name there

    def write(self, exported: "ExportRequest", path: Path) -> tuple[Path, ...]:
        """What was written. UsageError where it cannot be."""
        write: Writer = getattr(importlib.import_module(f"evoflash.exports.{self.module}"), self.writer)
        return write(exported, path)


KINDS = (
    ExportKind("cu", (".cu",), "CUDA source with a launcher in C++", "kernel_cu", has_code=False),
    ExportKind("cubin", (".cubin",), "machine code, and launch.json beside it", "cubin"),
    ExportKind(
        "cupy", ("attention.py",), "one Python file for CuPy's arrays", "one_file", writer="write_cupy"
    ),
    ExportKind("torch", ("torch_op.py",), "one Python file for PyTorch", "one_file", writer="write_torch"),
    ExportKind("hub", ("hub", "hub/"), "a folder for Hugging Face's kernels", "hub"),
    ExportKind("t4", ("t4.json", "T4.json"), "Kernel Tuner's T4 results of the search", "t4", has_code=False),
    ExportKind("solution", ("solution.json",), "a Solution of flashinfer-bench", "flashinfer_solution"),
    ExportKind(
        "flashinfer-trace",
        ("flashinfer-trace", "flashinfer-trace/"),
        "a folder to which FlashInfer sends its calls",
        "flashinfer_trace",
    ),
)


def kind_of(name: str | None, path: str) -> ExportKind:
    """The kind of that name, or else the one that the path's ending means. UsageError lists them."""
    known = {kind.name: kind for kind in KINDS}
    if name is not None:
        if name not in known:
            raise UsageError(f"--kind {name}:{did_you_mean(name, known)} use one of {', '.join(known)}.")
        return known[name]
    for kind in KINDS:
        if path.endswith(kind.endings):
            return kind
    endings = ", ".join(f"{kind.endings[0]} ({kind.name})" for kind in KINDS)
    raise UsageError(
        f"{path} does not say what to write: end it in one of {endings}, or add --kind with the word in "
        "brackets."
    )
