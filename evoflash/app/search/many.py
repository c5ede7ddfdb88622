"""Searches several problems, each as a run of its own with its own budget. Prints and ranks nothing.

They are searched one after the other, or as many at a time as there is room for, each then in a process of
its own. A problem that fails costs only itself.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from evoflash.app.repeats import RepeatedSearch, repeated_search
from evoflash.app.search import plan as planning
from evoflash.app.search import session as running
from evoflash.app.search.limits import Limits
from evoflash.app.search.machines import MachineOptions, machines
from evoflash.app.search.session import RunResult
from evoflash.app.search.stopping import LIMIT_S, TerminatedError, end_on_signals
from evoflash.app.shape_files import WeightedProblem
from evoflash.errors import EvoflashError, NoKernelError
from evoflash.isolation import die_with_parent
from evoflash.notices import heard_by, say
from evoflash.spawning import spawning
from evoflash.store.store import open_store

log = logging.getLogger("evoflash")


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """What came of one problem: a result with a kernel, or why there is none."""

    problem: WeightedProblem
    result: RunResult | None
    error: str = ""
    exit_code: int = 0

    def as_dict(self, price_per_hour: float | None = None) -> dict[str, Any]:
        """The problem, its weight, the error or None, and the result as a single search has it or None."""
        result, found, library = self.result, None, None
        if result is not None and result.best is not None:
            found = result.as_dict(price_per_hour)
        if result is not None and result.library is not None:
            library = dict(zip(("name", "score_us"), result.library, strict=True))
        return {
            "problem": str(self.problem.problem),
            "named": self.problem.text,
            "weight": self.problem.weight,
            "error": self.error or None,
            "library": library,
            "result": found,
        }


def check_results(outcomes: Sequence[ProblemResult]) -> None:
    """EvoflashError where a problem failed; its exit code is theirs where all failed alike, else 1."""
    failed = [each for each in outcomes if each.error]
    if not failed:
        return
    error = EvoflashError(
        f"{len(failed)} of {len(outcomes)} problems failed: the same command tries them again, and continues "
        "the others."
    )
    codes = {each.exit_code for each in outcomes}
    error.exit_code = codes.pop() if len(codes) == 1 else 1
    raise error


Search = Callable[[str], RunResult]
Heard = Callable[[WeightedProblem, ProblemResult | None], object]  # None: it begins


def in_turn(problems: Sequence[WeightedProblem], search: Search, heard: Heard) -> list[ProblemResult]:
    """One after the other, the heaviest first; outcomes in the order of `problems`."""
    found: dict[WeightedProblem, ProblemResult] = {}
    for problem in by_weight(problems):
        heard(problem, None)
        found[problem] = outcome_of(problem, partial(search, problem.text))
        heard(problem, found[problem])
    return [found[problem] for problem in problems]


def by_weight(problems: Sequence[WeightedProblem]) -> list[WeightedProblem]:
    """The heaviest first, equal ones in their order."""
    return sorted(problems, key=lambda each: -each.weight)


def outcome_of(problem: WeightedProblem, search: Callable[[], RunResult]) -> ProblemResult:
    """What the search comes to; what it raises at people is an error of this problem alone."""
    try:
        result = search()
    except EvoflashError as error:
        return ProblemResult(problem, None, str(error), error.exit_code)
    if result.best is None:
        said = f"no correct kernel among {result.spent} evaluations: raise --budget."
        return ProblemResult(problem, result, said, NoKernelError.exit_code)
    return ProblemResult(problem, result)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search as it was asked for, but for its problem and where it works."""

    planned: Mapping[str, Any]  # arguments of plan.plan, without problem and evaluator
    db: str
    limits: Limits
    fresh: bool
    argv: Sequence[str]


def search_one(
    wanted: SearchRequest, problem: str, asked: MachineOptions, *, watch: running.Watch = running.NotesOnly
) -> running.RunResult:
    """What came of it; begins a run or continues it. Errors as those of plan.plan, machines and run.run."""
    planned = partial(planning.plan, problem=problem, evaluator=asked.evaluator, **wanted.planned)
    with machines(asked, lambda present: planned(present=present)) as (plan, where):
        return running.run_search(
            plan,
            wanted.db,
            limits=wanted.limits,
            fresh=wanted.fresh,
            argv=wanted.argv,
            watch=watch,
            machines=where,
        )


def search_seeds(
    seeds: Sequence[int],
    problem: str,
    wanted: SearchRequest,
    asked: MachineOptions,
    *,
    watch: running.Watch = running.NotesOnly,
) -> RepeatedSearch:
    """A run for each seed, one after the other, and how they went; NoKernelError without a kernel."""
    results = []
    for seed in seeds:
        one = replace(wanted, planned={**wanted.planned, "seed": seed})
        results.append(search_one(one, problem, asked, watch=watch))
    if all(result.best is None for result in results):
        raise NoKernelError(
            f"no correct kernel with any of {len(results)} seeds: raise --budget or look at the reasons with "
            "`evoflash show --failures`."
        )
    run = results[0].run
    assert run is not None, "a search that evaluates is a run"
    with open_store(wanted.db, read_only=True) as store:
        return repeated_search(store, run, seeds=seeds)


_PER_SEARCH = 2  # workers of a scheduler that one of several searches is counted with


@dataclass(frozen=True, slots=True)
class Slot:
    """What one of several searches at a time works with."""

    asked: MachineOptions
    cores: frozenset[int] = frozenset()  # of this machine; empty: all
    gpu: str = ""  # what CUDA_VISIBLE_DEVICES holds; empty: as it is


def search(
    problems: Sequence[WeightedProblem],
    wanted: SearchRequest,
    asked: MachineOptions,
    *,
    watch: running.Watch = running.NotesOnly,
) -> list[ProblemResult]:
    """All of them, as many at a time as there is room for; one alone is shown to `watch`."""
    shares, begun = slots(asked, len(problems)), list[WeightedProblem]()

    def heard(problem: WeightedProblem, outcome: ProblemResult | None) -> None:
        if outcome is None:
            begun.append(problem)
        which = f"{begun.index(problem) + 1} of {len(problems)}, {problem.text}"
        say(f"{which}: {'searching' if outcome is None else _in_words(outcome)}.")

    if len(shares) == 1:
        return in_turn(problems, lambda text: search_one(wanted, text, shares[0].asked, watch=watch), heard)
    say(f"{len(shares)} searches at a time: `evoflash watch` shows each.")
    return at_once(problems, wanted, shares, heard)


def _in_words(outcome: ProblemResult) -> str:
    if outcome.result is None or outcome.result.best is None:
        return outcome.error.removesuffix(".")
    return f"{outcome.result.best.time}, {outcome.result.spent} evaluations"


def slots(asked: MachineOptions, problems: int) -> tuple[Slot, ...]:
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


def _by_gpu(asked: MachineOptions) -> list[Slot]:
    from evoflash.gpu import launcher

    launcher.restrict(asked.gpus or "all")
    devices, cores = launcher.devices(), sorted(os.sched_getaffinity(0))
    own = replace(asked, gpus=None, evaluator="gpu")
    count = len(devices)
    shares = [frozenset(cores[at::count]) for at in range(count)]
    return [Slot(own, share, gpu) for gpu, share in zip(devices, shares, strict=True)]


def _room(asked: MachineOptions) -> int:
    """Searches that a scheduler's workers keep busy, and this machine's cores can serve."""
    from evoflash.evaluators.cluster.address import address
    from evoflash.evaluators.cluster.connection import CPU, connect

    with connect(address(asked.scheduler or "", asked.tls)) as connection:
        if connection.models() and asked.evaluator != "emulated":
            return 1
        return max(1, min(len(connection.workers(CPU)) // _PER_SEARCH, len(os.sched_getaffinity(0))))


@dataclass
class _Running:
    problem: WeightedProblem
    slot: Slot
    process: BaseProcess
    pipe: Pipe = field(repr=False)


def at_once(
    problems: Sequence[WeightedProblem], wanted: SearchRequest, shares: Sequence[Slot], heard: Heard
) -> list[ProblemResult]:
    """A search in each slot, the heaviest problems first; outcomes in the order of `problems`."""
    waiting, free = deque(by_weight(problems)), deque(shares)
    found: dict[WeightedProblem, ProblemResult] = {}
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and free:
                running.append(_start_process(waiting.popleft(), wanted, free.popleft()))
                heard(running[-1].problem, None)
            ready = wait([each.pipe for each in running])
            for each in [each for each in running if each.pipe in ready]:
                received = _receive(each)
                if isinstance(received, _Remark):
                    received.tell(each.problem)
                    continue
                running.remove(each)
                free.append(each.slot)
                found[each.problem] = received
                heard(each.problem, received)
    finally:
        _end(running)
    return [found[problem] for problem in problems]


def _start_process(problem: WeightedProblem, wanted: SearchRequest, slot: Slot) -> _Running:
    mine, theirs = spawning().Pipe(duplex=False)
    process = spawning().Process(target=_search_alone, args=(theirs, problem, wanted, slot, log.level))
    process.start()
    theirs.close()  # the other end of a pipe that only its process holds says when that process is gone
    return _Running(problem, slot, process, mine)


@dataclass(frozen=True, slots=True)
class _Remark:
    """What a search's process logs, or with the level 0 says."""

    level: int
    message: str

    def tell(self, problem: WeightedProblem) -> None:
        """In the process of the command, with which problem it is about."""
        message = f"{problem.text}: {self.message}"
        if self.level:
            log.log(self.level, "%s", message)
        else:
            say(message)


class _Sender(logging.Handler):
    """Sends what its process logs and says to the process of the command."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        self._pipe.send(_Remark(record.levelno, record.getMessage()))

    def say(self, message: str) -> None:
        """Send a note; one at a time, as what is logged."""
        self.handle(logging.makeLogRecord({"levelno": 0, "msg": message}))


def _search_alone(
    pipe: Pipe, problem: WeightedProblem, wanted: SearchRequest, slot: Slot, level: int
) -> None:
    """In a process of its own: what it does is seen in the store, and by `evoflash watch`."""
    die_with_parent()
    end_on_signals()
    sender = _Sender(pipe)
    log.handlers = [sender]
    log.setLevel(level)
    if slot.gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = slot.gpu
    if slot.cores:
        os.sched_setaffinity(0, slot.cores)
    try:
        with heard_by(sender.say):
            outcome = outcome_of(problem, partial(search_one, wanted, problem.text, slot.asked))
        pipe.send(outcome)
    except (KeyboardInterrupt, TerminatedError):  # the parent says it, in one line for all
        raise SystemExit(1) from None


def _receive(running: _Running) -> ProblemResult | _Remark:
    """A remark, or at the end of the process what came of its problem."""
    try:
        received: ProblemResult | _Remark = running.pipe.recv()
        if isinstance(received, _Remark):
            return received
    except EOFError:
        running.process.join()
        said = f"its process ended with {running.process.exitcode}: the same command continues it."
        received = ProblemResult(running.problem, None, said, EvoflashError.exit_code)
    running.process.join()
    running.pipe.close()
    return received


def _end(running: Sequence[_Running]) -> None:
    """In good order, each within the time that a command has; what is stored stays either way."""
    for each in running:
        each.process.terminate()
    for each in running:
        each.process.join(LIMIT_S)
        if each.process.is_alive():
            each.process.kill()
            each.process.join()
