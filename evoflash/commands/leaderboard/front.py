"""The Pareto front of each ranking of the database, for the objectives asked for. Shows nothing."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from evoflash.commands.leaderboard.pareto import OBJECTIVES, Objective, pareto_front
from evoflash.commands.leaderboard.table import RANKING, Only, Table, read
from evoflash.errors import EvoflashError
from evoflash.evaluation import Basis
from evoflash.families.family import load_family
from evoflash.gpu import load_gpu
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.store.store import Store

EVERY, _ALL = 2**31 - 1, Only()
SHARED_MEMORY = OBJECTIVES["shared-memory"]


def read_front(
    store: Store,
    *,
    objectives: Sequence[Objective],
    problem: str | None = None,
    gpu: str | None = None,
    basis: Basis | None = None,
    only: Only = _ALL,
    top: int = EVERY,
) -> Table:
    """As table.read, but the Pareto front of each ranking."""
    return front_of(read(store, problem=problem, gpu=gpu, basis=basis, only=only, top=EVERY), objectives, top)


def front_of(table: Table, objectives: Sequence[Objective], top: int = EVERY) -> Table:
    """Of each ranking of a whole table the Pareto front, at most `top` rows, by the first objective.

    A kernel keeps its rank by time. The table says of how many kernels that had all figures it is the front.
    """
    rankings = list(_rankings(_with_shared_memory(table) if SHARED_MEMORY in objectives else table))
    columns = tuple(rankings[0][0]) if rankings else table.columns
    front = [row for rows in rankings for row in pareto_front(rows, objectives)[:top]]
    known = {_key(rows[0]): len(_with_figures(rows, objectives)) for rows in rankings}
    unknown = {_key(rows[0]): len(rows) - known[_key(rows[0])] for rows in rankings}
    cells = tuple(tuple(row[name] for name in columns) for row in front)
    return replace(
        table, columns=columns, rows=cells, objectives=tuple(objectives), known=known, unknown=unknown
    )


def _rankings(table: Table) -> Iterator[list[dict[str, Any]]]:
    for _, rows in groupby(table.as_dicts(), key=_key):
        yield list(rows)


_key = itemgetter(*RANKING)


def _with_figures(rows: Sequence[dict[str, Any]], objectives: Sequence[Objective]) -> list[dict[str, Any]]:
    return [row for row in rows if all(row.get(each.column) is not None for each in objectives)]


def _with_shared_memory(table: Table) -> Table:
    """With a block's shared memory in bytes, the largest of a kernel's launches; None where nobody knows."""
    cells = tuple(
        (*row, _shared_memory(named)) for row, named in zip(table.rows, table.as_dicts(), strict=True)
    )
    return replace(table, columns=(*table.columns, SHARED_MEMORY.column), rows=cells)


def _shared_memory(row: dict[str, Any]) -> int | None:
    """Dynamic memory is the launch's, and not stored: the family says it, if it still is the one of then."""
    if row["values_json"] is None or row["smem_static_bytes"] is None:
        return None
    try:
        family, gpu = load_family(row["name"]), load_gpu(row["gpu"])
        genome = Genome(family.name, family.version, tuple(json.loads(row["values_json"]).items()))
        if genome.id != row["genome_id"]:
            return None
        workloads = parse_problem(row["problem"]).workloads
        launches = [launch for each in workloads for launch in family.launches(genome, each, gpu)]
    except EvoflashError:  # a family, a GPU or a problem that is gone
        return None
    return int(row["smem_static_bytes"]) + max(launch.smem_bytes for launch in launches)
