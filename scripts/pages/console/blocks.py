"""The console blocks of a page: found with their marks, replaced by new text. Runs nothing."""

import re
from dataclasses import dataclass

_BLOCK = re.compile(r"^(?:<!-- console: (?P<mark>.+?) -->\n)?```console\n(?P<text>.*?)^```$", re.M | re.S)
_KINDS = ("run", "kept", "shown")
PROMPT = "$ "


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of commands and what they print."""

    kind: str  # run, kept or shown
    name: str  # of the record of a kept one
    text: str  # with the prompts, without the fence

    @property
    def commands(self) -> tuple[str, ...]:
        """The lines after a prompt."""
        lines = self.text.splitlines()
        return tuple(line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT))


def blocks(text: str) -> list[Block]:
    """Those of a page, in order. ValueError for one without a mark, and for one whose mark is not kept."""
    return [_block(match) for match in _BLOCK.finditer(text)]


def _block(match: re.Match[str]) -> Block:
    first = match["text"].partition("\n")[0]
    if match["mark"] is None:
        raise ValueError(f"the console block of '{first}' has no mark: see scripts/pages/console.")
    kind, _, rest = match["mark"].partition(" ")
    found = Block(kind.rstrip(","), rest.strip() if kind == "kept" else "", match["text"])
    if found.kind not in _KINDS or (found.kind == "kept") != bool(found.name):
        raise ValueError(f"'{first}' is marked '{match['mark']}': see scripts/pages/console.")
    if found.kind == "shown" and (not rest or len(found.commands) != len(found.text.splitlines())):
        raise ValueError(f"the block of '{first}' is only shown: it needs a reason, and has no output.")
    return found


def replaced(text: str, texts: list[str]) -> str:
    """The page with these texts in its blocks, in order."""
    fresh = iter(texts)
    return _BLOCK.sub(lambda match: match[0].replace(match["text"], next(fresh), 1), text)
