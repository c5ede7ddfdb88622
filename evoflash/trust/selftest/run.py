"""Runs the self-test's frauds in the emulator and on a GPU, with mistakes at size and frauds on the books.

The harness itself rejects a fraud, by the rungs that a search's candidate climbs: lint, pre-flight and
correctness in the emulator; smoke test, correctness and timing on the GPU. Mistakes at size and frauds on
clock and books are in files of their own beside this one.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evoflash.emulator.call import EmulatorRun
from evoflash.emulator.preflight import CPU_LIMIT_S, complaint_of, emulate_plan, preflight
from evoflash.errors import DeviceError, EvoflashError, UsageError
from evoflash.evaluation import Rung, Status
from evoflash.gpu import launcher
from evoflash.gpu.process import rungs
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels import gxx
from evoflash.kernels.lint import lint
from evoflash.kernels.nvrtc import compile_candidate, first_error
from evoflash.launch import LaunchConfig
from evoflash.operation import operation_of
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.problem import parse_workload
from evoflash.specs import GpuSpec, load_gpu
from evoflash.trust.selftest import staged_frauds
from evoflash.trust.selftest.corpus import (
    LIMIT_S,
    End,
    ExpectedRejection,
    Fraud,
    FraudResult,
    build_fraud,
    corpus,
    outcome,
)
from evoflash.validation.plan import plan_of
from evoflash.workload import Workload


def try_fraud(fraud: Fraud, gpu: GpuSpec, seed: int) -> Mapping[Rung, str]:
    """Each rung's complaint, empty where it accepts; correctness is asked of controls and where it is named.

    EvoflashError when the text does not compile or cannot be launched: no rejection, but a broken corpus.
    """
    candidate, family = build_fraud(fraud, gpu)
    said = {Rung.RENDER: "; ".join(map(str, lint(candidate.source)))}
    said[Rung.PREFLIGHT] = preflight(candidate, family, gpu, seed=seed).complaint
    if fraud.is_control or Rung.CORRECTNESS in fraud.emulated.rungs:
        library = gxx.build(candidate.source, name=family.name)
        launches = {w: family.launches(candidate.genome, w, gpu) for w in fraud.kernel.check_workloads()}
        said[Rung.CORRECTNESS] = _check_launches(library, launches, seed, exact=family.is_deterministic)
    return said


def _check_launches(
    library: Path, launches: Mapping[AttentionWorkload, tuple[LaunchConfig, ...]], seed: int, *, exact: bool
) -> str:
    run = EmulatorRun("random", "random", seed, CPU_LIMIT_S)
    for workload, parts in launches.items():
        plan = plan_of(workload, seed, of_inputs_alone=True)
        found = emulate_plan(library, parts, plan, run, stops=lambda report: True, is_deterministic=exact)
        if found.verdict is None:
            return complaint_of(found.reports[:1], None)
        if not found.verdict.passed:
            return f"{workload}: {found.verdict.reason}"
    return ""


def task_of(fraud: Fraud, spec: GpuSpec, seed: int) -> GpuTask:
    """The fraud compiled, with the check workloads of a search; needs no GPU.

    EvoflashError when it does not compile: no rejection, but a broken corpus.
    """
    candidate, family = build_fraud(fraud, spec)
    build = compile_candidate(candidate)
    if not build.ok:
        raise EvoflashError(f"NVRTC refuses it for {spec.arch}: {first_error(build.log)}")
    timed = _timed_workload(fraud)
    return rungs.task_of(
        fraud.name,
        spec,
        (build,),
        lambda workload: family.launches(candidate.genome, workload, spec),
        checks=operation_of(timed).check_workloads([timed.compile_key(spec.arch)]),
        timed=(timed,),
        seed=seed,
        is_deterministic=family.is_deterministic,
    )


def check_workloads_of(frauds: Sequence[Fraud], spec: GpuSpec) -> tuple[Workload, ...]:
    """The check workloads of all that will be tried on the GPU, each once."""
    keys = dict.fromkeys(_timed_workload(f).compile_key(spec.arch) for f in frauds if not f.measured.skip)
    return tuple(workload for key in keys for workload in operation_of(key).check_workloads([key]))


def _timed_workload(fraud: Fraud) -> Workload:
    return parse_workload(fraud.problem) if fraud.problem else fraud.kernel.problem


def rejection_of(outcome: GpuOutcome) -> Mapping[Rung, str]:
    """The rung that stopped the fraud, with its reason; empty when no rung did."""
    if outcome.status is Status.CORRECT:
        return {}
    return {outcome.rung: outcome.reason or outcome.status.value}


SEED = 20261121
_EMULATED_FOR = "h200"  # the GPU that the emulated texts are rendered for, where none is present
_CHEATS_WITH = "honest mma"  # the kernel that cheats the clock are made of

Heard = Callable[[FraudResult], None]
Chosen = Callable[..., bool]  # of a fraud's name and what it is of


@dataclass(frozen=True, slots=True)
class SelfTest:
    """All outcomes, and what they were found on."""

    outcomes: tuple[FraudResult, ...]
    gpu: str  # its name, "" where there was none
    seconds: float
    interrupted: bool = False  # by Ctrl-C

    @property
    def is_good(self) -> bool:
        return all(each.is_good for each in self.outcomes)

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(each.end.value for each in self.outcomes))

    def as_dict(self) -> dict[str, Any]:
        return {"good": self.is_good, "counts": self.counts, **asdict(self)}


@dataclass(frozen=True, slots=True)
class _Question:
    """One fraud or control in one place, and the answer to come."""

    name: str
    place: str
    expected: ExpectedRejection
    answer: "Future[Ending[Mapping[Rung, str]]]"

    def outcome(self, end_s: float) -> FraudResult:
        """Waits for the answer until that moment of the monotonic clock."""
        return _result(self.name, self.place, self.expected, lambda: self.answer.result(_left_s(end_s)))


def _left_s(end_s: float) -> float:
    return max(0.0, end_s - time.monotonic())


def _result(
    name: str, place: str, expected: ExpectedRejection, wait: Callable[[], Ending[Mapping[Rung, str]]]
) -> FraudResult:
    try:
        ending = wait()
    except TimeoutError:
        return FraudResult(name, place, End.NOT_RUN, "the time was up")
    except EvoflashError as error:
        return FraudResult(name, place, End.BROKEN, str(error))
    if ending.value is None:
        return FraudResult(name, place, End.BROKEN, ending.reason)
    return outcome(name, place, expected, ending.value)


def self_test(
    *, only: str = "", time_limit_s: float = 240.0, heard: Heard = lambda outcome: None
) -> SelfTest:
    """Everything, or what the words between commas in `only` choose: the beginning of a name, a kernel, a
    place (emulator, GPU, NumPy, records). `heard` gets each outcome.

    What Ctrl-C or the time limit leaves out is not good. DeviceError where there is neither a GPU nor g++,
    UsageError where nothing is called so.
    """
    begin_s = time.monotonic()
    found: list[FraudResult] = []
    interrupted = False
    spec, gpu = _gpu()
    try:
        for each in _outcomes(partial(_is_chosen, only), spec, begin_s + time_limit_s):
            heard(each)
            found.append(each)
    except KeyboardInterrupt:
        interrupted = True
    if not (found or interrupted):
        raise UsageError(f"no fraud is called '{only}': docs/self-test.md lists their names.")
    return SelfTest(tuple(found), gpu, round(time.monotonic() - begin_s, 1), interrupted)


def _gpu() -> tuple[GpuSpec | None, str]:
    """The GPU that is present, if one is, and its name. DeviceError where there is no g++ either."""
    try:
        device = launcher.present_gpu()
    except DeviceError:
        gxx.compiler_version()
        return None, ""
    return launcher.spec_of(device), device.device_name


def _is_chosen(only: str, name: str, *of: str) -> bool:
    """Whether --only asks for a fraud of that name, by its name or by one of what it is `of`: its kernel, the
    place where it is asked.
    """
    words = tuple(word.strip() for word in only.split(",") if word.strip())
    return not words or name.startswith(words) or any(each in words for each in of)


def _outcomes(chosen: Chosen, spec: GpuSpec | None, end_s: float) -> Iterator[FraudResult]:
    yield from _in_the_emulator(chosen, spec or load_gpu(_EMULATED_FOR), end_s)
    for book in staged_frauds.BOOKS:
        if chosen(book.name, "records"):
            yield outcome(book.name, "records", book.expected_rejection, book.answer(SEED))
    if spec is not None:
        yield from _on_the_gpu(chosen, spec, end_s)
        return
    for cheat in staged_frauds.CHEATS:
        if chosen(cheat.name, "GPU"):
            yield FraudResult(cheat.name, "GPU", End.SKIPPED, "needs the clock of a GPU")


def _in_the_emulator(chosen: Chosen, gpu: GpuSpec, end_s: float) -> Iterator[FraudResult]:
    """The corpus in the emulator and NumPy's mistakes at size, in processes, a core each."""
    no_emulator = _no_emulator()
    with IsolatedPool(len(os.sched_getaffinity(0))) as pool:
        asked = [*_emulator_questions(chosen, gpu, pool, no_emulator), *_numpy_questions(chosen, pool)]
        for each in asked:
            yield each if isinstance(each, FraudResult) else each.outcome(end_s)


def _no_emulator() -> str:
    """Why the GPU cannot be used although the machine has one; "" where it can."""
    try:
        gxx.runtime()  # built once, before the processes want it
    except DeviceError as error:
        return str(error)
    return ""


def _emulator_questions(
    chosen: Chosen, gpu: GpuSpec, pool: IsolatedPool, no_emulator: str
) -> Iterator[_Question | FraudResult]:
    for fraud in corpus():
        if not chosen(fraud.name, fraud.kernel.name, "emulator"):
            continue
        if skip := no_emulator or fraud.emulated.skip:
            yield FraudResult(fraud.name, "emulator", End.SKIPPED, skip)
            continue
        answer = pool.submit(try_fraud, fraud, gpu, SEED, timeout_s=LIMIT_S)
        yield _Question(fraud.name, "emulator", fraud.emulated, answer)


def _numpy_questions(chosen: Chosen, pool: IsolatedPool) -> Iterator[_Question]:
    for workload in staged_frauds.WORKLOADS:
        for mistake in staged_frauds.MISTAKES:
            if chosen(mistake.name, "NumPy"):
                name = f"{mistake.name}, {workload.seq_kv} keys"
                asked = mistake.name, workload, SEED
                answer = pool.submit(staged_frauds.try_mistake, *asked, timeout_s=LIMIT_S)
                yield _Question(name, "NumPy", mistake.expected_rejection, answer)


def _on_the_gpu(chosen: Chosen, spec: GpuSpec, end_s: float) -> Iterator[FraudResult]:
    frauds = [f for f in corpus() if chosen(f.name, f.kernel.name, "GPU")]
    with GpuWorker(checks=check_workloads_of(frauds, spec), seed=SEED, shares=True) as worker:
        yield from climb(frauds, spec, worker, end_s)
    yield from _cheats(chosen, spec, end_s)


def climb(frauds: Sequence[Fraud], spec: GpuSpec, worker: GpuWorker, end_s: float) -> Iterator[FraudResult]:
    """Compiled in processes, a core each; then in order up the rungs of the worker's GPU, as many at once
    as it has processes.
    """
    threads = ThreadPoolExecutor(len(frauds) or 1, thread_name_prefix="evoflash-fraud")  # they only wait
    with IsolatedPool(len(os.sched_getaffinity(0))) as pool:
        begun = {
            fraud.name: pool.submit(task_of, fraud, spec, SEED, timeout_s=LIMIT_S)
            for fraud in frauds
            if not fraud.measured.skip
        }
        reached = {name: threads.submit(_climb, built, worker, end_s) for name, built in begun.items()}
        try:
            for fraud in frauds:
                if fraud.name in reached:
                    ended = partial(reached[fraud.name].result, _left_s(end_s))
                    yield _result(fraud.name, "GPU", fraud.measured, ended)
                else:
                    yield FraudResult(fraud.name, "GPU", End.SKIPPED, fraud.measured.skip)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _climb(
    compiling: "Future[Ending[GpuTask]]", worker: GpuWorker, end_s: float
) -> Ending[Mapping[Rung, str]]:
    built = compiling.result(_left_s(end_s))
    if built.value is None:
        return Ending(None, reason=built.reason)
    return Ending(rejection_of(worker.submit(built.value).result(_left_s(end_s))))


def _cheats(chosen: Chosen, spec: GpuSpec, end_s: float) -> Iterator[FraudResult]:
    """Contenders that cheat the clock, in a GPU process of their own."""
    cheats = [cheat for cheat in staged_frauds.CHEATS if chosen(cheat.name, "GPU")]
    if not cheats or time.monotonic() > end_s:
        return
    honest = next(fraud for fraud in corpus() if fraud.name == _CHEATS_WITH)
    with IsolatedPool(1) as pool:
        pool.submit(launcher.warm_up, timeout_s=LIMIT_S)
        task = task_of(honest, spec, SEED)
        for cheat in cheats:
            answer = pool.submit(staged_frauds.try_cheat, cheat.name, task, timeout_s=LIMIT_S)
            yield _Question(cheat.name, "GPU", cheat.expected_rejection, answer).outcome(end_s)
