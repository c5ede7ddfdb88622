"""Beside others, or alone: who waits for whom. Threads are real."""

import threading

from waiting import LIMIT_S, until

from evoflash.evaluators.cluster.pools import Lanes


def inside(lane, entered, leave):
    def wait():
        with lane():
            entered.set()
            assert leave.wait(LIMIT_S)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_one_that_is_alone_waits_for_those_inside_and_keeps_others_out():
    lanes = Lanes()
    entered, leave = [threading.Event() for _ in range(4)], [threading.Event() for _ in range(4)]
    threads = [inside(lanes.beside, entered[at], leave[at]) for at in range(2)]
    assert entered[0].wait(LIMIT_S)
    assert entered[1].wait(LIMIT_S)  # both are inside at the same time
    threads.append(inside(lanes.alone, entered[2], leave[2]))
    until(lambda: lanes._want_alone, what="one wants to be alone")
    threads.append(inside(lanes.beside, entered[3], leave[3]))
    leave[0].set()
    assert not entered[2].wait(0.1)
    leave[1].set()
    assert entered[2].wait(LIMIT_S)
    assert not entered[3].wait(0.1)
    leave[2].set()
    assert entered[3].wait(LIMIT_S)
    leave[3].set()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def test_an_error_inside_lets_the_next_one_in():
    lanes = Lanes()
    for lane in (lanes.alone, lanes.beside, lanes.alone):
        try:
            with lane():
                raise ValueError
        except ValueError:
            pass
