"""Right outputs that the device computes, by a kernel of the operation's, and comparisons with them.

They are held against the host's fp64 answers where those are known. Judges nothing, launches no candidate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import DeviceError
from evoflash.gpu.comparisons import ErrorStats, Numbers, RowComparison, Side, cubin_of
from evoflash.gpu.launcher import LoadedKernel, new_stream, present_gpu, wait
from evoflash.gpu.memory import allocate, on_device
from evoflash.operation import operation_of
from evoflash.operations.expectations import outputs_of, thresholds_of
from evoflash.validation.validator import Errors, place_of
from evoflash.workload import DeviceReference, ErrorScale, ExpectedOutputs, Workload

_REFERENCE_LIMIT_S = 60.0
_AGREE = 0.1  # of the thresholds: so far the two references may differ
_HONEST_AGREE = 0.25  # so far the errors of honest arithmetic: at the same rows, but rounded elsewhere


@dataclass(frozen=True, slots=True, eq=False)
class RightRows:
    """Right rows in fp32 and right numbers in fp64 on the device, and what errors are measured by."""

    rows: NDArray[np.intp]  # which rows, counted through all groups, ascending
    scale: ErrorScale
    memory: tuple[Any, ...]  # of the rows and, where there are some, of the numbers, as CuPy arrays
    places: tuple[Any, ...] = ()  # on the device, where these are not all rows: their numbers, first elements

    def is_whole(self, workload: Workload) -> bool:
        (spec,) = outputs_of(workload, "rows")
        return len(self.rows) == int(np.prod(spec.shape[:-1]))

    def comparison(self, workload: Workload, new: Side, address: Callable[[str], int]) -> RowComparison:
        """With a run's rows, and with its numbers, at the address of that tensor. `new` may lack the places
        of rows.
        """
        (spec,), limits = outputs_of(workload, "rows"), thresholds_of(workload)
        known, *known_numbers = (int(memory.data.ptr) for memory in self.memory)
        is_whole = self.is_whole(workload)
        if not is_whole and not new.offsets:
            new = replace(new, offsets=int(self.places[1].data.ptr))
        places, allowed = (
            0 if is_whole else int(self.places[0].data.ptr),
            (limits.lse_absolute, limits.lse_relative),
        )
        numbers = [
            Numbers(address(tensor.name), at, *allowed, 0.0, places)
            for tensor, at in zip(outputs_of(workload, "numbers"), known_numbers, strict=True)
        ]
        return RowComparison(
            rows=len(self.rows),
            columns=spec.shape[-1],
            dtype=spec.dtype,
            new=new,
            right=known,
            is_single=True,
            numbers=numbers[0] if numbers else None,
        )

    def errors(self, workload: Workload, found: ErrorStats, *, name: str, is_ordinary: bool) -> Errors:
        """What a comparison found, as the validator has it; `name` is the test input's."""
        (rows,), numbers = (outputs_of(workload, role) for role in ("rows", "numbers"))
        row, number_row = (int(self.rows[at]) for at in (found.worst[0], found.number_row))
        return errors_of(
            found,
            self.scale,
            name=name,
            is_ordinary=is_ordinary,
            where=place_of(rows, (*np.unravel_index(row, rows.shape[:-1]), found.worst[1])),
            lse_where=place_of(numbers[0], np.unravel_index(number_row, numbers[0].shape)) if numbers else "",
        )


def errors_of(
    found: ErrorStats, scale: ErrorScale | None, *, name: str, is_ordinary: bool, where: str, lse_where: str
) -> Errors:
    """What a comparison found, as the validator has it, and where; no scale: of numbers alone."""
    return Errors(
        inputs=name,
        is_ordinary=is_ordinary,
        squared=found.squared,
        reference_squared=scale.squared if scale else 0.0,
        honest_squared=scale.honest_squared if scale else 0.0,
        max_over_rms=found.max_over_rms,
        honest_max_over_rms=scale.honest_max_over_rms if scale else 0.0,
        lse=found.number,
        lse_error=found.number_error,
        broken=f"{found.broken} elements" if found.broken else "",
        where=where,
        lse_where=lse_where,
    )


def has_device_reference(workload: Workload) -> bool:
    """Whether the operation has a kernel for it, and its outputs are those that such a kernel gives."""
    reference = operation_of(workload).device_reference
    names = [[spec.name for spec in outputs_of(workload, role)] for role in ("rows", "numbers")]
    return (
        reference is not None
        and names == [[reference.output], [reference.numbers] if reference.numbers else []]
        and reference.applies(workload)
    )


def compute_right(
    workload: Workload, addresses: Mapping[str, int], expected: ExpectedOutputs | None = None
) -> RightRows:
    """The right outputs for inputs that lie dense at these addresses. `expected`: the same at a sample, where
    the host knows it.

    DeviceError when the two disagree; NoRoomError when the device's memory is used up.
    """
    reference = operation_of(workload).device_reference
    assert reference is not None, "asked only where there is one"
    (spec,), rows, blocks = outputs_of(workload, "rows"), *_places(reference, workload)
    sizes = {"right": 4 * spec.shape[-1], "per_row": 20}
    sizes |= {"numbers": 8} if reference.numbers else {}
    sizes |= {"honest": 4 * spec.shape[-1]} if reference.entry_of_rows else {}
    made = {name: allocate(len(rows) * size) for name, size in sizes.items()} | {"blocks": on_device(blocks)}
    pointers = {name: int(array.data.ptr) for name, array in made.items()}
    _run_reference(reference, workload, {**addresses, **pointers})
    if expected is not None:
        _verify_right(workload, reference, rows, made, expected)
    told: NDArray[np.float64] = made["per_row"].get().view(np.float32).reshape(-1, 5).astype(np.float64)
    memory = tuple(made[name] for name in ("right", "numbers") if name in made)
    made_of = RightRows(rows, _scale_of(told, spec.shape[-1]), memory)
    if made_of.is_whole(workload):
        return made_of
    at = (on_device(x.astype(np.int64)) for x in (rows, rows * spec.shape[-1]))
    return replace(made_of, places=tuple(at))


@lru_cache(maxsize=4)
def _places(reference: DeviceReference, workload: Workload) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    return reference.rows(workload), reference.blocks(workload)


def _run_reference(reference: DeviceReference, workload: Workload, addresses: Mapping[str, int]) -> None:
    path = cubin_of(f"sm_{present_gpu().compute_capability}", reference.entry, reference.text)
    stream = new_stream()
    with stream:
        LoadedKernel(path, reference.launches(workload)).enqueue(reference.arguments(workload, addresses))
    wait(stream, limit_s=_REFERENCE_LIMIT_S)


def _scale_of(told: NDArray[np.float64], columns: int) -> ErrorScale:
    """What errors are measured by, of what is told of each row; as operations/expectations.py has it."""
    rms = np.sqrt(told[:, 0] / columns)
    furthest = told[:, [2, 4]].max(axis=1)
    over = np.divide(furthest, rms, out=np.zeros_like(furthest), where=rms > 0)
    honest = max(float(told[:, 1].sum()), float(told[:, 3].sum()))
    return ErrorScale(rms, float(told[:, 0].sum()), honest, float(over.max()))


def _verify_right(
    workload: Workload,
    reference: DeviceReference,
    rows: NDArray[np.intp],
    made: Mapping[str, Any],
    expected: ExpectedOutputs,
) -> None:
    """Raises DeviceError where the device's answers are not the host's, at rows that both have."""
    (spec,), limits, sample = outputs_of(workload, "rows"), thresholds_of(workload), expected.sample
    wanted = (sample.groups[:, None] * spec.shape[-2] + sample.rows).reshape(-1)
    at = np.searchsorted(rows, wanted).clip(0, len(rows) - 1)
    both = np.flatnonzero(rows[at] == wanted)
    places = at[both]
    columns = spec.shape[-1]
    right = _lines(made["right"], places, np.float32, columns)
    known = expected.rows[reference.output]
    host = known.right.reshape(-1, columns)[both]
    error = float(((right - host) ** 2).sum())
    if error > (_AGREE * limits.rel_l2) ** 2 * float((host**2).sum()):
        raise _disagreement(workload, "right rows")
    if reference.numbers:
        numbers = expected.numbers[reference.numbers].right.reshape(-1)[both]
        lse = _lines(made["numbers"], places, np.float64, 1)[:, 0]
        is_finite = np.isfinite(numbers)
        allowed = _AGREE * (limits.lse_absolute + limits.lse_relative * np.abs(numbers[is_finite]))
        off = np.abs(lse[is_finite] - numbers[is_finite])
        if (np.isfinite(lse) != is_finite).any() or (off > allowed).any():
            raise _disagreement(workload, "right numbers")
    told = _lines(made["per_row"], places, np.float32, 5).astype(np.float64)
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
