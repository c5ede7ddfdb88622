"""What paged_ratios.py compares: caches as engines lay them, a sequence alone, the space of a smaller GPU.

Runs nothing on a GPU and searches nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.operations.paged.form import pool_pages
from evoflash.operations.paged.inputs import PagedInputs, sequences_of
from evoflash.operations.paged.workload import PagedWorkload
from evoflash.paths import TEMPLATES
from evoflash.specs import GpuSpec

LAYOUTS = ("HND", "NHD", "rows of 2 D")
# What a family's header may ask of a GPU beside its speed.
_LIMITS = (
    *("smem_per_block", "smem_per_sm", "regs_per_sm", "threads_per_sm", "blocks_per_sm"),
    "compute_capability",
)


@dataclass(frozen=True, slots=True, eq=False)
class LaidOutCache:
    """Memory of K and V; where each begins in which array, and its strides of a page, a head and a row, in
    elements.
    """

    arrays: tuple[NDArray[np.uint16], ...]
    begins: Mapping[str, tuple[int, int]]  # by tensor: which array, and the element
    strides: Mapping[str, tuple[int, int, int, int]]


def laid_out(layout: str, k: NDArray[np.uint16], v: NDArray[np.uint16]) -> LaidOutCache:
    """Pages (pages, heads, rows, columns) as an engine has them: a head's rows side by side; a row's heads
    side by side; or a head's rows of K and V as one of twice the length.
    """
    heads, slots, columns = k.shape[1:]
    apart = {"K": (0, 0), "V": (1, 0)}
    if layout == "rows of 2 D":
        both = {"K": (0, 0), "V": (0, columns)}
        strides = (heads * slots * 2 * columns, slots * 2 * columns, 2 * columns, 1)
        return LaidOutCache((np.concatenate([k, v], axis=-1),), both, dict.fromkeys("KV", strides))
    if layout == "NHD":
        strides = (slots * heads * columns, columns, heads * columns, 1)
        arrays = tuple(np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (k, v))
        return LaidOutCache(arrays, apart, dict.fromkeys("KV", strides))
    strides = (heads * slots * columns, slots * columns, columns, 1)
    return LaidOutCache((k, v), apart, dict.fromkeys("KV", strides))


def alone(workload: PagedWorkload, inputs: PagedInputs, at: int) -> tuple[PagedWorkload, PagedInputs]:
    """A call of one sequence of a batch, of as many keys at most, with the pages that it has."""
    one = replace(workload, batch=1, lengths="")
    sequence, given = sequences_of(workload, inputs)[at], inputs.tensors
    tensors: dict[str, Any] = {"Q": given["Q"][sequence.first_row : sequence.first_row + sequence.rows]}
    for name in ("K", "V"):
        pool = np.zeros((pool_pages(one), *given[name].shape[1:]), given[name].dtype)
        pool[: len(sequence.pages)] = given[name][sequence.pages]
        tensors[name] = pool
    table = np.full((1, one.columns), -1, np.int32)
    table[0, : len(sequence.pages)] = np.arange(len(sequence.pages))
    tensors |= {"TABLE": table, "LENGTHS": np.array([sequence.keys], np.int32)}
    if workload.sink:
        tensors["SINKS"] = given["SINKS"]
    return one, PagedInputs(f"{inputs.name}, sequence {at} alone", tensors)


def write_limited_family(family: str, gpu: GpuSpec, folder: Path) -> str:
    """An extension folder with the family as if the GPU had no more than that one has; the new one's name."""
    name = f"{family}_{gpu.name}"
    for source, target in (
        (TEMPLATES / f"{family}.cu.j2", folder / "templates" / f"{name}.cu.j2"),
        (TEMPLATES / family / "seeds.toml", folder / "templates" / name / "seeds.toml"),
    ):
        text = source.read_text(encoding="utf-8")
        for limit in _LIMITS:
            text = text.replace(f"gpu.{limit}", str(getattr(gpu, limit)))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return name
