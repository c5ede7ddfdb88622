"""What a GPU process is asked to do, and what it does before its first task. Starts no process.

Beforehand it computes references, imports what it needs and compiles the kernels that check.
"""

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from evoflash.gpu import comparisons, launcher
from evoflash.gpu.baselines import compile_ahead
from evoflash.gpu.process import cache
from evoflash.gpu.process.finals import FinalReport, FinalTask, run_noting
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask, check_task, screen, time_correct
from evoflash.isolation import Ending
from evoflash.operation import operation_of
from evoflash.validation import cases
from evoflash.validation.cases import large_case, names_of_large
from evoflash.workload import Workload

REFERENCES_LIMIT_S = 600  # for all that is computed beforehand
_LOT = 7
_LIBRARIES = ("torch", "flash_attn_interface", "flash_attn.cute.interface", "flashinfer")


def prepare(
    checks: tuple[Workload, ...], timed: tuple[Workload, ...], seed: int, hurries: bool = False
) -> None:
    """Import CuPy and compute what candidates are compared with; in threads where it `hurries`."""
    launcher.cupy()  # takes a second
    if hurries:
        _compute_at_once(checks, timed, seed)
    cache.precompute_references(checks, timed, seed)


def _compute_at_once(checks: tuple[Workload, ...], timed: tuple[Workload, ...], seed: int) -> None:
    """What precompute_references() then finds done; NumPy lets go of the interpreter in its long loops."""
    with ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0)) // 2)) as threads:
        # half a second; whoever needs the context hears what is wrong with it
        threads.submit(launcher.warm_up)
        for name, text in _texts(timed).items():  # first: a second for each where none is cached
            threads.submit(_compile, name, text)
        for workload in timed:
            for name in names_of_large(workload):
                threads.submit(large_case, workload, name, seed)
        for workload in sorted(checks, key=lambda each: each.flops):  # from the end come others: keep_cases()
            threads.submit(cache.plan, workload, seed)


def _texts(timed: tuple[Workload, ...]) -> dict[str, str]:
    """What the first candidate's checks launch besides the candidate, by name."""
    references = [operation_of(workload).device_reference for workload in timed]
    at_size = {reference.entry: reference.text for reference in references if reference is not None}
    return {**at_size, comparisons.SOURCE.stem: comparisons.SOURCE.read_text(encoding="utf-8")}


def _compile(name: str, text: str) -> None:
    comparisons.cubin_of(f"sm_{launcher.present_gpu().compute_capability}", name, text)


def in_lots(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Kinds of input, a few at a time: all of a large check shape's take one process four seconds."""
    yield from (names[first : first + _LOT] for first in range(0, len(names), _LOT))


def keep_cases(folder: str, workload: Workload, names: Sequence[str], seed: int) -> None:
    """Compute what a kernel is compared with on a check shape with some kinds of input, for the GPU process
    that shares the folder.
    """
    for name in names:
        cases.keep_case(folder, workload, name, seed)


def prepare_finals(timed: tuple[Workload, ...], seed: int) -> None:
    """Import and compile what finals time beside the candidates, and compute what all of it is judged by.

    A library that is missing or broken is said when it is called.
    """
    launcher.cupy()
    for workload in timed:
        large_case(workload, operation_of(workload).inputs.after_timing, seed)
    for name in _LIBRARIES:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
    for workload in timed:
        compile_ahead(workload)


@dataclass(frozen=True, slots=True)
class Jobs:
    """What the GPU processes are asked to do. Tests give others, which break as they want."""

    warm_up: Callable[[], None] = launcher.warm_up
    precompute_references: Callable[..., None] = prepare
    prepare_finals: Callable[..., None] = prepare_finals
    screen: Callable[[GpuTask], GpuOutcome] = screen
    check: Callable[[GpuTask], GpuOutcome] = check_task
    time_correct: Callable[[GpuTask, GpuOutcome], GpuOutcome] = time_correct
    finals: Callable[[FinalTask], Ending[FinalReport]] = run_noting
    memory: Callable[[], tuple[int, int]] = launcher.memory_bytes
