"""Lists the primitives of the ef:: layer, from its headers. Explains nothing that these do not say."""

import re
from dataclasses import dataclass

from evoflash.paths import DEVICE

_PRIMITIVE = re.compile(r"((?:^//[^\n]*\n)+)((?:^template <[^\n]*>\n)?^EF_DEV [^{]*?)\s*\{", re.MULTILINE)
_LINE = re.compile(r",? ?\bEF_(?:ONLY_)?LINE\b")
_INCLUDED = re.compile(r'^#include "(ef_\w+\.h)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PrimitiveGroup:
    """The primitives of one header: what it holds, then each one's signature and what it does."""

    header: str
    about: str
    primitives: tuple[tuple[str, str], ...]


def primitive_groups() -> tuple[PrimitiveGroup, ...]:
    """All headers that have primitives, in the order in which ef.h includes them."""
    names = dict.fromkeys(_INCLUDED.findall((DEVICE / "ef.h").read_text(encoding="utf-8")))
    groups = (_group(name, (DEVICE / name).read_text(encoding="utf-8")) for name in names)
    return tuple(group for group in groups if group.primitives)


def _group(name: str, text: str) -> PrimitiveGroup:
    about = _sentence(text.partition("#pragma once")[0])
    found = (
        (_signature(declaration), _sentence(comment)) for comment, declaration in _PRIMITIVE.findall(text)
    )
    return PrimitiveGroup(name, about, tuple(found))


def _sentence(comment: str) -> str:
    return " ".join(line.lstrip("/ ").rstrip() for line in comment.splitlines()).strip()


def _signature(declaration: str) -> str:
    return " ".join(_LINE.sub("", declaration).replace("EF_DEV ", "").split())


def primitives_text() -> str:
    """The list for a terminal: a header, then its primitives."""
    lines = []
    for group in primitive_groups():
        lines += [f"{group.header}: {group.about}", ""]
        for signature, about in group.primitives:
            lines += [f"  {signature}", f"      {about}"]
        lines.append("")
    return "\n".join(lines).rstrip()
