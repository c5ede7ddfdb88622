"""A search without a GPU repeats itself to the bit: in another process, on another cache, after a stop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tables import data

from evoflash.app.search import plan as planning
from evoflash.app.search.limits import Limits
from evoflash.app.search.session import run_search
from evoflash.store.store import open_store

# The addresses that the system gives out, and the order of sets, differ between the two processes.
ESTIMATE = data(__file__, "ESTIMATE")


def estimated(sizes: str, hash_seed: int) -> str:
    command = [sys.executable, "-c", ESTIMATE, sizes]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_an_estimate_does_not_depend_on_where_the_system_puts_memory() -> None:
    first = estimated("4096", 1)
    assert "Estimate(total_us=" in first
    assert estimated("1000000,8192,70000000", 2) == first


def searched(
    db: Path, strategy: str, family: str | None, seconds: float | None = None
) -> list[tuple[object, ...]]:
    """The genomes and times of a search by a family or all of them, in the order of the store."""
    plan = planning.plan(
        gpu="l4",
        problem="b=1,h=1,s=64,d=64" if family is None else "b=1,h=1,s=32,d=16",
        strategy=strategy,
        seed=3,
        family=family,
        evaluator="emulated",
        seeds=1,
    )
    budget = 6 if family else 24  # a seed of each family and random kernels come before children
    run_search(plan, str(db), limits=Limits(budget, seconds), fresh=False, argv=[])
    with open_store(str(db)) as store:
        history = store.history(store.runs()[0])
        return [(p.genome.id, p.operator, p.parents, e.status, e.score_us) for p, e in history]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "family"),
    [
        ("evolution", "flash_mma"),
        pytest.param("evolution", None, marks=pytest.mark.full),
        pytest.param("surrogate", None, marks=pytest.mark.full),
    ],
)
def test_a_search_repeats_and_goes_on_after_a_stop_as_if_there_had_been_none(
    tmp_path, strategy, family
) -> None:
    whole = searched(tmp_path / "whole.db", strategy, family)
    assert len(whole) >= 6
    assert {len(parents) for _, _, parents, *_ in whole} > {0}, "children too, not only seeds"
    cut = searched(tmp_path / "cut.db", strategy, family, seconds=0.2)
    assert cut == whole[: len(cut)]
    assert len(cut) < len(whole)
    assert searched(tmp_path / "cut.db", strategy, family) == whole
