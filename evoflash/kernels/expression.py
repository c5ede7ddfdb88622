"""Compiles the expressions of a template header, strict about names and types, in Jinja's syntax.

Not a general evaluator: no attribute that starts with an underscore, no call but the functions given. Jinja
parses; what it parsed becomes a Python expression, node by node from a list of harmless ones, because a
search space evaluates its conditions hundreds of thousands of times, and Jinja's own code takes thirty times
as long. What is not on the list (a filter, a test) is evaluated by Jinja in its sandbox.

For launch.json an expression is reduced to a shape's sizes: all else in it is worked out.
"""

import ast
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import cache
from typing import Any, Self

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

from evoflash.errors import TemplateError


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


FUNCTIONS: dict[str, Callable[..., Any]] = {"ceil_div": ceil_div, "min": min, "max": max}
_Evaluate = Callable[[Mapping[str, Any]], Any]
_ENVIRONMENT = SandboxedEnvironment(undefined=StrictUndefined)
_ENVIRONMENT.globals = dict(FUNCTIONS)
_GLOBALS = {"__builtins__": {}, **FUNCTIONS}

_BINARY: dict[type[nodes.Node], type[ast.operator]] = {
    nodes.Add: ast.Add,
    nodes.Sub: ast.Sub,
    nodes.Mul: ast.Mult,
    nodes.Div: ast.Div,
    nodes.FloorDiv: ast.FloorDiv,
    nodes.Mod: ast.Mod,
}
_COMPARE: dict[str, type[ast.cmpop]] = {
    "eq": ast.Eq,
    "ne": ast.NotEq,
    "lt": ast.Lt,
    "lteq": ast.LtE,
    "gt": ast.Gt,
    "gteq": ast.GtE,
    "in": ast.In,
    "notin": ast.NotIn,
}


class _NotListedError(Exception):
    """The expression holds something that only Jinja evaluates."""


class Expression:
    """One compiled header expression; `where` is 'file: section.key' for messages."""

    def __init__(self, text: object, where: str, types: tuple[type, ...]) -> None:
        self.where, self.text, self.types = where, text, types
        self._given: Callable[[Mapping[str, Any]], _Evaluate] | None = None
        if isinstance(text, str):
            try:
                self._given = _compile(text)
            except TemplateSyntaxError as error:
                raise TemplateError(f"{where} = {text!r} does not parse: {error.message}.") from None
        elif not isinstance(text, (int, bool)):
            raise TemplateError(f"{where} = {text!r}: write an expression in quotes, or a whole number.")
        self._evaluate = self._given({}) if self._given else None

    def bind(self, known: Mapping[str, Any]) -> Self:
        """The expression where these names are known already; a call's own names come before them."""
        bound = copy(self)
        bound._evaluate = self._given(known) if self._given else None
        return bound

    def python(self) -> ast.expr | None:
        """The expression as Python's own tree, made anew; None where only Jinja can evaluate it."""
        if isinstance(self.text, (int, bool)):
            return ast.Constant(self.text)
        try:
            return _python(_parse(str(self.text)))
        except _NotListedError:
            return None

    def __call__(self, names: Mapping[str, Any]) -> Any:
        """The value; TemplateError for an unknown name, a failing operation or a wrong type."""
        if self._evaluate is None:
            return self.text
        try:
            value = self._evaluate(names)
        except FAILURES as error:
            raise TemplateError(f"{self.where} = {self.text!r} fails: {error}.") from None
        if type(value) not in self.types:
            # StrictUndefined comes back as a value when it is the whole expression: a misspelt name.
            got = "an unknown name" if isinstance(value, StrictUndefined) else type(value).__name__
            wanted = " or ".join(t.__name__ for t in self.types)
            raise TemplateError(f"{self.where} = {self.text!r} gives {got}: it must give {wanted}.")
        return value


FAILURES = (
    UndefinedError,
    SecurityError,
    NameError,
    AttributeError,
    TypeError,
    ValueError,
    ZeroDivisionError,
)


def _compile(text: str) -> Callable[[Mapping[str, Any]], _Evaluate]:
    """What evaluates the text, once it is told the names that are known beforehand."""
    try:
        tree = ast.Expression(_python(_parse(text)))
    except _NotListedError:
        slow = _ENVIRONMENT.compile_expression(text, undefined_to_none=False)
        return lambda known: lambda names: slow(**{**known, **names})
    code = compile(ast.fix_missing_locations(tree), "<header>", "eval")

    def bind(known: Mapping[str, Any]) -> _Evaluate:
        outer = {**_GLOBALS, **known}
        return lambda names: eval(code, outer, names)

    return bind


@cache  # read twice, to be evaluated and to be part of a function; two families may share an expression
def _parse(text: str) -> nodes.Expr:
    """The whole text as one expression, read as Environment.compile_expression reads it."""
    parser = Parser(_ENVIRONMENT, text, state="variable")
    expression = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError("chunk after expression", parser.stream.current.lineno)
    return expression


def _python(node: nodes.Node) -> ast.expr:
    """The node as Python; _NotListedError for one that is not on the list."""
    kind = type(node)
    match node:
        case nodes.Const():
            return ast.Constant(node.value)
        case nodes.Name():
            return ast.Name(node.name, ast.Load())
        case nodes.Getattr() if not node.attr.startswith("_"):
            return ast.Attribute(_python(node.node), node.attr, ast.Load())
        case nodes.CondExpr() if node.expr2 is not None:
            return ast.IfExp(_python(node.test), _python(node.expr1), _python(node.expr2))
        case nodes.And() | nodes.Or():
            operator = ast.And() if kind is nodes.And else ast.Or()
            return ast.BoolOp(operator, [_python(node.left), _python(node.right)])
        case nodes.Not() | nodes.Neg():
            return ast.UnaryOp(ast.Not() if kind is nodes.Not else ast.USub(), _python(node.node))
        case nodes.Compare():
            operators: list[ast.cmpop] = [_COMPARE[operand.op]() for operand in node.ops]
            return ast.Compare(_python(node.expr), operators, [_python(o.expr) for o in node.ops])
        case nodes.BinExpr() if kind in _BINARY:
            return ast.BinOp(_python(node.left), _BINARY[kind](), _python(node.right))
        case nodes.List() | nodes.Tuple():
            return ast.Tuple([_python(item) for item in node.items], ast.Load())
        case nodes.Call() if _is_plain_call(node):
            return ast.Call(_python(node.node), [_python(argument) for argument in node.args], [])
    raise _NotListedError


def _is_plain_call(node: nodes.Call) -> bool:
    named = isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS
    return named and not (node.kwargs or node.dyn_args or node.dyn_kwargs)


_DIVISION = "a launcher has whole numbers alone: write // or ceil_div"


def of_sizes(expression: Expression, names: Mapping[str, Any], sizes: Collection[str]) -> int | str:
    """The expression as Python text in which only `sizes` and functions are names; a number where none is.

    `names` are what no shape changes, as Family.names() has them. TemplateError for an expression that the
    launcher of an export cannot evaluate.
    """
    tree = expression.python()
    if tree is None:
        raise _refusal(expression, "only Jinja can evaluate it")
    try:
        worked_out = _Folding(names, frozenset(sizes)).visit(tree)
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
