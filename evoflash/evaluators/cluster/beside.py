"""Who may be asked something beside others, and who has to be alone. Asks nothing itself.

Dask counts the end of a worker against every question that had reached it. Only one that ends workers when
nothing else is on its way is surely to blame.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Lanes:
    """Threads may enter at any time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside, self._want_alone, self._is_alone = 0, 0, False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Beside others; waits while somebody is alone, or wants to be."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._want_alone or self._is_alone))
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """With nobody else inside; waits until all who are have left. Not to be entered from inside."""
        with self._changed:
            self._want_alone += 1
            self._changed.wait_for(lambda: not (self._inside or self._is_alone))
            self._want_alone -= 1
            self._is_alone = True
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()
