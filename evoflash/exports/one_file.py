"""Puts evoflash.runtime and a kernel into one Python file, as the kinds "cupy" and "torch" begin.

The runtime's modules are joined as they stand, but for the imports of one another.
"""

import ast
import base64
import json
import textwrap
import zlib
from pathlib import Path

from evoflash import runtime
from evoflash.errors import TemplateError
from evoflash.exports.launch_json import Artefact

MODULES = (
    "expressions",
    "driver",
    "description",
    "plan",
    "attention_dense",
    "zeros",
    "launch",
)  # each imports those before it alone
_WIDTH = 100


def runtime_source(*modules: str) -> str:
    """The text of these modules of evoflash.runtime as one, MODULES first; it defines all their names.

    TemplateError where two of them define the same name, or one imports what is not there.
    """
    names = (*MODULES, *modules)
    texts = {name: Path(runtime.__path__[0], f"{name}.py").read_text(encoding="utf-8") for name in names}
    _check_names(texts)
    parts = [
        f"# ---- evoflash/runtime/{name}.py\n\n{_without_siblings(text)}" for name, text in texts.items()
    ]
    return "\n\n".join(parts)


def _without_siblings(text: str) -> str:
    """The module without its docstring and its relative imports."""
    lines = text.splitlines()
    for node in reversed(ast.parse(text).body):
        is_docstring = isinstance(node, ast.Expr) and node.lineno == 1
        is_sibling = isinstance(node, ast.ImportFrom) and node.level > 0
        if is_docstring or is_sibling:
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(lines).strip() + "\n"


def _check_names(texts: dict[str, str]) -> None:
    seen: dict[str, str] = {}
    for module, text in texts.items():
        for name in _defined_names(text):
            if name in seen and name != "__all__":
                raise TemplateError(f"runtime/{module}.py and runtime/{seen[name]}.py both define {name}.")
            seen[name] = module


def _defined_names(text: str) -> list[str]:
    """Names that a module defines itself, imports not counted."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [part.id for each in targets for part in ast.walk(each) if isinstance(part, ast.Name)]
    return found


def embed_kernel(made: Artefact) -> str:
    """Python text that defines KERNEL, the kernel with its cubins inside: zlib, then base64."""
    cubins = "".join(f"    {arch!r}: (\n{_literal(cubin)}    ),\n" for arch, cubin in made.images.items())
    return (
        "import base64\nimport json\nimport zlib\n\n"
        f"DESCRIPTION = json.loads(\n{_json_literal(made.description)})\n"
        f"_CUBINS = {{  # base64 of zlib\n{cubins}}}\n"
        "KERNEL = Kernel(\n"
        "    DESCRIPTION,\n"
        "    {arch: zlib.decompress(base64.b64decode(text)) for arch, text in _CUBINS.items()},\n)\n"
    )


def _json_literal(description: dict[str, object]) -> str:
    lines = textwrap.wrap(json.dumps(description), _WIDTH, break_on_hyphens=False, drop_whitespace=False)
    return "".join(f"    {line!r}\n" for line in lines)


def _literal(content: bytes) -> str:
    text = base64.b64encode(zlib.compress(content, 9)).decode("ascii")
    lines = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    return "".join(f"        {line!r}\n" for line in lines)
