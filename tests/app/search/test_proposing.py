"""A strategy in a process of its own: it proposes what it would here, and its failures are told in a line."""

import os
import signal

import pytest

from evoflash.app.search import plan as planning
from evoflash.app.search.proposing import proposals_from
from evoflash.errors import EvoflashError
from evoflash.evaluation import Basis, Evaluation, Rung, Status


@pytest.fixture(scope="module")
def plan():
    return planning.plan(
        gpu="l4",
        problem="b=1,h=8,s=512,d=64",
        strategy="surrogate",
        seed=3,
        family="flash_mma",
        evaluator="emulated",
        is_timed=False,
    )


def outcome(proposal):
    us = 10.0 + int(proposal.genome.id[:4], 16) / 1e3
    how = {"problem": "p", "gpu": "l4", "basis": Basis.MEASURED, "status": Status.CORRECT, "rung": Rung.DONE}
    return Evaluation(genome=proposal.genome, score_us=us, **how)


def proposed(strategy, *, count, in_flight=6):
    """What a search asks for, with so many in flight."""
    asked, waiting = [], []
    while len(asked) < count:
        while len(waiting) < in_flight:
            waiting.append(strategy.ask())
            asked.append(waiting[-1])
        oldest = waiting.pop(0)
        strategy.tell(oldest, outcome(oldest))
    return asked


def test_a_process_of_its_own_proposes_what_this_one_would(plan):
    with proposals_from(plan, {}, apart=False) as here, proposals_from(plan, {}, apart=True) as there:
        assert proposed(there, count=14) == proposed(here, count=14)


def test_what_the_strategy_raises_is_raised_here(plan):
    with (
        proposals_from(plan, {"flash_mma": (None,)}, apart=True) as there,
        pytest.raises(AttributeError, match="NoneType"),
    ):
        there.ask()


def test_a_process_that_was_killed_is_said_in_a_line(plan):
    with proposals_from(plan, {}, apart=True) as there:
        there.ask()
        os.kill(there._process.pid, signal.SIGKILL)
        with pytest.raises(EvoflashError, match="ended with -9: what was evaluated is kept"):
            proposed(there, count=2)
