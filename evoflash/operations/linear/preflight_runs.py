"""The small shapes of a linear kernel's pre-flight, which its tiles, rings and splits make special; and what
only the best meet.

How each is run, and what it is there for, stands beside it. Runs and judges nothing.
"""

from collections.abc import Iterator

import numpy as np

from evoflash.operation import EmulatedRun, Loop
from evoflash.operations.linear.inputs import ALL, check_workloads
from evoflash.operations.linear.workload import BLOCK, LinearKey

_SMS = 3  # of a small GPU, for grids that go by its size
_FEW = 64  # elements of y
_FEW_STEPS = 2048  # of k: a step that is longer is seen twice, not as often as a ring has slots
_TILES, _CHEAP = 4, 1 << 22  # multiply-adds
_LANES, _EIGHT = 32, 8  # of a warp; rows of x that a product of tensor cores has at least
_USUAL_COST, _MOST_COST = 4, 1 << 26  # of a multiply-add, see Loop.emulation_cost; of a run: some 0.1 s
_MOST_COLUMNS = 64  # of y beyond a whole CTA's: what lies behind them is seen as well


def preflight_runs(key: LinearKey, loop: Loop, *, whole_groups: bool = False) -> tuple[EmulatedRun, ...]:
    """The runs, those that the performance model counts among them. k is a multiple of 16 in all of them."""
    # A run's seed goes by its place: what is new comes last, so that the others stay what they were.
    return tuple(_runs(key, loop))


def _runs(key: LinearKey, loop: Loop) -> Iterator[EmulatedRun]:
    rows, step, few, many = loop.rows, loop.keys * loop.splits, key.fewest, key.rows
    turns = 2 * loop.stages if loop.stages * step <= _FEW_STEPS else 2
    # Of fewer than 64 numbers the rounding to bf16 is now and then off by more than is allowed for many.
    some = rows + max(5, -(-_FEW // many))
    some += 1 - some % 2
    # Every ring slot twice and a part of a step, odd columns behind a whole CTA's. What a CTA costs besides
    # its steps cancels in the model's line through this run and the next.
    tail = 16 * max(1, loop.keys // 32)
    yield EmulatedRun(
        key.workload(many, some, turns * step + tail), "normal", "lazy", "fifo", is_counted=True
    )
    yield EmulatedRun(key.workload(many, some, step), "normal", "lazy", "fifo", is_counted=True)
    # Blocks of W in both directions, the last of them in part; rows far apart in memory, NaN behind each.
    across = BLOCK + min(rows, _MOST_COLUMNS) + 3
    yield EmulatedRun(
        key.workload(few, across, 3 * BLOCK + 16), "far_scales", "random", "random", is_strided=True
    )
    # One element of each row of W counts, near the edge of a vector, a block or the end.
    yield EmulatedRun(key.workload(many, rows + 1, step + BLOCK), "needles", "eager", "random")
    # The last 16 columns of k count, the only ones of their step, and of the last share where k is split.
    yield EmulatedRun(
        key.workload(few, min(rows, 9), step + 16), "last_columns", "lazy", "random", crowded=True, sms=_SMS
    )
    # The smallest problem: most threads, and most shares of k, find nothing.
    yield EmulatedRun(key.workload(few, 1, 16), "all_codes", "eager", "fifo")
    # Rows of x far apart in size: what leaks from one into another outweighs it.
    yield EmulatedRun(key.workload(many, 3, 2 * BLOCK), "rows_apart", "random", "random", is_strided=True)
    # Beyond fp16's range, at either end of bf16's, and with blocks that no one factor brings together.
    yield EmulatedRun(key.workload(few, 2, 2 * BLOCK + 32), "huge", "eager", "fifo", crowded=True)
    yield EmulatedRun(key.workload(few, min(rows, 8), BLOCK + 16), "tiny", "lazy", "random")
    yield EmulatedRun(key.workload(many, min(rows, 17), 4 * BLOCK), "uneven_blocks", "random", "fifo")
    # Each block of k is all of some row of y; each share of k ends in the midst of one.
    shared = loop.splits * loop.keys // 2 // 16 * 16 + BLOCK
    yield EmulatedRun(key.workload(many, min(rows, 10), shared), "dominant_block", "random", "random")
    yield EmulatedRun(key.workload(many, min(2 * rows, 40), BLOCK), "columns_apart", "eager", "random")
    # Where a workspace is: called thrice, blocks in another order each time. Every share of k counts, in as
    # many tiles as are cheap; of ordinary data some columns are what rounding leaves of sums in that order.
    whole = max(step, 3 * BLOCK)
    columns = max(8, min(max(_TILES * rows, _FEW), max(rows, _CHEAP // (many * whole))))
    yield EmulatedRun(key.workload(many, columns, whole), "normal", "random", "random", is_repeated=True)
    # A warp's turns are more than a ring has slots, and where that is cheap than a warp has lanes, which may
    # hold scales; the last is not whole, and behind it lies NaN. A long step is seen so often here alone.
    cost = max(_EIGHT, few) * rows * step * max(_USUAL_COST, loop.emulation_cost)
    turns = loop.stages + 2
    if key.weights == "fp8b128":
        turns = max(turns, min(_LANES + 1, _MOST_COST // cost))
    end = key.workload(few, min(rows, _MOST_COLUMNS), turns * step - 16)
    yield EmulatedRun(end, "normal", "random", "random", is_strided=True)
    # Factors that bring a block of x into range have a largest exponent, too.
    if key.x == "bf16":
        yield EmulatedRun(key.workload(few, min(rows, 8), 2 * BLOCK + 16), "near_zero", "eager", "random")


_DRAWN = 12


def finalist_runs(key: LinearKey, loop: Loop, *, seed: int) -> tuple[EmulatedRun, ...]:
    """What every kernel meets on a GPU, the check shapes; and shapes that are drawn for it: any number of
    rows of its class, and a k that ends anywhere in the steps of any share.
    """
    rng = np.random.default_rng(seed)
    checked = [EmulatedRun(each, "normal", "random", "random") for each in check_workloads((key,))]
    step = loop.keys * loop.splits
    drawn = []
    for at in range(_DRAWN):
        m = int(rng.integers(key.fewest, key.rows + 1))
        n = int(rng.integers(-(-_FEW // m), -(-_FEW // m) + 2 * min(loop.rows, _MOST_COLUMNS)))
        k = 16 * int(rng.integers(1, (step + 2 * BLOCK) // 16 + 1))
        workload = key.workload(m, n, k)
        drawn.append(EmulatedRun(workload, ALL[at % len(ALL)], "random", "random", is_strided=at % 3 == 1))
    return (*checked, *drawn)
