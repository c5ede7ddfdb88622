"""Runs a kernel under many schedules in the emulator, and gathers what is wrong with it. Prints nothing.

A crash costs one run, because runs are made in other processes. What is shown holds for small shapes and
under our reading of PTX. Nothing is timed, and what a kernel does without ef:: is not seen.
"""

import itertools
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from evoflash.commands.check import compiler_messages
from evoflash.commands.check.case_run import Ran, run_case
from evoflash.commands.check.findings import Finding, slow_accesses
from evoflash.commands.check.run_findings import OneRun, RunRecord, clean_sites, seen
from evoflash.commands.check.subject import Case, Subject, WorkloadCase
from evoflash.commands.check.unseen import unseen_in
from evoflash.compilers import gxx
from evoflash.compilers.nvrtc import compile_candidate
from evoflash.cuda.capacity import does_not_fit
from evoflash.emulator.call import Run
from evoflash.emulator.preflight import CPU_LIMIT_S, cpu_limit_s
from evoflash.errors import DeviceError
from evoflash.evaluation import Build
from evoflash.isolation import Ending, IsolatedPool
from evoflash.operation import Delivery, Schedule, Workload, registry
from evoflash.operation.registry import operation_of

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
    runs: int, *, seed: int, registers: int = 0, workload: Workload | None = None, at_kind: int = 0
) -> tuple[tuple[Run, str], ...]:
    """That many runs and the kinds of inputs for them, from the `at_kind`-th on: the likeliest to find
    something come first, then every delivery with every schedule. With a workload, one run in four wants no
    optional output, and one in four has tensors that are not dense.
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
        run = Run(delivery, schedule, seed + at, CPU_LIMIT_S, registers, without, is_strided)
        planned.append((run, kinds[(at_kind + at) % len(kinds)]))
    return tuple(planned)


def check(subject: Subject, *, runs: int, seed: int) -> Checked:
    """Everything that `runs` runs of each case and the compilers find. DeviceError without g++."""
    gxx.runtime()  # once, before the processes ask for it
    unseen = unseen_in(subject.source.splitlines(), subject.unseen, shift=subject.shift)
    try:
        library = gxx.build(subject.source, name=subject.name)
    except gxx.KernelBuildError as error:
        refused = compiler_messages.from_gcc(error.log, file=f"{subject.name}.cu", shift=subject.shift)
        path = subject.path or Path(f"{subject.name}.cu")
        return Checked(subject, path, (), (*unseen, *refused), None, subject.notes)
    build, compiled, notes = _compiled(subject)
    to_run = _to_run(subject, build, runs=runs, seed=seed)
    ran = _run_all(library, to_run)
    if len(ran) < len(to_run):
        notes = (*notes, f"{len(to_run) - len(ran)} runs were not made after one that does not end.")
    findings = (*_launches_that_do_not_fit(subject, build), *seen(subject, ran), *compiled, *unseen)
    slow = slow_accesses(clean_sites(ran), shift=subject.shift)
    return Checked(
        subject,
        path=subject.path or library.with_suffix(".cu"),
        runs=tuple(one.record() for one in ran),
        findings=tuple(sorted((*findings, *slow), key=lambda finding: finding.severity != "error")),
        build=build,
        notes=(*subject.notes, *notes),
    )


def _to_run(subject: Subject, build: Build | None, *, runs: int, seed: int) -> list[tuple[Case, Run, str]]:
    """Each case's runs. Few runs do not have all kinds of inputs: the next case goes on with them."""
    registers = build.registers if build else 0
    to_run: list[tuple[Case, Run, str]] = []
    for at, case in enumerate(subject.cases):
        workload = case.workload if isinstance(case, WorkloadCase) else None
        for run, inputs in plan(runs, seed=seed, registers=registers, workload=workload, at_kind=at * runs):
            if isinstance(case, WorkloadCase):
                run = replace(run, cpu_limit_s=cpu_limit_s(case.launches, case.workload))
            to_run.append((case, run, inputs))
    return to_run


def _run_all(library: Path, to_run: Sequence[tuple[Case, Run, str]]) -> list[OneRun]:
    """The runs that were made: those that have not begun when one turns out to be endless are left out."""
    processes = min(-(-len(to_run) // _RUNS_OF_A_PROCESS), os.cpu_count() or 1, _MOST_PROCESSES)
    ran: list[OneRun] = []
    with IsolatedPool(processes) as pool:
        under_way: deque[tuple[tuple[Case, Run, str], Future[Ending[Ran]]]] = deque()
        waiting = deque(to_run)
        while waiting or under_way:
            while waiting and len(under_way) < 2 * processes:
                one = waiting.popleft()
                under_way.append((one, _start(pool, library, *one)))
            one, future = under_way.popleft()
            ran.append(OneRun(*one, future.result()))
            if ran[-1].is_endless:
                waiting.clear()
    return ran


def _start(pool: IsolatedPool, library: Path, case: Case, run: Run, inputs: str) -> Future[Ending[Ran]]:
    launches = len(case.launches) if isinstance(case, WorkloadCase) else 1
    # CPU seconds take longer where more processes want to run than there are cores.
    waits = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    limit_s = launches * run.cpu_limit_s * waits + _GRACE_S
    return pool.submit(run_case, library, case, run, inputs, timeout_s=limit_s)


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
            does_not_fit(launch, gpu, registers=build.registers, smem_static_bytes=static)
            for launch in launches
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
    warnings = compiler_messages.from_build(build, arch=subject.candidate.compile_key.arch)
    return build, warnings, ()
