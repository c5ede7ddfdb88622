"""The leaderboard's rows, read by db/leaderboard.sql, which ranks them. Shows nothing.

There is one ranking for each problem, GPU and basis.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from evoflash.commands.leaderboard.pareto import Objective
from evoflash.errors import UsageError
from evoflash.evaluation import Basis
from evoflash.store.schema import leaderboard_sql
from evoflash.store.store import Store

RANKING = ("problem", "gpu", "basis")  # what shares a ranking
Ranking = tuple[str, ...]  # the values of these columns


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of the leaderboard query, under the names that the query gives its columns (units included)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    objectives: tuple[Objective, ...] = ()  # where the rows are Pareto fronts
    known: Mapping[Ranking, int] = field(default_factory=dict)  # then: kernels that had all figures, and
    unknown: Mapping[Ranking, int] = field(default_factory=dict)  # those that lacked one

    def as_dicts(self) -> list[dict[str, Any]]:
        """One dict per row, keyed by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Only:
    """Which evaluations are ranked at all; None: it does not matter."""

    family: str | None = None  # of kernels; the libraries stay beside them
    run: int | None = None  # its id
    since: str | None = None  # of `since_of`

    @property
    def given(self) -> dict[str, Any]:
        """What is asked for, by name."""
        fields = {"family": self.family, "run": self.run, "since": self.since}
        return {name: value for name, value in fields.items() if value is not None}


_CONDITIONS = {
    "family": "(e.kind <> 'candidate' OR g.family = :family)",
    "run": "r.id = :run",
    "since": "e.created >= :since",
}


def since_of(text: str) -> str:
    """A date, or a date and a time, as the database writes them, in UTC. UsageError for any other text."""
    try:
        when = datetime.fromisoformat(text)
        when = when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"'{text}' is no date: write 2026-11-23 or 2026-11-23T14:30, in UTC.") from None
    return when.isoformat(timespec="seconds")


def read(
    store: Store,
    *,
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    only: Only = Only(),
    top: int = 20,
) -> Table:
    """The first `top` rows of each ranking, measured rankings first; `problem` is canonical, str(Problem).

    Outcomes of searches on recordings are no kernels of this database: they are ranked where `basis` says so.
    `only` leaves evaluations out before they are ranked; a ranking without a kernel of its family goes, too.
    """
    given = {"problem": problem, "gpu": gpu, "basis": None if basis is None else basis.value}
    where = {name: value for name, value in given.items() if value is not None}
    usual = [] if basis else ["basis <> 'replayed'"]
    conditions = " AND ".join(["rank <= :top", *usual, *(f"{name} = :{name}" for name in where)])
    board = leaderboard_sql(*(_CONDITIONS[name] for name in only.given))
    order = "problem, gpu, CASE basis WHEN 'measured' THEN 0 ELSE 1 END, rank, evaluation"
    query = f"SELECT * FROM ({board}) AS board WHERE {conditions} ORDER BY {order}"
    columns, rows = store.query(query, {"top": top, **where, **only.given})
    # Equal times share a rank, as estimates often do: there may be more rows than were asked for.
    rankings = [list(rows) for _, rows in groupby(rows, key=itemgetter(*map(columns.index, RANKING)))]
    kind = columns.index("kind")
    if only.family:
        rankings = [each for each in rankings if any(row[kind] == "candidate" for row in each)]
    return Table(columns, tuple(row for ranking in rankings for row in islice(ranking, top)))
