"""The kernel that an exported Python file holds, read as text: nothing of the file is run.

attention.py and torch_op.py, and attention.py inside of a flashinfer-bench Solution.
"""

import ast
import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evoflash.errors import UsageError

_MOST = 1 << 28  # bytes of a cubin
_DESCRIPTION, _CUBINS = "DESCRIPTION", "_CUBINS"


@dataclass(frozen=True, slots=True)
class Held:
    """What the file holds."""

    description: Mapping[str, Any]
    cubins: Mapping[str, bytes]  # by architecture
    packed: str  # the literal of the cubins, as it stands in the text


def held_in(text: str, name: str) -> Held:
    """UsageError where the file is no such export, or its kernel cannot be read."""
    try:
        values = _assigned(ast.parse(text))
        description = json.loads(ast.literal_eval(values[_DESCRIPTION].args[0]))  # type: ignore[attr-defined]
        texts = ast.literal_eval(values[_CUBINS])
        cubins = {arch: _unpacked(packed) for arch, packed in texts.items()}
        literal = ast.get_source_segment(text, values[_CUBINS])
    except (SyntaxError, ValueError, KeyError, IndexError, AttributeError, RecursionError, TypeError):
        raise UsageError(
            f"{name} is no Python file that `evoflash export` wrote, or was cut short: export it again."
        ) from None
    return Held(description, cubins, literal or "")


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """Values by name, of the file's own assignments; the last one counts, as it would for Python."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _unpacked(packed: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(packed, validate=True), _MOST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("cut short, or too large")
    return content
