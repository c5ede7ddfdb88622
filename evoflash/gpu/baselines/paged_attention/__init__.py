"""Paged attention of other libraries: a file for each, which says how the library is called.

flash_attention_3  FlashAttention-3 on pages
flashinfer         FlashInfer's decode on pages
"""

from dataclasses import dataclass
from typing import Any

from evoflash.gpu.baselines.contender import BaselineAbsentError, torch
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.paged.workload import PagedWorkload


def paged_on(bench: Bench) -> PagedWorkload:
    """The bench's workload. BaselineAbsentError where it is none that the libraries are called on here."""
    workload = bench.workload
    if not isinstance(workload, PagedWorkload):
        raise BaselineAbsentError(f"it computes paged attention, not {workload.operation}")
    if workload.caller != "table":
        raise BaselineAbsentError("it is called with a dense table of pages and with lengths here")
    return workload


@dataclass(frozen=True, slots=True)
class Cache:
    """What engines hand to a library: pages as (pages, slots, heads, head_dim), and where keys lie."""

    q: Any
    k: Any
    v: Any
    table: Any
    lengths: Any
    rows: Any = None  # where each sequence's query rows begin, if they are ragged
    sinks: Any = None


def cache_of(workload: PagedWorkload, tensors: tuple[Any, ...]) -> Cache:
    """The operation's tensors as engines lay them out; copies, untimed.

    Libraries read what no row may see: slots behind a sequence's last key and pages that no sequence has are
    zero here, and table entries that name no page are 0.
    """
    q, k, v, table, lengths, *others = tensors
    rows = others.pop(0) if workload.ragged else None
    sinks = others.pop(0) if workload.sink else None
    pages = len(k)
    valid = (table >= 0) & (table < pages)
    return Cache(
        q,
        _visible(k),
        _visible(v),
        torch().where(valid, table, 0).contiguous(),
        lengths.clone(),
        rows,
        sinks,
    )


def _visible(pages: Any) -> Any:
    """Slots first and heads next, zeros in the place of what is no number."""
    return torch().nan_to_num(pages.transpose(1, 2), nan=0.0, posinf=0.0, neginf=0.0).contiguous()
