"""A rendered text with smaller constants, as its family's [shrunk] says, for the emulator; renders nothing.

A fault at the 129th of 128 places, at more blocks than a GPU holds or between two groups of 32 heads then
shows in a few pieces of work. Expressions around the constants stay, and so do the numbers of lines.
"""

import re
from collections.abc import Mapping
from typing import Any

from evoflash.families.family import Family


def shrunk(source: str, family: Family, names: Mapping[str, Any]) -> str:
    """The text with each `constexpr int NAME = number;` of [shrunk] as its expression has it under the names.

    A constant that the text does not have plays no part.
    """
    for name, expression in family.shrunk.items():
        pattern = rf"\bconstexpr int {re.escape(name)} = \d+;"
        source = re.sub(pattern, f"constexpr int {name} = {expression(names)};", source)
    return source
