"""The expressions of a template header: a part of Python, strict about names and the types of values.

A header may use what launch.json may (runtime/expressions.py), and besides words in quotes, true and false,
lists with `in`, division and the attributes of `gpu`. Renders nothing: a template's text is Jinja's.

For launch.json an expression is reduced to a shape's sizes: all else in it is worked out.
"""

import ast
from collections.abc import Collection, Mapping
from copy import copy
from typing import Any, Self

from evoflash.errors import TemplateError
from evoflash.runtime.expressions import FUNCTIONS, parse_expression

_MORE = (ast.Attribute, ast.In, ast.NotIn, ast.Div, ast.List, ast.Tuple)
_CONSTANTS = {"true": True, "false": False}  # as TOML has them
_GLOBALS = {"__builtins__": {}, **FUNCTIONS}
FAILURES = (NameError, AttributeError, TypeError, ValueError, ZeroDivisionError)


class Expression:
    """One compiled header expression; `where` is 'file: section.key' for messages."""

    def __init__(self, text: object, where: str, types: tuple[type, ...]) -> None:
        self.where, self.text, self.types = where, text, types
        self._known: Mapping[str, Any] = _GLOBALS
        if not isinstance(text, (str, int)):
            raise TemplateError(f"{where} = {text!r}: write an expression in quotes, or a whole number.")
        try:
            self._python = _in_python(text)
        except SyntaxError as error:
            raise TemplateError(f"{where} = {text!r} does not parse: {error.msg}.") from None
        except ValueError as error:
            raise TemplateError(f"{where} = {text!r} does not parse: {error}.") from None
        self._code = compile(self._python, "<header>", "eval")

    def bind(self, known: Mapping[str, Any]) -> Self:
        """The expression where these names are known already; a call's own names come before them."""
        bound = copy(self)
        bound._known = {**_GLOBALS, **known}
        return bound

    @property
    def names(self) -> frozenset[str]:
        """The names that stand in it, functions among them."""
        return frozenset(node.id for node in ast.walk(self.python()) if isinstance(node, ast.Name))

    def python(self) -> ast.expr:
        """The expression's tree, made anew."""
        return ast.parse(self._python, mode="eval").body

    def __call__(self, names: Mapping[str, Any]) -> Any:
        """The value; TemplateError for an unknown name, a failing operation or a wrong type."""
        if not isinstance(self.text, str):
            return self.text
        try:
            value = eval(self._code, self._known, names)  # type: ignore[arg-type]  # it is not written to
        except FAILURES as error:
            raise TemplateError(f"{self.where} = {self.text!r} fails: {error}.") from None
        if type(value) not in self.types:
            wanted = " or ".join(t.__name__ for t in self.types)
            raise TemplateError(
                f"{self.where} = {self.text!r} gives {type(value).__name__}: it must give {wanted}."
            )
        return value


def _in_python(text: str | int) -> str:
    """The expression as Python's own text, all of its parts checked."""
    if isinstance(text, int):
        return repr(text)
    tree = parse_expression(text.replace("\n", " "), None, more=_MORE)
    return ast.unparse(_Constants().visit(tree))


class _Constants(ast.NodeTransformer):
    """The words of TOML become constants."""

    def visit_Name(self, node: ast.Name) -> ast.expr:  # ast's own name
        return ast.Constant(_CONSTANTS[node.id]) if node.id in _CONSTANTS else node


_DIVISION = "a launcher has whole numbers alone: write // or ceil_div"


def of_sizes(expression: Expression, names: Mapping[str, Any], sizes: Collection[str]) -> int | str:
    """The expression as Python text in which only `sizes` and functions are names; a number where none is.

    `names` are what no shape changes, as Family.names() has them. TemplateError for an expression that the
    launcher of an export cannot evaluate.
    """
    try:
        worked_out = _Folding(names, frozenset(sizes)).visit(expression.python())
    except FAILURES as error:
        raise _refusal(expression, str(error)) from None
    if isinstance(worked_out, ast.Constant):
        return int(worked_out.value)  # type: ignore[arg-type]  # Expression saw to it that it is a number
    return ast.unparse(ast.fix_missing_locations(worked_out))


def _refusal(expression: Expression, why: str) -> TemplateError:
    return TemplateError(
        f"{expression.where} = {expression.text!r} cannot be written into an exported launcher: {why}."
    )


class _Folding(ast.NodeTransformer):
    """Replaces each part that no size is in by its value, and a known choice by what is chosen."""

    def __init__(self, names: Mapping[str, Any], sizes: frozenset[str]) -> None:
        self._names, self._sizes = {"__builtins__": {}, **FUNCTIONS, **names}, sizes

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.expr):
            return node  # an operator
        if not any(isinstance(part, ast.Name) and part.id in self._sizes for part in ast.walk(node)):
            return self._value(node)
        if isinstance(node, ast.IfExp):
            test = self.visit(node.test)
            if isinstance(test, ast.Constant):
                return self.visit(node.body if test.value else node.orelse)
        whole = self.generic_visit(node)
        return _simplify(whole) if isinstance(whole, ast.BinOp) else whole

    def _value(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Name) and node.id in FUNCTIONS:
            return node
        whole = ast.fix_missing_locations(ast.Expression(node))
        value = eval(compile(whole, "<header>", "eval"), self._names)
        if not isinstance(value, int):
            return node  # a word, which a comparison around it settles
        return ast.Constant(int(value) if not isinstance(value, bool) else value)


def _simplify(node: ast.BinOp) -> ast.expr:
    """Without a factor or divisor of 1, a summand of 0, a product with 0."""
    left, right = (part.value if isinstance(part, ast.Constant) else None for part in (node.left, node.right))
    match node.op:
        case ast.Div():
            raise ValueError(_DIVISION)
        case ast.Mult() if 0 in (left, right):
            return ast.Constant(0)
        case ast.Mult() if left == 1:
            return node.right
        case ast.Mult() | ast.FloorDiv() if right == 1:
            return node.left
        case ast.Add() if left == 0:
            return node.right
        case ast.Add() | ast.Sub() if right == 0:
            return node.left
    return node
