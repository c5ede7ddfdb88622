"""The leaderboard's rows, read by db/leaderboard.sql, which ranks them. Shows nothing.

There is one ranking for each problem, GPU and basis.
"""

from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from evoflash.evaluation import Basis
from evoflash.store.schema import leaderboard_sql
from evoflash.store.store import Store


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of the leaderboard query, under the names that the query gives its columns (units included)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def as_dicts(self) -> list[dict[str, Any]]:
        """One dict per row, keyed by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


RANKING = ("problem", "gpu", "basis")  # what shares a ranking


def read(
    store: Store,
    *,
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    top: int = 20,
) -> Table:
    """The first `top` rows of each ranking, measured rankings first; `problem` is canonical, str(Problem).

    Outcomes of searches on recordings are no kernels of this database: they are ranked where `basis` says so.
    """
    given = {"problem": problem, "gpu": gpu, "basis": None if basis is None else basis.value}
    where = {name: value for name, value in given.items() if value is not None}
    usual = [] if basis else ["basis <> 'replayed'"]
    conditions = " AND ".join(["rank <= :top", *usual, *(f"{name} = :{name}" for name in where)])
    order = "problem, gpu, CASE basis WHEN 'measured' THEN 0 ELSE 1 END, rank, evaluation"
    query = f"SELECT * FROM ({leaderboard_sql()}) AS board WHERE {conditions} ORDER BY {order}"
    columns, rows = store.query(query, {"top": top, **where})
    # Equal times share a rank, as estimates often do: there may be more rows than were asked for.
    rankings = groupby(rows, key=itemgetter(*map(columns.index, RANKING)))
    return Table(columns, tuple(row for _, ranking in rankings for row in islice(ranking, top)))
