"""What a command takes while it works on a run, charged to the run in the store. It says nothing of it.

The CPU's time is that of this process and of all that it started and saw the end of: workers and compilers
count once they have ended. It is noted every half minute, so that a search that is killed keeps most of it.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from evoflash.errors import StoreError
from evoflash.evaluation import Basis, Run
from evoflash.store.cost import Cost, charge
from evoflash.store.database import Database

log = logging.getLogger(__name__)
_NOTE_EVERY_S = 30.0


class Meter:
    """Counts from its making on; `note` charges the run with what has come since the last note."""

    def __init__(self, database: Database, run: Run) -> None:
        self._database, self._run = database, run
        self._noted_s, self._last_note = self._now(), time.monotonic()

    def note(self) -> None:
        """Charge the run."""
        now_s = self._now()
        spent = Cost(*(now - before for now, before in zip(now_s, self._noted_s, strict=True)))
        charge(self._database, self._run, spent)
        self._noted_s, self._last_note = now_s, time.monotonic()

    def note_now_and_then(self) -> None:
        """As note(), but at most every half minute."""
        if time.monotonic() - self._last_note >= _NOTE_EVERY_S:
            self.note()

    def _now(self) -> tuple[float, float]:
        """Seconds of the GPU and of the CPU so far."""
        gpu_s = time.monotonic() if self._run.key.basis is Basis.MEASURED else 0.0
        ended = os.times()
        return gpu_s, time.process_time() + ended.children_user + ended.children_system


@contextmanager
def metered(database: Database, run: Run) -> Iterator[Meter]:
    """Charge the run at the end, however it ends."""
    meter = Meter(database, run)
    try:
        yield meter
    except BaseException as end:
        try:
            meter.note()
        except StoreError as error:  # what ended the work is the news
            if not isinstance(end, StoreError):
                log.warning("what this took could not be noted: %s", error)
        raise
    meter.note()
