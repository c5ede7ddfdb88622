"""Loads a Python file that a user may have written, and says in a line what is wrong with it. Calls none."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from evoflash.errors import UsageError


def load(path: Path, name: str) -> ModuleType:
    """The file as the module of that name, loaded once. UsageError with file and line if it fails."""
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file: name it NAME.py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does: dataclasses look there for the module being loaded
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"{mistake(error, path)}; mend the file or remove it.") from None
    return module


def mistake(error: BaseException, path: Path | str) -> str:
    """`file:line: what was raised`, the line being the last one of that file on the way to the error."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    line = line or (lines[-1] if lines else None)
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    place = f"{path}:{line}" if line else str(path)
    return f"{place}: {type(error).__name__}: {' '.join(said.split())[:300]}".rstrip(": ")
