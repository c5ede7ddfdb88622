"""Runs a rendered kernel in the CPU emulator on small shapes made to break it. Times nothing.

It proves synchronisation and indexing under our reading of PTX, on the pre-flight shapes only; it times
nothing. The benchmark's shape is not emulated.

Any plan of checks (validation/plan.py) can be carried out here; the pre-flight's are of one launch each.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from evoflash.emulator import launch as emulator
from evoflash.emulator.call import EmulatorRun, run_call, run_calls
from evoflash.evaluation import Candidate, Status, Verdict
from evoflash.kernels import gxx
from evoflash.kernels.family import Family
from evoflash.kernels.renderer import shrunk
from evoflash.launch import LaunchConfig
from evoflash.operation import Delivery, EmulatedRun, Loop, Schedule, operation_of
from evoflash.perf_model import Profile, fit_counts, mean_counts
from evoflash.space import Value
from evoflash.specs import GpuSpec
from evoflash.validation.cases import draw_case
from evoflash.validation.metamorphic import differing
from evoflash.validation.plan import CheckLaunch, CheckPlan, check_one_by_one, single_plan
from evoflash.validation.validator import judge
from evoflash.workload import Output, Workload

CPU_LIMIT_S = 10.0  # of one emulated launch of the pre-flight; the slowest of a healthy kernel takes one
# What takes longer than a pre-flight's launches gets that many times as much.
_USUAL_BLOCKS, _USUAL_FLOPS, _MOST_TIMES = 64, 1 << 26, 30.0
_ARITHMETIC = ("mma", "wgmma", "fma", "ex2")  # counters
_LEAST_WORK = 0.9  # of a call on inputs that a kernel has seen, over the first on them
# Kernels whose tiles have the same shape are asked the same, with a run's one seed. Shapes go by the tiles:
# few of them are worth keeping.
_case = lru_cache(maxsize=64)(draw_case)


@dataclass(frozen=True, slots=True)
class Preflight:
    """What the emulator found: no complaint means ready for a GPU."""

    complaint: str  # one line, empty when all is well
    status: Status  # CORRECT, or what the complaint amounts to
    verdicts: tuple[Verdict, ...]
    profile: Profile  # for the performance model


def preflight(
    candidate: Candidate,
    family: Family,
    gpu: GpuSpec,
    *,
    seed: int,
    registers: int = 0,
    only_counted: bool = False,
) -> Preflight:
    """Emulates the candidate on its pre-flight set, async copies delivered at once, late, or by chance.

    `registers` is what the compiler gave a thread, for setmaxnreg's pool; 0: what the family says of it.
    `only_counted`: no more than the runs that the performance model counts, which prove nothing.
    """
    key, operation = candidate.compile_key, operation_of(candidate.compile_key)
    names = family.names(candidate.genome.as_dict(), key, gpu)
    loop = family.loop(names)
    runs = operation.preflight_runs(key, loop)
    if operation.drawn_runs is not None:
        runs += operation.drawn_runs(key, loop, seed=seed)
    numbered = list(enumerate(run for run in runs if family.shrunk.keys() >= {*run.shrunk}))
    wanted = [(seed + at, run) for at, run in numbered if run.is_counted or not only_counted]
    found, counted = _carry_out(wanted, candidate, family, gpu, registers=registers)
    if found.complaint:
        return found
    return replace(found, profile=_profile(loop, family.uncounted_instructions(names), *counted))


def check_finalist(
    candidate: Candidate,
    family: Family,
    gpu: GpuSpec,
    *,
    seed: int,
    part: tuple[int, int] = (0, 1),
    registers: int = 0,
    has_gpu: bool = False,
) -> Preflight:
    """What the best kernels are emulated on besides, which takes long; of an operation without such runs
    nothing. `part`: the n-th of so many parts, for as many processes. `has_gpu`: a GPU sees the kernel on
    hidden shapes, and what is there for their sizes alone is left to it.
    """
    key, operation = candidate.compile_key, operation_of(candidate.compile_key)
    if operation.finalist_runs is None:
        return _NOTHING_FOUND
    loop = family.loop(family.names(candidate.genome.as_dict(), key, gpu))
    runs = operation.finalist_runs(key, loop, seed=seed)
    number, parts = part
    wanted = [(seed + at, run) for at, run in enumerate(runs) if not (has_gpu and run.is_left_to_gpu)]
    # From the end, where the longest are: a process that came to one last would be waited for.
    wanted = wanted[::-1][number::parts]
    return _carry_out(wanted, candidate, family, gpu, registers=registers, forgives_time=True)[0]


def _carry_out(
    runs: Iterable[tuple[int, EmulatedRun]],
    candidate: Candidate,
    family: Family,
    gpu: GpuSpec,
    *,
    registers: int,
    forgives_time: bool = False,
) -> "tuple[Preflight, list[_Counted]]":
    """Runs, each with its seed, up to the first complaint; and what was counted. `forgives_time`: what takes
    the emulator too long, or is too large for it, is left out.
    """
    values = candidate.genome.as_dict()
    names = family.names(values, candidate.compile_key, gpu)
    library = gxx.build(candidate.source, name=family.name)
    verdicts, counted = list[Verdict](), list[_Counted]()
    for seed, planned in runs:
        workload = planned.workload
        launches = family.launches(candidate.genome, workload, small_gpu(planned, gpu))
        if planned.is_repeated and not launches[0].workspace_bytes:
            continue  # nothing stays from call to call
        if beyond := next(filter(None, map(emulator.beyond_emulator, launches)), ""):
            if forgives_time:
                continue
            return replace(_NOTHING_FOUND, complaint=beyond, status=Status.CONSTRAINTS), counted
        run = run_of(planned, launches, seed=seed, registers=registers or family.registers(names))
        text = shrunk_text(candidate.source, values, family, planned, gpu)
        built = gxx.build(text, name=family.name) if planned.shrunk else library
        if run.is_repeated:
            emulations, verdict = _emulate_thrice(
                built, launches, workload, planned.inputs, run, is_deterministic=family.is_deterministic
            )
        else:
            emulations, verdict = _emulate_once(built, launches, workload, planned.inputs, run)
        if not planned.is_brief or not verdict.passed:
            verdicts.append(verdict)
        if planned.is_counted:
            own = family.loop(family.names(values, candidate.compile_key, small_gpu(planned, gpu)))
            counted.append((workload, own, [emulation.counters for emulation in emulations]))
        reports = tuple(report for emulation in emulations for report in emulation.reports)
        if forgives_time and any(report.kind == "TIMEOUT" for report in reports):
            verdicts.pop()
            continue
        complaint = complaint_of(reports, verdict)
        if complaint:
            return replace(
                _NOTHING_FOUND,
                complaint=f"{complaint} [{workload}]",
                status=_status(reports),
                verdicts=tuple(verdicts),
            ), counted
    return replace(_NOTHING_FOUND, verdicts=tuple(verdicts)), counted


def run_of(
    planned: EmulatedRun, launches: tuple[LaunchConfig, ...], *, seed: int, registers: int
) -> EmulatorRun:
    """How a planned run goes."""
    return EmulatorRun(
        planned.delivery,
        planned.schedule,
        seed,
        cpu_limit_s(launches, planned.workload),
        registers,
        planned.without,
        planned.is_strided,
        # What is counted goes by the addresses, and is to be the same for all.
        is_displaced=not planned.is_counted,
        is_rescaled=planned.is_strided,
        is_repeated=planned.is_repeated,
    )


def shrunk_text(
    source: str, values: Mapping[str, Value], family: Family, planned: EmulatedRun, gpu: GpuSpec
) -> str:
    """The text with smaller constants, as they are for the run's workload on its GPU, where it needs them."""
    if not planned.shrunk:
        return source
    key = planned.workload.compile_key(gpu.arch)
    return shrunk(source, family, family.names(values, key, small_gpu(planned, gpu)))


def small_gpu(planned: EmulatedRun, gpu: GpuSpec) -> GpuSpec:
    """The GPU that the run's launches are made for: with few SMs, or room for a single CTA, where a grid that
    goes by the GPU's size is to be small.
    """
    return replace(gpu, sm_count=planned.sms) if planned.crowded else gpu


_NOTHING_FOUND = Preflight("", Status.CORRECT, (), Profile(1, 1, 1, 1))
_ENDLESS = {"TIMEOUT", "LIVELOCK", "DEADLOCK"}


def _status(reports: tuple[emulator.EmulatorReport, ...]) -> Status:
    kinds = {report.kind for report in reports}
    if not kinds:
        return Status.CORRECTNESS
    return Status.TIMEOUT if kinds & _ENDLESS else Status.RUNTIME


# A workload, the loop on the GPU that the launches were made for, and each launch's counters.
_Counted = tuple[Workload, Loop, list[dict[str, int]]]


def _profile(loop: Loop, uncounted: int, *counted: _Counted) -> Profile:
    """From two lengths: the main launch's line per step of its loop, the others' means per CTA."""
    works = [operation_of(workload).work(workload, own) for workload, own, _ in counted]
    runs = tuple(
        (counters[loop.before], work.copies * len(work.steps), work.copies * sum(work.steps))
        for work, (_, _, counters) in zip(works, counted, strict=True)
    )
    _, *others = loop.first_of(counted[0][2])
    rest = (mean_counts(counters) for counters in others)
    (many, few) = runs
    return Profile(**asdict(loop), launches=(fit_counts((many, few)), *rest), uncounted=uncounted)


def complaint_of(reports: tuple[emulator.EmulatorReport, ...], verdict: Verdict | None) -> str:
    """What is wrong with emulated calls in one line; empty where nothing is."""
    if reports:
        first = reports[0]
        more = f" (and {len(reports) - 1} other reports)" if len(reports) > 1 else ""
        message = " ".join(first.message.split())
        return f"{first.kind} at line {first.line}: {message[:300]}{more}"
    return "" if verdict is None or verdict.passed else verdict.reason


def cpu_limit_s(launches: tuple[LaunchConfig, ...], workload: Workload) -> float:
    """CPU seconds after which a launch on the workload counts as one that does not end."""
    blocks = max(math.prod(launch.grid) for launch in launches)
    times = max(blocks / _USUAL_BLOCKS, workload.flops / _USUAL_FLOPS)
    return CPU_LIMIT_S * min(max(1.0, times), _MOST_TIMES)


@dataclass(frozen=True, slots=True, eq=False)
class EmulatedPlan:
    """What became of a plan in the emulator."""

    emulations: tuple[emulator.Emulation, ...]  # of all its calls, in their order
    outputs: Mapping[int, Output]  # by launch
    verdict: Verdict | None  # None where a report stopped it

    @property
    def reports(self) -> tuple[emulator.EmulatorReport, ...]:
        """Of all calls."""
        return tuple(report for emulation in self.emulations for report in emulation.reports)


class _StoppedError(Exception):
    """What the kernel wrote says nothing."""


def emulate_plan(
    library: Path,
    launches: tuple[LaunchConfig, ...],
    plan: CheckPlan,
    run: EmulatorRun,
    *,
    stops: Callable[[emulator.EmulatorReport], bool] = lambda report: False,
    is_deterministic: bool = True,
) -> EmulatedPlan:
    """Carry out a plan: each of its launches is a call with these parts, and goes as the run says but for its
    own layout and outputs. No call is made, and nothing judged, after a report that `stops` it.
    """
    emulations: list[emulator.Emulation] = []
    outputs: dict[int, Output] = {}

    def launch(planned: CheckLaunch) -> Output:
        this = replace(run, without=planned.without, is_strided=planned.is_strided)
        parts, output = run_call(library, launches, plan.workload, planned.inputs, this)
        emulations.extend(parts)
        if any(stops(report) for part in parts for report in part.reports):
            raise _StoppedError
        outputs[plan.launches.index(planned)] = output
        return output

    try:
        verdict: Verdict | None = check_one_by_one(plan, launch, is_deterministic=is_deterministic)
    except _StoppedError:
        verdict = None
    return EmulatedPlan(tuple(emulations), outputs, verdict)


def emulate(
    library: Path,
    launches: tuple[LaunchConfig, ...],
    workload: Workload,
    inputs_name: str,
    *,
    delivery: Delivery,
    schedule: Schedule,
    seed: int,
    registers: int = 0,
    without: tuple[str, ...] = (),
    is_strided: bool = False,
) -> tuple[tuple[emulator.Emulation, ...], Verdict]:
    """Run the launches on inputs of one kind, and judge what they wrote by the reference, every row of it."""
    limit_s = cpu_limit_s(launches, workload)
    run = EmulatorRun(delivery, schedule, seed, limit_s, registers, without, is_strided)
    return _emulate_once(library, launches, workload, inputs_name, run)


_Found = tuple[tuple[emulator.Emulation, ...], Verdict]


def _emulate_once(
    library: Path, launches: tuple[LaunchConfig, ...], workload: Workload, inputs_name: str, run: EmulatorRun
) -> _Found:
    inputs, expected = _case(workload, inputs_name, run.seed)
    plan = single_plan(workload, CheckLaunch(inputs, run.without, run.is_strided), expected)
    found = emulate_plan(library, launches, plan, run)
    assert found.verdict is not None, "nothing stops it"
    return found.emulations, found.verdict


def _emulate_thrice(
    library: Path,
    launches: tuple[LaunchConfig, ...],
    workload: Workload,
    inputs_name: str,
    run: EmulatorRun,
    *,
    is_deterministic: bool,
) -> _Found:
    """Calls in one memory: on one input, on another, and on the first again, which must give the same to the
    bit, whoever comes first, and be as much work as it was, because a GPU's time of a call that finds its
    answer in the workspace says nothing.
    """
    cases = [_case(workload, inputs_name, seed) for seed in run.seeds]
    called = run_calls(library, launches, workload, [inputs for inputs, _ in cases], run)
    parts = [emulations for emulations, _ in called]
    for (inputs, expected), (emulations, output) in zip(cases, called, strict=False):
        verdict = judge(workload, [(inputs, expected, output)])
        if not verdict.passed or any(emulation.reports for emulation in emulations):
            return emulations, verdict
    reason = change_of_calls(called, workload, is_deterministic=is_deterministic)
    return parts[-1], replace(verdict, passed=not reason, reason=reason)


def change_of_calls(
    called: Sequence[tuple[Sequence[emulator.Emulation], Output]],
    workload: Workload,
    *,
    is_deterministic: bool,
) -> str:
    """What the last of several calls, on the inputs of the first, does otherwise; "" for nothing."""
    (first, before), (last, after) = called[0], called[-1]
    if (again := _arithmetic(last)) < _LEAST_WORK * _arithmetic(first):
        return f"called on the same input again it does {again} operations, before {_arithmetic(first)}"
    return differing(before, after, workload=workload, words=_TWO_CALLS) if is_deterministic else ""


_TWO_CALLS = "two calls on the same input differ by the order in which blocks come"


def _arithmetic(emulations: Sequence[emulator.Emulation]) -> int:
    """Operations of tensor cores and of threads on numbers."""
    return sum(emulation.counters.get(name, 0) for emulation in emulations for name in _ARITHMETIC)
