"""The kind "solution" is a Solution of flashinfer-bench, and beside it the Definition that it solves.

A Solution is JSON with one Python file that holds kernels and a function `run`, which is called with arrays
of the operation's choice. The format is that of flashinfer-bench 0.1.2.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evoflash.exports import one_file
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact, form_of
from evoflash.kernels.family import load_family
from evoflash.operation import SolutionForm
from evoflash.problem import Problem
from evoflash.written_files import write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes solution.json, and definition.json in its place beside it."""
    beside = path.with_name(path.name.removesuffix("solution.json") + "definition.json")
    if beside == path:
        beside = path.with_name(f"{path.stem}.definition.json")
    solved = definition(exported)
    made = solution(exported, solved["name"], path.name)
    write_text(path, as_json(made))
    write_text(beside, as_json(solved))
    return path, beside


def as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1) + "\n"


def solution_form(exported: ExportRequest) -> SolutionForm:
    return form_of(exported.problem.workloads[0]).solution


def definition(exported: ExportRequest) -> dict[str, Any]:
    """The Definition's fields. UsageError where FlashInfer has none for the problem."""
    return solution_form(exported).definition(exported.problem.workloads[0])


def solution(exported: ExportRequest, definition_name: str, file_name: str) -> dict[str, Any]:
    """The Solution's fields, with the genome compiled for each variant that it is valid for."""
    made = [artefact_of(each, "solution", file_name) for each in variants(exported)]
    return solution_of(exported, definition_name, made)


def variants(exported: ExportRequest) -> list[ExportRequest]:
    """The problem itself, and the genome for each other variant of it that it is valid for."""
    own = exported.problem.workloads[0]
    by_key = {w.compile_key(exported.gpu.arch): w for w in (own, *solution_form(exported).variants(own))}
    by_key[own.compile_key(exported.gpu.arch)] = own
    family, found = load_family(exported.genome.family), []
    for key, workload in by_key.items():
        space = family.space((key,), exported.gpu)
        genome = space.genome(exported.genome.as_dict())
        if workload == own:
            found.append(exported)
        elif space.is_valid(genome):
            one = replace(exported, genome=genome, problem=Problem((workload,)), evaluation=None)
            found.append(one)
    return found


def artefact_of(exported: ExportRequest, kind: str, file_name: str) -> Artefact:
    return artefact(exported, command=exported.command(kind, file_name))


def solution_of(exported: ExportRequest, definition_name: str, made: Sequence[Artefact]) -> dict[str, Any]:
    form, function = solution_form(exported), form_of(exported.problem.workloads[0]).function
    text = one_file.text_of(form.door, made, function)
    file = f"{function}.py"
    return {
        "name": f"evoflash_{exported.name}",
        "definition": definition_name,
        "author": "evoflash",
        "description": text.splitlines()[0].strip('"'),
        "spec": {
            "language": "python",
            "target_hardware": list(exported.gpu.device_names),
            "entry_point": f"{file}::run",
            "dependencies": [],
            "destination_passing_style": form.is_destination_passed,
        },
        "sources": [{"path": file, "content": text + form.run}],
    }
