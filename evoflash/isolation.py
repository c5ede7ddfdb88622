"""Runs functions in processes of their own, so that a crash or a hang costs one call and not the search.

Covered: host crashes, exits, hangs (the process is killed, whatever it does), processes killed from outside,
a wall clock that jumps, processes that cannot be started. Not covered: what a process does to files, to the
GPU or to the driver. Knows nothing of CUDA: a process loads what its functions import.

`Turns` are threads of this process, which call in order of urgency what others then wait for.
"""

import contextlib
import ctypes
import errno
import functools
import itertools
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pebble
import pebble.pool.process as pebble_process

from evoflash.blame import BlameNotes, CallStage, begin_call, note_in
from evoflash.errors import DeviceError
from evoflash.evaluation import Status
from evoflash.spawning import load_first, load_now, spawning

T = TypeVar("T")

# Pebble asks a process to end before it kills it; ours do not listen (see _begin), so it need not wait.
_KILL_AFTER_S = 0.0
# Pebble 5.2 gives up its whole pool when an idle process dies while no call runs and one waits. The calls
# under way are then made again in a new pool; a call that breaks two pools is no accident.
# The same is done for a call whose process was killed from outside, as the system does when memory runs out,
# and for one whose process died before anything of a candidate had begun in it.
_TRIES = 2
_KILLED = (-signal.SIGKILL, -signal.SIGTERM)  # exit codes that no crash leaves
_LOOK_EVERY_S = 0.05
# A pool none of whose processes has taken a call by then never begins: Python starts within a second, and
# what is loaded before the first call takes a minute where disks are slow.
_START_LIMIT_S = 300.0
_PR_SET_PDEATHSIG = 1
# One thread each for NumPy's BLAS: there is a process a core, and what they multiply is small. With the
# default of a thread a core, 40 evaluations on a 16-core machine burnt 22 CPU minutes, mostly spinning.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Ending(Generic[T]):
    """How a call in another process ended: with a value, or with a status and a reason of one line.

    `is_of_machine`: its processes died again and again before a compiler or a kernel began in them, so that
    this is nothing to lay to a candidate.
    """

    value: T | None
    status: Status = Status.CORRECT
    reason: str = ""
    is_of_machine: bool = False


@dataclass(slots=True, eq=False)
class _Call:
    """A call that somebody waits for, and pebble's future of it while a pool has it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    timeout_s: float
    answer: "Future[Any]"
    number: int = 0
    tries: int = _TRIES
    inner: "Future[Any] | None" = None
    deadline_s: float | None = None  # of time.monotonic(), once it runs
    is_late: bool = False


class IsolatedPool:
    """Processes that may die. Every call gets an answer; a dead process is replaced.

    `initializer` runs in each process before its first call. Processes are spawned: functions and arguments
    must be picklable. Where no process can be started, every call is answered by a DeviceError.
    """

    def __init__(
        self,
        max_workers: int,
        *,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        pebble.CONSTS.term_timeout = _KILL_AFTER_S
        _allow_one_thread()
        self._notes, self._numbers = BlameNotes(), itertools.count()
        self._make = functools.partial(_make_pool, max_workers, (self._notes, initializer, initargs))
        self._pool = self._make()
        self._begun_s: float | None = None  # when the pool got its first call, of time.monotonic()
        self._has_run = False  # a call, in this pool
        self._is_closed = False
        self._under_way: dict[_Call, None] = {}
        self._waiting: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._losing = threading.Lock()
        # One thread starts everything and keeps the limits. It lives as long as this pool, because a process
        # dies with the thread that started it (see _begin), and pebble's threads end when its pool breaks.
        # Pebble's own limits go by the wall clock: set forward, it would make every healthy call a hang.
        self._keeper = threading.Thread(target=self._keep, name="evoflash-isolation", daemon=True)
        self._keeper.start()

    def submit(self, function: Callable[..., T], *args: Any, timeout_s: float) -> "Future[Ending[T]]":
        """Call the function in a process. An exception that it raises is raised by the future's result();
        death of the process is an Ending with Status.RUNTIME (Status.COMPILE where a compiler ran in it), no
        answer in time one with Status.TIMEOUT.
        """
        call = _Call(function, args, timeout_s, Future(), number=next(self._numbers))
        self._under_way[call] = None
        call.answer.add_done_callback(lambda _: self._under_way.pop(call, None))
        self._waiting.put(call)
        if self._is_closed:  # asked last: a close() from now on finds the call under way
            call.answer.cancel()
        return call.answer

    def _keep(self) -> None:
        try:
            self._serve()
        except Exception as error:  # else whoever waits would wait for ever
            self._is_closed = True
            for call in list(self._under_way):
                _settle(call, error)
        for call in list(self._under_way):
            call.answer.cancel()
        processes = tuple(self._pool._pool_manager.worker_manager.workers)
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()
        for process in processes:  # a compiler that the process had started would go on
            with contextlib.suppress(OSError):  # nothing is left of its group
                os.killpg(process, signal.SIGKILL)
        self._notes.close()

    def _serve(self) -> None:
        while not self._is_closed:
            try:
                call = self._waiting.get(timeout=_LOOK_EVERY_S)
            except queue.Empty:
                call = None
            self._rescue_forgotten_calls()
            if call is not None and not call.answer.done():
                self._start(call)
            self._end_late_calls()
            self._end_calls_of_a_pool_that_never_began()

    def _rescue_forgotten_calls(self) -> None:
        """Those that pebble's queue held when it gave up its pool: it never mentions them again."""
        given = [call for call in list(self._under_way) if call.inner is not None]
        if given and not self._pool.active:
            for call in given:
                self._lose(call, call.inner, BrokenProcessPool())

    def _start(self, call: _Call) -> None:
        try:
            if not self._pool.active:  # a process died and took pebble's pool with it
                self._pool, self._begun_s, self._has_run = self._make(), None, False
            if self._begun_s is None:
                self._begun_s = time.monotonic()
                load_first(getattr(call.function, "__module__", ""))
            call.inner = self._pool.schedule(_make_call, args=(call.number, call.function, *call.arguments))
        except (
            RuntimeError
        ) as error:  # BrokenProcessPool is one: nothing can be started, or it broke just now
            broken = error if isinstance(error, BrokenProcessPool) else BrokenProcessPool(str(error))
            self._lose(call, call.inner, broken)
        except OSError as error:  # of what a pool needs before its processes
            _settle(call, DeviceError(_why_none_starts(error)))
        else:
            call.deadline_s = None
            call.inner.add_done_callback(lambda done: self._end(done, call))

    def _end(self, done: "Future[Any]", call: _Call) -> None:
        if call.inner is not done:  # it was rescued before
            return
        error = None if done.cancelled() else done.exception()
        begun = self._notes.progress(call.number)
        if not call.is_late and error is not None and not _is_of_candidate(error, begun):
            self._lose(call, done, error, begun)
        else:
            _settle(call, error, None if error or done.cancelled() else done.result(), begun=begun)

    def _lose(
        self,
        call: _Call,
        lost: "Future[Any] | None",
        error: BaseException,
        begun: CallStage = CallStage.NOTHING,
    ) -> None:
        """Make the call again if this was its first try: its process or pool ended for another reason.
        Several threads may find the same try `lost`.
        """
        with self._losing:
            if call.inner is not lost:
                return
            call.inner, call.tries = None, call.tries - 1
        if call.tries:
            self._waiting.put(call)
        else:
            _settle(call, error, begun=begun)

    def _end_late_calls(self) -> None:
        for call in list(self._under_way):
            if call.inner is None or not call.inner.running():
                continue
            self._has_run = True
            if call.deadline_s is None:
                call.deadline_s = time.monotonic() + call.timeout_s
            elif time.monotonic() > call.deadline_s:
                call.is_late = True
                call.inner.cancel()  # pebble then kills the process

    def _end_calls_of_a_pool_that_never_began(self) -> None:
        if self._has_run or self._begun_s is None or time.monotonic() < self._begun_s + _START_LIMIT_S:
            return
        said = f"none took up its work within {_START_LIMIT_S:g} s; the machine, or one of its disks, stands"
        for call in list(self._under_way):
            if call.inner is not None:  # that of a call which was answered meanwhile changes nothing
                call.inner.cancel()
                _settle(call, DeviceError(f"{_NONE_STARTS}: {said}."))

    def close(self) -> None:
        """Kill the processes, whatever they do, and return once they are gone; open calls are cancelled."""
        self.begin_to_close()
        self._keeper.join()

    def begin_to_close(self) -> None:
        """As close(), which is still to be called, but return at once."""
        self._is_closed = True
        self._waiting.put(None)

    def __enter__(self) -> "IsolatedPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Processes(pebble_process.WorkerManager):
    """Pebble's processes, whose deaths are told once all that they sent before was read.

    Pebble 5.2 reads in one thread and looks for the dead in another: a process that died before the message
    that it took a call was read had none, by its books. The call then never ended, or the pool was given up.
    """

    def __init__(self, like: pebble_process.WorkerManager) -> None:
        super().__init__(like.workers_number, like.worker_parameters, like.mp_context)
        self._all_read_s = 0.0  # of time.monotonic(): what was sent before has been read and acted on
        self._seen_dead_s: dict[int, float] = {}

    def receive(self, timeout: float) -> Any:
        """The next message. Called by one thread, which has acted on the one before."""
        asked_s = time.monotonic()
        with contextlib.suppress(OSError):  # closed: pebble's own answer to that follows
            if self.pool_channel is not None and not self.pool_channel.poll(0):
                self._all_read_s = asked_s
        return super().receive(timeout)

    def inspect_workers(self) -> tuple[tuple[int, int | None], ...]:
        """Number and exit code of each process that ended by itself, and take it off the list."""
        dead = {pid: process for pid, process in list(self.workers.items()) if not process.is_alive()}
        self._seen_dead_s = {pid: self._seen_dead_s.get(pid, time.monotonic()) for pid in dead}
        told = [pid for pid, seen_s in self._seen_dead_s.items() if seen_s < self._all_read_s]
        for pid in told:
            del self.workers[pid]
        return tuple((pid, dead[pid].exitcode) for pid in told if dead[pid].exitcode != 0)


def _make_pool(max_workers: int, begin: tuple[Any, ...]) -> pebble.ProcessPool:
    pool = pebble.ProcessPool(max_workers, initializer=_begin, initargs=begin, context=spawning())
    pool._pool_manager.worker_manager = _Processes(pool._pool_manager.worker_manager)
    return pool


def begin_processes(modules: Collection[str]) -> None:
    """Load what the processes of pools to come will need, beside what this process does meanwhile."""
    _allow_one_thread()
    threading.Thread(target=load_now, args=(modules,), name="evoflash-loading", daemon=True).start()


def _allow_one_thread() -> None:
    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")  # for new processes: this one has loaded its BLAS


def _begin(notes: BlameNotes, initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    """Leave Ctrl-C and SIGTERM to the parent, and die with it even when it is killed. Lead a process group:
    what this process starts can then be ended with it.

    A batch system sends SIGTERM to every process of a job: one that obeyed would make its call look like a
    crash. Linux counts the thread that started a process as its parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setpgid(0, 0)
    die_with_parent()
    note_in(notes)
    if initializer is not None:
        initializer(*initargs)


def _make_call(number: int, function: Callable[..., T], *args: Any) -> T:
    """The call, in a process of the pool, which notes what of a candidate begins in it."""
    begin_call(number)
    return function(*args)


def die_with_parent() -> None:
    """From now on this process is killed when the thread that started it ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def cpu_seconds() -> float:
    """What this process and all below it, those that run and those that ended, took of the CPU so far.

    Of what ended it knows what its parent waited for. Where there is no /proc, those that run count nothing.
    """
    ended = os.times()
    below = {pid: taken for pid, (_, taken) in _processes_below(os.getpid()).items()}
    return time.process_time() + ended.children_user + ended.children_system + sum(below.values())


def _processes_below(pid: int) -> dict[int, tuple[int, float]]:
    """Parent and CPU seconds, those of ended children too, of each process that descends from `pid`."""
    every = {each: known for each in _pids() if (known := _parent_and_cpu_s(each))}
    found: dict[int, tuple[int, float]] = {}
    parents = {pid}
    while parents:
        children = {each: known for each, known in every.items() if known[0] in parents and each not in found}
        found |= children
        parents = set(children)
    return found


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _parent_and_cpu_s(pid: int) -> tuple[int, float] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            said = file.read().rpartition(")")[2].split()  # the name before it may hold anything
        return int(said[1]), sum(map(int, said[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):  # it ended meanwhile
        return None


def _is_of_candidate(error: BaseException, begun: CallStage) -> bool:
    """Whether the call ended by what would come again: what it raised, or a crash of a candidate."""
    if isinstance(error, pebble.ProcessExpired):
        return begun is not CallStage.NOTHING and error.exitcode not in _KILLED
    return not isinstance(error, BrokenProcessPool)


def _settle(
    call: _Call, error: BaseException | None, value: Any = None, *, begun: CallStage = CallStage.NOTHING
) -> None:
    if not call.answer.set_running_or_notify_cancel():
        return
    if call.is_late:
        late = f"no answer within {call.timeout_s:g} s; its process was killed"
        call.answer.set_result(Ending(None, Status.TIMEOUT, late))
    elif isinstance(error, pebble.ProcessExpired):
        call.answer.set_result(_death(error.exitcode, begun))
    elif isinstance(error, BrokenProcessPool):
        call.answer.set_exception(DeviceError(_why_none_starts(error)))
    elif error is not None:
        call.answer.set_exception(error)
    else:
        call.answer.set_result(Ending(value))


def raise_if_of_machine(ending: Ending[Any]) -> None:
    """DeviceError where processes died before anything of a candidate began: that is no outcome of it."""
    if ending.is_of_machine:
        raise DeviceError(
            f"worker processes die before a kernel begins in them ({ending.reason}): free memory, or empty "
            "the cache folder that `evoflash doctor` names. What was stored is kept."
        )


_NONE_STARTS = "worker processes, in which kernels are compiled and run, cannot be started"


def _why_none_starts(error: BaseException) -> str:
    """In one line; pebble hides what the system said behind an error of its own."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(cause, OSError):
        return (
            f"{_NONE_STARTS}: they end as they begin, by what they say above, or for want of memory; mend "
            "that, `evoflash doctor` tries it."
        )
    remedies = {
        errno.EAGAIN: "raise the limit on processes (ulimit -u, or the container's)",
        errno.ENOMEM: "free memory",
        errno.EMFILE: "raise the limit on open files (ulimit -n)",
        errno.ENFILE: "close programs that have many files open",
        errno.ENOENT: "work in a folder that is still there",
    }
    remedy = remedies.get(cause.errno or 0, "mend that")
    return f"{_NONE_STARTS} ({cause.strerror or cause}): {remedy}, `evoflash doctor` tries it."


def _death(exit_code: int | None, begun: CallStage) -> Ending[Any]:
    """Whom a dead process is laid to. A compiler that was killed from outside, again and again, ran out of
    something that the machine lacks; a kernel may have caused that itself.
    """
    said = f"ended with exit code {exit_code}"
    if exit_code is not None and exit_code < 0:
        said = f"died of signal {-exit_code}"
    match begun:
        case CallStage.KERNEL:
            return Ending(None, Status.RUNTIME, f"the process {said}")
        case CallStage.COMPILER if exit_code not in _KILLED:
            return Ending(None, Status.COMPILE, f"the compiler {said}")
        case _:
            return Ending(None, Status.RUNTIME, f"the process {said}", is_of_machine=True)


# ---- threads and the queue before them


@dataclass(frozen=True, slots=True, order=True)
class _Turn:
    """A call that waits. Only its rank and its number are compared."""

    rank: int
    number: int
    function: Callable[[], Any] = field(compare=False)
    answer: "Future[Any]" = field(compare=False)


class Turns:
    """Threads that call what they are given, one call at a time each: what is urgent first, else in order."""

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
                _answer(turn)
        self.cancel()
        self._wake()  # one thread after the other ends

    def _wake(self) -> None:
        self._waiting.put(_Turn(0, next(self._numbers), lambda: None, Future()))


def _answer(turn: _Turn) -> None:
    try:
        answer = turn.function()
    except BaseException as error:  # whoever waits for it is told, whatever it is
        turn.answer.set_exception(error)
    else:
        turn.answer.set_result(answer)
