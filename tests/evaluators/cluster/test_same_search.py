"""A search on a cluster proposes and finds what one on this machine does, whatever dies meanwhile."""

import random
import signal
import sqlite3
import time

import pytest
from cluster_parts import FAMILY, PROBLEM, Parts, history_of, kill
from waiting import until

from evoflash.app.search import plan as planning
from evoflash.app.search.limits import Limits
from evoflash.app.search.machines import MachineOptions, machines
from evoflash.app.search.session import run_search

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

BUDGET = 5
GOES_ON = (4, -signal.SIGKILL)  # the scheduler was gone for long, or the search was killed


def searched(db, budget, **asked):
    """As `evoflash search` with the options."""

    def planned(present):
        return planning.plan(
            gpu="l4",
            problem=PROBLEM,
            strategy="surrogate",
            seed=3,
            family=FAMILY,
            evaluator="emulated",
            present=present,
        )

    with machines(MachineOptions(**asked), planned) as (plan, where):
        run_search(plan, str(db), limits=Limits(budget), fresh=False, argv=[], machines=where)
    return history_of(db)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    made = Parts(tmp_path_factory.mktemp("parts"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What the search finds without a cluster."""
    found = searched(tmp_path_factory.mktemp("alone") / "alone.db", BUDGET, ahead=4)
    assert len(found) >= BUDGET
    return found


def test_two_workers_find_the_same_as_none(tmp_path, alone):
    assert searched(tmp_path / "two.db", BUDGET, workers=2, ahead=4) == alone


MOMENTS = [(seed, (who,)) for seed in range(7) for who in ("worker", "scheduler", "search")][:20]


@pytest.mark.parametrize(
    ("seed", "victims"),
    [
        (0, ("worker", "scheduler", "search")),
        *(pytest.param(*each, marks=pytest.mark.full) for each in MOMENTS),
    ],
)
@pytest.mark.full
def test_kills_at_any_moment_lose_nothing_and_double_nothing(parts, tmp_path, alone, seed, victims):
    rng, db = random.Random(f"{seed} {victims}"), tmp_path / f"{seed}.db"
    parts.mend()
    search = parts.search(db, budget=BUDGET)
    moments = sorted(rng.randrange(BUDGET - 1) for _ in victims)
    for victim, moment in zip(rng.sample(victims, len(victims)), moments, strict=True):
        wait_until(moment, db, search)
        time.sleep(rng.uniform(0.0, 0.3))
        if victim == "worker":
            parts.kill_worker(rng)
        else:
            kill(parts.scheduler if victim == "scheduler" else search)
        parts.mend()
        if search.poll() not in (None, 0):
            search = parts.search(db, budget=BUDGET)
    while search.wait() in GOES_ON:
        search = parts.search(db, budget=BUDGET)
    assert search.returncode == 0, parts.log(db.stem)
    assert history_of(db) == alone


def wait_until(spent, db, search):
    """The search has stored so many evaluations, or has ended."""
    until(lambda: search.poll() is not None or stored(db) >= spent, what=f"{spent} evaluations")


def stored(db):
    """How many evaluations a search has stored; none before it has made its database."""
    if not db.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as found:
            return found.execute("select count(*) from evaluations").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
