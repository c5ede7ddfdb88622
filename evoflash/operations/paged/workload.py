"""Workloads of paged attention (its shapes), what kernels are compiled for, and their texts. Pure data.

How far apart two workloads are is told here too, for an archive of kernels.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from evoflash.errors import UsageError, did_you_mean
from evoflash.operations.problem_sizes import check_memory, octaves

DTYPES = ("fp16", "bf16")
HEAD_DIMS = tuple(range(16, 257, 16))
# A kernel is compiled for up to so many query rows of a sequence; how many there are is told at run time.
ROW_CLASSES = (1, 2, 4, 8, 16)
# A kernel may count on pages of a multiple of so many keys; how many a page has is told at run time.
PAGE_UNITS = (1, 16, 64, 128)
SINKS = ("fp32", "bf16")  # types of the sinks' logits
# How a caller says where keys lie: a dense table of pages and lengths; page numbers end to end with where
# each sequence's begin and how full its last page is; or a table and lengths without the newest keys.
CALLERS = ("table", "csr", "append")


@dataclass(frozen=True, slots=True)
class PagedKey:
    """The part of a workload that a kernel is compiled for; everything else is a run-time argument."""

    head_dim: int
    dtype: str
    gqa_ratio: int  # query heads per key/value head
    rows: int  # query rows of a sequence, at most
    page_unit: int  # a page has a multiple of so many keys
    arch: str  # "sm_89", "sm_90a" ...
    window: bool = False
    softcap: bool = False
    sink: bool = False
    ragged: bool = False
    invariant: bool = False
    operation: ClassVar[str] = "paged_attention"

    def __str__(self) -> str:
        marks = "".join(f",{name}" for name in FEATURES if getattr(self, name))
        pages = f"page={self.page_unit}n" if self.page_unit > 1 else "any page"
        return (
            f"d={self.head_dim},dtype={self.dtype},gqa={self.gqa_ratio},sq<={self.rows},{pages}{marks},"
            f"{self.arch}"
        )

    def names(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "arch"}

    @property
    def fewest(self) -> int:
        """Query rows of a sequence that a workload of this key has at least."""
        return max((known + 1 for known in ROW_CLASSES if known < self.rows), default=1)

    def workload(
        self, batch: int, kv_heads: int, seq_q: int, seq_kv: int, page: int, **more: Any
    ) -> "PagedWorkload":
        """A workload that compiles to this key: the way back from Workload.compile_key."""
        given = {
            "window": max(1, seq_kv // 2) if self.window else 0,
            "softcap": 5.0 if self.softcap else 0.0,
            "sink": "fp32" if self.sink else "",
        }
        return PagedWorkload(
            batch=batch,
            heads=kv_heads * self.gqa_ratio,
            kv_heads=kv_heads,
            seq_q=seq_q,
            seq_kv=seq_kv,
            head_dim=self.head_dim,
            page=page,
            dtype=self.dtype,
            ragged=self.ragged,
            invariant=self.invariant,
            **{**given, **more},
        )


FEATURES = ("window", "softcap", "sink", "ragged", "invariant")


def _even(batch: int, most: int) -> list[int]:
    return [most * (at + 1) // batch for at in range(batch)]


def _production(batch: int, most: int) -> list[int]:
    """Of 32 parts of the longest sequence 1, 2, 4 ... as often as in production (flashinfer PR #3379)."""
    shares = ((1, 35), (2, 55), (4, 70), (8, 82), (16, 92), (32, 100))
    of_each = [
        next(part for part, up_to in shares if 200 * at + 100 < 2 * batch * up_to) for at in range(batch)
    ]
    return [max(1, most * part // 32) for part in of_each]


def _halves(batch: int, most: int) -> list[int]:
    return [most if at >= batch // 2 else max(1, most // 32) for at in range(batch)]


def _one_long(batch: int, most: int) -> list[int]:
    return [max(1, most // 32)] * (batch - 1) + [most]


def _all_but_one_short(batch: int, most: int) -> list[int]:
    return [max(1, most // 256)] * (batch - 1) + [most]


def _with_padding(batch: int, most: int) -> list[int]:
    """A captured batch of which a quarter are places that no sequence takes."""
    return [0] * (batch // 4) + _even(batch - batch // 4, most)


# Lengths of a batch, by the longest: in ascending order. Which sequence has which is drawn.
LENGTHS: dict[str, Callable[[int, int], list[int]]] = {
    "prod": _production,
    "even": _even,
    "halves": _halves,
    "one_long": _one_long,
    "skewed": _all_but_one_short,
    "padded": _with_padding,
}


@dataclass(frozen=True)
class PagedWorkload:
    """One shape of attention of a few query rows over keys and values in pages.

    Of a sequence's rows and keys query i sees keys j <= i + keys - rows, and with a window only the last
    `window` of these. `lengths` is the name of a distribution whose longest is `seq_kv`, or the lengths as
    text, as "4096/15x64"; empty: all sequences have `seq_kv` keys. With `ragged` sequences have 1 to `seq_q`
    query rows. `sink` is the type of the heads' sinks, empty without. With `invariant` a sequence's output
    must not depend on what else is in a batch, not by one bit. `caller`: see CALLERS.
    """

    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    head_dim: int
    page: int
    dtype: str = "fp16"
    lengths: str = ""
    window: int = 0
    softcap: float = 0.0
    sink: str = ""
    ragged: bool = False
    invariant: bool = False
    caller: str = "table"
    lse_base: str = "e"
    operation: ClassVar[str] = "paged_attention"

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "page"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} in a workload: give a number from 1 up.")
        if self.heads % self.kv_heads:
            raise UsageError(
                f"heads={self.heads} is not a multiple of kv_heads={self.kv_heads}: "
                "every key/value head serves the same number of query heads; change h or hkv."
            )
        if self.seq_q > ROW_CLASSES[-1]:
            raise UsageError(
                f"sq={self.seq_q} with pages: attention on pages is of at most {ROW_CLASSES[-1]} query rows."
            )
        if self.head_dim not in HEAD_DIMS:
            raise UsageError(f"head_dim {self.head_dim}: use a multiple of 16 from 16 to 256.")
        for name, known in (
            ("dtype", DTYPES),
            ("caller", CALLERS),
            ("sink", ("", *SINKS)),
            ("lse_base", "e2"),
        ):
            if getattr(self, name) not in known:
                shown = ", ".join(filter(None, known))
                raise UsageError(
                    f"{_WORD_OF.get(name, name)} '{getattr(self, name)}' is unknown: use {shown}."
                )
        if not 0 <= self.softcap <= _MOST_SOFTCAP or not 0 <= self.window <= _ROWS:
            raise UsageError(
                f"window={self.window}, softcap={self.softcap:g}: give numbers from 0 (none) up."
            )
        if self.lengths not in LENGTHS:
            object.__setattr__(self, "lengths", _canonical_lengths(self.lengths, self.batch, self.seq_kv))

    def __str__(self) -> str:
        shape = (
            f"b={self.batch},h={self.heads},hkv={self.kv_heads},sq={self.seq_q},skv={self.seq_kv},"
            f"d={self.head_dim},page={self.page},dtype={self.dtype}"
        )
        marks = (
            f",lengths={self.lengths}" if self.lengths else "",
            f",window={self.window}" if self.window else "",
            f",softcap={self.softcap:g}" if self.softcap else "",
            "" if not self.sink else ",sink" if self.sink == "fp32" else f",sink={self.sink}",
            ",ragged" if self.ragged else "",
            ",invariant" if self.invariant else "",
            f",caller={self.caller}" if self.caller != "table" else "",
            ",lse=2" if self.lse_base == "2" else "",
        )
        return shape + "".join(marks)

    @property
    def gqa_ratio(self) -> int:
        return self.heads // self.kv_heads

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """How many each sequence has, in ascending order."""
        return _numbers(self.lengths, self.batch, self.seq_kv)

    @cached_property
    def query_rows(self) -> tuple[int, ...]:
        """How many each sequence has, in descending order."""
        if not self.ragged:
            return (self.seq_q,) * self.batch
        return tuple(self.seq_q - at * self.seq_q // self.batch for at in range(self.batch))

    @property
    def total_q(self) -> int:
        """Query rows of all sequences."""
        return sum(self.query_rows)

    @property
    def columns(self) -> int:
        """Pages of a sequence, at most: columns of the page table."""
        return -(-self.seq_kv // self.page)

    @property
    def sequences(self) -> tuple[tuple[int, int], ...]:
        """Rows and keys of each, as if the longest had the most rows."""
        return tuple(zip(self.query_rows, reversed(self.keys), strict=True))

    def first_key(self, rows: int, keys: int) -> int:
        """The first key of a sequence that any of its rows sees."""
        return max(0, keys - rows + 1 - self.window) if self.window else 0

    def visible_pairs(self, rows: int, keys: int) -> int:
        """(query, key) pairs of one head of a sequence."""
        newest = (keys - rows + at + 1 for at in range(rows))  # keys up to each row's own
        return sum(max(0, min(seen, self.window or seen)) for seen in newest)

    @property
    def flops(self) -> int:
        """Multiply-adds count two; only visible pairs count (the physics floor uses this)."""
        return 4 * self.heads * self.head_dim * sum(self.visible_pairs(*each) for each in self.sequences)

    @property
    def reported_flops(self) -> int:
        return self.flops

    @property
    def bytes_moved(self) -> int:
        """Q read and O written once, and of K and V each key that some row sees, in bytes."""
        keys = sum(length - self.first_key(rows, length) for rows, length in self.sequences)
        return 4 * self.head_dim * (self.kv_heads * keys + self.heads * self.total_q)

    @property
    def precision(self) -> str:
        """What thresholds go by."""
        return self.dtype

    def compile_key(self, arch: str) -> PagedKey:
        return PagedKey(
            self.head_dim,
            self.dtype,
            self.gqa_ratio,
            next(known for known in ROW_CLASSES if known >= self.seq_q),
            max(unit for unit in PAGE_UNITS if self.page % unit == 0),
            arch,
            *(bool(getattr(self, name)) for name in FEATURES),
        )

    @property
    def extents(self) -> tuple[int, ...]:
        return self.seq_q, self.seq_kv, self.heads, self.batch

    def names(self) -> dict[str, int]:
        return {
            "batch": self.batch,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "seq_q": self.seq_q,
            "seq_kv": self.seq_kv,
            "total_q": self.total_q,
            "page_size": self.page,
        }


_ROWS = 2**31 - 1  # kernels count keys in 32 bits
_MOST_SOFTCAP = 1e5  # which is written without a +, that joins problems
_WORD_OF = {"lse_base": "lse"}  # the word of a problem, where that is not the field's name


@lru_cache(maxsize=1024)
def _numbers(lengths: str, batch: int, most: int) -> tuple[int, ...]:
    """Of a name, a list as it is written or nothing, in ascending order."""
    if not lengths:
        return (most,) * batch
    if lengths in LENGTHS:
        return tuple(sorted(LENGTHS[lengths](batch, most)))
    return tuple(sorted(_read_list(lengths)))


def _read_list(text: str) -> list[int]:
    """Lengths of "4096/15x64"; UsageError for what is none."""
    found: list[int] = []
    for part in text.split("/"):
        times, _, number = part.rpartition("x")
        for word in (times or "1", number):
            if not word.isascii() or not word.isdigit() or len(word) > 9:
                known = ", ".join(LENGTHS)
                hint = did_you_mean(text, LENGTHS)
                raise UsageError(
                    f"lengths={text}:{hint} write numbers as in lengths=4096/15x64, or one of {known}."
                )
        if not 1 <= int(times or "1") <= _MOST["b"]:
            raise UsageError(f"lengths={text}: '{part}' is of 1 to {_MOST['b']:,} sequences.")
        found += [int(number)] * int(times or "1")
    return found


def _canonical_lengths(text: str, batch: int, most: int) -> str:
    """The list in descending order, equal lengths written once; empty where all are the longest there is."""
    if not text:
        return ""
    numbers = sorted(_read_list(text), reverse=True)
    if len(numbers) != batch:
        raise UsageError(f"lengths={text} are {len(numbers)}, of b={batch} sequences: give as many of both.")
    if numbers[0] > most:
        raise UsageError(f"lengths={text}: {numbers[0]} keys are more than skv={most}: give a larger skv.")
    if numbers[-1] == most:
        return ""
    runs = [(numbers.count(each), each) for each in dict.fromkeys(numbers)]
    return "/".join(f"{times}x{each}" if times > 1 else str(each) for times, each in runs)


def _row(
    heads: str, head_dim: int, batch: int, seq_kv: int, page: int, *, seq_q: int = 1, **more: Any
) -> PagedWorkload:
    h, g = map(int, heads.split("/"))
    return PagedWorkload(batch, h, g, seq_q, seq_kv, head_dim, page, **{"dtype": "bf16", **more})


_K = 1024
# Layers as they lie on one GPU. A name is a shape, and its lengths.
NAMED: dict[str, PagedWorkload] = {
    "serving_llama8b_b1_1k": _row("32/8", 128, 1, _K, 16),
    "serving_llama8b_b1_8k": _row("32/8", 128, 1, 8 * _K, 16),
    "serving_llama8b_b8_4k": _row("32/8", 128, 8, 4 * _K, 16),
    "serving_llama8b_b64_4k": _row("32/8", 128, 64, 4 * _K, 16),
    "serving_llama8b_sq4_b8_8k": _row("32/8", 128, 8, 8 * _K, 16, seq_q=4),
    "serving_llama70b_tp8_b32_32k": _row("8/1", 128, 32, 32 * _K, 64),
    "serving_llama70b_tp4_b16_prod": _row("16/2", 128, 16, 128 * _K, 16, lengths="prod"),
    "serving_qwen3_30b_b1_1k": _row("32/4", 128, 1, _K, 64),
    "serving_qwen3_32b_tp2_b16_4k": _row("32/4", 128, 16, 4 * _K, 16),
    "serving_qwen35_35b_b8_16k": _row("16/2", 256, 8, 16 * _K, 16),
    "serving_gpt_oss_b32_8k": _row("64/8", 64, 32, 8 * _K, 16, sink="fp32"),
    "serving_gpt_oss_b32_8k_w128": _row("64/8", 64, 32, 8 * _K, 16, sink="fp32", window=128),
    "serving_gemma3_b16_16k_w1024": _row("16/8", 256, 16, 16 * _K, 16, window=1024),
    "serving_gemma3_b4_32k": _row("16/8", 256, 4, 32 * _K, 16),
    "serving_gemma2_b8_8k": _row("16/8", 256, 8, 8 * _K, 16, softcap=50.0),
    "serving_qwen25_7b_b8_2k": _row("28/4", 128, 8, 2 * _K, 16),
    "serving_tp8_skewed": _row("8/1", 128, 16, 16 * _K, 64, lengths="skewed"),
    "serving_tp8_halves": _row("8/1", 128, 64, 4 * _K, 64, lengths="halves"),
}

_FIELDS = {
    "b": "batch",
    "h": "heads",
    "hkv": "kv_heads",
    "sq": "seq_q",
    "skv": "seq_kv",
    "d": "head_dim",
    "page": "page",
    "window": "window",
}
_TEXTS = {"dtype": "dtype", "lengths": "lengths", "sink": "sink", "caller": "caller", "lse": "lse_base"}
_SWITCHES = ("ragged", "invariant")
# The most that a launch can hold, as of the dense form.
_MOST = {
    "b": 65_535,
    "h": 65_535,
    "hkv": 65_535,
    "sq": 16,
    "skv": _ROWS,
    "d": 256,
    "page": 65_536,
    "window": _ROWS,
}
_FORM = (
    "b=8,h=32,hkv=8,sq=1,skv=4096,d=128,page=16, perhaps dtype=, lengths=, window=, softcap=, sink, ragged, "
    "invariant"
)


def parse_workload(text: str) -> PagedWorkload:
    """One workload from its name, a refined name, or the free form; UsageError says what is missing.

    `serving_llama8b_b1_8k`, or `b=8,h=32,hkv=8,sq=1,skv=4096,d=128,page=16,window=1024,softcap=50,sink`.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    named = NAMED.get(words[0]) if words else None
    found: dict[str, Any] = {}
    for word in words[1:] if named else words:
        field, value = _read_word(word, text)
        if field in found:
            raise UsageError(f"'{word}' in problem '{text}' sets {field} again: keep one.")
        found[field] = value
    found.pop("causal", None)
    if named:
        if "batch" in found or "seq_kv" in found:  # a list is of its own batch and longest
            found.setdefault("lengths", named.lengths if named.lengths in LENGTHS else "")
        return check_memory(replace(named, **found), text, fitting, otherwise="use fewer sequences")
    found.setdefault("seq_q", 1)
    if "heads" in found:
        found.setdefault("kv_heads", found["heads"])
    if found.get("lengths", "prod") not in LENGTHS:
        numbers = _read_list(found["lengths"])
        found.setdefault("batch", len(numbers))
        found.setdefault("seq_kv", max(1, *numbers))
    lacks = [word for word, field in _FIELDS.items() if field not in found and field != "window"]
    if lacks:
        words_of = ", ".join(f"{word}=" for word in lacks)
        raise UsageError(f"problem '{text}' lacks {words_of}: write {_FORM}, or a name: {', '.join(NAMED)}.")
    return check_memory(PagedWorkload(**found), text, fitting, otherwise="use fewer sequences")


def _read_word(word: str, text: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if word in _SWITCHES or word == "causal":  # a query of a few sees no later key, said or not
        return word, True
    if word == "sink":
        return "sink", "fp32"
    if key in _TEXTS and value:
        return _TEXTS[key], value
    if key == "softcap" and equals:
        return "softcap", _read_softcap(word, value, text)
    if key in _FIELDS and equals:
        if not value.isascii() or not value.isdigit():
            raise UsageError(f"'{word}' in problem '{text}': give a whole number from 1 up.")
        if len(value.lstrip("0")) > len(str(_MOST[key])) or int(value) > _MOST[key]:
            raise UsageError(f"{key} in problem '{text}': at most {_MOST[key]:,} with pages.")
        return _FIELDS[key], int(value)
    known = (*NAMED, *_SWITCHES, "sink", "causal", *(f"{each}=" for each in (*_FIELDS, *_TEXTS, "softcap")))
    raise UsageError(
        f"'{word}' in problem '{text}' is neither a name nor a field of attention on pages."
        f"{did_you_mean(word, known)} Write {_FORM}."
    )


def _read_softcap(word: str, value: str, text: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number <= _MOST_SOFTCAP or float(f"{number:g}") != number:
        raise UsageError(
            f"'{word}' in problem '{text}': give a number of up to six digits, from 0 (none) to "
            f"{_MOST_SOFTCAP:,.0f}."
        )
    return number


def fitting(workload: PagedWorkload, most_bytes: int) -> str:
    """Shorter sequences with which the tensors of the workload take no more bytes, as words of a problem;
    empty where none fit, or where a list says how long they are.
    """
    if workload.lengths and workload.lengths not in LENGTHS:
        return ""
    low, high = 0, workload.seq_kv  # the largest that fits lies between
    while low < high:
        middle = (low + high + 1) // 2
        if replace(workload, seq_kv=middle).bytes_moved <= most_bytes:
            low = middle
        else:
            high = middle - 1
    return f"skv={low}" if low else ""


# What a workload is further away for, each by the octaves between the two: of the rows that fill the GPU, of
# all keys, of the longest's, of a group; nearly another kernel: of the head dimension; and where they differ.
_ROW_WEIGHT, _KEYS, _LONGEST, _GROUP, _HEAD_DIM, _PAGE = 0.5, 0.5, 0.25, 0.5, 4.0, 0.1
_FEATURE, _DTYPE = 0.5, 0.5


def distance(a: PagedWorkload, b: PagedWorkload) -> float:
    """0 for the same workload."""
    return (
        _ROW_WEIGHT * octaves(a.kv_heads * a.total_q, b.kv_heads * b.total_q)
        + _KEYS * octaves(1 + sum(a.keys), 1 + sum(b.keys))
        + _LONGEST * octaves(1 + a.keys[-1], 1 + b.keys[-1])
        + _GROUP * octaves(a.gqa_ratio, b.gqa_ratio)
        + _HEAD_DIM * octaves(a.head_dim, b.head_dim)
        + _PAGE * octaves(a.page, b.page)
        + _FEATURE * sum(bool(getattr(a, name)) != bool(getattr(b, name)) for name in FEATURES)
        + (octaves(a.window, b.window) / 4 if a.window and b.window else 0)
        + _DTYPE * (a.dtype != b.dtype)
    )


def pages_needed(workload: PagedWorkload, sequences: Sequence[tuple[int, int]]) -> int:
    """Pages with a key that some row sees, of sequences of so many rows and keys that share none."""
    p = workload.page
    return sum(-(-keys // p) - min(keys, workload.first_key(rows, keys)) // p for rows, keys in sequences)
