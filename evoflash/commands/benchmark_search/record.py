"""What a benchmark found as JSON, with the command that made it. Computes nothing but means over spaces."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date

from evoflash import __version__
from evoflash.replay.benchmark import Space
from evoflash.timing.environment import environment


@dataclass(frozen=True, slots=True)
class Made:
    """How a benchmark was made."""

    command: str
    date: str
    version: str
    seeds: int
    first_seed: int
    reference: str
    machine: dict[str, str]


def made(argv: Sequence[str], *, seeds: int, first_seed: int, reference: str) -> Made:
    """How the benchmark of this process was made."""
    command = f"evoflash {shlex.join(argv)}"
    today = date.today().isoformat()
    return Made(command, today, __version__, seeds, first_seed, reference, environment())


def as_json(spaces: Sequence[Space], how: Made) -> str:
    """One object; P of each seed in `scores`, quartiles of best over optimum after each evaluation."""
    tables = [asdict(space) for space in spaces]
    for table in tables:
        table["expected"] = [round(value, 5) for value in table["expected"]]
        for row in table["rows"]:
            row["scores"] = [round(score, 4) for score in row["scores"]]
            row["quartiles"] = [[round(value, 5) for value in each] for each in row["quartiles"]]
    return json.dumps({**asdict(how), "spaces": tables})


def overall(spaces: Sequence[Space]) -> list[tuple[str, float]]:
    """The mean over the spaces of each contender's mean P, best first; of those that ran on all of them."""
    found: dict[str, list[float]] = {}
    for space in spaces:
        for row in space.rows:
            found.setdefault(row.name, []).append(row.standing.score)
    means = [(name, sum(p) / len(p)) for name, p in found.items() if len(p) == len(spaces)]
    return sorted(means, key=lambda each: -each[1])
