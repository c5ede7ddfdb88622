"""Kernels of other libraries, timed by the same code on the same memory as the candidates. Each library is
optional: where it is missing or has no kernel for a workload it is absent, with the reason. Its output is
judged as a candidate's is, in gpu_process/finals.py.

    attention/        Attention of other libraries
    contender         A library's kernel on the memory of a bench
    linear/           The linear layer of other libraries
    paged_attention/  Paged attention of other libraries
"""

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    BaselineFailedError,
    LibraryCall,
    LibraryContender,
    attempt,
    check_device,
    reason_of,
)
from evoflash.gpu.timing.benchmark import Bench
from evoflash.workload import Workload

__all__ = [
    "DEFAULT",
    "NAMES",
    "OPTIONAL",
    "BaselineAbsentError",
    "BaselineFailedError",
    "LibraryContender",
    "baseline",
    "compile_ahead",
    "computing",
]

_FILES = {
    "sdpa_flash": "attention.sdpa",
    "sdpa_cudnn": "attention.sdpa",
    "sdpa_efficient": "attention.sdpa",
    "sdpa_math": "attention.sdpa",
    "triton": "attention.triton",
    "fa3": "attention.flash_attention_3",
    "fa4": "attention.flash_attention_4",
    "fa4_tuned": "attention.flash_attention_4",
    "flashinfer": "attention.flashinfer",
    "xformers": "attention.xformers",
    "cublaslt": "linear.pytorch",
    "scaled_mm": "linear.pytorch",
    "flashinfer_block": "linear.flashinfer",
    "flashinfer_block_fp8x": "linear.flashinfer",
    "fa3_paged": "paged_attention.flash_attention_3",
    "flashinfer_xqa": "paged_attention.flashinfer",
    "flashinfer_decode": "paged_attention.flashinfer",
}
NAMES = tuple(_FILES)
# What finals time beside the candidates: math is slow, xFormers brings FlashAttention-2 once more, and
# Triton would have to compile and try eight kernels that were the fastest nowhere (docs/h200.md).
DEFAULT = tuple(name for name in NAMES if name not in ("sdpa_math", "xformers", "triton"))
_PYTORCH = ("attention.sdpa", "linear.pytorch")
OPTIONAL = tuple(name for name, file in _FILES.items() if file not in _PYTORCH)


def computing(operation: str, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the baselines that compute the operation of that name; all of them where none does."""
    return tuple(name for name in names if _FILES[name].startswith(f"{operation}.")) or tuple(names)


def compile_ahead(workload: Workload) -> None:
    """Compile what the first calls of DEFAULT on the workload would, where a library can without a launch.

    A library that is missing or broken is said when it is called.
    """
    for file in dict.fromkeys(_FILES[name] for name in computing(workload.operation, DEFAULT)):
        module = importlib.import_module(f"evoflash.gpu.baselines.{file}")
        with contextlib.suppress(Exception, SystemExit):
            if hasattr(module, "compile_ahead"):
                module.compile_ahead(workload)


def baseline(name: str, bench: Bench) -> LibraryContender:
    """A baseline that has run on the bench's workload, eagerly and from a graph.

    Raises BaselineAbsentError, whatever the library did, and BaselineFailedError where this process is lost.
    """
    with attempt(name):
        found = _first_that_runs(name, bench)
    if isinstance(found, str):
        raise BaselineAbsentError(found)
    return found


def _first_that_runs(name: str, bench: Bench) -> LibraryContender | str:
    """The contender, or why there is none: the reason of the first way of calling it, the natural one."""
    reasons: list[str] = []
    try:
        for call in _calls(name, bench):
            contender = LibraryContender(name, bench, call)
            try:
                contender.try_out(bench)
            except BaselineAbsentError as refused:
                reasons.append(str(refused))
            else:
                return contender
    except BaselineFailedError:
        raise
    except (Exception, SystemExit) as error:  # while it was imported, or looked for its kernels
        check_device(name, error)
        reasons.append(reason_of(error))
    return reasons[0]


def _calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    file: Any = importlib.import_module(f"evoflash.gpu.baselines.{_FILES[name]}")
    calls: Iterator[LibraryCall] = file.calls(name, bench)
    return calls
