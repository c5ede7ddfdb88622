"""Runs a kernel under many schedules in the emulator and gathers what is wrong with it. Prints nothing.

Runs are made in other processes, so that a crash costs one run. Each run says what the emulator reported and
whether the result is right; together they show faults, and outputs that depend on the schedule. What is shown
holds for small shapes and under our reading of PTX. Nothing is timed, and what a kernel does without the ef::
layer is not seen.
"""

import itertools
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evoflash import operation as registry
from evoflash.app.check import text_findings
from evoflash.app.check.cases import (
    Case,
    OutputArray,
    WorkloadCase,
    call_on,
    difference,
    launch_own,
    no_numbers,
)
from evoflash.app.check.confined_runs import (
    MOST_FAILED,
    ConfinedRuns,
    Confinement,
    processes_for,
    run_briefly,
    run_whole,
)
from evoflash.app.check.coverage import NOTHING, Coverage, coverage_of
from evoflash.app.check.findings import Finding, Place, advice, from_report, merge, slow_accesses
from evoflash.app.check.one_run import (
    CaseRun,
    OneRun,
    Places,
    RunRecord,
    ToRun,
    crowding,
    lines_to_watch,
    name_of,
    places_told,
    with_callers,
)
from evoflash.app.check.subject import KernelUnderTest
from evoflash.app.check.text_findings import beyond_in, unseen_in
from evoflash.emulator.call import EmulatorRun
from evoflash.emulator.launch import Emulation, Site
from evoflash.emulator.preflight import CPU_LIMIT_S, change_of_calls, cpu_limit_s, run_of
from evoflash.errors import DeviceError
from evoflash.evaluation import Build, Candidate, Status, Verdict
from evoflash.isolation import Ending, IsolatedPool, raise_if_of_machine
from evoflash.kernels import gxx
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.launch import does_not_fit
from evoflash.operation import Delivery, Schedule, operation_of
from evoflash.validation.cases import draw_case
from evoflash.validation.plan import CheckLaunch, check_one_by_one, single_plan
from evoflash.validation.validator import describe_error
from evoflash.workload import ExpectedOutputs, Output, TestInput, Workload


def run_case(
    library: Path, case: Case, run: EmulatorRun, inputs_name: str, told: Collection[Places] = ()
) -> CaseRun:
    """One run of one case, and once more where its reports are to name callers of their second place, which
    earlier runs have not `told`.

    UsageError when the launch does not fit the kernel.
    """
    ran = _run_once(library, case, run, inputs_name)
    watched = lines_to_watch(ran, told)
    if not watched:
        return ran
    telling = gxx.build(
        library.with_suffix(".cu").read_text(), name=library.stem, tells_callers=True, sees_all=True
    )
    again = _run_once(telling, case, replace(run, watched=watched), inputs_name)
    return with_callers(ran, again)


def _run_once(library: Path, case: Case, run: EmulatorRun, inputs_name: str) -> CaseRun:
    if not isinstance(case, WorkloadCase):
        emulation, written = launch_own(library, case.launch, case.arguments, run)
        return _ran((emulation,), written=written)
    inputs, expected = draw_case(case.workload, inputs_name, run.seed)
    ((emulations, output),) = call_on(library, case, (inputs,), run)
    return judged_run(case, expected, inputs, emulations, output)


def judged_run(
    case: WorkloadCase,
    expected: ExpectedOutputs,
    inputs: TestInput,
    emulations: Sequence[Emulation],
    output: Output,
) -> CaseRun:
    """A run whose output is compared with the right one, unless a report says that it is but half of one."""
    if any(advice(report.kind).stops for part in emulations for report in part.reports):
        return _ran(emulations)
    plan = single_plan(case.workload, CheckLaunch(inputs), expected)
    verdict = check_one_by_one(plan, lambda _: output)
    wrong = () if verdict.passed else _wrong(case, expected, verdict, output)
    return replace(_ran(emulations, wrong=wrong, is_judged=True), rel_l2=verdict.rel_l2)


def judged_calls(
    case: WorkloadCase,
    drawn: Sequence[tuple[TestInput, ExpectedOutputs]],
    called: Sequence[tuple[Sequence[Emulation], Output]],
) -> CaseRun:
    """Calls one after the other in one memory: the first that is wrong, or what they are together."""
    made = [
        judged_run(case, expected, inputs, emulations, output)
        for (inputs, expected), (emulations, output) in zip(drawn, called, strict=True)
    ]
    bad = next((run for run in made if run.reports or run.wrong), None)
    if bad or len(called) == 1:
        return bad or made[0]
    deterministic = case.is_deterministic
    if reason := change_of_calls(called, case.workload, is_deterministic=deterministic):
        return replace(made[-1], wrong=(f"the result is wrong: {reason}",))
    return made[-1]


def _wrong(
    case: WorkloadCase, expected: ExpectedOutputs, verdict: Verdict, output: Output
) -> tuple[str, ...]:
    reason = verdict.reason
    if reason.startswith("lse "):
        return (f"the result is wrong: {reason}",)
    worst, extent = describe_error(case.workload, expected, output)
    return f"the result is wrong: {worst}", extent, f"the gate that it fails: {reason}"


def _ran(
    emulations: Sequence[Emulation],
    *,
    is_judged: bool = False,
    wrong: tuple[str, ...] = (),
    written: tuple[OutputArray, ...] = (),
) -> CaseRun:
    counters: Counter[str] = Counter()
    for emulation in emulations:
        counters.update(emulation.counters)
    return CaseRun(
        counters=counters,
        is_judged=is_judged,
        reports=tuple(report for emulation in emulations for report in emulation.reports),
        sites=tuple(site for emulation in emulations for site in emulation.sites),
        seconds=sum(emulation.seconds for emulation in emulations),
        wrong=wrong,
        written=written,
    )


def findings_of(subject: KernelUnderTest, runs: Sequence[OneRun]) -> tuple[Finding, ...]:
    """What was found by running, each kind once for a line. The runs of a case follow one another."""
    return (*merge(_of(one, shift=subject.shift) for one in runs), *_unsteady(runs))


def _of(one: OneRun, *, shift: int) -> list[Finding]:
    where = str(one.run)
    if isinstance(one.case, WorkloadCase):
        where += f", {one.inputs} inputs, {name_of(one.case)}"
    if one.ending.value is None:
        kind = "hang" if one.ending.status is Status.TIMEOUT else "crash"
        return [Finding(kind, one.ending.reason, runs=1, first_run=where)]
    findings = [from_report(report, run=where, shift=shift) for report in one.ending.value.reports]
    if one.ending.value.wrong:
        headline, *notes = one.ending.value.wrong
        places = tuple(Place(0, note) for note in notes)
        findings.append(Finding("wrong-result", headline, places=places, runs=1, first_run=where))
    return findings


def _unsteady(runs: Sequence[OneRun]) -> Iterator[Finding]:
    """Outputs that depend on the schedule, or that nobody wrote. Runs with reports say nothing of it."""
    findings: dict[tuple[str, str], Finding] = {}
    clean = (one for one in runs if one.is_clean)
    for _, of_case in itertools.groupby(clean, key=lambda one: id(one.case)):
        first, *others = of_case
        for array in first.outputs:
            if array.poisoned:
                text = f"{array.poisoned} of {array.values.size} elements of '{array.name}' were not written"
                findings["unwritten-output", array.name] = Finding("unwritten-output", text)
            if (broken := no_numbers(array) - array.poisoned) > 0:  # what is poisoned is a NaN, too
                text = f"{broken} of {array.values.size} elements of '{array.name}' were written as NaN"
                findings["not-a-number", array.name] = Finding("not-a-number", text)
        for other in others:
            for name, finding in _differences(first, other):
                findings.setdefault(("schedule-dependent", name), finding)
    yield from findings.values()


def _differences(first: OneRun, other: OneRun) -> Iterator[tuple[str, Finding]]:
    """The output arrays that two runs of a case left unequal."""
    between = Place(0, f"between {first.run} and {other.run}")
    for one, another in zip(first.outputs, other.outputs, strict=True):
        if text := difference(one, another):
            yield one.name, Finding("schedule-dependent", text, places=(between,))


def clean_sites(runs: Sequence[OneRun]) -> Iterator[Site]:
    """The accesses of runs without a report: what a broken run moves says nothing about speed."""
    for one in runs:
        if one.is_clean and one.ending.value:
            yield from one.ending.value.sites


_DELIVERIES: tuple[Delivery, ...] = ("lazy", "random", "eager")
_SCHEDULES: tuple[Schedule, ...] = ("fifo", "random")
_FIRST: tuple[tuple[Delivery, Schedule], ...] = (
    ("lazy", "fifo"),
    ("random", "random"),
    ("eager", "fifo"),
    ("random", "random"),
)
_ORDERS, _APART = 5, 1000  # of threads, where one in four does not show a fault; and their seeds
_GRACE_S = 30.0  # over the launches' CPU limits: a process starts, a reference is computed


@dataclass(frozen=True, slots=True, eq=False)
class CheckReport:
    """A subject and everything that was found."""

    subject: KernelUnderTest
    path: Path  # of the file that findings point into
    runs: tuple[RunRecord, ...]
    findings: tuple[Finding, ...]
    build: Build | None  # None where NVRTC was not asked, or refused
    notes: tuple[str, ...]
    coverage: Coverage

    @property
    def verdict(self) -> str:
        """ "failed", "passed", or "unjudged" where nothing was found and nothing compared, or something
        could not be run.
        """
        if self.errors:
            return "failed"
        if any(finding.kind == "gpu-only" for finding in self.findings):
            return "unjudged"
        return "passed" if self.coverage.compared else "unjudged"

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors

    def as_dict(self) -> dict[str, Any]:
        """What was checked, every run and every finding; docs/check.md describes it."""
        subject, build, lines = self.subject, self.build, self.subject.shown.splitlines()
        genome = subject.candidate.genome if subject.candidate else None
        return {
            "title": subject.title,
            "file": str(self.path),
            "gpu": subject.gpu.name if subject.gpu else None,
            "genome": genome.id if genome and genome.values else None,
            "verdict": self.verdict,
            **self.coverage.as_dict(),
            "notes": list(self.notes),
            "registers": build.registers if build else None,
            "spill_bytes": build.spill_bytes if build else None,
            "runs": [record.as_dict() for record in self.runs],
            "findings": [finding.as_dict(lines) for finding in self.findings],
        }


def reports_as_dict(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """Whether any has errors, their numbers, and each report."""
    errors = sum(report.errors for report in reports)
    verdicts = {report.verdict for report in reports}
    return {
        "verdict": next((worst for worst in ("failed", "unjudged") if worst in verdicts), "passed"),
        "errors": errors,
        "warnings": sum(report.warnings for report in reports),
        "checked": [report.as_dict() for report in reports],
    }


def plan(
    runs: int, *, seed: int, registers: int = 0, workload: Workload | None = None, at_kind: int = 0
) -> tuple[tuple[EmulatorRun, str], ...]:
    """That many runs and the kinds of inputs for them, from the `at_kind`-th on: the likeliest to find
    something come first, then every delivery with every schedule. With a workload, one run in four wants no
    optional output, one in four has tensors that are not dense, and every other one another scale.
    """
    operation = operation_of(workload) if workload else registry.default()
    kinds = operation.inputs.scheduled
    tensors = operation.tensors(workload) if workload else ()
    optional = tuple(spec.name for spec in tensors if spec.is_optional)
    rest = itertools.cycle(itertools.product(_DELIVERIES, _SCHEDULES))
    choices = itertools.islice(itertools.chain(_FIRST, rest), runs)
    planned = []
    for at, (delivery, schedule) in enumerate(choices):
        without = optional if at % 4 == 2 else ()
        is_strided = workload is not None and at % 4 == 1
        is_rescaled = operation.rescale is not None and workload is not None and at % 2 == 1
        run = EmulatorRun(
            *(delivery, schedule, seed + at, CPU_LIMIT_S, registers, without, is_strided),
            is_rescaled=is_rescaled,
        )
        planned.append((run, kinds[(at_kind + at) % len(kinds)]))
    return tuple(planned)


def check_kernel(
    subject: KernelUnderTest, *, runs: int, seed: int, confinement: Confinement | None = None
) -> CheckReport:
    """Everything that `runs` runs of each case and the compilers find. DeviceError without g++.

    With a `confinement` g++ and the kernel work inside of it. Without one they have this user's rights.
    """
    boundary = confinement.boundary if confinement else None
    gxx.runtime()  # once, before the processes ask for it
    begun_s = time.monotonic()
    unseen, beyond = unseen_in(subject.unseen, shift=subject.shift), beyond_in(subject.beyond)
    try:
        library = gxx.build(subject.source, name=subject.name, sees_all=True, boundary=boundary)
    except gxx.KernelBuildError as error:
        refused = text_findings.from_gcc(error.log, file=f"{subject.name}.cu", shift=subject.shift)
        # What g++ says of a text that holds names of these follows from them.
        refused = beyond or refused
        path = subject.path or Path(f"{subject.name}.cu")
        return CheckReport(subject, path, (), (*unseen, *refused), None, subject.notes, NOTHING)
    build, compiled, notes = _compile(subject, is_foreign=confinement is not None)
    if confinement is None:
        to_run = _to_run(subject, build, runs=runs, seed=seed)
        ran = _run_all(library, to_run)
    else:

        def library_of(text: str) -> Path:
            if not text:
                return library
            return gxx.build(text, name=subject.name, sees_all=True, boundary=boundary)

        deadline_s = begun_s + confinement.seconds
        confined = ConfinedRuns(
            confinement.boundary, deadline_s, judged_calls, confinement.memory_bytes, library_of
        )
        planned = _planned_runs(subject, build, seed=seed)
        if confinement.is_brief:
            ran, to_run = run_briefly(confined, *_few_runs(subject, build, planned, seed=seed))
        else:
            to_run = [*planned, *_to_run(subject, build, runs=runs, seed=seed)]
            ran = run_whole(confined, to_run, text=subject.source, name=subject.name)
    if len(ran) < len(to_run):
        why = "after one that does not end" if any(one.is_endless for one in ran) else "for want of time"
        why = "after those that failed" if sum(not one.is_right for one in ran) >= MOST_FAILED else why
        notes = (*notes, f"{len(to_run) - len(ran)} runs were not made {why}.")
    found = findings_of(subject, ran)
    known = {(finding.kind, finding.line) for finding in found}
    unseen = tuple(finding for finding in unseen if (finding.kind, finding.line) not in known)
    # What the emulator cannot run was named where a thread came to it; what none came to has no weight.
    findings = (*_launches_that_do_not_fit(subject, build), *found, *compiled, *unseen)
    slow = slow_accesses(clean_sites(ran), shift=subject.shift)
    return CheckReport(
        subject,
        path=subject.path or library.with_suffix(".cu"),
        runs=tuple(one.record() for one in ran),
        findings=tuple(sorted((*findings, *slow), key=lambda finding: finding.severity != "error")),
        build=build,
        notes=(*subject.notes, *notes),
        coverage=coverage_of(subject, ran),
    )


def _to_run(subject: KernelUnderTest, build: Build | None, *, runs: int, seed: int) -> list[ToRun]:
    """Each case's runs. Few runs do not have all kinds of inputs: the next case goes on with them."""
    registers = build.registers if build else 0
    to_run: list[ToRun] = []
    for at, case in enumerate(subject.cases):
        workload = case.workload if isinstance(case, WorkloadCase) else None
        # Without a reference there is nothing but another run to compare with.
        times = runs if workload else max(runs, 2)
        for run, inputs in plan(times, seed=seed, registers=registers, workload=workload, at_kind=at * runs):
            if isinstance(case, WorkloadCase):
                run = replace(run, cpu_limit_s=cpu_limit_s(case.launches, case.workload))
                if case.arguments:  # dense ones, of one scale
                    run = replace(run, without=_missing(case), is_strided=False, is_rescaled=False)
            to_run.append(ToRun(case, run, inputs))
    return to_run


def _missing(case: WorkloadCase) -> tuple[str, ...]:
    """The outputs for which a kernel with arguments of its own has none."""
    names = {argument.name for argument in case.arguments}
    specs = operation_of(case.workload).tensors(case.workload)
    return tuple(spec.name for spec in specs if spec.role != "input" and spec.name not in names)


def _planned_runs(subject: KernelUnderTest, build: Build | None, *, seed: int) -> list[ToRun]:
    """Those of the pre-flight, each as it is planned. Where blocks share the work, who takes what goes by the
    order of their threads: those runs are made in several.
    """
    registers, to_run = build.registers if build else 0, list[ToRun]()
    for at, each in enumerate(subject.planned):
        run = run_of(each.planned, each.case.launches, seed=seed + at, registers=registers)
        orders = _ORDERS if each.case.sms > 1 else 1
        others = (replace(run, schedule="random", seed=run.seed + _APART * n) for n in range(1, orders))
        to_run += (ToRun(each.case, way, each.planned.inputs, each.text) for way in (run, *others))
    return to_run


def _few_runs(
    subject: KernelUnderTest, build: Build | None, planned: Sequence[ToRun], *, seed: int
) -> tuple[list[ToRun], list[ToRun]]:
    """The planned runs, and one of each workload that has none, or all of a kernel with arguments of its own;
    and those of which some are made once more: strided, with another scale.
    """
    known = {each.case.workload for each in planned if isinstance(each.case, WorkloadCase)}
    first, again = [*planned], list[ToRun]()
    for each in _to_run(subject, build, runs=2, seed=seed):
        if not isinstance(each.case, WorkloadCase):
            first.append(each)
        elif each.run.is_strided:
            again.append(each)
        elif each.case.workload not in known:
            first.append(each)
    return first, again


def _run_all(library: Path, to_run: Sequence[ToRun]) -> list[OneRun]:
    """The runs that were made: those that have not begun when one turns out to be endless are left out."""
    processes = processes_for(to_run)
    ran: list[OneRun] = []
    told: frozenset[Places] = frozenset()
    with IsolatedPool(processes) as pool:
        under_way: deque[tuple[ToRun, Future[Ending[CaseRun]]]] = deque()
        waiting = deque(to_run)
        while waiting or under_way:
            while waiting and len(under_way) < 2 * processes:
                one = waiting.popleft()
                under_way.append((one, _start(pool, library, one, told)))
            one, future = under_way.popleft()
            ending = future.result()
            raise_if_of_machine(ending)
            ran.append(OneRun(one, ending))
            if ending.value:
                told |= places_told(ending.value)
            if ran[-1].is_endless:
                waiting.clear()
    return ran


def _start(pool: IsolatedPool, library: Path, one: ToRun, told: frozenset[Places]) -> Future[Ending[CaseRun]]:
    limit_s = len(one.case.launches) * one.run.cpu_limit_s * crowding() + _GRACE_S
    return pool.submit(run_case, library, one.case, one.run, one.inputs, told, timeout_s=limit_s)


def _launches_that_do_not_fit(subject: KernelUnderTest, build: Build | None) -> list[Finding]:
    gpu = subject.gpu
    if gpu is None:
        return []
    launches = {launch for case in subject.cases for launch in case.launches}
    sizes = {launch.smem_bytes for launch in launches if launch.smem_bytes > gpu.smem_per_block}
    texts = [f"{size} bytes of shared memory; {gpu.name} allows {gpu.smem_per_block}" for size in sizes]
    if build is not None:
        static = build.smem_static_bytes
        reasons = (
            does_not_fit(launch, gpu, registers=build.registers, smem_static_bytes=static)
            for launch in launches
        )
        texts += sorted(set(filter(None, reasons)))
    return [Finding("cannot-launch", text) for text in texts]


_MOST_COMPILING_S = 60.0


def _compiled_apart(candidate: Candidate) -> Build:
    """Somebody else's text by NVRTC in a process of its own: it may take for ever, or the process with it."""
    with IsolatedPool(1) as pool:
        ending = pool.submit(compile_candidate, candidate, timeout_s=_MOST_COMPILING_S).result()
    raise_if_of_machine(ending)
    if ending.value is None:
        raise DeviceError(f"NVRTC came to no end: {ending.reason}")
    return ending.value


def _compile(
    subject: KernelUnderTest, *, is_foreign: bool
) -> tuple[Build | None, tuple[Finding, ...], tuple[str, ...]]:
    """What NVRTC and ptxas make of the text for the GPU; without NVRTC a note says so."""
    if subject.candidate is None:
        return None, (), ()
    # NVRTC runs outside of the sandbox, and reads what a text includes.
    if (is_foreign and subject.unseen) or subject.beyond:
        return None, (), ("NVRTC was not asked about a text that holds what the emulator does not see.",)
    try:
        build = _compiled_apart(subject.candidate) if is_foreign else compile_candidate(subject.candidate)
    except DeviceError as error:
        return None, (), (f"ptxas was not asked: {error}",)
    if not build.ok:
        refusal = text_findings.from_nvrtc(build.log, file=f"{subject.name}.cu", shift=subject.shift)
        return None, refusal, ()
    warnings = text_findings.from_build(build, arch=subject.candidate.compile_key.arch)
    return build, warnings, ()
