"""The kinds "cupy" and "torch" are one Python file with launcher and cubins, which needs that library alone.

It holds evoflash.runtime, whose modules are joined as they stand, but for the imports of one another, the
kernels, and a function of the library's arrays. Launches nothing.
"""

import ast
import base64
import json
import textwrap
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from evoflash import operation as registry
from evoflash import runtime
from evoflash.errors import TemplateError, UsageError
from evoflash.exports.claims import as_comment, facts
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact
from evoflash.operation import PythonDoor
from evoflash.written_files import write_text

MODULES = (
    "expressions",
    "driver",
    "description",
    "plan",
    "attention_dense",
    "attention_paged",
    "linear_rows",
    "zeros",
    "launch",
)  # each imports those before it alone
_WIDTH = 100


def write_cupy(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    return _write("cupy", exported, path)


def write_torch(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    return _write("torch", exported, path)


def _write(library: str, exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    made = artefact(exported, command=exported.command(library, path.name))
    write_text(path, text_of(library, (made,), path.stem))
    return (path,)


def text_of(library: str, made: Sequence[Artefact], module: str) -> str:
    """The file of compiled kernels for a library's arrays, imported under the name `module`.

    Several kernels make one function, which takes each call to one of them. UsageError where the operation
    has no function of such arrays.
    """
    form = registry.load(made[0].description["operation"]).launch_form
    door = form.doors.get(library) if form else None
    if form is None or door is None:
        why = form.no_door.get(library) if form else "its kernels leave as --kind cu alone"
        raise UsageError(f"{made[0].description['operation']}: {why}.")
    names = " ".join(each.description["name"] for each in made[:1])
    maker = door.maker[1]
    offered = ", ".join(
        f'"{name}"'
        for name in (*sorted((maker, "Kernel", "Refused")), form.function, *door.made, *door.offers)
    )
    return (
        f'"""{door.title}: the kernel {names}, found by evoflash."""\n'
        f"{as_comment(facts(made[0].description))}#\n{door.use.format(module=module)}\n"
        f"{runtime_source(*door.modules)}\n\n# ---- the kernel{'s' if made[1:] else ''}\n\n{_embed(made)}\n"
        f"__all__ = [{offered}]\n\n{form.function} = {maker}({'KERNELS' if made[1:] else 'KERNEL'})\n"
        f"{made_of(door, form.function)}"
    )


def made_of(door: PythonDoor, function: str) -> str:
    """Python text that defines what is made of an operation's function."""
    return "".join(f"{name} = {maker}({function})\n" for name, (_, maker) in door.made.items())


def _embed(made: Sequence[Artefact]) -> str:
    """Python text that defines KERNEL, or KERNELS where there are several."""
    if len(made) == 1:
        return embed_kernel(made[0])
    each = (f"{embed_kernel(one)}KERNELS.append(KERNEL)\n" for one in made)
    return "KERNELS = []\n" + "\n".join(each)


@cache
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
