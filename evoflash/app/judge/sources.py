"""Finds the text in what somebody submits: a .cu, Python, or a solution's JSON with CUDA. Runs none of it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError

_MOST_BYTES = 4 << 20
_CUDA_LANGUAGES = ("cuda", "cuda_cpp", "cpp")


class RefusedError(Exception):
    """What was submitted is of a form that is not judged; the message says which, in one line."""


@dataclass(frozen=True, slots=True)
class SubmittedText:
    """A kernel's text, and the file that findings point into: its own, or an entry of a solution's JSON."""

    path: Path  # of the file that is read further
    shown: str  # what the answer calls it
    text: str
    sha256: str  # of all that was submitted


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
        name, source = _cuda_of(path, text)
        return SubmittedText(Path(name), f"{path}:{name}", source, sha)
    return SubmittedText(path, str(path), text, sha)


def is_solution(path: Path) -> bool:
    """Whether a JSON file holds a solution's sources, rather than a genome."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and "sources" in data


def _cuda_of(path: Path, text: str) -> tuple[str, str]:
    """Name and text of a solution's CUDA source."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is no JSON ({error.msg}, line {error.lineno}).") from None
    spec = data.get("spec") if isinstance(data, dict) else None
    sources = data.get("sources") if isinstance(data, dict) else None
    if not isinstance(spec, dict) or not isinstance(sources, list):
        raise UsageError(f"{path} is no solution: it has no `spec` with a language and no `sources`.")
    languages = [*_words(spec.get("language")), *_words(spec.get("languages"))]
    if not any(language in _CUDA_LANGUAGES for language in languages):
        raise RefusedError(f"a solution in {', '.join(languages) or 'no language'} is not judged: CUDA is")
    files = [
        (each["path"], each["content"])
        for each in sources
        if isinstance(each, dict)
        and isinstance(each.get("path"), str)
        and isinstance(each.get("content"), str)
        and each["path"].endswith((".cu", ".cuh"))
    ]
    if len(files) != 1:
        raise RefusedError(
            f"a solution of {len(files)} CUDA files is not judged: put the kernel into one, with the comment "
            "that `evoflash check --help` shows"
        )
    return files[0]


def _words(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(each) for each in value or ()]
