"""A family's checks as one Python function, with what they derive; renders nothing.

A sample of a large space asks some ten thousand points whether they are valid. The expressions are those of
the header, in its order; each derived value is computed once, before the first check that needs it.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evoflash.families.expression import FAILURES, FUNCTIONS, Expression

Holds = Callable[[Mapping[str, Any]], bool]


def compiled(
    checks: Mapping[str, Expression], let: Mapping[str, Expression], known: Mapping[str, Any]
) -> Holds | None:
    """Whether values pass all checks, where `known` names are fixed; None where only Jinja can evaluate one.

    The function raises what Python raises where an expression fails; the expression itself says it in words.
    """
    asked, trees = _trees(checks), _trees(let)
    if asked is None or trees is None:
        return None
    lines, bound = ["def holds(values):"], {*FUNCTIONS, *known}
    for tree in asked.values():
        lines += (f"    {line}" for line in _needed(tree, trees, bound))
        lines.append(f"    if not ({ast.unparse(tree)}): return False")
    lines.append("    return True")
    names: dict[str, Any] = {"__builtins__": {}, **FUNCTIONS, **known}
    exec(compile("\n".join(lines), "<header>", "exec"), names)
    holds: Holds = names["holds"]
    return holds


def condition(expression: Expression, known: Mapping[str, Any]) -> Holds:
    """One expression as a function of the values; where it fails, the expression says so in words."""
    tree, bound = expression.python(), expression.given(known)
    if tree is None:
        return bound
    asked = ast.unparse(_Subscripts({*FUNCTIONS, *known}).visit(tree))
    names: dict[str, Any] = {"__builtins__": {}, **FUNCTIONS, **known}
    fast: Holds = eval(f"lambda values: {asked}", names)

    def holds(values: Mapping[str, Any]) -> bool:
        try:
            return fast(values)
        except (KeyError, *FAILURES):
            return bool(bound(values))

    return holds


class _Subscripts(ast.NodeTransformer):
    """Names that are not bound become look-ups in `values`."""

    def __init__(self, bound: set[str]) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.expr:  # ast's own name
        if node.id in self._bound:
            return node
        return ast.Subscript(ast.Name("values", ast.Load()), ast.Constant(node.id), ast.Load())


def _trees(expressions: Mapping[str, Expression]) -> dict[str, ast.expr] | None:
    found = {name: each.python() for name, each in expressions.items()}
    trees = {name: tree for name, tree in found.items() if tree is not None}
    return trees if len(trees) == len(found) else None


def _needed(tree: ast.expr, let: Mapping[str, ast.expr], bound: set[str]) -> Iterator[str]:
    """Assignments of the names that an expression needs and that are not bound yet, in order."""
    for name in [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]:
        if name in bound:
            continue
        bound.add(name)
        if name in let:
            yield from _needed(let[name], let, bound)
            yield f"{name} = {ast.unparse(let[name])}"
        else:
            yield f"{name} = values.get({name!r})"
