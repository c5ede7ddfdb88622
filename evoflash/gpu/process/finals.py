"""The last timing, of finalists and baselines in turns, in a fresh GPU process. Decides nothing.

That process did nothing else before. Every pair is compared, every output judged, and the report says all of
it. A baseline that crashes, hangs or exits is left out, as is a finalist that hangs, and all is timed again.
"""

import itertools
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from evoflash.evaluation import FINAL, Baseline, Status, Timing, Verdict, score
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.baselines import (
    DEFAULT,
    OPTIONAL,
    BaselineAbsentError,
    BaselineFailedError,
    LibraryContender,
    baseline,
    computing,
)
from evoflash.gpu.baselines.contender import (
    LIMIT_S,
    begin_step,
    culprit,
    end_steps,
    note_in,
    reason_of,
)
from evoflash.gpu.launcher import GpuBusyError, KernelHungError
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing import noise_floor as noise
from evoflash.gpu.timing.benchmark import (
    Bench,
    KernelContender,
    can_be_timed,
    energy_mj,
    time_interleaved,
    time_synced,
)
from evoflash.gpu.timing.paired import (
    PairedComparison,
    beats_physics,
    compare,
    unfinished_work,
)
from evoflash.gpu.timing.protocols import CALL, finals_of
from evoflash.isolation import Ending
from evoflash.problem import Problem
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

log = logging.getLogger(__name__)
T = TypeVar("T")
_PATIENCE_S, _MORE_PATIENCE_S = 10.0, 30.0  # with a baseline, with what takes some time of itself
_LOOK_EVERY_S, _QUIET_LIMIT_S = 0.05, 60.0
_STEP_LIMIT_S = 120.0  # of what takes seconds
_COMPILING = (
    "a library may compile its kernels on their first use, which takes minutes; "
    f"after {LIMIT_S:.0f} s it is left out"
)
_PREPARATION = "the GPU process, which loads the libraries"
_PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0)
_MIRRORED = {"faster": "slower", "slower": "faster", "unclear": "unclear"}
_WORDS = {"faster": "faster than", "slower": "slower than", "unclear": "not clearly apart from"}


@dataclass(frozen=True, slots=True)
class FinalTask:
    """Candidates and baselines to be timed in turns; the tasks share their timed workloads."""

    tasks: tuple[GpuTask, ...]
    workloads: tuple[Workload, ...]
    spec: GpuSpec
    seed: int
    baselines: tuple[str, ...] = DEFAULT
    energy: bool = False  # also what a call of each takes in energy: some three seconds each
    notes: str = ""  # a file that says which baseline is under way (baselines/contender.py)
    busy: str = ""  # a file that is there while this machine's cores have other work
    limit_s: float = 600.0
    noise: float = field(default_factory=noise.floor)  # relative; within it nothing is faster or slower


@dataclass(frozen=True, slots=True)
class FinalReport:
    """Final timings by genome id or baseline name, and every pair compared on every workload and protocol."""

    timings: Mapping[str, tuple[Timing, ...]]
    comparisons: tuple[PairedComparison, ...]
    verdicts: Mapping[str, tuple[Verdict, ...]]  # of what was timed, and whether its time is possible
    absent: Mapping[str, str]  # baseline on a workload -> why it was not timed
    environment: Mapping[str, Mapping[str, str]]  # by baseline name
    hung: Mapping[str, str] = field(default_factory=dict)  # finalist -> how; it was not timed


def run_finals(task: FinalTask) -> Ending[FinalReport]:
    """Time everything in turns, in a GPU process that did nothing else before."""
    try:
        return Ending(_finals(task))
    except KernelHungError as hung:
        end_steps(hung.contender)
        return Ending(None, Status.TIMEOUT, f"{hung.contender or 'a finalist'} {hung}")
    except GpuBusyError as busy:
        return Ending(None, Status.UNMEASURED, str(busy))
    except MemoryFaultError as fault:
        return Ending(None, Status.CORRECTNESS, f"a finalist {fault}")
    except launcher.cuda_errors() as error:
        return Ending(None, Status.RUNTIME, str(error).strip().splitlines()[0])
    except Exception as error:  # of a class of PyTorch's own, whoever reads that would have to load it
        if type(error).__module__.partition(".")[0] != "torch":
            raise
        return Ending(None, Status.RUNTIME, reason_of(error))


def _finals(task: FinalTask) -> FinalReport:
    rng = np.random.default_rng(task.seed)
    reports = [_finals_on(workload, task, rng=rng) for workload in task.workloads]
    return FinalReport(
        timings=_join([report.timings for report in reports]),
        comparisons=tuple(itertools.chain.from_iterable(report.comparisons for report in reports)),
        verdicts=_join([report.verdicts for report in reports]),
        absent={name: why for report in reports for name, why in report.absent.items()},
        environment={name: found for report in reports for name, found in report.environment.items()},
    )


def _join(parts: Sequence[Mapping[str, tuple[T, ...]]]) -> dict[str, tuple[T, ...]]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: tuple(x for part in parts for x in part.get(name, ())) for name in names}


def _finals_on(workload: Workload, task: FinalTask, *, rng: np.random.Generator) -> FinalReport:
    begin_step("inputs and baselines", limit_s=_STEP_LIMIT_S)
    bench = Bench(workload, spec=task.spec, seed=task.seed)
    libraries, absent = _libraries(task, bench)
    finalists = [
        KernelContender(each.genome_id, each.kernel(workload, dict(each.timed)[workload]))
        for each in task.tasks
    ]
    contenders: list[KernelContender | LibraryContender] = [*finalists, *libraries]
    timings: list[Mapping[str, tuple[Timing, ...]]] = []
    comparisons: list[PairedComparison] = []
    for protocol, rule in finals_of(bench.protocols):
        timed = [contender for contender in contenders if can_be_timed(contender, protocol)]
        if protocol is CALL:  # the host's time is in it
            begin_step("the emulator, which has the cores", limit_s=_QUIET_LIMIT_S + _STEP_LIMIT_S)
            _wait_for_cores(task.busy)
        begin_step(f"times, {protocol.name}", limit_s=_STEP_LIMIT_S + len(timed) * rule.max_s)
        samples, found = time_interleaved(timed, bench, protocol, rule=rule, rng=rng)
        timings.append({name: (timing,) for name, timing in found.items()})
        name = f"final-{protocol.name}"
        comparisons += [
            compare(samples, first, second, workload=str(workload), protocol=name, noise=task.noise)
            for first, second in itertools.combinations(samples, 2)
        ]
    by_name = _join(timings)
    for each in contenders if task.energy else ():  # of the ranked protocol's timing, which is the first
        begin_step(f"energy of {each.name}", limit_s=_STEP_LIMIT_S)
        first, *others = by_name[each.name]
        by_name[each.name] = (replace(first, energy_mj=energy_mj(each, bench)), *others)
    return FinalReport(
        timings=by_name,
        comparisons=tuple(comparisons),
        verdicts={each.name: (_verdict(each, bench, by_name[each.name], task),) for each in contenders},
        absent=absent,
        environment={library.name: library.environment for library in libraries},
    )


def _wait_for_cores(busy: str) -> None:
    end_s = time.monotonic() + _QUIET_LIMIT_S
    while busy and Path(busy).exists() and time.monotonic() < end_s:
        time.sleep(_LOOK_EVERY_S)


def conclusion(report: FinalReport, name: str) -> str:
    """What the final pairs say of a finalist against the others, in the protocol that ranks them."""
    answers: dict[str, list[str]] = {}
    for pair in report.comparisons:
        other = pair.second if pair.first == name else pair.first
        is_ours = name in (pair.first, pair.second) and other not in report.environment
        if is_ours and pair.protocol in FINAL:
            answer = pair.answer if pair.first == name else _MIRRORED[pair.answer]
            answers.setdefault(_WORDS[answer], []).append(other)
    return "; ".join(f"{words} {', '.join(dict.fromkeys(others))}" for words, others in answers.items())


def row_of(report: FinalReport, name: str, *, problem: Problem, gpu: str) -> Baseline | None:
    """A baseline's row. None, with a warning, when its own output failed the check; None also when it was not
    timed on every workload, because its score would be a mean over fewer of them than the others'.
    """
    if wrong := failed_check(report, name):
        log.warning("baseline %s is left out, its own output fails the check: %s", name, wrong)
        return None
    timings = report.timings[name]
    if {timing.workload for timing in timings} != {str(workload) for workload in problem.workloads}:
        return None
    score_us = score([timing.median_us for timing in timings if timing.protocol in FINAL])
    return Baseline(name, str(problem), gpu, timings, score_us, dict(report.environment[name]))


def failed_check(report: FinalReport, name: str) -> str:
    """Why the output of a finalist or baseline is wrong, or its time impossible; empty when neither is."""
    return next((verdict.reason for verdict in report.verdicts[name] if not verdict.passed), "")


def _verdict(
    contender: KernelContender | LibraryContender, bench: Bench, timings: tuple[Timing, ...], task: FinalTask
) -> Verdict:
    is_called = any(timing.protocol == f"final-{CALL.name}" for timing in timings)
    timed_us = timings[0].p10_us or timings[0].median_us
    begin_step(f"the verdict on {contender.name}", limit_s=_STEP_LIMIT_S)
    verdict = judge_replay(contender, bench, seed=task.seed, timed_us=timed_us, is_called=is_called)
    if isinstance(contender, LibraryContender) and verdict.rel_l2 <= contender.rel_l2:
        verdict = replace(verdict, passed=True, reason="")  # right by its own arithmetic
    reasons = [reason for t in timings if (reason := beats_physics(t, bench.workload, task.spec))]
    if late := _lateness(contender, bench, timings[0]):
        reasons.append(late)
    return replace(verdict, passed=False, reason=reasons[0]) if reasons and verdict.passed else verdict


def _lateness(contender: KernelContender | LibraryContender, bench: Bench, timing: Timing) -> str:
    """unfinished_work(), asked again, ever later: what else runs on the GPU comes and goes."""
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        late = unfinished_work(timing, time_synced(contender, bench, bench.protocols[0]))
        if not late:
            return ""
    return late


def _libraries(task: FinalTask, bench: Bench) -> tuple[list[LibraryContender], dict[str, str]]:
    """The baselines that run here, and why the others do not."""
    found, absent = [], {}
    for name in computing(bench.workload.operation, task.baselines):
        try:
            found.append(baseline(name, bench))
        except BaselineAbsentError as reason:
            absent[f"{name} on {bench.workload}"] = str(reason)
    return found, absent


# Runs run_noting(task) in a GPU process that did nothing else before.
Round = Callable[[FinalTask], Ending[FinalReport]]


def run_noting(task: FinalTask) -> Ending[FinalReport]:
    """In the GPU process: run_finals, while the task's file of notes says which baseline is under way."""
    if task.notes:
        note_in(task.notes)
    try:
        ending = run_finals(task)
    except BaselineFailedError as failed:
        return Ending(None, Status.RUNTIME, str(failed))
    if ending.value is not None:
        end_steps()
    return ending


def rounds(task: FinalTask, run_once: Round) -> Ending[FinalReport]:
    """Call `run_once` until it has a report, without the baseline that took the process down, or the finalist
    that hangs; what was left out is absent in the report, or hung, with its reason. A failure that no note
    explains costs all libraries but PyTorch, once.
    """
    lost: dict[str, str] = {}
    hung: dict[str, str] = {}
    while True:
        ending, blamed, reason = _round(task, run_once)
        if ending.value is not None:
            on_each = {f"{name} on {row}": why for name, why in lost.items() for row in task.workloads}
            report = replace(ending.value, absent={**ending.value.absent, **on_each}, hung=hung)
            return replace(ending, value=report)
        if not blamed:
            return ending
        finalists = {each.genome_id for each in task.tasks}.intersection(blamed)
        (hung if finalists else lost).update(dict.fromkeys(blamed, reason))
        what = "finalist" if finalists else "baseline"
        log.warning("%s %s is left out: %s; the others are timed again.", what, ", ".join(blamed), reason)
        task = replace(
            task,
            baselines=tuple(name for name in task.baselines if name not in lost),
            tasks=tuple(each for each in task.tasks if each.genome_id not in hung),
        )
        if finalists and not task.tasks:
            return Ending(FinalReport({}, (), {}, {}, {}, hung))


def _round(task: FinalTask, run_once: Round) -> tuple[Ending[FinalReport], tuple[str, ...], str]:
    """How the round ended; after a failure also the baselines or the finalist to blame, and the reason."""
    with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
        notes = Path(folder) / "under-way"
        notes.write_text(f"{_PREPARATION}\n")
        with _said_where_it_takes_long(notes, task.baselines):
            ending = run_once(replace(task, notes=str(notes)))
        name, overdue = culprit(notes)
    if name in task.baselines or name in {each.genome_id for each in task.tasks}:
        return ending, (name,), overdue or ending.reason
    if overdue:
        return replace(ending, status=Status.TIMEOUT, reason=f"{name}: {overdue}"), (), ""
    suspects = tuple(name for name in task.baselines if name in OPTIONAL)
    return ending, suspects, f"{ending.reason}, and nothing says which baseline it was"


@contextmanager
def _said_where_it_takes_long(notes: Path, baselines: Collection[str]) -> Iterator[None]:
    """A warning, once for each thing that is under way for longer than people like to wait without a word."""
    is_over = threading.Event()

    def watch() -> None:
        name, since_s, said = "", 0.0, set[str]()
        while not is_over.wait(_PATIENCE_S / 20):
            under_way = culprit(notes)[0]
            if under_way != name:
                name, since_s = under_way, time.monotonic()
            patience_s = _PATIENCE_S if name in baselines else _MORE_PATIENCE_S
            if name and name not in said and time.monotonic() - since_s > patience_s:
                said.add(name)
                why = _COMPILING if name in baselines else f"{patience_s:g} s so far"
                log.warning("waiting for %s%s: %s.", "baseline " * (name in baselines), name, why)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
