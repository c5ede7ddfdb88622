"""Several problems, each a run of its own with its own budget, one after the other; what came of each.

A problem that fails costs only itself. Prints and ranks nothing. Several at a time: side_by_side.py.

One search from options to its result, for a problem: planned, with its machines, run. Prints nothing.
Several problems searched at a time, as many as there is room for; one after the other where there is none.
"""

import io
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any, TextIO

from evoflash.app.mix import Weighted
from evoflash.app.search import plan as planning
from evoflash.app.search import session as running
from evoflash.app.search.limits import Limits
from evoflash.app.search.machines import Asked, machines
from evoflash.app.search.session import SearchResult
from evoflash.app.search.stopping import LIMIT_S, Terminated, end_on_signals
from evoflash.app.words import time_in_words
from evoflash.errors import EvoflashError, NoKernelError
from evoflash.isolation import die_with_parent
from evoflash.notices import log_to_stderr, say


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one problem: a result with a kernel, or why there is none."""

    problem: Weighted
    result: SearchResult | None
    error: str = ""
    exit_code: int = 0


Search = Callable[[str], SearchResult]
Heard = Callable[[Weighted, Outcome | None], object]  # None: it begins


def in_turn(problems: Sequence[Weighted], search: Search, heard: Heard) -> list[Outcome]:
    """One after the other, the heaviest first; outcomes in the order of `problems`."""
    found: dict[Weighted, Outcome] = {}
    for problem in by_weight(problems):
        heard(problem, None)
        found[problem] = outcome_of(problem, partial(search, problem.text))
        heard(problem, found[problem])
    return [found[problem] for problem in problems]


def by_weight(problems: Sequence[Weighted]) -> list[Weighted]:
    """The heaviest first, equal ones in their order."""
    return sorted(problems, key=lambda each: -each.weight)


def outcome_of(problem: Weighted, search: Callable[[], SearchResult]) -> Outcome:
    """What the search comes to; what it raises at people is an error of this problem alone."""
    try:
        result = search()
    except EvoflashError as error:
        return Outcome(problem, None, str(error), error.exit_code)
    if result.best is None:
        said = f"no correct kernel among {result.spent} evaluations: raise --budget."
        return Outcome(problem, result, said, NoKernelError.exit_code)
    return Outcome(problem, result)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search as it was asked for, but for its problem and where it works."""

    planned: Mapping[str, Any]  # arguments of plan.plan, without problem and evaluator
    db: str
    limits: Limits
    fresh: bool
    argv: Sequence[str]


def searched(
    wanted: Wanted, problem: str, asked: Asked, *, watch: running.Watch = running.NotesOnly
) -> running.SearchResult:
    """What came of it; begins a run or continues it. Errors as those of plan.plan, machines and run.run."""
    planned = partial(planning.plan, problem=problem, evaluator=asked.evaluator, **wanted.planned)
    with machines(asked, lambda present: planned(present=present)) as (plan, where):
        return running.run(
            plan,
            wanted.db,
            limits=wanted.limits,
            fresh=wanted.fresh,
            argv=wanted.argv,
            watch=watch,
            machines=where,
        )


_PER_SEARCH = 2  # workers of a scheduler that one of several searches is counted with


@dataclass(frozen=True, slots=True)
class Slot:
    """What one of several searches at a time works with."""

    asked: Asked
    cores: frozenset[int] = frozenset()  # of this machine; empty: all
    gpu: str = ""  # what CUDA_VISIBLE_DEVICES holds; empty: as it is


def search(
    problems: Sequence[Weighted], wanted: Wanted, asked: Asked, *, watch: running.Watch = running.NotesOnly
) -> list[Outcome]:
    """All of them, as many at a time as there is room for; one alone is shown to `watch`."""
    shares, begun = slots(asked, len(problems)), list[Weighted]()

    def heard(problem: Weighted, outcome: Outcome | None) -> None:
        if outcome is None:
            begun.append(problem)
        which = f"{begun.index(problem) + 1} of {len(problems)}, {problem.text}"
        say(f"{which}: {'searching' if outcome is None else _in_words(outcome)}.")

    if len(shares) == 1:
        return in_turn(problems, lambda text: searched(wanted, text, shares[0].asked, watch=watch), heard)
    say(f"{len(shares)} searches at a time: `evoflash watch` shows each.")
    return at_once(problems, wanted, shares, heard)


def _in_words(outcome: Outcome) -> str:
    if outcome.result is None or outcome.result.best is None:
        return outcome.error.removesuffix(".")
    return f"{time_in_words(outcome.result.best)}, {outcome.result.spent} evaluations"


def slots(asked: Asked, problems: int) -> tuple[Slot, ...]:
    """As many as there is room for, at most one for each problem. One alone gets everything.

    With --gpus a search for each GPU, with a share of the cores; with --workers these are shared out; on a
    scheduler's workers without a GPU one for every two. A GPU worker keeps what it knows of one search, so
    there searches take turns.
    """
    asked.check()
    if asked.gpus is not None:
        shares = _by_gpu(asked)
    elif asked.workers is not None:
        count = min(asked.workers, problems)
        sizes = [asked.workers // count + (at < asked.workers % count) for at in range(count)]
        shares = [Slot(replace(asked, workers=size)) for size in sizes]
    elif asked.scheduler is not None:
        shares = [Slot(asked)] * _room(asked)
    else:
        shares = []
    return tuple(shares[:problems]) if len(shares) > 1 and problems > 1 else (Slot(asked),)


def _by_gpu(asked: Asked) -> list[Slot]:
    from evoflash.gpu import launcher as visible_devices

    visible_devices.restrict(asked.gpus or "all")
    devices, cores = visible_devices.devices(), sorted(os.sched_getaffinity(0))
    own = replace(asked, gpus=None, evaluator="gpu")
    count = len(devices)
    shares = [frozenset(cores[at::count]) for at in range(count)]
    return [Slot(own, share, gpu) for gpu, share in zip(devices, shares, strict=True)]


def _room(asked: Asked) -> int:
    """Searches that a scheduler's workers keep busy, and this machine's cores can serve."""
    from evoflash.evaluators.cluster.address import address
    from evoflash.evaluators.cluster.connection import CPU, connected

    with connected(address(asked.scheduler or "", asked.tls)) as connection:
        if connection.models() and asked.evaluator != "emulated":
            return 1
        return max(1, min(len(connection.workers(CPU)) // _PER_SEARCH, len(os.sched_getaffinity(0))))


@dataclass
class _Running:
    problem: Weighted
    slot: Slot
    process: SpawnProcess
    pipe: Pipe = field(repr=False)


def at_once(
    problems: Sequence[Weighted], wanted: Wanted, shares: Sequence[Slot], heard: Heard
) -> list[Outcome]:
    """A search in each slot, the heaviest problems first; outcomes in the order of `problems`."""
    waiting, free = deque(by_weight(problems)), deque(shares)
    found: dict[Weighted, Outcome] = {}
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and free:
                running.append(_started(waiting.popleft(), wanted, free.popleft()))
                heard(running[-1].problem, None)
            ready = wait([each.pipe for each in running])
            for each in [each for each in running if each.pipe in ready]:
                running.remove(each)
                free.append(each.slot)
                found[each.problem] = _received(each)
                heard(each.problem, found[each.problem])
    finally:
        _end(running)
    return [found[problem] for problem in problems]


def _started(problem: Weighted, wanted: Wanted, slot: Slot) -> _Running:
    spawning = multiprocessing.get_context("spawn")
    mine, theirs = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_search_alone, args=(theirs, problem, wanted, slot))
    process.start()
    theirs.close()  # the other end of a pipe that only its process holds says when that process is gone
    return _Running(problem, slot, process, mine)


class _Named(io.TextIOBase):
    """A stream on which each of this program's lines says which problem it is about."""

    def __init__(self, stream: TextIO, problem: str) -> None:
        self._stream, self._begin = stream, f"evoflash: {problem}: "

    def write(self, text: str) -> int:
        self._stream.write(text.replace("evoflash: ", self._begin, 1))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def _search_alone(pipe: Pipe, problem: Weighted, wanted: Wanted, slot: Slot) -> None:
    """In a process of its own: what it does is seen in the store, and by `evoflash watch`."""
    die_with_parent()
    end_on_signals()
    sys.stderr = _Named(sys.stderr, problem.text)
    log_to_stderr()
    if slot.gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = slot.gpu
    if slot.cores:
        os.sched_setaffinity(0, slot.cores)
    try:
        pipe.send(outcome_of(problem, partial(searched, wanted, problem.text, slot.asked)))
    except (KeyboardInterrupt, Terminated):  # the parent says it, in one line for all
        raise SystemExit(1) from None


def _received(ended: _Running) -> Outcome:
    try:
        outcome: Outcome = ended.pipe.recv()
    except EOFError:
        ended.process.join()
        said = f"its process ended with {ended.process.exitcode}: the same command continues it."
        outcome = Outcome(ended.problem, None, said, EvoflashError.exit_code)
    ended.process.join()
    ended.pipe.close()
    return outcome


def _end(running: Sequence[_Running]) -> None:
    """In good order, each within the time that a command has; what is stored stays either way."""
    for each in running:
        each.process.terminate()
    for each in running:
        each.process.join(LIMIT_S)
        if each.process.is_alive():
            each.process.kill()
            each.process.join()
