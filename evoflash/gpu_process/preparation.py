"""What a GPU process does before its first task: references, imports, kernels that check.

A search begins with it, and nothing is checked before it is done: the process that comes first uses several
cores, has others compute for it, and makes its context meanwhile. Those that stand by make none.
"""

import contextlib
import importlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evoflash.cuda import comparisons, device_checks, launcher
from evoflash.gpu_process import cache
from evoflash.operation import Workload
from evoflash.operation.registry import operation_of
from evoflash.validation import cases
from evoflash.validation.correctness import names_of

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
        threads.submit(
            launcher.warm_up
        )  # half a second; whoever needs the context hears what is wrong with it
        for source in _sources(timed):  # first: the compiler takes a second for each where none is cached
            threads.submit(_compile, source)
        for workload in timed:
            for name in cache.names_of_large(workload):
                threads.submit(cache.large, workload, name, seed)
        for workload in checks:  # from the end come others: see keep_cases()
            threads.submit(cache.plan, workload, seed)


def _sources(timed: tuple[Workload, ...]) -> tuple[Path, ...]:
    """What the first candidate's checks launch besides the candidate."""
    references = [operation_of(workload).device_reference for workload in timed]
    at_size = [reference.source for reference in references if reference is not None]
    return tuple(dict.fromkeys((*at_size, comparisons.SOURCE, device_checks.SOURCE)))


def _compile(source: Path) -> None:
    capability = launcher.present_gpu().compute_capability
    device_checks.cubin_path(f"sm_{capability}", source)


def keep_cases(folder: str, workload: Workload, seed: int) -> None:
    """Compute what a kernel is compared with on a check shape, for the GPU process that shares the folder."""
    for name in names_of(workload):
        cases.keep_case(folder, workload, name, seed)


def prepare_finals(timed: tuple[Workload, ...], seed: int) -> None:
    """Import what finals time beside the candidates, and compute what all of that is judged by afterwards.

    A library that is missing or broken is said when it is called.
    """
    launcher.cupy()
    for workload in timed:
        cache.large(workload, operation_of(workload).inputs.after_timing, seed)
    for name in _LIBRARIES:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
