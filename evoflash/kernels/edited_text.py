"""Edits of the text that is rendered of a genome: where they apply, and what they may not touch.

Whether an edited kernel is right is not asked here: nothing is compiled and nothing run. What is edited is
what stands below `#include "ef.h"`.
"""

import re
from functools import lru_cache

from evoflash.errors import UsageError
from evoflash.evaluation import Candidate
from evoflash.kernels.ef_layer import source_sha
from evoflash.kernels.kernel_text import kernel_text
from evoflash.kernels.lint import lint
from evoflash.kernels.renderer import render
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.workload import CompileKey

# Why an edit is none.
PLACE, CHARACTERS, IDLE = "does not apply", "characters that no kernel holds", "no effect"
FRAME, GROWTH, REFUSED = "touches the signature or the launch", "grows too much", "holds what no kernel may"
MOST_GROWTH = 4000  # characters that a text may have more than what is rendered
_INCLUDE = '#include "ef.h"\n'
_ODD = re.compile(r"[^\n\t -~]|`")  # a terminal, a page or a prompt might take them for its own
_FRAME = re.compile(r"^[^\n]*__global__[^{;]*[{;]|^EF_EXPORT_KERNEL[^\n]*", re.MULTILINE)


class EditRefusedError(Exception):
    """An edit is none: `kind` is one of the words above, `detail` a few more."""

    def __init__(self, kind: str, detail: str = "") -> None:
        self.kind, self.detail = kind, detail
        super().__init__(f"{kind}: {detail}")


def render_edited(genome: Genome, key: CompileKey, gpu: GpuSpec) -> Candidate:
    """As render(), with the genome's edits applied. UsageError where the family's text is another one now."""
    made = render(genome.root, key, gpu)
    if not genome.edits:
        return made
    head, _, body = made.source.partition(_INCLUDE)
    try:
        source = f"{head}{_INCLUDE}{_text_with(body, genome.edits)}"
    except EditRefusedError as error:
        raise UsageError(
            f"{genome.id} edits a text that {genome.family} does not write any more ({error.detail}): search "
            "again, or take the evoflash that made it."
        ) from None
    return Candidate(genome, key, source, source_sha(source))


@lru_cache(maxsize=16)  # an answer's edits are of one kernel or two
def kernel_body(genome: Genome, key: CompileKey, gpu: GpuSpec) -> str:
    """What may be edited of a kernel's text."""
    return render_edited(genome, key, gpu).source.partition(_INCLUDE)[2]


def check_edits(genome: Genome, keys: tuple[CompileKey, ...], gpu: GpuSpec, *, parent: Genome) -> None:
    """EditRefusedError where the genome's edits, of which the parent has the first, are none for a key."""
    new = genome.edits[len(parent.edits) :]
    if odd := _ODD.search("".join(after for _, after in new)):
        raise EditRefusedError(CHARACTERS, ascii(odd[0]))
    for key in keys:
        before = kernel_body(parent, key, gpu)
        after = _text_with(before, new)
        _check(before, after, most=len(kernel_body(genome.root, key, gpu)) + MOST_GROWTH)


def _text_with(text: str, edits: tuple[tuple[str, str], ...]) -> str:
    for before, after in edits:
        times = text.count(before) if before.strip() else 0
        if times != 1:
            raise EditRefusedError(PLACE, f"its text stands there {times} times")
        text = text.replace(before, after)
    return text


def _check(before: str, after: str, *, most: int) -> None:
    if len(after) > most:
        raise EditRefusedError(GROWTH, f"{len(after)} characters, {most} are allowed")
    was, now = kernel_text(before), kernel_text(after)
    if _FRAME.findall(was.code) != _FRAME.findall(now.code):
        raise EditRefusedError(FRAME)
    old, new = ([line for line, _ in text.directives] for text in (was, now))
    if was.names == now.names and old == new:
        raise EditRefusedError(IDLE, "comments and spaces alone")
    if others := [line for line in new if line not in old and not line.startswith("#pragma")]:
        raise EditRefusedError(REFUSED, others[0])  # a name's other meaning reaches the signature, too
    if refused := lint(f"{_INCLUDE}{after}"):
        raise EditRefusedError(REFUSED, refused[0].what)
