"""One thread that calls what it is given, one call at a time: what is urgent first, else in order.

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
    """The thread and the queue before it."""

    def __init__(self, name: str) -> None:
        self._waiting: queue.PriorityQueue[_Turn] = queue.PriorityQueue()
        self._numbers, self._is_closed = itertools.count(), False
        threading.Thread(target=self._serve, name=name, daemon=True).start()

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
        """Drop what has not begun, and end when the call under way does; returns at once."""
        self._is_closed = True
        self.cancel()
        self._waiting.put(_Turn(0, next(self._numbers), lambda: None, Future()))

    def _serve(self) -> None:
        while not self._is_closed:
            turn = self._waiting.get()
            if turn.answer.set_running_or_notify_cancel():
                _call(turn)
        self.cancel()


def _call(turn: _Turn) -> None:
    try:
        answer = turn.function()
    except BaseException as error:  # whoever waits for it is told, whatever it is
        turn.answer.set_exception(error)
    else:
        turn.answer.set_result(answer)
