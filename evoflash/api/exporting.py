"""Writes a kernel as files from Python, in every form of `evoflash export`. The writers are in exports/."""

from dataclasses import replace
from pathlib import Path
from typing import overload

from evoflash.api.records import Kernel
from evoflash.app.export import write_files
from evoflash.errors import UsageError
from evoflash.exports.exported import ExportRequest, with_evaluation
from evoflash.paths import default_database
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu


@overload
def export(kernel: Kernel, *, prefix: str | None = None) -> str: ...


@overload
def export(
    kernel: Kernel,
    path: str | Path,
    *,
    kind: str | None = None,
    arch: str | None = None,
    prefix: str | None = None,
    db: str | None = None,
) -> tuple[Path, ...]: ...


def export(
    kernel: Kernel,
    path: str | Path | None = None,
    *,
    kind: str | None = None,
    arch: str | None = None,
    prefix: str | None = None,
    db: str | None = None,
) -> str | tuple[Path, ...]:
    """The kernel as files that need no evoflash, as `evoflash export` writes them; their paths are returned.

    The ending of `path` says which form (`kernel.cu`, `kernel.cubin`, `attention.py`, `torch_op.py`, `hub`,
    `t4.json`, `solution.json`), or `kind` does: cu, cubin, cupy, torch, hub, t4, solution. `arch`
    ("sm_90a,sm_89") compiles for several architectures, `prefix` begins the C names of a .cu file. What the
    files say of the kernel is what `db` knows of it, else the kernel itself. Without `path` nothing is
    written and the .cu file's text is returned.

    UsageError where the kernel cannot leave in that form, the path cannot be written, or the problem needs
    several kernels.

    >>> import evoflash
    >>> kernel = evoflash.best("mission", gpu="l4")
    >>> [path.name for path in evoflash.export(kernel, "kernel.cubin")]
    ['kernel.cubin', 'kernel.json']
    >>> "__global__" in evoflash.export(kernel)
    True
    """
    if path is None:
        if kind not in (None, "cu") or arch is not None:
            raise UsageError("kind and arch are for files: give a path, too.")
        return kernel.cuda if prefix is None else kernel.cuda_with_prefix(prefix)
    genome = kernel.evaluation.genome
    what = ExportRequest(genome, parse_problem(kernel.problem), load_gpu(kernel.gpu), prefix=prefix)
    known = with_evaluation(what, db or default_database())
    if known.evaluation is None and kernel.is_correct:
        known = replace(known, evaluation=kernel.evaluation)
    return write_files(known, str(path), kind=kind, archs=arch)
