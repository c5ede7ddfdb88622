"""What a portfolio's package holds: its members, and the rule that names them. Writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evoflash.exports.exported import Exported
from evoflash.runtime.dispatch import FALLBACK

KERNELS = "kernels"  # the folder of the members'


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel for one compile key."""

    exported: Exported

    @property
    def folder(self) -> str:
        genome, key = self.exported.genome, self.exported.compile_key.names()
        mask = "causal" if key["causal"] else "full"
        what = f"d{key['head_dim']}-{key['dtype']}-{mask}-gqa{key['gqa_ratio']}"
        return f"{KERNELS}/{genome.id[:8]}-{what}"


@dataclass(frozen=True, slots=True)
class Package:
    """What is written: members numbered as in the rule, and what is told of the choice in portfolio.json."""

    members: Sequence[Member]
    rule: Mapping[str, Any]
    summary: Mapping[str, Any]
    shapes: int


def by_members(rule: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[int, tuple[Any, ...]]]]:
    """A rule whose points name kernels as one whose points name members; and of each member its kernel and
    its key: head_dim, dtype, causal, gqa_ratio.
    """
    members: list[tuple[int, tuple[Any, ...]]] = []
    keys = []
    for key in rule["keys"]:
        kernels = sorted({point[3] for point in key["points"]} - {FALLBACK})
        first, name = len(members), tuple(key[part] for part in ("head_dim", "dtype", "causal", "gqa_ratio"))
        members += [(kernel, name) for kernel in kernels]
        points = [[*point[:3], first + kernels.index(point[3])] for point in key["points"]]
        keys.append({**key, "points": points})
    return {**rule, "keys": keys}, members
