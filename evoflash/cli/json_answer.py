"""With --json a command's answer is one JSON document on stdout, whatever becomes of it. Knows no command.

What a command prints is held back until it ends. JSON goes out as it is; other words stand in a document,
beside the files that were written and the notes that went to stderr. An error is a document too.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evoflash.views.terminal import error_facts, json_text
from evoflash.written_files import WrittenFiles, noting_files

FLAG = "--json"
_TO_STDOUT = "--json=-"


@dataclass(slots=True)
class JsonAnswer:
    """What a running command has said beside its output."""

    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    files: WrittenFiles = field(default_factory=WrittenFiles)


_running: JsonAnswer | None = None  # of this process: a program runs one command


def with_stdout(arguments: Sequence[str]) -> list[str]:
    """The words; `report --json` takes a FILE, and has `-` for it where none stands behind."""
    words = list(arguments)
    if _command(words) == "report" and FLAG in words:
        at = words.index(FLAG)
        if words[at + 1 : at + 2] == ["-"]:
            del words[at + 1]
        elif words[at + 1 :] and not words[at + 1].startswith("-"):
            return words
        words[at] = _TO_STDOUT
    return words


def is_asked(words: Sequence[str]) -> bool:
    """Whether --json stands among a command's words, and not as the name of a file to write JSON to."""
    mine = words[: words.index("--")] if "--" in words else words
    return _TO_STDOUT in mine or (FLAG in mine and _command(words) != "report")


def _command(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def hear(note: str) -> None:
    if _running is not None:
        _running.notes.append(note)


def hear_error(message: str) -> None:
    """What a person is told of what went wrong."""
    if _running is not None:
        _running.error = " ".join(message.split())


def add_facts(**facts: object) -> None:
    """What a command did that has nothing to print, by names."""
    if _running is not None:
        _running.facts.update(facts)


def add_row(name: str, row: Mapping[str, Any]) -> None:
    """One more of what a command did, in the list of that name."""
    if _running is not None:
        _running.facts.setdefault(name, []).append(dict(row))


def run(call: Callable[[], int]) -> None:
    """Print the one document of `call`, which returns an exit code or ends in SystemExit; SystemExit with
    that code, as every command ends.
    """
    global _running
    _running = answer = JsonAnswer()
    try:
        with _held_stdout() as held, noting_files(answer.files):
            try:
                code = call()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        _running = None
    print(_document(answer, held.getvalue(), code), flush=True)
    raise SystemExit(code)


@contextlib.contextmanager
def _held_stdout() -> Iterator[io.StringIO]:
    """What is printed goes into the text; what a library writes on descriptor 1 goes to stderr."""
    held = io.StringIO()
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(held):
            yield held
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _document(answer: JsonAnswer, text: str, code: int) -> str:
    if _is_json(text):
        return text.rstrip("\n")
    output = {"output": text} if text.strip() else {}
    if code:
        said = answer.error or (answer.notes or ["it failed."])[-1]
        return json_text(error_facts(said, code) | output)
    files = answer.files
    done = {"status": "done", "exit_code": 0, "dry_run": files.is_dry, "files": list(map(str, files.paths))}
    return json_text(done | answer.facts | output | {"notes": answer.notes})


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
