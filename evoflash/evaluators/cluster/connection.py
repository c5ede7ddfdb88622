"""A scheduler and its workers as one search sees them: who is there, and questions, each to one of them.

Dask decides who answers, and asks another worker when one is gone. An answer depends on its question alone,
so a question that was on its way when the scheduler or the network failed is simply asked again. Covered:
workers that die, leave and join; a scheduler that is gone or does not answer for half a minute. What a
candidate is blamed for: ending worker after worker, as often as the scheduler allows (`allowed-failures`).

Dask's `distributed` is imported here alone, with one line for who has not installed it.
"""

import logging
import os
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from evoflash.errors import DeviceError, UsageError
from evoflash.evaluators.cluster.address import Address, Certificate, code
from evoflash.extras import install

os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")  # what matters is said in one line of ours
try:
    import dask as _dask
    import distributed as _distributed
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker
except ImportError as error:
    raise UsageError(f"workers need Dask ({str(error)[:80]}): {install('cluster')}.") from None

__all__ = ["CommClosedError", "FutureCancelledError", "KilledWorker", "dask", "distributed"]

# Typed in part: what is used of it is used as untyped.
dask: Any = _dask
distributed: Any = _distributed


log = logging.getLogger(__name__)
T = TypeVar("T")

_GPU = "GPU "
LOST_AFTER_S = 30.0  # without an answer of the scheduler
_LOOK_EVERY_S = 1.0
_SAID_AFTER_S = 5.0  # that no worker is there: those of a batch system take their time, which is no fault
_KEPT = "everything evaluated so far is kept; the same command continues"
# A scheduler reads what it hands on: functions are sent by value, and ours as bytes, so that the scheduler
# needs no evoflash, and may be any that Dask's own images start.
_CALLED: Callable[[bytes], Any] = lambda sent: (lambda call: call[0](*call[1]))(pickle.loads(sent))  # noqa: E731
_LOST = (FutureCancelledError, CancelledError, CommClosedError, OSError)


class WorkerGoneError(Exception):
    """The one worker that a question was for has left."""


class EndsWorkersError(Exception):
    """A question took every worker with it that tried to answer; the message says so in one line."""


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """The workers that can answer a question: with a core, or a GPU of one model, and our code."""

    resource: str  # "CPU" or "GPU h200"
    option: str  # of the command that starts such a worker

    @property
    def resources(self) -> dict[str, float]:
        return {self.resource: 1.0, code(): 1.0}


CPU = WorkerKind("CPU", "")


def gpu_kind(model: str) -> WorkerKind:
    """The workers that own a GPU of the model."""
    return WorkerKind(_GPU + model, " --gpu 0")


@dataclass(slots=True)
class _WorkerWatch:
    """A kind of worker that the search needs, and what hears how many there are."""

    kind: WorkerKind
    heard: Callable[[int], None]
    missing_s: float = field(default_factory=time.monotonic)  # since when there are none
    is_said: bool = False


class Connection:
    """Threads may ask at any time, each one question at a time."""

    def __init__(self, address: Address, *, lost_after_s: float = LOST_AFTER_S) -> None:
        """DeviceError where no scheduler answers."""
        self.url, self._lost_after_s = address.url, lost_after_s
        self._client = _client(address, lost_after_s)
        self._offers: Mapping[str, Mapping[str, float]] = {}  # resources by worker
        self._watched: list[_WorkerWatch] = []
        self._error: DeviceError | None = None
        self._is_closed = threading.Event()
        self._adding = threading.Lock()
        self.cpu_s = 0.0  # that workers took for what was asked, as far as they said
        self._look()
        self._watcher = threading.Thread(target=self._watch, name="evoflash-cluster", daemon=True)
        self._watcher.start()

    def workers(self, kind: WorkerKind) -> tuple[str, ...]:
        """Addresses of those who can answer now, in alphabetical order."""
        wanted = kind.resources
        return tuple(sorted(who for who, offer in self._offers.items() if offer.keys() >= wanted.keys()))

    def models(self) -> tuple[str, ...]:
        """The models of GPU that workers have, in alphabetical order."""
        names = (name for offer in self._offers.values() for name in offer if name.startswith(_GPU))
        return tuple(sorted({name.removeprefix(_GPU) for name in names}))

    def watch(self, kind: WorkerKind, heard: Callable[[int], None]) -> None:
        """Tell `heard`, now and then, how many of the kind are there; say so when there are none for long."""
        heard(len(self.workers(kind)))
        self._watched.append(_WorkerWatch(kind, heard))

    def ask(self, kind: WorkerKind, function: Callable[..., T], *args: Any, on: str | None = None) -> T:
        """What the function returns in a worker of the kind, or in the one at the address `on`.

        Raises what it raises; EndsWorkersError, WorkerGoneError, DeviceError once the scheduler is lost, and
        CancelledError after close().
        """
        while True:
            self._check()
            try:
                return self._ask_once(kind, function, args, on)
            except KilledWorker as error:
                raise EndsWorkersError(
                    f"it ended the {error.allowed_failures + 1} workers that tried it, one after the other"
                ) from None
            except _LOST as error:  # told apart from the function's own errors by the connection's state
                log.info("asking again: %s", error)
                self._is_closed.wait(0.2)

    def took(self, cpu_s: float) -> None:
        """A worker says what an answer took it of the CPU."""
        with self._adding:
            self.cpu_s += cpu_s

    def tell(
        self, workers: Sequence[str], function: Callable[..., Coroutine[Any, Any, None]], *args: Any
    ) -> None:
        """Have workers call the function beside what they do, and wait for none of them."""
        if workers and self._error is None and self._client.status == "running":
            self._client.run(function, *args, workers=list(workers), wait=False, on_error="ignore")

    def retire(self, worker: str) -> None:
        """Have a worker leave the cluster: its machine is broken."""
        with suppress(*_LOST):
            self._client.retire_workers([worker])
            self._look()

    def close(self) -> None:
        """Forget every question; who waits for an answer gets CancelledError."""
        self._is_closed.set()
        self._client.close(timeout=2)

    def _ask_once(
        self, kind: WorkerKind, function: Callable[..., T], args: tuple[Any, ...], on: str | None
    ) -> T:
        future = self._client.submit(
            _CALLED,
            pickle.dumps((function, args)),
            key=f"{function.__name__}-{uuid.uuid4().hex}",
            pure=False,
            resources=kind.resources,
            workers=[on] if on else None,
        )
        try:
            answered = threading.Event()
            future.add_done_callback(lambda _: answered.set())
            while not answered.wait(_LOOK_EVERY_S):
                self._check()
                if on is not None and on not in self.workers(kind):
                    raise WorkerGoneError(on)
            result: T = future.result()
            return result
        finally:
            future.release()  # or the scheduler would keep the answer, and a worker the work

    def _check(self) -> None:
        if self._is_closed.is_set():
            raise CancelledError
        if self._error is not None:
            raise self._error

    def _watch(self) -> None:
        answered_s = time.monotonic()
        while not self._is_closed.wait(_LOOK_EVERY_S):
            try:
                self._look()
                answered_s = time.monotonic()
            except (OSError, CommClosedError, RuntimeError) as error:
                log.info("no answer from the scheduler: %s", error)
            if time.monotonic() - answered_s > self._lost_after_s or self._client.status == "closed":
                self._error = DeviceError(
                    f"the scheduler {self.url} does not answer any more: start it and its workers again; "
                    f"{_KEPT}."
                )
                return
            for watched in self._watched:
                self._tell(watched)

    def _look(self) -> None:
        """Who is there, as the scheduler says; OSError where it does not answer in time."""
        client = self._client
        found = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=self._lost_after_s)
        self._offers = {who: worker["resources"] for who, worker in found["workers"].items()}

    def _tell(self, watched: _WorkerWatch) -> None:
        count = len(self.workers(watched.kind))
        watched.heard(count)
        now_s = time.monotonic()
        if count:
            watched.missing_s, watched.is_said = now_s, False
        elif not watched.is_said and now_s - watched.missing_s > _SAID_AFTER_S:
            watched.is_said = True
            log.warning("%s", self._missing(watched.kind))

    def _missing(self, kind: WorkerKind) -> str:
        """That nobody can answer, what would help, and what those offer who are there."""
        alike = [offer for offer in self._offers.values() if kind.resource in offer]
        others = sorted({name for offer in alike for name in offer if name.startswith("evoflash ")})
        why = f" (those that are there have {'; '.join(others)}, this search {code()})" if others else ""
        if self._offers and not any(name.startswith("evoflash ") for name in chain(*self._offers.values())):
            why = " (those that are there are Dask's own, which run no kernels)"
        return (
            f"waiting for a worker with {kind.resource}{why}: start one with "
            f"`evoflash worker --scheduler {self.url}{kind.option}`; Ctrl-C ends the search and "
            "keeps what it has."
        )


@contextmanager
def connect(address: Address) -> Iterator[Connection]:
    connection = Connection(address)
    try:
        yield connection
    finally:
        connection.close()


def security(certificate: Certificate | None) -> Any:
    if certificate is None:
        return None
    pair = (("cert", certificate.certificate), ("key", certificate.key))
    roles = {f"tls_{role}_{part}": path for role in ("client", "worker", "scheduler") for part, path in pair}
    return distributed.Security(require_encryption=True, tls_ca_file=certificate.authority, **roles)


def _client(address: Address, timeout_s: float) -> Any:
    try:
        return distributed.Client(
            address.url,
            security=security(address.certificate),
            timeout=min(timeout_s, 10.0),
            set_as_default=False,
            name="evoflash-search",
        )
    except (OSError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DeviceError(
            f"no scheduler answers at {address.url} ({reason[:120]}): start one with `dask scheduler`, or "
            "correct the address, the port and --tls."
        ) from None
