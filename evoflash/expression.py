"""Compiles the expressions of a template header: Jinja's syntax in a sandbox, strict about names and types.

Not a general evaluator: no attribute that starts with an underscore, no call but the functions given.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from evoflash.errors import TemplateError


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


_ENVIRONMENT = SandboxedEnvironment(undefined=StrictUndefined)
_ENVIRONMENT.globals = {"ceil_div": ceil_div, "min": min, "max": max}


class Expression:
    """One compiled header expression; `where` is 'file: section.key' for messages."""

    def __init__(self, text: object, where: str, types: tuple[type, ...]) -> None:
        self.where, self.text, self.types = where, text, types
        self._evaluate: Callable[..., Any] | None = None
        if isinstance(text, str):
            try:
                self._evaluate = _ENVIRONMENT.compile_expression(text, undefined_to_none=False)
            except TemplateSyntaxError as error:
                raise TemplateError(f"{where} = {text!r} does not parse: {error.message}.") from None
        elif not isinstance(text, (int, bool)):
            raise TemplateError(f"{where} = {text!r}: write an expression in quotes, or a whole number.")

    def __call__(self, names: Mapping[str, Any]) -> Any:
        """The value; TemplateError for an unknown name, a failing operation or a wrong type."""
        if self._evaluate is None:
            return self.text
        try:
            value = self._evaluate(**names)
        except (UndefinedError, SecurityError, TypeError, ValueError, ZeroDivisionError) as error:
            raise TemplateError(f"{self.where} = {self.text!r} fails: {error}.") from None
        if type(value) not in self.types:
            # StrictUndefined comes back as a value when it is the whole expression: a misspelt name.
            got = "an unknown name" if isinstance(value, StrictUndefined) else type(value).__name__
            wanted = " or ".join(t.__name__ for t in self.types)
            raise TemplateError(f"{self.where} = {self.text!r} gives {got}: it must give {wanted}.")
        return value
