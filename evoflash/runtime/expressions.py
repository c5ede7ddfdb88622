"""Whole-number expressions of a shape, as launch.json has them. Evaluates no other Python than this.

An expression is a number, a name, arithmetic (+ - * // %), a comparison, `a if b else c`, and/or/not, or a
call of min, max or ceil_div. What is read is checked node by node before it is compiled.
"""

import ast
from collections.abc import Callable, Collection, Mapping

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.Not, ast.And, ast.Or)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_PARTS = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.IfExp, ast.Compare, ast.Load)
_LONGEST = 4000  # characters; the longest that evoflash writes has a few hundred


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


FUNCTIONS: Mapping[str, Callable[..., int]] = {"ceil_div": ceil_div, "min": min, "max": max}


def compile_expression(text: object, names: Collection[str]) -> Callable[[Mapping[str, int]], int]:
    """The expression as a function of a shape's sizes by name. ValueError for anything else."""
    if isinstance(text, int):
        number = int(text)
        return lambda sizes: number
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError(f"{str(text)[:60]!r} is no expression of a shape's sizes")
    try:
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            _check(node, names)
        code = compile(tree, "<launch.json>", "eval")
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise ValueError(f"{text[:60]!r} is no expression of {', '.join(sorted(names))}: {error}") from None
    known = {"__builtins__": {}, **FUNCTIONS}
    return lambda sizes: int(eval(code, known, dict(sizes)))


def _check(node: ast.AST, names: Collection[str]) -> None:
    if isinstance(node, (*_PARTS, *_OPERATORS, *_COMPARISONS)):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return
    if isinstance(node, ast.Name) and (node.id in names or node.id in FUNCTIONS):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return  # of one of FUNCTIONS: the name is a node of its own, and no size can be called
    raise ValueError(f"{type(node).__name__} is not allowed")
