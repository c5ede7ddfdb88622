"""The small shapes of a kernel's pre-flight, which its tiles, rings and splits make special.

How each is run, and what it is there for, stands beside it; the project's mutation testing shows it. Runs and
judges nothing.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from evoflash.operation import Delivery, EmulatedRun, Loop, Schedule
from evoflash.operations.attention.check_shapes import (
    MANY_BATCHES,
    MANY_ROWS,
    MANY_ROWS_HEADS,
    UNEVEN_HEADS,
    check_workloads,
)
from evoflash.operations.attention.inputs import NAMES
from evoflash.operations.attention.loop import steps_of
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload

_SMS = 3  # of a small GPU: its blocks, one to four an SM, are no multiple of _BATCH
_BATCH = 5  # divides no GPU's number of SMs, nor small multiples of it, so that a grid has blocks too many
# Of the deepest ring: what counts wraps in five bits, or one arrival too few in each, is off by then.
_WRAPS = 33
_FEW_BLOCKS, _MANY_BLOCKS = 4, 8  # of a head's query rows
_MORE_BATCHES, _SOME_BATCHES, _MORE_GROUPS = 17, 9, 3  # than sixteen, than eight, and than two
_CROWD = 384  # rows of blocks that share the keys, three times those where warps compute the scores
_SOME_NOTES = 5  # pieces of work, more than a family with smaller constants lets a block note
# Multiplications of tensor cores (see Loop.emulation_cost) that a run may take beyond its fixed cost.
_MUCH = 24_000_000
_BLOCK_COST = 1_000_000  # of a block of threads that starts and ends, in such multiplications
_WARPGROUP_ROWS = 64
_UPPER_ROWS = 73  # some of a block's second warpgroup among them
_ODD_HEADS = 7  # three items of a list each: few blocks end in the midst of one head and begin in another
_SIXTH = 6  # piece of work of a block, behind what a ring and a pair of notes hold
_LEVELS = 4  # of growth, one in each batch: blocks are done again as a whole
_DEPTHS = 4  # of small weights, two levels with the heavy key first and last
_MOST_BATCHES, _MOST_HEADS = 20, 5  # of a drawn shape
_MOST_ROWS = 1280  # of a drawn shape's blocks
# What a finalist meets: keys, of a split's last share the first one too, or steps, that 16, 15 or 8 bits do
# not count, the most that there is time for.
_LONG, _MANY_KEYS, _MANY_STEPS = 6529, (1 << 16, 1 << 15), 1 << 8
_MOST_COST, _MOST_LONG_COST = 30 * _MUCH, 60 * _MUCH  # of a finalist's run, of one that shows a small number
_MOST_TALL_COST = 900 * _MUCH  # of many rows
# Of many rows and of many batches, from where on they are left to a GPU: blocks of a large cluster take
# milliseconds each, whatever they compute, and what splits leave of a row is written and read once more.
_DEAR_COST, _DEAR_BLOCKS = 300 * _MUCH, 2000
_PART_COST = 200  # of a split's element of an output row, in multiplications
_MANY_HEADS = 32
_TAILS, _DRAWN_TAILS = 16, 4  # keys that kernels take at a time, and remainders that a candidate meets
_DRAWN = 3  # of what the drawn shape's generator differs from others of the seed
_DELIVERIES, _SCHEDULES = get_args(Delivery), get_args(Schedule)
_MOST_PARTS = 4  # of a step, that are masked apart from one another and each have a run


@dataclass(frozen=True, slots=True)
class _Cut:
    """A kernel's constants, as shapes are made of them."""

    key: AttentionKey
    loop: Loop
    whole_groups: bool  # kernels see no part of a group of query heads

    @property
    def rows(self) -> int:
        """Query rows of a block of threads."""
        return max(1, self.loop.rows // self.loop.pack)

    @property
    def few_rows(self) -> int:
        """Of one block; more than 8, where it has them: a thread holds rows apart that lie 8 apart."""
        return min(9, self.rows)

    @property
    def keys(self) -> int:
        """Of a tile, which CTAs of a cluster divide where CTAs share a list of tiles."""
        return self.loop.keys * self.sharers

    @property
    def sharers(self) -> int:
        """CTAs that divide a tile."""
        return self.loop.cluster if self.loop.shares else 1

    @property
    def step(self) -> int:
        """Keys of a tile of each split."""
        return self.keys * self.loop.splits

    @property
    def is_persistent(self) -> bool:
        return self.loop.most_ctas > 0

    @property
    def shares(self) -> bool:
        """Whether blocks, or clusters of them, have equal shares of a list of tiles."""
        return self.loop.shares > 0

    @property
    def parts(self) -> int:
        """Blocks that divide the keys of a step."""
        return self.loop.splits * self.sharers

    @property
    def crowd(self) -> int:
        """By how much fewer blocks some runs have: where many threads share keys, a block takes long."""
        if self.shares:
            return max(1, self.loop.cluster // _FEW_BLOCKS)
        together = self.loop.rows * self.loop.splits * self.loop.emulation_cost
        return max(1, together // _CROWD) if self.loop.splits > 1 else 1

    @property
    def tile_cost(self) -> int:
        """Multiplications of a block's tile, in those of tensor cores."""
        return self.loop.rows * self.keys * self.key.head_dim * self.loop.emulation_cost

    def is_dear(self, tiles: int, *, blocks: int = 1) -> bool:
        """Whether so many blocks of so many tiles take long in the emulator."""
        return blocks * (tiles * self.tile_cost + self.parts * _BLOCK_COST) > 2 * _MUCH

    def cost_of(self, workload: AttentionWorkload) -> float:
        """About how long the emulator takes for all of a workload, in multiplications of tensor cores."""
        heads = workload.batch * workload.heads // self.loop.pack
        tile_cost = self.tile_cost / math.sqrt(self.loop.emulation_cost)
        steps = steps_of(workload, self.loop)
        return heads * (sum(steps) * tile_cost + len(steps) * _BLOCK_COST)

    @property
    def heads_of_groups(self) -> int:
        """Heads of blocks in two groups of query heads."""
        return 2 * self.key.gqa_ratio // self.loop.pack

    @property
    def has_time_for_groups(self) -> bool:
        """Whether two whole groups of query heads, two tiles each, do not take too long."""
        # Blocks of a cluster know of each other's threads, so that each takes longer.
        together = max(1, self.loop.rows * self.parts // 128)
        cost = self.parts * together * _BLOCK_COST + 2 * self.tile_cost
        return self.whole_groups or self.heads_of_groups * cost <= 6 * _MUCH

    @property
    def square_blocks(self) -> int:
        """Query blocks, two or more, with as many rows as several tiles have keys; 0 where that is dear."""
        for blocks in (max(2, self.keys // self.rows + 1), 2):
            if not self.is_dear(-(-blocks * self.rows // self.keys), blocks=blocks):
                return blocks
        return 0

    def workload(self, seq_q: int, seq_kv: int, *, heads: int = 1, batch: int = 1) -> AttentionWorkload:
        """With that many heads of blocks: query heads, or groups of them that blocks take together.

        Where a kernel takes query heads one by one it does not matter to it whether a group is whole: a few
        of it are enough, whatever the ratio that it is compiled for.
        """
        ratio = self.key.gqa_ratio
        if self.whole_groups or self.loop.pack > 1 or heads > ratio:
            kv_heads = heads if self.loop.pack > 1 else -(-heads // ratio)
            return self.key.workload(batch, kv_heads, seq_q, seq_kv)
        return replace(self.key.workload(batch, 1, seq_q, seq_kv), heads=heads)


def preflight_runs(key: AttentionKey, loop: Loop, *, whole_groups: bool = False) -> tuple[EmulatedRun, ...]:
    """The runs, those that the performance model counts among them. Every input and schedule is met.

    `whole_groups`: the kernel may rely on whole groups of query heads, as all callers but this one give them.
    """
    cut = _Cut(key, loop, whole_groups)
    # A run's seed goes by its place: what is new comes last, so that the others stay what they were.
    return (
        *_ring_runs(cut),
        *_short_runs(cut),
        *_far_runs(cut),
        *_long_runs(cut),
        *_hidden_runs(cut),
        *_range_runs(cut),
        *_outgrown_runs(cut),
        *_repeated_runs(cut),
        *_shared_runs(cut),
    )


def _ring_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """Every ring slot twice, and less than a tile; with the two runs of which the model makes a line."""
    keys, rows, ring = cut.keys, cut.rows, 2 * cut.loop.stages * cut.step
    further = cut.few_rows if cut.shares else 9
    # Every ring slot is used twice (2 x stages + 1 tiles), with a tail in rows and keys and two query blocks.
    # Where blocks share a list of tiles a few take all of them: a block then has more than one.
    first = cut.workload(rows + further, ring + keys - 1)
    yield EmulatedRun(first, "normal", "lazy", "fifo", crowded=cut.shares, is_counted=True)
    # As many tiles, the last one whole. Spikes: every row's maximum jumps in another tile, so that threads
    # differ in what they must do. A block that takes another piece of work begins it in the middle of a ring.
    wrapping = cut.workload(rows + 2 if cut.is_persistent else rows, ring + keys)
    yield EmulatedRun(wrapping, "spikes", "random", "random", crowded=True, is_strided=True)
    # With a few blocks of threads, in any order, that take several pieces each.
    yield EmulatedRun(_stub(cut), "saturated", "eager", "random", crowded=True, sms=_SMS)
    # A full step. The rows are those of the first run: what they cost besides their KV tiles then cancels in
    # the model's line. Both have ordinary inputs, because some kernels do more for others.
    step = cut.workload(rows + further, cut.step)
    yield EmulatedRun(step, "normal", "lazy", "fifo", crowded=cut.shares, is_counted=True)
    # One key in the last tile, the second of its split, outweighs the rest; under a causal mask only a warp's
    # last row sees it. LSE may be null.
    brief = cut.workload(rows, cut.step * 2 - keys + 1)
    yield EmulatedRun(brief, "rising", "eager", "random", without=("LSE",))


def _stub(cut: _Cut) -> AttentionWorkload:
    """Less than one tile; under a causal mask rows that see nothing, and blocks that lack more than a tile,
    unless that takes many of them.

    A block of threads that takes one piece of work after another gets an odd number of them, of three heads
    unless a head has many.
    Maxima below -500: what is not shifted by them underflows.
    """
    blocks = min(_MANY_BLOCKS, -(-(cut.rows + cut.keys + 6) // cut.rows)) if cut.key.causal else 1
    if cut.is_persistent:
        rows = (blocks + 1) // 2 * 2 * cut.rows + cut.few_rows
        return cut.workload(rows, 6, heads=3 if blocks <= _FEW_BLOCKS else 1)
    return cut.workload(blocks * cut.rows + 9, 6)


def _short_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """At most two tiles of each split, and the edges of a tile."""
    keys, rows, splits = cut.keys, cut.rows, cut.loop.splits
    # One row in the last query block and one key; under a causal mask the others are without a tile. Blocks
    # that take one piece of work after another do so in more heads than a ring has slots.
    heads = 2 * cut.loop.stages + 1 if cut.is_persistent else 1
    yield EmulatedRun(cut.workload(rows + 1, 1, heads=heads), "large_logits", "eager", "fifo", crowded=True)
    # A tile but for its last key. Tiles of one pair of keys, or of none, are not cut by one key. Maxima below
    # -500 again: a key past the end that is not hidden outweighs all others.
    # Two whole query blocks where no other run has them.
    some = cut.few_rows if cut.square_blocks else 2 * rows
    yield EmulatedRun(cut.workload(some, keys - 1 if keys > 8 else 7), "saturated", "eager", "fifo")
    # A whole tile, the only one of the last split where the others have two; under a causal mask a warp whose
    # first row sees all of it but the last key, which outweighs the rest: a row that must not see it is off.
    yield EmulatedRun(cut.workload(2, (2 * splits - 1) * keys), "rising", "eager", "fifo")
    if cut.key.causal:
        # The same of a split's second tile: kernels that look for no maximum there hide its keys elsewhere.
        yield EmulatedRun(cut.workload(2, 2 * cut.step), "rising", "eager", "fifo")
    # One row and one key of two heads, of one group where it has two, in two batches; of three groups
    # of heads where a block takes a whole one.
    heads = _MORE_GROUPS if cut.loop.pack > 1 or cut.key.gqa_ratio == 1 else 2
    yield EmulatedRun(cut.workload(1, 1, heads=heads, batch=2), "large_logits", "eager", "fifo")
    # More batches than sixteen: an index that is cut to few bits shows. A block does next to nothing.
    batches = _SOME_BATCHES if cut.crowd > 1 else _MORE_BATCHES
    yield EmulatedRun(cut.workload(1, 1, batch=batches), "normal", "eager", "fifo")
    # In each batch one row alone outgrows what came before: those that watch for it must watch every row.
    yield EmulatedRun(_late(cut), "lone_spikes", "eager", "fifo", crowded=True, is_strided=True)
    if cut.key.causal:
        yield EmulatedRun(_stairs(cut), "rising", "lazy", "random", crowded=True)


def _stairs(cut: _Cut) -> AttentionWorkload:
    """One query block; its first row sees more than a tile, and only its last row the last tile, of one key.
    Each warp's last key outweighs those before it; what one leaves out, another waits for.

    Where that is not dear the last tile is the second of its split: a slot that one warp leaves out is filled
    again while another reads it. Where it is cheap a split has one tile more than the ring has slots: a warp
    that sits them all out comes to the first slot again.
    """
    rows, keys, splits = cut.rows, cut.keys, cut.loop.splits
    some = min(rows, keys) if cut.is_dear(rows // keys + 2) else rows
    tiles = -(-some // keys) + 2
    if not cut.is_dear(2 * splits):
        tiles = max(tiles, 2 * splits)
    round_trip = (cut.loop.stages + 1) * splits
    if splits > 1 and not cut.is_dear(2 * round_trip):
        tiles = max(tiles, round_trip)
    return cut.workload(some, (tiles - 1) * keys + 1, heads=2 if cut.is_persistent else 1)


def _late(cut: _Cut) -> AttentionWorkload:
    """One key more than half a tile: the end of the keys or, under a causal mask, what a warpgroup sees last
    of its block's last tile. Two tiles for each split; of four splits and more the last one has none.
    """
    splits, keys, rows = cut.loop.splits, cut.keys, cut.rows
    tiles = splits + 2 if splits > 3 else 2 * splits
    half = (tiles - 1) * keys + keys // 2 + 1
    if not cut.key.causal or cut.loop.pack > 1 or cut.is_dear(tiles + rows // keys, blocks=2):
        return cut.workload(cut.few_rows, half, batch=2)
    if rows <= _WARPGROUP_ROWS:
        return cut.workload(rows, half, batch=2)
    end = (rows - 1) // _WARPGROUP_ROWS * _WARPGROUP_ROWS  # of the last warpgroup's rows but one
    return cut.workload(rows - 1, half - end + rows - 1, batch=2)


def _far_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """Tensors with strides of their own, several batches and heads: a mixed-up stride or index shows."""
    # Keys are zero in a whole tile, or in the half tile behind it.
    whole, keys = cut.has_time_for_groups, cut.keys + cut.keys // 2
    some = _groups(cut, keys) if whole else cut.workload(3, keys, batch=2)
    yield EmulatedRun(some, "zero_keys", "random", "fifo", is_strided=True)
    if not whole and cut.loop.pack == 1:
        yield _pairs(cut, keys)
    # As many queries as keys: whole query blocks, two or more, and several tiles where that is not dear. Rows
    # point at the newest key that they see, or at the first hidden one.
    yield EmulatedRun(_square(cut), "needles", "lazy", "random", crowded=True, is_strided=True)
    if cut.is_persistent or cut.loop.section:
        # A few pieces of work more than a GPU gets blocks that take one after another, in batches that do not
        # divide their number; two query blocks of ten heads, several sections of them.
        most = cut.workload(cut.rows + 1, 1, heads=2, batch=_BATCH)
        needed = "kSlots" if cut.is_persistent else "kGqaRatio"
        yield EmulatedRun(most, "normal", "eager", "fifo", crowded=True, sms=_SMS, shrunk=(needed,))


def _pairs(cut: _Cut, keys: int) -> EmulatedRun:
    """Two groups of two heads, of a text that has this ratio: which group a head is of goes by that.

    Two heads where each is a group by itself.
    """
    ratio = min(2, cut.key.gqa_ratio)
    pairs = replace(cut.key, gqa_ratio=ratio).workload(1, 2, 3, min(6, keys))
    return EmulatedRun(pairs, "normal", "eager", "fifo", shrunk=("kGqaRatio",) if ratio > 1 else ())


def _groups(cut: _Cut, keys: int) -> AttentionWorkload:
    """Two groups of query heads, whole."""
    return cut.key.workload(2 if cut.heads_of_groups == 2 else 1, 2, 3, keys)


def _square(cut: _Cut) -> AttentionWorkload:
    rows = cut.square_blocks * cut.rows or 2 * (cut.rows if cut.shares else cut.keys)
    return cut.workload(rows, rows)


def _long_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """More tiles, and more pieces of work, than small numbers count; as many as the emulator has time for."""
    fitting = _MUCH // (cut.loop.splits * cut.tile_cost)
    tiles = min(_WRAPS * cut.loop.stages + 1, fitting) // 2 * 2 + 1  # odd
    if tiles > 2 * cut.loop.stages + 1:
        # A block that takes another piece of work begins it after all of these tiles.
        heads = 2 if cut.is_persistent else 1
        many = cut.workload(cut.few_rows, (tiles - 1) * cut.step + 1 + cut.keys // 2, heads=heads)
        yield EmulatedRun(many, "rising", "lazy", "fifo", crowded=True)
    if cut.loop.noted_pieces:
        # More pieces than a block of threads can note and come back to, two tiles each. Every piece outgrows
        # its first tile, the first one that has no note included.
        noted = cut.workload(2, 2 * cut.keys - 3, heads=_SOME_NOTES)
        yield EmulatedRun(noted, "spikes", "eager", "fifo", crowded=True, shrunk=("kSlots", "kLog"))
        # The same of one tile, which outgrows a maximum of some of its keys alone: no ring then holds the
        # producer back from the next pieces' notes.
        brief = cut.workload(cut.few_rows, cut.keys, heads=_SOME_NOTES)
        yield EmulatedRun(brief, "spikes", "eager", "fifo", crowded=True, shrunk=("kSlots", "kLog"))


def _hidden_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """Keys, or what a warpgroup's first row sees, end one short of a tile that is not the first of its split;
    then one short of each part of it that is masked apart. The key that is hidden there outweighs the others.
    The last warpgroup of a block has two rows.
    """
    tiles = 2 * (cut.loop.splits // 2 + 1)  # two for as many splits as that takes
    part = cut.loop.part_keys or cut.keys
    rows = max(2, cut.rows - _WARPGROUP_ROWS // cut.loop.pack + 2)
    for left in range(min(_MOST_PARTS, cut.keys // part)):
        seen = tiles * cut.keys - left * part
        short = cut.workload(rows, seen if cut.key.causal else seen - 1)
        yield EmulatedRun(short, "heavy_hidden", "eager", "fifo")


def _range_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """Scores and values at the ends of what their types hold, two tiles and a tail; small weights."""
    ends = cut.workload(cut.few_rows, cut.step + cut.keys // 2 + 3)
    for inputs in ("low_scores", "tiny_values", "huge_values"):
        yield EmulatedRun(ends, inputs, "eager", "fifo", crowded=True)
    # The heavy key is the first in one batch and the last in the other.
    batch = max(1, _DEPTHS // cut.crowd)
    small = cut.workload(2, cut.step + cut.keys // 2 + 5, batch=batch)
    yield EmulatedRun(small, "small_weights", "eager", "fifo", crowded=True)


def _outgrown_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """Maxima that grow by little or much; of all pieces of work the last one alone outgrows its first tile.

    Where a block takes one piece of work after another, that is the second one, of two tiles, or the sixth;
    its row lies in the second warpgroup where there is one.
    """
    batch = max(1, _LEVELS // cut.crowd)
    yield EmulatedRun(
        cut.workload(2, max(cut.step + 1, 2 * cut.step - 3), batch=batch), "growth", "eager", "fifo"
    )
    rows = max(cut.few_rows, min(cut.rows, _UPPER_ROWS))
    tail = cut.keys // 4 + 1
    for pieces in (2, _SIXTH) if cut.is_persistent else (1,):
        keys = (cut.step if pieces <= 2 else 2 * cut.step) + tail
        last = cut.workload(rows, keys, heads=pieces)
        yield EmulatedRun(last, "last_spike", "eager", "fifo", crowded=True)


def _repeated_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """Calls that find the workspace as one on other inputs has left it: nothing of that may show."""
    some = cut.workload(cut.few_rows, cut.step + 3, heads=2 if cut.is_persistent else 1)
    yield EmulatedRun(some, "normal", "random", "random", crowded=True, is_repeated=True)


def _shared_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """Heads whose keys end in the midst of shares: a block has the end of one and the beginning of the next,
    and leaves parts of both.
    """
    tiles = 2 * cut.loop.grain + 1
    if cut.shares and not cut.is_dear(_ODD_HEADS * tiles):
        some = cut.workload(2, (tiles - 1) * cut.step + 1, heads=_ODD_HEADS)
        yield EmulatedRun(some, "normal", "eager", "random", crowded=True, sms=_SMS * cut.loop.cluster)


def drawn_runs(key: AttentionKey, loop: Loop, *, seed: int) -> tuple[EmulatedRun, ...]:
    """Shapes that no template was written for: a few numbers of keys modulo 16, in any tile and with any
    difference of the lengths, in two rows; one of several heads and batches; and the largest power of two of
    keys that is less than a tile.
    """
    cut, rng = _Cut(key, loop, whole_groups=False), np.random.default_rng([seed, _DRAWN])
    most = max(1, (cut.step + cut.keys) // _TAILS)
    tails = 1 + rng.permutation(_TAILS)[: max(1, _DRAWN_TAILS // cut.crowd)]
    ragged = (_tail_run(cut, _TAILS * int(rng.integers(most)) + int(tail)) for tail in tails)
    rounded = () if cut.keys < _TAILS else (_tail_run(cut, 1 << (cut.keys - 1).bit_length() - 1),)
    return *ragged, _drawn_run(cut, rng), *rounded


def _tail_run(cut: _Cut, keys: int) -> EmulatedRun:
    """Of two rows, which see different keys under a causal mask and are one block's elsewhere."""
    rows = 2 if cut.key.causal else min(2, cut.rows)
    return EmulatedRun(cut.workload(rows, keys), "heavy_hidden", "eager", "fifo", is_brief=True)


def _drawn_run(cut: _Cut, rng: np.random.Generator) -> EmulatedRun:
    """Any tail, difference of lengths, number of heads or of batches, in a few blocks."""
    keys, rows = int(rng.integers(1, 2 * cut.step + 1)), int(rng.integers(1, cut.few_rows + 1))
    most = max(1, _MOST_ROWS // max(_WARPGROUP_ROWS, cut.rows) // cut.crowd**2)  # blocks
    heads = int(rng.integers(1, min(most, _MOST_HEADS) + 1))
    batch = int(rng.integers(1, min(most // heads, _MOST_BATCHES) + 1))
    if cut.is_dear(2 * cut.loop.splits, blocks=2 * heads * batch):
        keys = keys % cut.keys + 1
    return EmulatedRun(
        cut.workload(rows, keys, heads=heads, batch=batch),
        str(rng.choice(NAMES.scheduled)),
        rng.choice(np.array(_DELIVERIES)).item(),
        rng.choice(np.array(_SCHEDULES)).item(),
        crowded=bool(rng.integers(2)),
        is_strided=bool(rng.integers(2)),
    )


def finalist_runs(key: AttentionKey, loop: Loop, *, seed: int) -> tuple[EmulatedRun, ...]:
    """What takes too long for every candidate: all tails and differences of lengths that two tiles have, the
    check shapes with a kind of input or two, all levels of growth, more keys, rows, steps and batches than
    kernels with small numbers count.

    What would take the emulator more than some seconds is left to a GPU.
    """
    cut, rng = _Cut(key, loop, whole_groups=False), np.random.default_rng([seed, _DRAWN, _DRAWN])
    tails = (
        *(
            _tail_run(cut, tail + loop.keys * int(rng.integers(loop.splits * (2 * cut.sharers - 1))))
            for tail in range(1, 2 * loop.keys + 1)
        ),
        # Where blocks divide a tile: each of them has one key, of the first tile or of the second.
        *(_tail_run(cut, loop.keys * before + 1) for before in range(2, 2 * cut.sharers)),
    )
    asked = [(shape, name) for shape in check_workloads([key]) for name in _kinds(shape, rng)]
    asked += [(cut.workload(1, _LONG), "normal")]
    asked.append((cut.workload(2, max(1, 2 * cut.step - 3), batch=2 * _LEVELS), "growth"))
    asked.append((cut.workload(cut.rows + 1, 1, heads=UNEVEN_HEADS, batch=2), "normal"))
    dear = (
        EmulatedRun(shape, name, "random", "random", is_strided=bool(rng.integers(2)))
        for shape, name in asked
        if cut.cost_of(shape) <= _MOST_COST
    )
    long = (EmulatedRun(shape, name, "eager", "fifo") for shape, name in _longest(cut))
    return *tails, *dear, *long, *_many_runs(cut)


def _many_runs(cut: _Cut) -> Iterator[EmulatedRun]:
    """More batches, and more rows in all, than small numbers count."""
    batches = cut.workload(1, 1, batch=MANY_BATCHES)
    is_dear = MANY_BATCHES * cut.parts > _DEAR_BLOCKS
    yield EmulatedRun(batches, "normal", "eager", "fifo", is_left_to_gpu=is_dear)
    tall = cut.workload(MANY_ROWS, 1, heads=-(-MANY_ROWS_HEADS // cut.loop.pack))
    if (cost := cut.cost_of(tall)) <= _MOST_TALL_COST:
        elements = tall.heads * tall.seq_q * tall.head_dim
        parts = cut.loop.splits * elements * _PART_COST if cut.loop.splits > 1 else 0
        is_dear = cost + parts > _DEAR_COST
        yield EmulatedRun(tall, "normal", "eager", "fifo", is_left_to_gpu=is_dear)


def _longest(cut: _Cut) -> Iterator[tuple[AttentionWorkload, str]]:
    """As many keys as there is time for: the last ones outweigh the others, or hidden ones outweigh all."""
    shares = cut.loop.splits / max(1, cut.loop.splits - 1)
    lengths = [int(keys * shares) + 33 for keys in _MANY_KEYS] + [(_MANY_STEPS + 4) * cut.step]
    for shape in (cut.workload(1, keys) for keys in sorted(lengths, reverse=True)):
        if cut.cost_of(shape) <= _MOST_LONG_COST:
            yield from ((shape, "rising"), (shape, "heavy_hidden"))
            return


def _kinds(shape: AttentionWorkload, rng: np.random.Generator) -> tuple[str, ...]:
    """Kinds of input for a check shape: ordinary ones, and others in turn where its heads are few."""
    drawn = str(rng.choice(NAMES.small[1:]))
    return (NAMES.small[0],) if shape.batch * shape.heads > _MANY_HEADS else (NAMES.small[0], drawn)
