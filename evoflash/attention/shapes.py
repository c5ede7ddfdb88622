"""The attention shapes that kernels are checked on: every candidate's, the hidden ones, the pre-flight's.

Runs and judges nothing.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.attention.workload import CompileKey, Workload
from evoflash.operation import EmulatedRun, Loop

# Shapes that finalists meet first, drawn when they are promoted: the longest seq_q and seq_kv, and the most
# batches and key/value heads. References cost the product, and the test inputs are many.
_HIDDEN = ((300, 300, 3, 3), (400, 700, 2, 3), (60, 3000, 1, 2), (1500, 90, 1, 3), (1, 5000, 3, 1))
# (seq_q, seq_kv), cheapest first; the same for every genome, so that references are computed once a run.
# The last one fills every ring of the families' deepest pipelines twice, with a tail.
_CHECK_LENGTHS = ((1, 1), (3, 40), (113, 203), (250, 129), (1, 239), (131, 1157))
# As many queries as keys, over several tiles, and whole blocks of 64 and of 128 rows.
_SQUARE = 256
# An odd number of tiles, more than 40, of 32, 64 or 128 keys alike, the last one with a tail.
_LONG = (5, 5391)
# More heads than a warp has lanes, eight key/value heads or more, and a batch that divides no GPU's number of
# SMs: with these rows more pieces of work than there are SMs.
_MANY_HEADS, _MANY_GROUPS, _ODD_BATCH, _MANY_LENGTHS = 33, 8, 5, (20, 70)


def check_workloads(keys: Sequence[CompileKey]) -> tuple[Workload, ...]:
    """What every candidate is checked on, cheapest first. Two batches and heads: a mixed-up stride shows."""
    ordinary = tuple(key.workload(2, 2, *lengths) for lengths in _CHECK_LENGTHS for key in keys)
    special = tuple(
        shape
        for key in keys
        for shape in (
            key.workload(1, 1, *_LONG),
            key.workload(_ODD_BATCH, _many_groups(key), *_MANY_LENGTHS),
            key.workload(2, 1, _SQUARE, _SQUARE),
        )
    )
    return ordinary + special


def _many_groups(key: CompileKey) -> int:
    return max(_MANY_GROUPS, -(-_MANY_HEADS // key.gqa_ratio))


def hidden_workloads(keys: Sequence[CompileKey], *, seed: int) -> tuple[Workload, ...]:
    """What finalists are checked on before they are promoted, of every kind one for each compile key."""
    rng = np.random.default_rng(seed)
    return tuple(_hidden(key, most, rng) for most in _HIDDEN for key in keys)


def _hidden(key: CompileKey, most: tuple[int, int, int, int], rng: np.random.Generator) -> Workload:
    # From half of the most on: a kind that is for its length must be long.
    seq_q, seq_kv, batch, kv_heads = (int(rng.integers(-(-x // 2), x + 1)) for x in most)
    return key.workload(batch, kv_heads, seq_q, seq_kv)


def shapes(key: CompileKey, loop: Loop) -> tuple[Workload, ...]:
    """The pre-flight set of a kernel: long, wrapping, stub, whole, brief, lone, odd, short, single, late;
    under a causal mask also stairs.

    Long: every ring slot is used twice (2 x stages + 1 KV tiles), with a tail in rows and keys and two query
    blocks. Wrapping: as many tiles, the last one whole, and a warp whose first row sees all keys but one.
    Stub: less than one tile, and five query blocks or more of two heads, for a block of threads that takes
    one after another; under a causal mask rows that see nothing, and blocks that lack more than a tile.
    Whole: a full step. Brief: one key in the last tile, the second of its split, and under a causal mask only
    a warp's last row sees it. Lone: one row in the last query block and one key, in more heads than a ring
    has slots; under a causal mask every other block is without a tile. Odd: a tile but for its last key.
    Short: a whole tile, the only one of the last split where the others have two; under a causal mask a warp
    whose first row sees all of it but the last key. Single: one row and one key. Late: two tiles for each
    split, whole but for the last key. Stairs: one query block of two heads; its first row sees more than a
    tile, and only its last row the last tile, of one key.
    """
    steps = 2 * loop.stages * loop.splits * loop.keys
    step, rows = loop.keys * loop.splits, max(1, loop.rows // loop.pack)
    stub = key.workload(1, 2, max(4 * rows, rows + 2 * loop.keys) + 9 if key.causal else 4 * rows + 9, 6)
    lone = key.workload(1, 2 * loop.stages + 1, rows + 1, 1)
    lengths = (
        # The same rows where they are compared: what they cost besides their KV tiles then cancels in the
        # model's profile.
        (rows + 9, steps + loop.keys - 1),
        (rows + 2, steps + loop.keys),
        (rows + 9, step),
        (rows, (2 * loop.splits - 1) * loop.keys + 1),
        # Tiles of one pair of keys, or of none, are not cut by one key.
        (9, loop.keys - 1 if loop.keys > 8 else 7),
        (2, (2 * loop.splits - 1) * loop.keys),
        (1, 1),
        (9, 2 * step - 1),
    )
    long, wrapping, whole, brief, odd, short, single, late = (key.workload(1, 1, *pair) for pair in lengths)
    stairs = key.workload(1, 2, rows, (-(-rows // loop.keys) + 1) * loop.keys + 1)
    always = long, wrapping, stub, whole, brief, lone, odd, short, single, late
    return (*always, stairs) if key.causal else always


def preflight_runs(key: CompileKey, loop: Loop) -> tuple[EmulatedRun, ...]:
    """Other numbers with every schedule. The project's mutation testing shows what each run is there for."""
    long, wrapping, stub, whole, brief, lone, odd, short, single, late, *stairs = shapes(key, loop)
    return (
        EmulatedRun(long, "normal", "lazy", "fifo", is_counted=True),
        # Spikes: every row's maximum jumps in another tile, so that threads differ in what they must do.
        # Tensors as a program has them that keeps the heads of a row together: kernels take strides.
        EmulatedRun(wrapping, "spikes", "random", "random", crowded=True, is_strided=True),
        # Maxima below -500: what is not shifted by them underflows.
        EmulatedRun(stub, "saturated", "eager", "fifo", crowded=True),
        # With the first, a line for the performance model. Both have ordinary inputs, because some kernels
        # do more for others.
        EmulatedRun(whole, "normal", "lazy", "fifo", is_counted=True),
        # The last key, alone in its tile, outweighs the rest. LSE may be null.
        EmulatedRun(brief, "rising", "eager", "random", without=("LSE",)),
        EmulatedRun(lone, "large_logits", "eager", "fifo", crowded=True),
        EmulatedRun(odd, "saturated", "eager", "fifo"),
        # The last key outweighs the rest here too: a row that sees it and must not is far off.
        EmulatedRun(short, "rising", "eager", "fifo"),
        EmulatedRun(single, "large_logits", "eager", "fifo"),
        # Maxima below -500 again: a key past the end that is not hidden outweighs all others.
        EmulatedRun(late, "saturated", "eager", "fifo"),
        # Each warp's last key outweighs those before it; what one of them leaves out, another waits for.
        *(EmulatedRun(shape, "rising", "lazy", "random", crowded=True) for shape in stairs),
    )
