"""The thread that uses the GPU process: in order, what is urgent first, and what becomes of it at the end."""

import threading
from concurrent.futures import CancelledError

import pytest
from waiting import LIMIT_S

from evoflash.isolation import Turns


@pytest.fixture
def turns():
    made = Turns("turns")
    yield made
    made.close()


@pytest.fixture
def held(turns):
    """Nothing begins until the event is set."""
    go, begun = threading.Event(), threading.Event()

    def hold():
        begun.set()
        assert go.wait(LIMIT_S)

    turns.submit(hold)
    assert begun.wait(LIMIT_S)
    yield go
    go.set()


def test_calls_come_in_order_and_urgent_ones_before_the_others(turns, held):
    done = []
    answers = [turns.submit(done.append, name) for name in ("a", "b")]
    answers += [turns.submit(done.append, name, first=True) for name in ("urgent", "urgent too")]
    held.set()
    for answer in answers:
        answer.result(LIMIT_S)
    assert done == ["urgent", "urgent too", "a", "b"]


def test_an_error_is_the_answers_and_the_next_call_is_made(turns):
    with pytest.raises(ZeroDivisionError):
        turns.submit(lambda: 1 // 0).result(LIMIT_S)
    assert turns.submit(pow, 2, 3).result(LIMIT_S) == 8


def test_what_has_not_begun_can_be_dropped_and_more_can_come(turns, held):
    dropped = turns.submit(pow, 2, 3)
    turns.cancel()
    kept = turns.submit(pow, 3, 2)
    held.set()
    with pytest.raises(CancelledError):
        dropped.result(LIMIT_S)
    assert kept.result(LIMIT_S) == 9


def test_nobody_waits_for_ever_once_it_is_closed(turns, held):
    before = turns.submit(pow, 2, 3)
    turns.close()
    after = turns.submit(pow, 2, 3)
    for answer in (before, after):
        with pytest.raises(CancelledError):
            answer.result(LIMIT_S)


def test_several_calls_run_at_the_same_time_and_all_threads_end_with_the_queue():
    wide = Turns("wide", at_once=1)
    wide.widen(3)
    wide.widen(2)  # fewer than before changes nothing
    meet = threading.Barrier(3)
    for answer in [wide.submit(meet.wait, LIMIT_S) for _ in range(3)]:
        answer.result(LIMIT_S)
    wide.close()
    for thread in threading.enumerate():
        if thread.name == "wide":
            thread.join(LIMIT_S)
            assert not thread.is_alive()
