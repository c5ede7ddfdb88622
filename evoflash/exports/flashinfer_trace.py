"""The kind "flashinfer-trace" is a folder to whose kernels FlashInfer sends its own calls.

FlashInfer from 0.6.14 on reads the Solutions in the folder that FLASHINFER_TRACE_APPLY_PATH names, and takes
each for the calls that it calls by the name of the Solution's Definition. Launches nothing.
"""

from collections.abc import Sequence
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.exports.exported import ExportRequest
from evoflash.exports.flashinfer_solution import (
    artefact_of,
    as_json,
    definition,
    solution_form,
    solution_of,
    variants,
)
from evoflash.written_files import check_replaceable, make_folder, write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the folder, or adds to one; other Solutions in it are left alone.

    UsageError where FlashInfer must not send its calls there, or the path is a file.
    """
    return write_kernels(variants(exported), path)


def write_kernels(exported: Sequence[ExportRequest], path: Path) -> tuple[Path, ...]:
    """The same of several kernels of one Definition, of which each call gets one."""
    first = exported[0]
    if why := solution_form(first).not_routed:
        raise UsageError(f"{first.problem.operation}: {why}.")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is there and no folder: choose another path.")
    solved = definition(first)
    name = solved["name"]
    made = [artefact_of(each, "flashinfer-trace", path.name) for each in exported]
    files = {
        path / "solutions" / f"{name}.json": solution_of(first, name, made),
        path / "definitions" / solved["op_type"] / f"{name}.json": solved,
    }
    check_replaceable(*files)
    for file, content in files.items():
        make_folder(file.parent)
        write_text(file, as_json(content))
    return (path, *files)
