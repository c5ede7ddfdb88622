"""Reads an exported portfolio: what its portfolio.json says, and its kernels. Only the standard library."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .description import Refused
from .launch import Kernel

PACKAGE_FORMAT, PACKAGE_VERSION = "evoflash portfolio", 1


def read_package(folder: str | Path) -> tuple[Mapping[str, Any], list[Kernel]]:
    """The description, and the kernels in its order. Refused where a file is missing, damaged, or not the
    exported one.
    """
    path = Path(folder) / "portfolio.json"
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}): export the portfolio again.") from None
    except ValueError as error:
        raise Refused(f"{path} is no JSON ({error}): export the portfolio again.") from None
    return description, [Kernel.read(Path(folder) / member["folder"]) for member in description["members"]]


def check_package(description: Mapping[str, Any]) -> None:
    """Refused for a description of another format."""
    found = description.get("format"), description.get("version")
    if found != (PACKAGE_FORMAT, PACKAGE_VERSION):
        known = (PACKAGE_FORMAT, PACKAGE_VERSION)
        raise Refused(f"portfolio.json is {found}, this code reads {known}: export it again.")
