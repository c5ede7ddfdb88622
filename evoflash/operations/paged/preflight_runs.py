"""The small shapes of a kernel's pre-flight, which its tiles, rings, splits and pages make special.

How each is run, and what it is there for, stands beside it. Runs and judges nothing.
"""

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np

from evoflash.operation import Delivery, EmulatedRun, Loop, Schedule
from evoflash.operations.paged.check_shapes import PAGES, drawn_workload, windows_of
from evoflash.operations.paged.inputs import NAMES
from evoflash.operations.paged.workload import PagedKey, PagedWorkload

_SMS = 3  # of a small GPU, for grids that go by its size; times the CTAs of a cluster
_MOST_TURNS = 8  # steps of a ring that a run takes at most
_COMPANY = 640  # keys at most of each of several sequences that blocks share
_WIDEST = 1024  # keys of a tile, which the blocks of a cluster take together, up to which two blocks share it
_DRAWN = 2  # runs that are drawn for a candidate


def preflight_runs(key: PagedKey, loop: Loop, *, whole_groups: bool = False) -> tuple[EmulatedRun, ...]:
    """The runs, those that the performance model counts among them."""
    # A run's seed goes by its place: what is new comes last, so that the others stay what they were.
    return tuple(_runs(key, loop))


def _shape(key: PagedKey, batch: int, kv_heads: int, seq_q: int, seq_kv: int, **more: Any) -> PagedWorkload:
    pages = PAGES[key.page_unit]
    page = more.pop("page", pages[(batch + kv_heads + seq_kv) % len(pages)])
    if not key.window:
        more.pop("window", None)
    if not key.sink:
        more.pop("sink", None)
    return key.workload(batch, kv_heads, seq_q, max(1, seq_kv), page, **more)


def _runs(key: PagedKey, loop: Loop) -> Iterator[EmulatedRun]:
    keys, step = loop.keys, loop.keys * loop.splits
    few, many, pages = key.fewest, key.rows, PAGES[key.page_unit]
    turns, sms = min(2 * loop.stages + 1, _MOST_TURNS), _SMS * loop.cluster
    # Every ring slot twice, and a part of a step. What a CTA costs besides its steps cancels in the model's
    # line through this run and the next; all keys are in sight of both.
    counted = step * loop.cluster
    long = turns * counted + keys // 2 + 1
    for length in (long, counted):
        # One block takes all, also where blocks share a list.
        shape = _shape(key, 1, 1, many, length, window=length)
        yield EmulatedRun(shape, "normal", "lazy", "fifo", crowded=True, is_counted=True)
    # Lengths at edges of pages and tiles; tensors far apart, K's pages and V's in other orders.
    edges = _shape(key, 3, 2, few, 2 * keys + pages[0] + 1, page=pages[1 % len(pages)], window=keys + 1)
    yield EmulatedRun(edges, "edges", "random", "random", is_strided=True)
    # Sequences without keys among others, on a GPU with few SMs: blocks that find nothing to do, shares that
    # are empty.
    empty = _shape(key, 5, 1, many, step + 5, caller="csr", window=3, page=pages[-1])
    yield EmulatedRun(empty, "some_empty", "eager", "random", crowded=True, sms=sms)
    yield EmulatedRun(_shape(key, 2, 2, many, 9, caller="csr"), "all_empty", "eager", "fifo")
    # One key counts, near an edge: a page, tile, tail or share that is dropped, or taken from a neighbour.
    needles = _shape(key, 2, 2, many, keys + 2 * pages[-1] + 3, page=pages[-1], caller="append", lse_base="2")
    yield EmulatedRun(needles, "needles", "lazy", "random")
    yield EmulatedRun(
        _shape(key, 3, 1, few, 3 * pages[0] + 2, window=pages[0]), "shared_pages", "lazy", "random"
    )
    yield EmulatedRun(
        _shape(key, 2, 3, few, 2 * pages[0] + 7, caller="csr"), "apart", "random", "fifo", crowded=True
    )
    # What is out of sight outweighs all that is in sight.
    hidden = _shape(key, 3, 1, many, keys + 17, page=pages[1 % len(pages)], window=min(keys, 16))
    yield EmulatedRun(hidden, "heavy_hidden", "random", "random", is_strided=True)
    yield EmulatedRun(
        _shape(key, 1, 2, few, 2 * step - keys + 1), "spikes", "eager", "random", without=("LSE",)
    )
    yield EmulatedRun(_shape(key, 2, 1, many, step + 1, window=step), "low_scores", "lazy", "fifo")
    yield EmulatedRun(_shape(key, 1, 1, few, step + keys), "rising", "eager", "fifo", crowded=True)
    yield EmulatedRun(_shape(key, 1, 1, many, step + keys // 2), "falling", "lazy", "random")
    # Three calls in one memory, each with other lengths and pages: counters go back to zero, and nothing of
    # a call is found by the next.
    again = _shape(key, 4, 1, few, 2 * step + 3, lengths="even")
    yield EmulatedRun(again, "normal-again", "random", "random", crowded=True, sms=sms, is_repeated=True)
    yield EmulatedRun(_shape(key, 1, 1, few, 1), "large_logits", "eager", "fifo")
    yield EmulatedRun(_shape(key, 2, 1, many, keys - 1), "zero_queries", "random", "random")
    yield EmulatedRun(_shape(key, 1, 2, few, keys + 1), "large_values", "lazy", "fifo")
    yield EmulatedRun(_shape(key, 2, 1, few, min(keys, 40)), "ones", "eager", "random", crowded=True)
    if key.window:
        # A window at an edge of a page, of a key, of all: in any place of a tile.
        for at, window in enumerate(windows_of(pages[0], step + 3)[:5]):
            shape = _shape(key, 2, 1, (few, many)[at % 2], step + 3, window=window, lengths="even")
            yield EmulatedRun(shape, ("needles", "edges")[at % 2], "random", "random", is_brief=True)
    if key.softcap:
        yield EmulatedRun(_shape(key, 1, 1, many, keys + 5), "capped", "lazy", "random")
    if key.sink:
        for at, name in enumerate(("sinks_on_top", "no_sinks", "huge_sinks")):
            shape = _shape(key, 2, 2, (few, many)[at % 2], step + 1, sink=("bf16", "fp32")[at % 2])
            yield EmulatedRun(shape, name, "random", "random", crowded=at == 1, sms=sms)
    # Rows of several sequences and heads, each shared by some of the blocks: who merges whose parts. A row
    # has three items of the list, or two; where one item is more keys than are emulated nothing is shared.
    blocks_of_rows = -(-few * key.gqa_ratio // loop.rows)  # each is shared by some of the blocks, too
    tile, part = keys * loop.cluster, keys // 2 + 3
    room = max(_COMPANY // min(4, blocks_of_rows), min(tile, _WIDEST) + part)
    items = next((n for n in (2, 1) if n * loop.grain * tile + part <= room), 0)
    most = items * loop.grain * tile + part if items else min(room, 2 * keys + part)
    company = _shape(key, 5, 2, few, most, window=most, caller="append")
    yield EmulatedRun(company, "normal", "random", "random", crowded=True, sms=sms)
    if key.ragged and many > 1:
        # Sequences without a row, several one behind another, and one block that goes by them all.
        rowless = _shape(key, 8, 1, many, keys + 1)
        yield EmulatedRun(rowless, "rowless", "random", "random", crowded=True)


_DELIVERIES, _SCHEDULES = get_args(Delivery), get_args(Schedule)


def drawn_runs(key: PagedKey, loop: Loop, *, seed: int) -> tuple[EmulatedRun, ...]:
    """A few more shapes, other ones for each candidate."""
    rng = np.random.default_rng([seed, loop.keys, loop.splits, key.head_dim])
    most = (6, 2, 2 * loop.keys * loop.splits + 2 * PAGES[key.page_unit][0])
    return tuple(
        EmulatedRun(
            drawn_workload(key, most, rng),
            str(rng.choice(NAMES.scheduled)),
            _DELIVERIES[int(rng.integers(3))],
            _SCHEDULES[int(rng.integers(2))],
            crowded=True,
            sms=(1 + int(rng.integers(_SMS))) * loop.cluster,
            is_strided=bool(rng.integers(2)),
        )
        for _ in range(_DRAWN)
    )
