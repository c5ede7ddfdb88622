"""What a GPU process does before it has a context: references, imports, kernels that check. Makes no context.

A search begins with it, and nothing is checked before it is done: the process that comes first uses several
cores.
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
        for source in _sources(timed):  # first: the compiler takes a second for each where none is cached
            threads.submit(_compile, source)
        for workload in timed:
            for name in _names(workload):
                threads.submit(cache.large, workload, name, seed)
        for workload in reversed(checks):
            threads.submit(cache.plan, workload, seed)


def _sources(timed: tuple[Workload, ...]) -> tuple[Path, ...]:
    """What the first candidate's checks launch besides the candidate."""
    references = [operation_of(workload).device_reference for workload in timed]
    at_size = [reference.source for reference in references if reference is not None]
    return tuple(dict.fromkeys((*at_size, comparisons.SOURCE, device_checks.SOURCE)))


def _compile(source: Path) -> None:
    capability = launcher.present_gpu().compute_capability
    device_checks.cubin_path(f"sm_{capability}", source)


def _names(workload: Workload) -> tuple[str, ...]:
    names = operation_of(workload).inputs
    return *names.at_size, names.after_timing


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
