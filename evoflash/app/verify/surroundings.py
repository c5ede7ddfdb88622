"""Compares the files around an exported kernel with what evoflash writes there today. Runs nothing of them.

Python code and launch.json decide what is computed: scale, strides, grid, fallback. So both are made again,
from the genome and from the description, and must be the same. README.md is not compared: it is prose.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

from evoflash import operation as registry
from evoflash.errors import UsageError
from evoflash.exports import hub, one_file
from evoflash.exports.launch_json import Artefact, form_of, launching
from evoflash.kernels.standalone import valid_genome
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

_MODULE = re.compile(r"^# {5}from (\w+) import \w+$", re.MULTILINE)  # in the comment at the top
_VARIANT = f"build/{hub.VARIANT}/"
_RUN = {".py", ".pyc", ".so", ".pth"}  # what Python would run of a folder
_CUBINS = "_CUBINS = "
_BEFORE, _SHOWN = 30, 50  # characters of a line: before the one that differs, and in all
_WHY = "edited, or of another version"
_NOT_WHOLE = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
)  # of a description that has not all of its keys


def of_file(text: str, packed: str, made: Artefact, name: str, *, ending: str = "") -> tuple[str, ...]:
    """Where attention.py or torch_op.py is not as written, in words; `ending` is what else belongs to it.

    `packed` is the text's literal of the cubins: another version of zlib packs the same bytes otherwise.
    """
    module = found[1] if (found := _MODULE.search(text)) else ""
    have = text.replace(packed, "", 1)
    try:
        form = registry.load(made.description["operation"]).launch_form
        texts = [
            _without_cubins(one_file.text_of(library, (made,), module)) + ending
            for library in ("torch", "cupy")
            if form and library in form.doors
        ]
    except _NOT_WHOLE:
        return (_not_whole(name),)
    if not texts:
        return (_not_whole(name),)
    ours = min(texts, key=lambda each: each.splitlines()[0] != have.split("\n")[0])
    return tuple(_difference(have, ours, name))


def _not_whole(name: str) -> str:
    return f"{name} does not say all that this evoflash writes ({_WHY})"


def _without_cubins(text: str) -> str:
    """What one_file.embedded() is part of, without its literal of the cubins."""
    start = text.rindex(f"\n{_CUBINS}") + len(f"\n{_CUBINS}")
    return text[:start] + text[text.index("\n}\n", start) + 2 :]


def of_folder(folder: Path, made: Artefact) -> tuple[str, ...]:
    """Where a hub folder, or the part of it that Python loads, is not as written.

    A folder without Python, as the kind "cubin" has it, has nothing to compare.
    """
    run = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if _is_run(path)}
    if not run:
        return ()
    try:
        ours = _texts(folder, made)
    except _NOT_WHOLE:
        return (_not_whole(f"the launch.json in {folder}"),)
    found = [each for name, text in ours.items() for each in _of_path(folder / name, text)]
    others = sorted(run - ours.keys())
    return (*found, *(f"{folder / name} is no file that this evoflash writes there" for name in others))


def _is_run(path: Path) -> bool:
    return path.suffix in _RUN and "__pycache__" not in path.parts


def _texts(folder: Path, made: Artefact) -> Mapping[str, str]:
    """What evoflash writes there, by path in the folder."""
    texts = {name: text for name, text in hub.files_of(made)[0].items() if name != "README.md"}
    if (folder / _VARIANT).is_dir():
        return texts
    return {name.removeprefix(_VARIANT): texts[name] for name in texts if name.startswith(_VARIANT)}


def _of_path(path: Path, ours: str) -> Iterator[str]:
    try:
        yield from _difference(path.read_text(encoding="utf-8"), ours, str(path))
    except (OSError, UnicodeDecodeError):
        yield f"{path} cannot be read, and is part of what this evoflash writes"


def _difference(have: str, ours: str, name: str) -> Iterator[str]:
    pairs = zip_longest(have.splitlines(), ours.splitlines())
    if differing := next((pair for pair in pairs if pair[0] != pair[1]), None):
        mine, written = _where_apart(*differing)
        where = f"{mine!r} is where {written!r} should be"
        yield f"the code around the kernel in {name} is not this evoflash's: {where} ({_WHY})"


def _where_apart(mine: str | None, written: str | None) -> tuple[str, str]:
    """Of both lines, None where there is none, what stands about the first character that differs."""
    mine, written = mine or "", written or ""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(mine, written, strict=False))
    start = max(0, sum(1 for _ in same) - _BEFORE)
    return mine[start : start + _SHOWN].strip(), written[start : start + _SHOWN].strip()


# ---- launch.json


def of_description(description: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """What launch.json says of the launches that is not so of its genome; empty where there is no genome."""
    kernel, images = description["kernel"], description["images"]
    try:
        problem, gpu = parse_problem(description["problem"]), load_gpu(description["gpu"])
        genome = valid_genome(kernel["family"], kernel["values"], problem, gpu)
        specs = {arch: load_gpu(image["gpu"]) for arch, image in images.items()}
    except (UsageError, KeyError, TypeError):
        return ()  # finding.identify() says it
    workload = problem.workloads[0]
    ours = {"contract": form_of(workload).contract(workload)}
    have = {"contract": description.get("contract")}
    for arch, spec in specs.items():
        ours |= {f"{key} of {arch}": value for key, value in launching(genome, workload, spec).items()}
        have |= {f"{key} of {arch}": value for key, value in images[arch].items()}
    return tuple(
        f"what {name} says under '{key}' is not what this evoflash writes ({_WHY})"
        for key, value in ours.items()
        if have.get(key) != value
    )
