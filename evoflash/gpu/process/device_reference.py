"""Computes the right outputs at the benchmark's shape by a kernel of the operation. Judges no candidate.

Once for each test input. The answers are held against the host's fp64 answers where those are known, before
they are trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import DeviceError
from evoflash.gpu.comparisons import cubin_path, on_device
from evoflash.gpu.launcher import LoadedKernel, new_stream, present_gpu, wait
from evoflash.gpu.memory import allocate
from evoflash.launch import LaunchConfig
from evoflash.operation import ErrorScale, ExpectedOutputs, Workload, operation_of
from evoflash.operations.expectations import DeviceReference, outputs_of, thresholds_of

_LIMIT_S = 60.0
_AGREE = 0.1  # of the thresholds: so far the two references may differ
_HONEST_AGREE = 0.25  # so far the errors of honest arithmetic: at the same rows, but rounded elsewhere


@dataclass(frozen=True, slots=True, eq=False)
class Right:
    """Right rows in fp32 and right numbers in fp64 on the device, and what errors are measured by."""

    output: str  # the tensors' names
    numbers: str
    rows: NDArray[np.intp] | None  # which rows, counted through all groups; None: all
    count: int
    address: int
    numbers_address: int
    scale: ErrorScale
    memory: tuple[Any, ...]  # kept alive


def applies(workload: Workload) -> bool:
    """Whether the operation has a kernel for it, and its outputs are those that such a kernel gives."""
    reference = operation_of(workload).device_reference
    names = [[spec.name for spec in outputs_of(workload, role)] for role in ("rows", "numbers")]
    return (
        reference is not None
        and names == [[reference.output], [reference.numbers]]
        and reference.applies(workload)
    )


def compute(workload: Workload, addresses: Mapping[str, int], expected: ExpectedOutputs) -> Right:
    """The right outputs for inputs that lie dense at these addresses. `expected`: the same at a sample.

    DeviceError when the two disagree; NoRoomError when the device's memory is used up.
    """
    reference = operation_of(workload).device_reference
    assert reference is not None, "asked only where there is one"
    (spec,), rows, blocks = outputs_of(workload, "rows"), *_places(reference, workload)
    right, numbers, per_row = (allocate(len(rows) * size) for size in (4 * spec.shape[-1], 8, 20))
    places = on_device(blocks)
    made = {"blocks": places, "right": right, "numbers": numbers, "per_row": per_row}
    pointers = {name: int(array.data.ptr) for name, array in made.items()}
    _run(reference, workload, {**addresses, **pointers}, len(blocks))
    _verify(workload, reference, rows, (right, numbers, per_row), expected)
    told: NDArray[np.float64] = per_row.get().view(np.float32).reshape(-1, 5).astype(np.float64)
    is_whole = len(rows) == int(np.prod(spec.shape[:-1]))
    return Right(
        output=reference.output,
        numbers=reference.numbers,
        rows=None if is_whole else rows,
        count=len(rows),
        address=pointers["right"],
        numbers_address=pointers["numbers"],
        scale=_scale(told, spec.shape[-1]),
        memory=(right, numbers),
    )


@lru_cache(maxsize=4)
def _places(reference: DeviceReference, workload: Workload) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    return reference.rows(workload), reference.blocks(workload)


def _run(reference: DeviceReference, workload: Workload, addresses: Mapping[str, int], blocks: int) -> None:
    path = cubin_path(f"sm_{present_gpu().compute_capability}", reference.source)
    launch = LaunchConfig(reference.entry, (blocks, 1, 1), (reference.threads, 1, 1), 0)
    stream = new_stream()
    with stream:
        LoadedKernel(path, (launch,)).enqueue(reference.arguments(workload, addresses))
    wait(stream, limit_s=_LIMIT_S)


def _scale(told: NDArray[np.float64], columns: int) -> ErrorScale:
    """What errors are measured by, of what is told of each row; as operations/expectations.py has it."""
    rms = np.sqrt(told[:, 0] / columns)
    furthest = told[:, [2, 4]].max(axis=1)
    over = np.divide(furthest, rms, out=np.zeros_like(furthest), where=rms > 0)
    honest = max(float(told[:, 1].sum()), float(told[:, 3].sum()))
    return ErrorScale(rms, float(told[:, 0].sum()), honest, float(over.max()))


def _verify(
    workload: Workload,
    reference: DeviceReference,
    rows: NDArray[np.intp],
    made: tuple[Any, Any, Any],
    expected: ExpectedOutputs,
) -> None:
    """Raises DeviceError where the device's answers are not the host's, at rows that both have."""
    (spec,), limits, sample = outputs_of(workload, "rows"), thresholds_of(workload), expected.sample
    wanted = (sample.groups[:, None] * spec.shape[-2] + sample.rows).reshape(-1)
    at = np.searchsorted(rows, wanted).clip(0, len(rows) - 1)
    both = np.flatnonzero(rows[at] == wanted)
    places = at[both]
    columns = spec.shape[-1]
    right = _lines(made[0], places, np.float32, columns)
    known, numbers = (
        expected.rows[reference.output],
        expected.numbers[reference.numbers].right.reshape(-1)[both],
    )
    host = known.right.reshape(-1, columns)[both]
    error = float(((right - host) ** 2).sum())
    if error > (_AGREE * limits.rel_l2) ** 2 * float((host**2).sum()):
        raise _disagreement(workload, "right rows")
    lse = _lines(made[1], places, np.float64, 1)[:, 0]
    is_finite = np.isfinite(numbers)
    allowed = _AGREE * (limits.lse_absolute + limits.lse_relative * np.abs(numbers[is_finite]))
    if (np.isfinite(lse) != is_finite).any() or (np.abs(lse - numbers)[is_finite] > allowed).any():
        raise _disagreement(workload, "right numbers")
    told = _lines(made[2], places, np.float32, 5).astype(np.float64)
    honest = ((known.honest.reshape(-1, columns)[both] - host) ** 2).sum()
    if abs(told[:, 1].sum() - honest) > _HONEST_AGREE * honest + limits.honest_floor**2 * float(
        (host**2).sum()
    ):
        raise _disagreement(workload, "honest errors")


def _lines(memory: Any, places: NDArray[np.intp], kind: Any, width: int) -> NDArray[Any]:
    """Some lines of an array on the device: read from the first to the last that stand close together."""
    size, found = width * np.dtype(kind).itemsize, []
    for part in np.split(places, np.flatnonzero(np.diff(places) > 4096) + 1):
        if not len(part):
            continue
        read = memory[part[0] * size : (part[-1] + 1) * size].get().view(kind).reshape(-1, width)
        found.append(read[part - part[0]])
    return np.concatenate(found) if found else np.zeros((0, width), kind)


def _disagreement(workload: Workload, what: str) -> DeviceError:
    return DeviceError(
        f"{workload}: the {what} that the GPU computes are not the host's: its memory or its driver may be "
        "faulty; run `evoflash doctor`, and report it if it comes again."
    )
