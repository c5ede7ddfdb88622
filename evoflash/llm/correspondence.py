"""Asks the model in a thread and hands out what came back, or repeats an earlier search's exchanges.

Judges no edit and decides nothing of the search. A search never waits for it. An endpoint that fails again
and again is asked no more.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from evoflash.llm.endpoint import Endpoint, Reply, post
from evoflash.llm.prompt import Letter
from evoflash.model_exchange import ANSWERED, ENDED, VALID, Exchange
from evoflash.notices import say

MOST_FAILURES = 3  # one after the other, until the endpoint is left alone
MOST_USELESS = 4  # answers without a valid edit, one after the other
_FIRST_PAUSE_S = 2.0  # after a failure; twice as long after the next


@dataclass(frozen=True, slots=True)
class _Request:
    asked_at: int
    begun_s: float
    letter: Letter


class Correspondence:
    """Exchanges of earlier commands first, each where in the search it was taken; then live ones."""

    def __init__(
        self,
        where: Endpoint | None,
        *,
        earlier: Sequence[Exchange] = (),
        kept: int = 0,
        keep: Callable[[Exchange], None],
    ) -> None:
        """`where` is None in a replay. `kept`: so many of the `earlier` ones are stored with this run
        already; `keep` stores the others, and new ones.
        """
        self._where, self._keep, self._kept = where, keep, kept
        self._earlier = deque(each for each in earlier if each.status != ENDED)
        self._number = len(earlier)
        self._asked: _Request | None = None
        self._answers: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._failures = self._useless = 0
        self._not_before_s = 0.0
        self.is_plain = False  # the endpoint takes nothing but model and messages
        self.is_over = False

    @property
    def can_ask(self) -> bool:
        is_free = self._where is not None and not self.is_over and self._asked is None
        return is_free and time.monotonic() >= self._not_before_s

    @property
    def seed(self) -> int:
        """Of the next request: another one each time."""
        return self._number

    def ask(self, letter: Letter, *, asked_at: int) -> None:
        """Send a request; returns at once."""
        assert self._where is not None
        self._asked = _Request(asked_at, time.monotonic(), letter)
        thread = threading.Thread(target=self._send, args=(self._where, letter), daemon=True)
        thread.start()

    def _send(self, where: Endpoint, letter: Letter) -> None:
        self._answers.put(post(where, letter.body))

    def take_arrivals(self, position: int) -> list[Exchange]:
        """What has come back by this many proposals; its edits are not judged yet."""
        found = []
        while self._earlier and self._earlier[0].taken_at <= position:
            found.append(self._earlier.popleft())
        if self._asked is not None and not self._answers.empty():
            found.append(self._exchange(self._answers.get(), taken_at=position))
        return found

    def _exchange(self, reply: Reply, *, taken_at: int) -> Exchange:
        assert self._where is not None
        assert self._asked is not None
        asked, self._asked = self._asked, None
        if reply.is_refusal and not self.is_plain:
            self.is_plain = True
        elif reply.status != ANSWERED:
            pause_s = _FIRST_PAUSE_S * 2**self._failures
            self._not_before_s = time.monotonic() + max(pause_s, reply.retry_after_s)
        self._number += 1
        return Exchange(
            self._where.model,
            asked.asked_at,
            taken_at,
            reply.status,
            asked.letter.body,
            asked.letter.shown,
            reply.text,
            reply.seconds,
        )

    def note(self, exchange: Exchange) -> None:
        """Store a judged exchange that is not stored yet, and stop asking where it is one too many."""
        if self._kept:
            self._kept -= 1
        else:
            self._keep(exchange)
        is_valid = any(edit.verdict == VALID for edit in exchange.edits)
        self._failures = 0 if exchange.status == ANSWERED else self._failures + 1
        self._useless = 0 if is_valid else self._useless + 1
        why = ""
        if self._failures >= MOST_FAILURES:
            why = f"{exchange.status}, {MOST_FAILURES} times one after the other"
        elif self._useless >= MOST_USELESS:
            why = f"{MOST_USELESS} answers one after the other had no valid edit"
        if why and not self.is_over:
            self.is_over = True
            if self._where is not None:
                say(f"the language model is asked no more ({why}); the search goes on without it.")

    def close(self, *, position: int, waited_s: float) -> None:
        """Give up what is under way, and keep that it was asked."""
        if self._asked is None or self._where is None:
            return
        reply = Reply(ENDED, seconds=time.monotonic() - self._asked.begun_s)
        self._keep(replace(self._exchange(reply, taken_at=position), waited_s=waited_s))
