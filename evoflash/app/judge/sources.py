"""Finds the text in what somebody submits: a .cu, Python, or a solution's JSON with either. Runs none."""

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError

_MOST_BYTES = 4 << 20
_CUDA_LANGUAGES = ("cuda", "cuda_cpp", "cpp")
_PYTHON_LANGUAGES = ("python", "pytorch", "triton")


class RefusedError(Exception):
    """What was submitted is of a form that is not judged; the message says which, in one line."""


@dataclass(frozen=True, slots=True)
class SubmittedText:
    """A kernel's text, and the file that findings point into: its own, or an entry of a solution's JSON."""

    path: Path  # of the file that is read further
    shown: str  # what the answer calls it
    text: str
    sha256: str  # of all that was submitted
    entry: str = ""  # a solution's function, where it is Python
    outputs_last: bool = False  # whether it is given its outputs, to write them, behind the inputs


def read_submission(path: Path) -> SubmittedText:
    """The kernel in a file. UsageError where it cannot be read, RefusedError where it is not judged."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give a .cu file.") from None
    if len(raw) > _MOST_BYTES:
        raise UsageError(f"{path} has more than {_MOST_BYTES >> 20} MiB: give a kernel's text.")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8: give a kernel's text.") from None
    sha = hashlib.sha256(raw).hexdigest()
    if path.suffix == ".json":
        return _entry_of(path, text, sha)
    return SubmittedText(path, str(path), text, sha)


def is_solution(path: Path) -> bool:
    """Whether a JSON file holds a solution's sources, rather than a genome."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and "sources" in data


def _entry_of(path: Path, text: str, sha: str) -> SubmittedText:
    """A solution's source with its kernel."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is no JSON ({error.msg}, line {error.lineno}).") from None
    spec = data.get("spec") if isinstance(data, dict) else None
    sources = data.get("sources") if isinstance(data, dict) else None
    if not isinstance(spec, dict) or not isinstance(sources, list):
        raise UsageError(f"{path} is no solution: it has no `spec` with a language and no `sources`.")
    languages = [*_words(spec.get("language")), *_words(spec.get("languages"))]
    files = {
        each["path"]: each["content"]
        for each in sources
        if isinstance(each, dict)
        and isinstance(each.get("path"), str)
        and isinstance(each.get("content"), str)
    }
    if any(language in _CUDA_LANGUAGES for language in languages):
        name, source = _only(files, "CUDA", (".cu", ".cuh"), ", with the comment that `check --help` shows")
        return SubmittedText(Path(name), f"{path}:{name}", source, sha)
    if not languages or not all(language in _PYTHON_LANGUAGES for language in languages):
        said = ", ".join(languages) or "no language"
        raise RefusedError(f"a solution in {said} is not judged: CUDA, Python and Triton are")
    if "triton" in languages and importlib.util.find_spec("triton") is None:
        raise RefusedError("a solution in Triton needs Triton, which is not installed: pip install triton")
    name, source = _only(files, "Python", (".py",), "")
    file, _, entry = str(spec.get("entry_point")).partition("::")
    if file != name or not entry.isidentifier():
        raise RefusedError(f'its `entry_point` has to name a function of its file: "{name}::run"')
    # flashinfer-bench and SOL-ExecBench pass outputs where nothing is said.
    outputs_last = spec.get("destination_passing_style", True) is True
    return SubmittedText(Path(name), f"{path}:{name}", source, sha, entry, outputs_last)


def _only(files: Mapping[str, str], language: str, suffixes: tuple[str, ...], what: str) -> tuple[str, str]:
    """The one file of a language, by its name."""
    found = [(name, text) for name, text in files.items() if name.endswith(suffixes)]
    if len(found) != 1:
        raise RefusedError(
            f"a solution of {len(found)} {language} files is not judged: put the kernel into one{what}"
        )
    return found[0]


def _words(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(each) for each in value or ()]
