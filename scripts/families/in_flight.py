"""Runs bounded calls in a process pool, so many in flight at a time; knows nothing of what they do."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeVar

from evoflash.isolation import Ending, IsolatedPool

T = TypeVar("T")
R = TypeVar("R")


def in_flight(
    pool: IsolatedPool,
    function: Callable[[T], R],
    work: Iterable[T],
    *,
    many: int,
    limit_s: float,
    time_limit_s: float,
) -> Iterator[tuple[T, Ending[R]]]:
    """Each piece of work with its ending, as they come: `many` under way, `limit_s` for each of them."""
    deadline = time.monotonic() + time_limit_s
    waiting: dict[Future[Ending[R]], T] = {}
    rest = iter(work)
    while time.monotonic() < deadline:
        while len(waiting) < many and (piece := next(rest, None)) is not None:
            waiting[pool.submit(function, piece, timeout_s=limit_s)] = piece
        if not waiting:
            return
        done, _ = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in done:
            yield waiting.pop(future), future.result()
