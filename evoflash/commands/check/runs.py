"""Runs a kernel under many schedules in the emulator and gathers what is wrong with it; prints nothing.

A crash costs one run: the processes are not this one. What is shown holds for small shapes and under our
reading of PTX; nothing is timed, and what goes around ef:: is not seen.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from evoflash.commands.check import compiler_messages
from evoflash.commands.check.case_run import Ran, run_case
from evoflash.commands.check.findings import Finding, Place, from_report, merge, slow_accesses
from evoflash.commands.check.own_kernel_run import Written, difference
from evoflash.commands.check.subject import Case, Subject, WorkloadCase
from evoflash.compilers import gxx
from evoflash.compilers.nvrtc import compile_candidate
from evoflash.cuda.capacity import does_not_fit
from evoflash.emulator.call import Run
from evoflash.emulator.launch import Site
from evoflash.emulator.preflight import CPU_LIMIT_S
from evoflash.errors import DeviceError
from evoflash.evaluation import Build, Status
from evoflash.isolation import Ending, IsolatedPool
from evoflash.operation import Delivery, Schedule, Workload
from evoflash.operations import operation_of

_DELIVERIES: tuple[Delivery, ...] = ("lazy", "random", "eager")
_SCHEDULES: tuple[Schedule, ...] = ("fifo", "random")
_FIRST: tuple[tuple[Delivery, Schedule], ...] = (
    ("lazy", "fifo"),
    ("random", "random"),
    ("eager", "fifo"),
    ("random", "random"),
)
_MOST_PROCESSES = 4
_RUNS_OF_A_PROCESS = 8  # starting one costs as much as these many ordinary runs
_GRACE_S = 30.0  # over the launches' CPU limits: a process starts, a reference is computed


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the report lists it."""

    case: str
    run: Run
    inputs: str  # the kind of them; empty for a kernel with arguments of its own
    seconds: float | None  # None where its process was lost


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A subject and everything that was found."""

    subject: Subject
    path: Path  # of the file that findings point into
    runs: tuple[RunRecord, ...]
    findings: tuple[Finding, ...]
    build: Build | None  # None where NVRTC was not asked, or refused
    notes: tuple[str, ...]

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors


def plan(
    runs: int, *, seed: int, registers: int = 0, workload: Workload | None = None
) -> tuple[tuple[Run, str], ...]:
    """That many runs and the kinds of inputs for them: the likeliest to find something first, then every
    delivery with every schedule. With a workload, one run in four wants no optional output.
    """
    kinds: tuple[str, ...] = ("",)
    optional: tuple[str, ...] = ()
    if workload is not None:
        operation = operation_of(workload)
        kinds = operation.inputs.scheduled
        optional = tuple(spec.name for spec in operation.tensors(workload) if spec.is_optional)
    rest = itertools.cycle(itertools.product(_DELIVERIES, _SCHEDULES))
    choices = itertools.islice(itertools.chain(_FIRST, rest), runs)
    return tuple(
        (
            Run(
                delivery,
                schedule,
                seed + at,
                CPU_LIMIT_S,
                registers,
                without=optional if at % 4 == 2 else (),
            ),
            kinds[at % len(kinds)],
        )
        for at, (delivery, schedule) in enumerate(choices)
    )


def check(subject: Subject, *, runs: int, seed: int) -> Checked:
    """Everything that `runs` runs of each case and the compilers find. DeviceError without g++."""
    gxx.runtime()  # once, before the processes ask for it
    unseen = [Finding("unseen", what, line=line + subject.shift) for what, line in subject.unseen]
    try:
        library = gxx.build(subject.source, name=subject.name)
    except gxx.KernelBuildError as error:
        found = compiler_messages.from_gcc(error.log, file=f"{subject.name}.cu", shift=subject.shift)
        path = subject.path or Path(f"{subject.name}.cu")
        return Checked(subject, path, (), (*found, *unseen), None, subject.notes)
    build, compiled, notes = _compiled(subject)
    first = subject.cases[0]
    workload = first.workload if isinstance(first, WorkloadCase) else None
    registers = build.registers if build else 0
    planned = plan(runs, seed=seed, registers=registers, workload=workload)
    todo = list(itertools.product(range(len(subject.cases)), planned))
    processes = min(-(-len(todo) // _RUNS_OF_A_PROCESS), os.cpu_count() or 1, _MOST_PROCESSES)
    with IsolatedPool(processes) as pool:
        futures = [_start(pool, library, subject.cases[case], run, inputs) for case, (run, inputs) in todo]
        endings = [future.result() for future in futures]
    records = tuple(
        RunRecord(_name(subject.cases[case]), run, inputs, ending.value.seconds if ending.value else None)
        for (case, (run, inputs)), ending in zip(todo, endings, strict=True)
    )
    found = merge(_findings(subject, records, endings))
    slow = slow_accesses(_clean_sites(endings), shift=subject.shift)
    findings = sorted(
        (
            *_launches_that_do_not_fit(subject, build),
            *found,
            *_unsteady(todo, records, endings),
            *compiled,
            *unseen,
            *slow,
        ),
        key=lambda finding: finding.severity != "error",
    )
    path = subject.path or library.with_suffix(".cu")
    return Checked(subject, path, records, tuple(findings), build, (*subject.notes, *notes))


def _name(case: Case) -> str:
    if isinstance(case, WorkloadCase):
        return str(case.workload) + (", on one SM" if case.is_crowded else "")
    return f"grid {case.launch.grid}, block {case.launch.block}".replace(" ", "")


def _start(pool: IsolatedPool, library: Path, case: Case, run: Run, inputs: str) -> "Future[Ending[Ran]]":
    launches = len(case.launches) if isinstance(case, WorkloadCase) else 1
    return pool.submit(run_case, library, case, run, inputs, timeout_s=launches * run.cpu_limit_s + _GRACE_S)


# ---- findings


def _findings(
    subject: Subject, records: Sequence[RunRecord], endings: Sequence[Ending[Ran]]
) -> Iterator[list[Finding]]:
    for record, ending in zip(records, endings, strict=True):
        where = str(record.run)
        if isinstance(subject.cases[0], WorkloadCase):
            where += f", {record.inputs} inputs, {record.case}"
        if ending.value is None:
            kind = "hang" if ending.status is Status.TIMEOUT else "crash"
            yield [Finding(kind, ending.reason, runs=1, first_run=where)]
            continue
        found = [from_report(report, run=where, shift=subject.shift) for report in ending.value.reports]
        if ending.value.wrong:
            headline, *notes = ending.value.wrong
            places = tuple(Place(0, note) for note in notes)
            found.append(Finding("wrong-result", headline, places=places, runs=1, first_run=where))
        yield found


def _unsteady(
    todo: Sequence[tuple[int, object]], records: Sequence[RunRecord], endings: Sequence[Ending[Ran]]
) -> list[Finding]:
    """Outputs that depend on the schedule, or that nobody wrote; silent where a run has reports."""
    clean = [at for at, ending in enumerate(endings) if ending.value and not ending.value.reports]
    found: dict[tuple[str, str], Finding] = {}
    for _, same in itertools.groupby(clean, key=lambda at: todo[at][0]):
        first, *others = same
        for array in _written(endings[first]):
            if array.poisoned:
                text = f"{array.poisoned} of {array.values.size} elements of '{array.name}' were not written"
                found["unwritten-output", array.name] = Finding("unwritten-output", text)
        for at in others:
            between = Place(0, f"between {records[first].run} and {records[at].run}")
            for one, other in zip(_written(endings[first]), _written(endings[at]), strict=True):
                if text := difference(one, other):
                    finding = Finding("schedule-dependent", text, places=(between,))
                    found.setdefault(("schedule-dependent", one.name), finding)
    return list(found.values())


def _written(ending: Ending[Ran]) -> tuple[Written, ...]:
    return ending.value.written if ending.value else ()


def _clean_sites(endings: Sequence[Ending[Ran]]) -> Iterator[Site]:
    """The accesses of runs without a report: what a broken run moves says nothing about speed."""
    for ending in endings:
        if ending.value and not ending.value.reports:
            yield from ending.value.sites


def _launches_that_do_not_fit(subject: Subject, build: Build | None) -> list[Finding]:
    """Launches that the GPU has no room for."""
    gpu = subject.gpu
    if gpu is None:
        return []
    launches = {
        launch
        for case in subject.cases
        for launch in (case.launches if isinstance(case, WorkloadCase) else (case.launch,))
    }
    sizes = {launch.smem_bytes for launch in launches if launch.smem_bytes > gpu.smem_per_block}
    texts = [f"{size} bytes of shared memory; {gpu.name} allows {gpu.smem_per_block}" for size in sizes]
    if build is not None:
        static = build.smem_static_bytes
        reasons = (
            does_not_fit(each, gpu, registers=build.registers, smem_static_bytes=static) for each in launches
        )
        texts += sorted(set(filter(None, reasons)))
    return [Finding("cannot-launch", text) for text in texts]


def _compiled(subject: Subject) -> tuple[Build | None, tuple[Finding, ...], tuple[str, ...]]:
    """What NVRTC and ptxas make of the text for the GPU; without NVRTC a note says so."""
    if subject.candidate is None:
        return None, (), ()
    try:
        build = compile_candidate(subject.candidate)
    except DeviceError as error:
        return None, (), (f"ptxas was not asked: {error}",)
    if not build.ok:
        refusal = compiler_messages.from_nvrtc(build.log, file=f"{subject.name}.cu", shift=subject.shift)
        return None, refusal, ()
    found = compiler_messages.from_build(build, arch=subject.candidate.compile_key.arch)
    return build, found, ()
