"""Reads a Python file that launches kernels: which form it has, what it is for, and how it would cheat.

What is found stands in the text; what the code does when it runs python_forms.py judges. Runs none of it.
"""

import ast
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evoflash.app.check.findings import Finding
from evoflash.errors import UsageError

# What is called with the inputs, and how the file's authors know it.
FORMS = {
    "custom_kernel": "a GPU MODE submission",
    "ModelNew": "a KernelBench answer",
    "Model": "a KernelBench-Hard answer",
    "run": "a solution in Python",
}
# How each is called: with one tuple, as a model, with the inputs; a solution perhaps with outputs behind.
STYLES = {"custom_kernel": "tuple", "ModelNew": "model", "Model": "model", "run": "values"}
OUTPUTS_LAST = "outputs"
_PROBLEM = re.compile(r"""^#[ \t]*evoflash check:[ \t]*problem[ \t]*=[ \t]*["']([^"']+)["']""", re.MULTILINE)
_COMPILES = ("load_inline", "cpp_extension")
# Modules whose functions the judge uses in the same process, and whose attributes no kernel has to set.
_JUDGED_BY = ("torch", "time", "numpy", "builtins", "sys", "os", "gc", "triton")
_REACHES = {
    **dict.fromkeys(("Stream", "ExternalStream", "stream", "set_stream"), "uses a stream of its own"),
    **dict.fromkeys(("stack", "currentframe", "_getframe", "f_back"), "looks at who calls it"),
    **dict.fromkeys(("get_objects", "get_referrers", "get_referents"), "looks for the judge's objects"),
    **dict.fromkeys(("_make_subclass", "__torch_function__", "__torch_dispatch__"), "makes lazy tensors"),
    **dict.fromkeys(("kill", "fork", "ptrace", "dup2", "pwrite"), "reaches for other processes or files"),
}
_MODULES = {
    "ctypes": "reaches into memory",
    "mmap": "reaches into memory",
    "inspect": "looks at who calls it",
}
_KEYS = ("data_ptr", "_version", "id")  # by which a result is found again


@dataclass(frozen=True, slots=True)
class PythonText:
    """A file of one of the forms."""

    form: str
    style: str
    problem: str  # that it names; "" for none
    findings: tuple[Finding, ...]  # ways in which it would cheat
    compiles: bool  # by a compiler of CUDA

    @property
    def refusal(self) -> str:
        """Why it cannot run on this machine; "" where it can."""
        if self.compiles and shutil.which("nvcc") is None:
            return "it compiles CUDA by torch.utils.cpp_extension, which needs nvcc, and there is none here"
        return ""


def read_python(path: Path, text: str, *, entry: str = "", outputs_last: bool = False) -> PythonText:
    """UsageError for what is no Python, or has none of the forms; a solution names its `entry`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UsageError(f"{path}:{line}: no Python: {error.args[0] if error.args else error}.") from None
    named = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    form = next((name for name in ((entry,) if entry else FORMS) if name in named), None)
    if form is None:
        wanted = entry or f"one of {', '.join(FORMS)}"
        raise UsageError(f"{path} does not define {wanted}, which is called with the inputs: define it.")
    style = OUTPUTS_LAST if outputs_last else "values" if entry else STYLES[form]
    problem = _PROBLEM.search(text)
    found = {(each.line, each.message): each for each in _cheats(tree)}
    compiles = any(word in text for word in _COMPILES)
    return PythonText(form, style, problem[1] if problem else "", tuple(found.values()), compiles)


def _cheats(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [each.name for each in node.names]
            )
            taken = [each.name for each in node.names] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                if why := _MODULES.get(name.partition(".")[0]):
                    yield Finding("tampering", f"it imports {name}, and {why}", line)
            for name in taken:
                if why := _REACHES.get(name):
                    yield Finding("tampering", f"it takes {name}, and {why}", line)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            if _root(node) in _JUDGED_BY or node.attr == "elapsed_time":
                yield Finding("tampering", f"it sets {ast.unparse(node)}, which the judge uses", line)
        elif isinstance(node, ast.Attribute) and (why := _REACHES.get(node.attr)):
            yield Finding("tampering", f"{ast.unparse(node)}: it {why}", line)
        elif isinstance(node, ast.Call) and _name(node.func) == "setattr" and node.args:
            if _root(node.args[0]) in _JUDGED_BY:
                yield Finding("tampering", f"it sets an attribute of {ast.unparse(node.args[0])}", line)
        elif isinstance(node, ast.Call) and _name(node.func) == "__import__":
            yield Finding("tampering", "it imports by a name that is made", line)
        elif isinstance(node, ast.ClassDef) and any(
            ast.unparse(each).endswith("Tensor") for each in node.bases
        ):
            yield Finding(
                "tampering", "it makes a tensor of its own kind, which may compute when it is read", line
            )
        elif isinstance(node, ast.Subscript | ast.Call) and _is_kept(node):
            yield Finding("tampering", "it finds a result again by where its inputs lie", line)


def _is_kept(node: ast.Subscript | ast.Call) -> bool:
    """Whether something is looked up by the address, the identity or the version of a tensor."""
    if isinstance(node, ast.Subscript):
        key: ast.AST | None = node.slice
    else:
        is_lookup = isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "setdefault", "pop")
        key = node.args[0] if is_lookup and node.args else None
    inside = () if key is None else ast.walk(key)
    return any(
        (isinstance(each, ast.Attribute) and each.attr in _KEYS[:2])
        or (isinstance(each, ast.Call) and _name(each.func) == _KEYS[2])
        for each in inside
    )


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return _name(node)
