"""Says errors as Python does, `gpu="l4"` for `--gpu l4`, and problems as the application takes them."""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from evoflash.errors import EvoflashError
from evoflash.problem import Problem

CallT = TypeVar("CallT", bound=Callable[..., Any])

_OPTION = re.compile(r"--([a-z][a-z-]*)(?: ([\w.=,:/+-]*[\w=]))?")
_IS_VALUE = re.compile(r"[\d=]")  # what no word of a sentence has


def in_python_words(call: CallT) -> CallT:
    """The function, whose errors name its parameters where they named options of the command line."""
    names = frozenset(inspect.signature(call).parameters)

    @functools.wraps(call)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except EvoflashError as error:
            error.args = (python_words(str(error), names), *error.args[1:])
            raise

    return cast("CallT", wrapper)


def python_words(message: str, names: frozenset[str]) -> str:
    """A message with options that are named as one of `names` written as arguments."""

    def argument(found: re.Match[str]) -> str:
        name, value = found[1].replace("-", "_"), found[2]
        if name not in names:
            return found[0]
        if value is None:
            return name
        return f'{name}="{value}"' if _IS_VALUE.search(value) else f"{name} {value}"

    return _OPTION.sub(argument, message)


def text_of_problem(problem: str | Problem | None) -> str | None:
    """A problem as the application takes it; None where none is named."""
    return None if problem is None else str(problem)
