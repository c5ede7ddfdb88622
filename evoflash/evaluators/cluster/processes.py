"""The cores of a cluster: calls in disposable processes of its workers, as isolation.py makes them on one
machine. One call is on its way for each worker, so that what ends a worker takes no other call with it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from evoflash.evaluation import Status
from evoflash.evaluators.cluster import asked
from evoflash.evaluators.cluster.connection import CPU, Connection, EndsWorkersError
from evoflash.evaluators.cluster.cubins import unpack_prepared
from evoflash.evaluators.prepare import Prepared
from evoflash.gpu_process.turns import Turns
from evoflash.isolation import Ending

T = TypeVar("T")


class ClusterCores:
    """Workers without a GPU. They may come and go; `expected` of them are counted before they have come."""

    def __init__(self, connection: Connection, *, expected: int = 1) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._most, self._open = expected, list[ClusterProcesses]()
        connection.watch(CPU, self._hear)

    @property
    def count(self) -> int:
        """The most there have been: one that died will be back."""
        return self._most

    @property
    def ahead(self) -> int:
        """As on one machine; it grows when workers join."""
        return 2 * self._most

    def processes(self) -> "ClusterProcesses":
        """The workers' processes, as many as there are workers."""
        with self._lock:
            made = ClusterProcesses(self._connection, at_once=self._most)
            self._open = [*(each for each in self._open if not each.is_closed), made]
        return made

    def _hear(self, count: int) -> None:
        with self._lock:
            self._most = max(self._most, count)
            for each in self._open:
                each.widen(self._most)


class ClusterProcesses:
    """Offers what isolation.IsolatedPool does."""

    def __init__(self, connection: Connection, *, at_once: int) -> None:
        self._connection, self.is_closed = connection, False
        self._turns = Turns("evoflash-cluster-cpu", at_once=at_once)

    def widen(self, at_once: int) -> None:
        """Have so many calls on their way."""
        self._turns.widen(at_once)

    def submit(self, function: Callable[..., T], *args: Any, timeout_s: float) -> "Future[Ending[T]]":
        """Call the function in a process of some worker. An exception that it raises is raised by the
        future's result(); death of the process, or of worker after worker, is an Ending with Status.RUNTIME,
        no answer in time one with Status.TIMEOUT.
        """
        return self._turns.submit(self._ending, function, args, timeout_s)

    def close(self) -> None:
        """Cancel what has not begun, and wait for nothing: a worker ends what it does within its limit."""
        self.is_closed = True
        self._turns.close()

    def _ending(self, function: Callable[..., Any], args: tuple[Any, ...], timeout_s: float) -> Ending[Any]:
        try:
            parcel = self._connection.ask(CPU, asked.called, function, args, timeout_s)
        except EndsWorkersError as error:
            return Ending(None, Status.RUNTIME, str(error))
        return unpack_prepared(parcel) if isinstance(parcel.record.value, Prepared) else parcel.record
