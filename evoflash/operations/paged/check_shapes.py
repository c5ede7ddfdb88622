"""The shapes that kernels of paged attention are checked on, the same for all or drawn from a seed. Judges
nothing.

Every candidate is checked on some, and the best ones on hidden ones too; the pre-flight's, which go by a
kernel's own tiles, stand in preflight_runs.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from evoflash.operations.paged.workload import CALLERS, LENGTHS, PagedKey, PagedWorkload

# By the unit that a kernel counts on: keys of a page that have no larger one.
PAGES = {1: (1, 3, 5, 24), 16: (16, 48, 80, 96), 64: (64, 192, 320), 128: (128, 256)}
# (sequences, key/value heads, the longest), cheapest first, the same for every genome of a key.
_CHECKED = (
    (1, 1, 1),
    (2, 2, 40),
    (3, 2, 131),
    (5, 1, 257),
    (7, 3, 96),
    (2, 2, 700),
    (1, 1, 4099),
    (9, 1, 1157),
)
_MANY = (70, 2, 200)  # more sequences than a warp has lanes, twice over
# What finalists meet: the most sequences, key/value heads and keys, from half of them on.
_HIDDEN = ((4, 4, 900), (40, 2, 300), (2, 1, 9000), (12, 1, 2500))


def check_workloads(keys: Sequence[PagedKey]) -> tuple[PagedWorkload, ...]:
    """What every candidate is checked on, cheapest first: with as few and as many rows as its class has, and
    every way in which a caller may give a call.
    """
    return tuple(_workload(key, *shape, at=at) for at, shape in enumerate((*_CHECKED, _MANY)) for key in keys)


def _workload(key: PagedKey, batch: int, kv_heads: int, seq_kv: int, *, at: int) -> PagedWorkload:
    page = PAGES[key.page_unit][at % len(PAGES[key.page_unit])]
    windows = windows_of(page, seq_kv)
    more: dict[str, Any] = {"caller": CALLERS[at % len(CALLERS)], "lse_base": "e2"[at % 4 == 1]}
    if key.window:
        more["window"] = windows[at % len(windows)]
    if key.softcap:
        more["softcap"] = (5.0, 50.0, 1e5)[at % 3]
    if key.sink:
        more["sink"] = ("fp32", "bf16")[at % 2]
    seq_q = key.rows if at % 2 else key.fewest
    return key.workload(batch, kv_heads, seq_q, seq_kv, page, **more)


def windows_of(page: int, seq_kv: int) -> tuple[int, ...]:
    """At the edges of a page and of a sequence, and of usual width."""
    edges = (page, 1, seq_kv, page + 1, 2, seq_kv + 1, 128, max(1, page - 1), max(1, seq_kv - 1), 33)
    return tuple(dict.fromkeys(edges))


def hidden_workloads(keys: Sequence[PagedKey], *, seed: int) -> tuple[PagedWorkload, ...]:
    """What finalists are checked on before they are promoted, of every kind one for each compile key."""
    rng = np.random.default_rng(seed)
    return tuple(drawn_workload(key, most, rng) for most in _HIDDEN for key in keys)


def drawn_workload(key: PagedKey, most: tuple[int, int, int], rng: np.random.Generator) -> PagedWorkload:
    """One with at least half of these sequences, heads of K and keys; all else is drawn."""
    batch, kv_heads, seq_kv = (int(rng.integers(-(-x // 2), x + 1)) for x in most)
    page = int(rng.choice(PAGES[key.page_unit]))
    more: dict[str, Any] = {
        "caller": str(rng.choice(CALLERS)),
        "lse_base": str(rng.choice(["e", "2"])),
        "lengths": str(rng.choice(["", *LENGTHS])),
    }
    if key.window:
        more["window"] = int(rng.choice(windows_of(page, seq_kv)))
    if key.softcap:
        more["softcap"] = float(rng.choice([2.0, 30.0, 50.0]))
    if key.sink:
        more["sink"] = str(rng.choice(["fp32", "bf16"]))
    seq_q = int(rng.integers(key.fewest, key.rows + 1))
    return key.workload(batch, kv_heads, seq_q, seq_kv, page, **more)
