"""The inputs that find out wrong kernels of paged attention, drawn from a seed of the run. Judges nothing.

Each named input aims at a mistake: see the docstrings. In all of them pages lie anywhere in the pool, and
what no row may see is NaN or infinite: slots behind a sequence's last key, pages that no sequence has, pages
wholly before a window. Table entries of such pages, and behind a sequence's last page, name no page. `normal`
data is what the pooled error is measured on.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import UsageError
from evoflash.numerics import Bits, decode, encode, standard_normal, stream_of
from evoflash.operation import InputNames
from evoflash.operations.paged.form import first_page, first_pages, own_pages, pool_pages, scale
from evoflash.operations.paged.workload import PagedWorkload

Single = NDArray[np.float32]
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class PagedInputs:
    """Tensors by name: 16-bit floats as patterns, whole numbers, sinks."""

    __test__ = False  # to pytest, which takes a class of such a name for a test

    name: str
    tensors: dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class PlacedSequence:
    """Where one sequence's rows and keys lie, as a kernel reads it from the tensors."""

    first_row: int
    rows: int
    keys: int
    pages: NDArray[np.int64]  # of those laid out; before a window numbers may name none


def sequences_of(workload: PagedWorkload, inputs: PagedInputs) -> list[PlacedSequence]:
    """All of a call, read from its tensors."""
    w, given = workload, inputs.tensors
    uniform = range(0, w.batch * w.seq_q + 1, w.seq_q)
    begins = given["QINDPTR"].tolist() if w.ragged else list(uniform)
    found = []
    for at, (begin, end) in enumerate(pairwise(begins)):
        if w.caller == "csr":
            first, last = given["INDPTR"][at : at + 2].tolist()
            entries = given["PAGES"][first:last]
            keys = (last - first - 1) * w.page + int(given["LAST"][at]) if last > first else 0
        else:
            bias = w.seq_q if w.caller == "append" else 0
            keys = max(0, int(given["LENGTHS"][at]) + bias)
            entries = given["TABLE"][at, : -(-keys // w.page)]
        found.append(PlacedSequence(begin, end - begin, keys, entries.astype(np.int64) - first_page(w)))
    return found


@dataclass(slots=True)
class _Draw:
    """What a recipe changes: numbers, and which keys each sequence has where."""

    workload: PagedWorkload
    q: Single  # (rows, heads, head_dim)
    k: NDArray[Any]  # (pages, heads, rows of a page, head_dim): numbers, or of very many their patterns
    v: NDArray[Any]
    sinks: Single
    rows: list[int]  # of each sequence
    keys: list[int]
    pages: list[NDArray[np.int32]]

    @property
    def first_rows(self) -> list[int]:
        return [0, *np.cumsum(self.rows)[:-1].tolist()]

    def places(self, sequence: int, keys: Any) -> tuple[Any, Any]:
        """Page and row within it of a sequence's keys."""
        at = np.asarray(keys)
        return self.pages[sequence][at // self.workload.page], at % self.workload.page

    def keys_at(self, page: Any, heads: Any, slot: Any) -> Single:
        """The numbers of some keys."""
        found = self.k[page, heads, slot]
        return found if found.dtype == np.float32 else decode(found, self.workload.dtype)


Recipe = Callable[[_Draw, np.random.Generator], None]


# ---- how many keys each sequence has, and where


def _as_asked(workload: PagedWorkload, rng: np.random.Generator) -> list[int]:
    """The workload's own lengths; which sequence has which is drawn."""
    return [int(keys) for keys in rng.permutation(workload.keys)]


def _anew(workload: PagedWorkload, rng: np.random.Generator) -> list[int]:
    """Others than the workload's: of each sequence any number up to the longest; one has as many."""
    found = [int(keys) for keys in rng.integers(1, workload.seq_kv + 1, workload.batch)]
    found[int(rng.integers(workload.batch))] = workload.seq_kv
    return found


def _at_edges(workload: PagedWorkload, rng: np.random.Generator) -> list[int]:
    """At edges of pages and of tiles, one key before and behind them, and as many as there are rows."""
    w = workload
    steps = [each * step for step in (w.page, 16, 32, 64, 128) for each in (1, 2, 3, w.seq_kv // step)]
    edges = {1, 2, w.seq_q, w.seq_q + 1, w.window, w.window + w.seq_q, w.seq_kv, *steps}
    near = {edge + at for edge in edges for at in (-1, 0, 1)}
    known = sorted(each for each in near if 1 <= each <= w.seq_kv)
    order = rng.permutation(known)
    return [int(order[at % len(order)]) for at in range(w.batch)]


def _some_empty(workload: PagedWorkload, rng: np.random.Generator) -> list[int]:
    """The first, the last and a third of all sequences have no key, but for one, where there are several."""
    found = _anew(workload, rng)
    empty = rng.random(workload.batch) < 1 / 3
    empty[[0, -1]] = True
    if workload.batch > 2:
        empty[1 + int(rng.integers(workload.batch - 2))] = False
    return [0 if is_empty else keys for is_empty, keys in zip(empty, found, strict=True)]


def _all_empty(workload: PagedWorkload, rng: np.random.Generator) -> list[int]:
    return [0] * workload.batch


def _own_pages(
    workload: PagedWorkload, rows: list[int], keys: list[int], rng: np.random.Generator
) -> list[Any]:
    """Of each sequence its pages, in any order; its own as long as there are any, then those of others."""
    w, free = workload, np.empty(0, np.int32)
    found = []
    for of_rows, length in zip(rows, keys, strict=True):
        count, hidden = -(-length // w.page), min(length, w.first_key(of_rows, length)) // w.page
        while len(free) < count - hidden:
            free = np.concatenate([free, rng.permutation(pool_pages(w)).astype(np.int32)])
        own, free = np.split(free, [count - hidden])
        found.append(np.concatenate([np.full(hidden, -1, np.int32), own]))
    return found


def _share_pages(drawn: _Draw, rng: np.random.Generator) -> None:
    """All sequences begin with the same pages, as with a prompt in common, and one has one page alone, over
    and over.
    """
    longest = max(drawn.pages, key=len)
    for pages in drawn.pages:
        common = min(len(pages), len(longest)) // 2
        visible = (pages[:common] >= 0) & (longest[:common] >= 0)
        pages[:common] = np.where(visible, longest[:common], pages[:common])
    alone = drawn.pages[int(rng.integers(len(drawn.pages)))]
    if len(alone):
        alone[alone >= 0] = alone[-1]


def _query_rows(workload: PagedWorkload, rng: np.random.Generator) -> list[int]:
    return [int(rows) for rows in rng.permutation(workload.query_rows)]


def _gathered_rows(workload: PagedWorkload, rng: np.random.Generator) -> list[int]:
    """As many rows in all, in as few sequences as can have them, and those that have none among these."""
    w = workload
    found = [max(0, min(w.seq_q, w.total_q - at * w.seq_q)) for at in range(w.batch)]
    turn = int(rng.integers(1, max(2, sum(rows > 0 for rows in found))))
    return found[turn:] + found[:turn]


# ---- numbers


def _ordinary(drawn: _Draw, rng: np.random.Generator) -> None:
    """N(0, 1): the ordinary case, whose errors are pooled."""


_MANY = 1 << 24  # numbers: from here on drawing each would take seconds
_POOL = (1 << 22) + 1237  # no multiple of a page: that the numbers come again makes no two pages the same


def _over_and_over(pool: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    return np.resize(pool, math.prod(shape)).reshape(shape)


def _normal(shape: tuple[int, ...], rng: np.random.Generator, packed: str = "") -> NDArray[Any]:
    """N(0, 1); of very many numbers those of a pool, over and over, and then patterns where a type is given:
    that is as much memory as a test input has, written once.
    """
    if math.prod(shape) <= _MANY:
        return standard_normal(shape, rng)
    pool = standard_normal((_POOL,), rng)
    return _over_and_over(encode(pool, packed) if packed else pool, shape)


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Single:
    return rng.choice(np.array([-1, 1], np.float32), shape)


def _large_logits(drawn: _Draw, rng: np.random.Generator) -> None:
    """Scores of +-100: without the maximum subtracted, fp32 exp overflows, in most long rows."""
    drawn.q *= 30


def _ramp(drawn: _Draw, rng: np.random.Generator, *, rises: bool) -> None:
    """The row's maximum stands in the last tile, or in the first: sums of the others must be rescaled."""
    w, direction = drawn.workload, _signs(rng, (drawn.workload.head_dim,))
    drawn.q /= 4
    drawn.q += np.float32(32 / w.head_dim**0.5) * direction
    drawn.k /= 4
    for sequence, keys in enumerate(drawn.keys):
        first = w.first_key(drawn.rows[sequence], keys)
        height = np.linspace(-1, 1, max(2, keys - first), dtype=np.float32)[: max(0, keys - first)]
        page, slot = drawn.places(sequence, np.arange(first, keys))
        along = height if rises else -height
        drawn.k[page, :, slot] += along[:, None, None] * direction


def _needles(drawn: _Draw, rng: np.random.Generator, *, times: float = 4.0) -> None:
    """Each row of each head points at one key: near an edge of a page, a tile or a window, or the newest that
    it sees. A page, tile, tail or split that is dropped loses the values of that key.
    """
    w = drawn.workload
    for sequence, begin in enumerate(drawn.first_rows):
        for row in range(drawn.rows[sequence]):
            newest = drawn.keys[sequence] - drawn.rows[sequence] + row
            if newest < 0:
                continue
            oldest = max(0, newest + 1 - w.window) if w.window else 0
            edges = np.unique([each * step + at for step in (w.page, 16, 64, 128) for at in (-1, 0, 1)
                               for each in (0, 1, newest // step, oldest // step + 1)])  # fmt: skip
            seen = np.unique([oldest, newest, *edges[(edges >= oldest) & (edges <= newest)]])
            targets = np.where(rng.random(w.heads) < 1 / 3, newest, rng.choice(seen, w.heads))
            page, slot = drawn.places(sequence, targets)
            heads = np.arange(w.heads) // w.gqa_ratio
            drawn.q[begin + row] = np.float32(times) * drawn.keys_at(page, heads, slot)


def _spikes(drawn: _Draw, rng: np.random.Generator) -> None:
    """Needles 100 above the rest: a maximum that misses the key pointed at overflows fp32."""
    _needles(drawn, rng, times=128 / max(2.0, drawn.workload.head_dim**0.5 - 3))


def _heavy_hidden(drawn: _Draw, rng: np.random.Generator) -> None:
    """Keys just out of a row's sight weigh e^6 times as much as those that it sees: the key before its
    window, and the next one of a few rows. In slots behind the last key such keys stand in the place of NaN.
    """
    w, direction = drawn.workload, _signs(rng, (drawn.workload.head_dim,))
    root = np.float32(w.head_dim**0.5)
    drawn.q /= 4
    drawn.q += np.float32(6) / root * direction
    drawn.k /= 4
    for sequence in range(w.batch):
        rows, keys = drawn.rows[sequence], drawn.keys[sequence]
        for row in range(rows):
            newest = keys - rows + row
            for key in (newest + 1, newest - w.window) if w.window else (newest + 1,):
                if w.first_key(rows, keys) <= key < keys:
                    page, slot = drawn.places(sequence, key)
                    drawn.k[page, :, slot] = direction
        before = w.first_key(rows, keys) - 1
        if (
            before >= 0
            and before // w.page == (before + 1) // w.page
            and drawn.pages[sequence][before // w.page] >= 0
        ):
            page, slot = drawn.places(sequence, before)
            drawn.k[page, :, slot] = direction


def _equal_keys(drawn: _Draw, rng: np.random.Generator) -> None:
    """All keys the same: every weight is equal, and the output is the mean of the visible values."""
    drawn.k[:] = drawn.k[:1, :, :1]


def _zero_queries(drawn: _Draw, rng: np.random.Generator) -> None:
    """Q = 0: every visible key counts the same, and the LSE is the logarithm of their number."""
    drawn.q[:] = 0


def _ones(drawn: _Draw, rng: np.random.Generator) -> None:
    """V = 1: the output is 1 when the weights are normalised."""
    drawn.v[:] = 1


def _apart(drawn: _Draw, rng: np.random.Generator) -> None:
    """Values of another size for each page and head: a neighbour's page, head or stride shows at once."""
    pages, heads = drawn.v.shape[:2]
    powers = ((np.arange(pages)[:, None] * 3 + np.arange(heads) * 5) % 8)[:, :, None, None]
    if drawn.v.dtype == np.float32:
        np.abs(drawn.v, out=drawn.v)
        drawn.v /= 4
        drawn.v += 1
        drawn.v *= (2.0**powers).astype(np.float32)
    else:  # a power of two is added to an exponent
        values = encode(1 + np.abs(standard_normal((_POOL,), rng)) / 4, drawn.workload.dtype)
        drawn.v = _over_and_over(values, drawn.v.shape)
        drawn.v += powers.astype(np.uint16) << np.uint16(7 if drawn.workload.dtype == "bf16" else 10)
    drawn.q = np.repeat(drawn.q[..., :1], drawn.workload.head_dim, axis=-1) / np.float32(4)


def _low_scores(drawn: _Draw, rng: np.random.Generator) -> None:
    """Raw scores near -60000: a hidden key whose score is a large negative number outweighs them all.

    Q and K are multiples of 1/8, so that fp32 holds every sum of their products whatever its order.
    """
    far = np.float32((60000 / drawn.workload.head_dim) ** 0.5)
    for x, shift in ((drawn.q, -far), (drawn.k, far)):
        np.copyto(x, np.round((x + shift) * 8) / 8)


def _large_values(drawn: _Draw, rng: np.random.Generator) -> None:
    """V near the type's maximum: an output summed in 16 bits before the division overflows."""
    w = drawn.workload
    drawn.v = np.float32(2.0**100) * drawn.v if w.dtype == "bf16" else (16000 * drawn.v).clip(-60000, 60000)


def _tiny_values(drawn: _Draw, rng: np.random.Generator) -> None:
    """V of 2^-17, which fp16 has as subnormal numbers alone: they are no zeros."""
    drawn.v *= np.float32(2.0**-17)


def _outliers(drawn: _Draw, rng: np.random.Generator) -> None:
    """N(0, 1) with one element in a thousand ten times as wide: uneven weights, uneven values."""
    for x in (drawn.q, drawn.k, drawn.v):
        rare = rng.random(x.shape, dtype=np.float32) < 1e-3
        x += 10 * rare * rng.standard_normal(x.shape, dtype=np.float32)


def _cap_scores(drawn: _Draw, rng: np.random.Generator) -> None:
    """Scores up to ten caps in both directions: all that counts is what tanh makes of them. Without a cap of
    moderate size.
    """
    most = min(10 * drawn.workload.softcap, 4000.0) or 20.0
    drawn.q *= np.float32(most / 3)


def _sinks_on_top(drawn: _Draw, rng: np.random.Generator) -> None:
    """Each head's sink is the largest score of one of its rows: taken once, it has the weight of that key."""
    w = drawn.workload
    candidates = [at for at, keys in enumerate(drawn.keys) if keys]
    if not candidates:
        return
    sequence = int(rng.choice(candidates))
    keys = drawn.keys[sequence]
    page, slot = drawn.places(sequence, np.arange(w.first_key(drawn.rows[sequence], keys), keys))
    if not len(page) or not drawn.rows[sequence]:
        return
    last = drawn.first_rows[sequence] + drawn.rows[sequence] - 1
    for head in range(w.heads):
        scores = drawn.k[page, head // w.gqa_ratio, slot] @ drawn.q[last, head] / np.float32(w.head_dim**0.5)
        top = scores.max()
        drawn.sinks[head] = w.softcap * np.tanh(top / w.softcap) if w.softcap else top


def _no_sinks(drawn: _Draw, rng: np.random.Generator) -> None:
    """Sinks of -inf weigh nothing."""
    drawn.sinks[:] = -np.inf


def _huge_sinks(drawn: _Draw, rng: np.random.Generator) -> None:
    """Sinks far above the scores: what is left for the keys is small, and must not be lost."""
    drawn.sinks[:] = 9 + drawn.sinks
    drawn.sinks[1::3] = -40


_ROWLESS = "rowless"  # the name of inputs of which some sequences have no row
_RECIPES: dict[str, tuple[Callable[[PagedWorkload, np.random.Generator], list[int]], tuple[Recipe, ...]]] = {
    "normal": (_as_asked, (_ordinary,)),
    "normal-again": (_anew, (_ordinary,)),
    "normal-after": (_anew, (_ordinary,)),
    "edges": (_at_edges, (_ordinary,)),
    "needles": (_at_edges, (_needles,)),
    "some_empty": (_some_empty, (_needles,)),
    "all_empty": (_all_empty, (_ordinary,)),
    "shared_pages": (_anew, (_share_pages, _needles)),
    "apart": (_anew, (_apart,)),
    "heavy_hidden": (_at_edges, (_heavy_hidden,)),
    "spikes": (_anew, (_spikes,)),
    "large_logits": (_anew, (_large_logits,)),
    "rising": (_as_asked, (lambda drawn, rng: _ramp(drawn, rng, rises=True),)),
    "falling": (_as_asked, (lambda drawn, rng: _ramp(drawn, rng, rises=False),)),
    "equal_keys": (_anew, (_equal_keys,)),
    "zero_queries": (_at_edges, (_zero_queries,)),
    "ones": (_at_edges, (_ones,)),
    "low_scores": (_at_edges, (_low_scores,)),
    "large_values": (_anew, (_large_values,)),
    "tiny_values": (_anew, (_tiny_values,)),
    "outliers": (_anew, (_outliers,)),
    "capped": (_anew, (_cap_scores,)),
    "sinks_on_top": (_anew, (_sinks_on_top,)),
    "no_sinks": (_some_empty, (_no_sinks,)),
    "huge_sinks": (_at_edges, (_huge_sinks,)),
    _ROWLESS: (_anew, ()),
}

# For small shapes. Sequences without a row were never measured on a GPU: they are for the emulator alone.
ALL = tuple(name for name in _RECIPES if name not in ("normal-after", _ROWLESS))
NAMES = InputNames(
    small=ALL,
    at_size=("normal", "needles", "some_empty", "apart"),
    scheduled=tuple(name for name in ALL if name != "normal-again"),
    after_timing="normal-after",
    ordinary=frozenset({"normal", "normal-again", "normal-after"}),
)


def draw(name: str, workload: PagedWorkload, *, seed: int) -> PagedInputs:
    """The test input of that name, always the same for one workload and seed.

    UsageError for an unknown name.
    """
    if name not in _RECIPES:
        raise UsageError(f"no trial is called '{name}': use {', '.join(_RECIPES)}.")
    w, rng = workload, stream_of(seed, name, workload)
    lengths, recipe = _RECIPES[name]
    rows = _gathered_rows(w, rng) if name == _ROWLESS else _query_rows(w, rng)
    keys = lengths(w, rng)
    pool = (pool_pages(w), w.kv_heads, w.page, w.head_dim)
    packed = w.dtype if name in NAMES.at_size or name == NAMES.after_timing else ""
    drawn = _Draw(
        w,
        standard_normal((w.total_q, w.heads, w.head_dim), rng),
        _normal(pool, rng, packed),
        _normal(pool, rng, packed),
        standard_normal((w.heads,), rng),
        rows,
        keys,
        _own_pages(w, rows, keys, rng),
    )
    for change in recipe:
        change(drawn, rng)
    heavy = name == "heavy_hidden"
    return PagedInputs(name, _tensors(drawn, rng, unseen_is_heavy=heavy))


def _tensors(drawn: _Draw, rng: np.random.Generator, *, unseen_is_heavy: bool) -> dict[str, NDArray[Any]]:
    w = drawn.workload
    k, v = (x if x.dtype == np.uint16 else encode(x, w.dtype) for x in (drawn.k, drawn.v))
    _poison_unseen(drawn, k, v, rng, unseen_is_heavy=unseen_is_heavy)
    tables = _tables(w, drawn.keys, drawn.pages, rng)
    return {"Q": encode(drawn.q, w.dtype), "K": k, "V": v, **tables, **_of_rows(w, drawn.rows, drawn.sinks)}


def _of_rows(workload: PagedWorkload, rows: Sequence[int], sinks: Single) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    if workload.ragged:
        found["QINDPTR"] = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
    if workload.sink:
        found["SINKS"] = encode(sinks, "bf16") if workload.sink == "bf16" else sinks.astype(np.float32)
    return found


def _poison_unseen(
    drawn: _Draw, k: Bits, v: Bits, rng: np.random.Generator, *, unseen_is_heavy: bool
) -> None:
    """NaN and infinities in the slots that no sequence has, but for older keys in the page where a window
    begins. Or heavy keys with large values there, which a NaN that is masked does not tell from others.
    """
    w = drawn.workload
    is_seen = np.zeros((k.shape[0], w.page), bool)
    for sequence, keys in enumerate(drawn.keys):
        first = w.first_key(drawn.rows[sequence], keys) // w.page * w.page
        if first < keys:
            is_seen[drawn.places(sequence, np.arange(first, keys))] = True
    page, slot = np.nonzero(~is_seen)
    if not len(page):
        return
    if unseen_is_heavy:
        k[page, :, slot] = encode(8 * np.sign(drawn.q.mean(axis=(0, 1))), w.dtype)
        v[page, :, slot] = encode(np.full(1, 1000, np.float32), w.dtype)
        return
    kinds = np.array([np.nan, np.inf, -np.inf, np.nan], np.float32)
    chosen = encode(rng.choice(kinds, (len(page), 1, 1)), w.dtype)
    k[page, :, slot] = chosen
    v[page, :, slot] = np.roll(chosen, 1)


def _tables(
    workload: PagedWorkload, keys: Sequence[int], pages: Sequence[NDArray[np.int32]], rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """What says where keys lie; an entry that no kernel may follow names no page of the pool."""
    w = workload
    no_page = np.array([-1, _INT32_MAX, first_page(w) + pool_pages(w), -(2**31)], np.int64)

    def strays(shape: tuple[int, ...]) -> NDArray[np.int32]:
        return rng.choice(no_page, shape).astype(np.int32)

    if w.caller == "csr":
        entries = strays((w.batch * w.columns,))
        begins = np.concatenate([[0], np.cumsum([len(each) for each in pages])]).astype(np.int32)
        for begin, each in zip(begins[:-1], pages, strict=True):
            part = entries[begin : begin + len(each)]
            part[each >= 0] = first_page(w) + each[each >= 0]
        last = [(length - 1) % w.page + 1 if length else int(rng.choice(no_page)) for length in keys]
        return {"INDPTR": begins, "PAGES": entries, "LAST": np.array(last, np.int64).astype(np.int32)}
    own = own_pages(w)
    table = strays((w.batch, w.columns * (2 if own else 1)))
    if own:  # what is behind the pool of K may lie in that of V
        of_v = table[:, w.columns :]
        of_v[of_v == no_page[2]] += own
    for row, each in zip(table, pages, strict=True):
        for begin, first in ((0, first_page(w)), (w.columns, first_page(w) + own))[: 2 if own else 1]:
            row[begin:][: len(each)][each >= 0] = first + each[each >= 0]
    bias = w.seq_q if w.caller == "append" else 0
    return {"TABLE": table, "LENGTHS": (np.array(keys, np.int64) - bias).astype(np.int32)}


def timed_inputs(workload: PagedWorkload, *, sets: int, rng: np.random.Generator) -> list[PagedInputs]:
    """That many inputs to be timed on: overlapping windows of one pool of normal numbers; which sequence has
    which of the workload's lengths, and in which order its pages lie, differs from set to set.

    Zeros would run too fast. What no row sees is finite, and entries that are not needed name a page, so that
    other libraries can be timed on the same inputs.
    """
    w, step = workload, 4096 + 8
    shape = (pool_pages(w), w.kv_heads, w.page, w.head_dim)
    size = math.prod(shape)
    bits = _normal((size + 2 * sets * step,), rng, w.dtype)
    bits = bits if bits.dtype == np.uint16 else encode(bits, w.dtype)
    found = []
    for at in range(sets):
        rows, keys = _query_rows(w, rng), _as_asked(w, rng)
        pages = [np.maximum(each, 0) for each in _own_pages(w, rows, keys, rng)]
        tables = _tables(w, keys, pages, rng)
        name, first = "PAGES" if w.caller == "csr" else "TABLE", first_pages(w)
        is_page = (tables[name] >= first) & (tables[name] < first + shape[0])
        tables[name] = np.where(is_page, tables[name], first).astype(np.int32)
        k, v = (bits[n * step : n * step + size].reshape(shape) for n in (2 * at, 2 * at + 1))
        q = encode(standard_normal((w.total_q, w.heads, w.head_dim), rng), w.dtype)
        sinks = standard_normal((w.heads,), rng)
        found.append(PagedInputs("normal", {"Q": q, "K": k, "V": v, **tables, **_of_rows(w, rows, sinks)}))
    return found


def python_inputs(workload: PagedWorkload, inputs: PagedInputs) -> dict[str, tuple[Any, ...]]:
    """What FlashInfer's traces call the inputs: pages with a row's heads side by side, their numbers end to
    end with where each sequence's begin and how full its last one is; numbers as far as the workload has
    them. An entry that names no page, before a window, is 0 here: who gathers pages in Python follows it.
    """
    w, given = workload, inputs.tensors
    sequences = sequences_of(w, inputs)
    pages = np.concatenate([np.zeros(0, np.int64), *(each.pages for each in sequences)])
    pages = np.where((pages >= 0) & (pages < len(given["K"])), pages, 0)
    last = [(each.keys - 1) % w.page + 1 if each.keys else 0 for each in sequences]

    def whole(numbers: Any) -> tuple[Any, str]:
        return np.asarray(numbers, np.int32), "int32"

    found: dict[str, tuple[Any, ...]] = {"q": (given["Q"], w.dtype, "Q")}
    found |= {f"{name.lower()}_cache": (given[name].swapaxes(1, 2), w.dtype, name) for name in ("K", "V")}
    if w.ragged or w.seq_q > 1:
        found["qo_indptr"] = whole(np.cumsum([0, *(each.rows for each in sequences)]))
    found["kv_indptr"] = whole(np.cumsum([0, *(len(each.pages) for each in sequences)]))
    found |= {"kv_indices": whole(pages), "kv_last_page_len": whole(last), "sm_scale": (scale(w),)}
    if w.window:
        found["window_left"] = (w.window - 1,)
    if w.softcap:
        found["logits_soft_cap"] = (w.softcap,)
    if w.sink:
        found["sinks"] = (given["SINKS"], w.sink)
    return found
