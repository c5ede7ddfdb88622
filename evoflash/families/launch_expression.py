"""A header's launch expression with all but a shape's sizes worked out, as launch.json holds it.

families/export.py writes the same expressions as C++.
"""

import ast
from collections.abc import Collection, Mapping
from typing import Any

from evoflash.errors import TemplateError
from evoflash.families.expression import FAILURES, FUNCTIONS, Expression

_DIVISION = "a launcher has whole numbers alone: write // or ceil_div"


def of_sizes(expression: Expression, names: Mapping[str, Any], sizes: Collection[str]) -> int | str:
    """The expression as Python text in which only `sizes` and functions are names; a number where none is.

    `names` are what no shape changes, as Family.names() has them. TemplateError for an expression that the
    launcher of an export cannot evaluate.
    """
    tree = expression.python()
    if tree is None:
        raise _refused(expression, "only Jinja can evaluate it")
    try:
        worked_out = _Folding(names, frozenset(sizes)).visit(tree)
    except FAILURES as error:
        raise _refused(expression, str(error)) from None
    if isinstance(worked_out, ast.Constant):
        return int(worked_out.value)  # type: ignore[arg-type]  # Expression saw to it that it is a number
    return ast.unparse(ast.fix_missing_locations(worked_out))


def _refused(expression: Expression, why: str) -> TemplateError:
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
        return _shortened(whole) if isinstance(whole, ast.BinOp) else whole

    def _value(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Name) and node.id in FUNCTIONS:
            return node
        whole = ast.fix_missing_locations(ast.Expression(node))
        value = eval(compile(whole, "<header>", "eval"), self._names)
        if not isinstance(value, int):
            return node  # a word, which a comparison around it settles
        return ast.Constant(int(value) if not isinstance(value, bool) else value)


def _shortened(node: ast.BinOp) -> ast.expr:
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
