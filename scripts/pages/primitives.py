"""Writes docs/primitives.md, the list of the ef:: primitives, out of the headers of evoflash/device/.

python -m scripts.pages.primitives             write it
python -m scripts.pages.primitives --check     say whether it is stale
"""

import sys

from evoflash.app.catalogue import primitive_groups
from scripts import ROOT
from scripts.pages import markdown

PAGE = ROOT / "docs" / "primitives.md"
_HEAD = """\
# The primitives of `ef.h`

A kernel that is checked or evolved includes `ef.h` and reaches shared memory, barriers, copies and tensor
cores through these functions of namespace `ef`: on a GPU each is a PTX instruction or a few, in the emulator
a checked call. In a kernel of your own, loads and stores of global memory may also be plain C++
(`y[i] = x[i]`): [check.md](check.md). Shared memory is named by 32-bit addresses from `smem_base()`.

Written out of the headers by `python -m scripts.pages.primitives`; an installed evoflash prints the list with
`evoflash check --primitives`.
"""


def page() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    for group in primitive_groups():
        rows = ((f"`{signature}`".replace("|", "\\|"), about) for signature, about in group.primitives)
        table = "\n".join(markdown.table(("primitive", "what it does"), rows))
        parts.append(f"## {group.header}\n\n{group.about}\n\n{table}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(markdown.run(__doc__, "scripts.pages.primitives", lambda: [(PAGE, page())]))
