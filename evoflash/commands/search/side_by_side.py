"""Several problems searched at a time, as many as there is room for; one after the other where there is none.

Searches at a time are processes of their own, which share out the machine and end with this one. What came of
each is a record of many.py.
"""

import io
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Self, TextIO

from evoflash.commands.kernel_report import time_in_words
from evoflash.commands.options import log_to_stderr
from evoflash.commands.portfolio.mix import Weighted
from evoflash.commands.search.machines import Asked
from evoflash.commands.search.many import Heard, Outcome, by_weight, in_turn, outcome_of
from evoflash.commands.search.one import Wanted, searched
from evoflash.commands.terminal import say
from evoflash.commands.termination import LIMIT_S, Terminated, end_on_signals
from evoflash.errors import EvoflashError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.isolation import die_with_parent

_PER_SEARCH = 2  # workers of a scheduler that one of several searches is counted with


@dataclass(frozen=True, slots=True)
class Slot:
    """What one of several searches at a time works with."""

    asked: Asked
    cores: frozenset[int] = frozenset()  # of this machine; empty: all
    gpu: str = ""  # what CUDA_VISIBLE_DEVICES holds; empty: as it is


def search(problems: Sequence[Weighted], wanted: Wanted, asked: Asked) -> list[Outcome]:
    """All of them, as many at a time as there is room for; says on stderr where it is."""
    shares, begun = slots(asked, len(problems)), list[Weighted]()

    def heard(problem: Weighted, outcome: Outcome | None) -> None:
        if outcome is None:
            begun.append(problem)
        which = f"{begun.index(problem) + 1} of {len(problems)}, {problem.text}"
        say(f"{which}: {'searching' if outcome is None else _in_words(outcome)}.")

    if len(shares) == 1:
        return in_turn(problems, lambda text: searched(wanted, text, shares[0].asked), heard)
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
    from evoflash.cuda import visible_devices

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


class _Notes:
    """Shows no progress, which several would write over one another: notes alone."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Nothing: `evoflash watch` shows it."""

    def say(self, message: str) -> None:
        say(message)


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
        pipe.send(outcome_of(problem, partial(searched, wanted, problem.text, slot.asked, watch=_Notes)))
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
