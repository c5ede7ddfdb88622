"""Threads that call what they are given, one call at a time each: what is urgent first, else in order.

Knows nothing of GPUs.
"""

import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class _Turn:
    """A call that waits. Only its rank and its number are compared."""

    rank: int
    number: int
    function: Callable[[], Any] = field(compare=False)
    answer: "Future[Any]" = field(compare=False)


class Turns:
    """The threads and the queue before them."""

    def __init__(self, name: str, *, at_once: int = 1) -> None:
        self._name, self._threads = name, 0
        self._waiting: queue.PriorityQueue[_Turn] = queue.PriorityQueue()
        self._numbers, self._is_closed = itertools.count(), False
        self.widen(at_once)

    def widen(self, at_once: int) -> None:
        """From now on call so many at the same time, if that is more than before."""
        for _ in range(at_once - self._threads):
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            self._threads += 1

    def submit(self, function: Callable[..., T], *args: Any, first: bool = False) -> "Future[T]":
        """Call the function in its turn; `first`: before all that are not. Cancelled once this is closed."""
        answer: Future[T] = Future()
        self._waiting.put(_Turn(int(not first), next(self._numbers), lambda: function(*args), answer))
        if self._is_closed:
            answer.cancel()
        return answer

    def cancel(self) -> None:
        """Drop what has not begun."""
        while True:
            try:
                self._waiting.get_nowait().answer.cancel()
            except queue.Empty:
                return

    def close(self) -> None:
        """Drop what has not begun, and end when the calls under way do; returns at once."""
        self._is_closed = True
        self.cancel()
        self._wake()

    def _serve(self) -> None:
        while not self._is_closed:
            turn = self._waiting.get()
            if turn.answer.set_running_or_notify_cancel():
                _call(turn)
        self.cancel()
        self._wake()  # one thread after the other ends

    def _wake(self) -> None:
        self._waiting.put(_Turn(0, next(self._numbers), lambda: None, Future()))


def _call(turn: _Turn) -> None:
    try:
        answer = turn.function()
    except BaseException as error:  # whoever waits for it is told, whatever it is
        turn.answer.set_exception(error)
    else:
        turn.answer.set_result(answer)
