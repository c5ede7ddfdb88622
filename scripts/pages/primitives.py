"""Writes docs/primitives.md, the list of the ef:: primitives, out of the headers of evoflash/device/.

python -m scripts.pages.primitives             write it
python -m scripts.pages.primitives --check     say whether it is stale
"""

import argparse
import sys

from evoflash.app.check.primitives import primitive_groups
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


def main() -> int:
    """Write the page, or with --check say whether it is stale (1)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is stale")
    args = parser.parse_args()
    is_fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
    if not args.check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not is_fresh:
        print("docs/primitives.md is stale: run scripts.pages.primitives.", file=sys.stderr)
    return int(args.check and not is_fresh)


if __name__ == "__main__":
    sys.exit(main())
