"""Reads equivalent_mutants.toml: the reviewed mutants that are no faults, and why. Runs nothing."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.kernels.expression import Expression
from scripts.mutation_testing.mutants import Mutant

EQUIVALENTS = Path(__file__).with_name("equivalent_mutants.toml")
# Key of an entry -> attribute of a Mutant.
_TEXTS = {
    "site": "site",
    "change": "what",
    "change_at": "what_at",
    "context": "context",
    "follows": "follows",
}


@dataclass(frozen=True, slots=True)
class Equivalent:
    """Mutants that are no faults: where their texts match and the condition holds; and why."""

    families: tuple[str, ...]
    texts: tuple[tuple[str, re.Pattern[str]], ...]  # attributes of a Mutant, and what is found in them
    when: Expression  # over the names that the template sees, for which it was reviewed
    reason: str

    def covers(self, mutant: Mutant, family: str, names: Mapping[str, Any]) -> bool:
        """Whether the mutant of that family's kernel, rendered from those names, is one of them."""
        return (
            family in self.families
            and all(pattern.search(getattr(mutant, name)) for name, pattern in self.texts)
            and bool(self.when(names))
        )


def equivalents(path: Path = EQUIVALENTS) -> list[Equivalent]:
    """The reviewed list; UsageError for an entry without a reason."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return [_equivalent(entry, f"{path.name}: entry {number}") for number, entry in enumerate(entries, 1)]


def _equivalent(entry: dict[str, Any], where: str) -> Equivalent:
    unknown = entry.keys() - {*_TEXTS, "families", "when", "reason"}
    if unknown or not entry.get("reason") or not entry.get("families"):
        fault = f"has no key '{min(unknown)}'" if unknown else "needs families and a reason"
        raise UsageError(f"{where} ({entry.get('site', 'no site')}) {fault}.")
    texts = tuple((_TEXTS[key], re.compile(entry[key])) for key in _TEXTS if key in entry)
    when = Expression(entry.get("when", True), f"{where}: when", (bool,))
    return Equivalent(tuple(entry["families"]), texts, when, entry["reason"])
