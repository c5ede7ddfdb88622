"""Expressions of a part of Python, read node by node before they are compiled; nothing else is evaluated.

An expression is a number, a name, arithmetic (+ - * // %), a comparison, `a if b else c`, and/or/not, or a
call of min, max or ceil_div. launch.json has them of a shape's sizes; a caller may allow further parts.
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


def parse_expression(
    text: str, names: Collection[str] | None, *, more: tuple[type[ast.AST], ...] = ()
) -> ast.Expression:
    """The expression's tree. ValueError for other Python, and for names beside these; None allows all names.

    `more` are kinds of nodes that are allowed besides; where there are any, constants may be words.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (RecursionError, MemoryError) as error:
        raise ValueError(f"it is nested too deeply ({type(error).__name__})") from None
    for node in ast.walk(tree):
        _check(node, names, more)
    return tree


def compile_expression(text: object, names: Collection[str]) -> Callable[[Mapping[str, int]], int]:
    """The expression as a function of a shape's sizes by name. ValueError for anything else."""
    if isinstance(text, int):
        number = int(text)
        return lambda sizes: number
    if not isinstance(text, str):
        raise ValueError(f"{str(text)[:60]!r} is no expression of a shape's sizes")
    try:
        code = compile(parse_expression(text, names), "<launch.json>", "eval")
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise ValueError(f"{text[:60]!r} is no expression of {', '.join(sorted(names))}: {error}") from None
    known = {"__builtins__": {}, **FUNCTIONS}
    return lambda sizes: int(eval(code, known, dict(sizes)))


def _check(node: ast.AST, names: Collection[str] | None, more: tuple[type[ast.AST], ...]) -> None:
    match node:
        case ast.Constant(value=value):
            is_allowed = isinstance(value, (int, float, str) if more else int)
        case ast.Name(id=name):
            is_allowed = names is None or name in names or name in FUNCTIONS
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            is_allowed = name in FUNCTIONS
        case ast.Attribute(attr=name):
            is_allowed = ast.Attribute in more and not name.startswith("_")
        case _:
            is_allowed = isinstance(node, (*_PARTS, *_OPERATORS, *_COMPARISONS, *more))
    if not is_allowed:
        raise ValueError(f"{type(node).__name__} is not allowed")
