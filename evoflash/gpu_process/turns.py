"""One thread that calls what it is given, one call at a time: what is urgent first, else in order.

Knows nothing of GPUs. Where nothing waits, a pastime is called instead, again and again until it says that
there is nothing more to do; it must be short, because what comes in meanwhile waits for its end.
"""

import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
Pastime = Callable[[], bool]  # whether there is more to do


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
        self._pastime: Pastime | None = None
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def submit(self, function: Callable[..., T], *args: Any, first: bool = False) -> "Future[T]":
        """Call the function in its turn; `first`: before all that are not. Cancelled once this is closed."""
        answer: Future[T] = Future()
        self._waiting.put(_Turn(int(not first), next(self._numbers), lambda: function(*args), answer))
        if self._is_closed:
            answer.cancel()
        return answer

    def while_waiting(self, pastime: Pastime | None) -> None:
        """What is done where nothing waits, from the next call on."""
        self._pastime = pastime

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
            turn = self._next()
            if turn is not None and turn.answer.set_running_or_notify_cancel():
                _call(turn)
        self.cancel()

    def _next(self) -> _Turn | None:
        """The next turn; None after some pastime."""
        pastime = self._pastime
        if pastime is None or not self._waiting.empty():
            return self._waiting.get()
        if not pastime():
            self._pastime = None
        return None


def _call(turn: _Turn) -> None:
    try:
        answer = turn.function()
    except BaseException as error:  # whoever waits for it is told, whatever it is
        turn.answer.set_exception(error)
    else:
        turn.answer.set_result(answer)
