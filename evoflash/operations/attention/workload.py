"""Attention's workloads (its shapes), what kernels are compiled for, and their texts. Pure data.

How far apart two workloads are is told here too, for an archive of kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from evoflash.errors import UsageError, did_you_mean
from evoflash.operations.problem_sizes import check_memory, octaves

DTYPES = ("fp16", "bf16")
HEAD_DIMS = tuple(range(16, 257, 16))
ACCUMULATORS = ("fp32", "fp16")  # fp16: scores summed in 16 bits, an accuracy class of its own


@dataclass(frozen=True, slots=True)
class AttentionKey:
    """The part of a workload that a kernel is compiled for; everything else is a run-time argument."""

    head_dim: int
    dtype: str
    causal: bool
    gqa_ratio: int  # query heads per key/value head
    arch: str  # "sm_89", "sm_90a" ...
    accumulate: str = "fp32"
    operation: ClassVar[str] = "attention"

    def __str__(self) -> str:
        mask = "causal" if self.causal else "full"
        accuracy = "" if self.accumulate == "fp32" else f"acc={self.accumulate},"
        return f"d={self.head_dim},dtype={self.dtype},{mask},gqa={self.gqa_ratio},{accuracy}{self.arch}"

    def names(self) -> dict[str, Any]:
        return {
            "head_dim": self.head_dim,
            "dtype": self.dtype,
            "causal": self.causal,
            "gqa_ratio": self.gqa_ratio,
            "accumulate": self.accumulate,
        }

    def workload(self, batch: int, kv_heads: int, seq_q: int, seq_kv: int) -> "AttentionWorkload":
        """A workload that compiles to this key: the way back from Workload.compile_key."""
        return AttentionWorkload(
            batch=batch,
            heads=kv_heads * self.gqa_ratio,
            kv_heads=kv_heads,
            seq_q=seq_q,
            seq_kv=seq_kv,
            head_dim=self.head_dim,
            dtype=self.dtype,
            causal=self.causal,
            accumulate=self.accumulate,
        )


@dataclass(frozen=True, slots=True)
class AttentionWorkload:
    """One attention shape. Q is (batch, heads, seq_q, head_dim), K and V (batch, kv_heads, seq_kv, head_dim).

    Causal is bottom-right aligned: query i sees keys j <= i + seq_kv - seq_q. `accumulate` is what the scores
    may be summed in: "fp16" is another problem with wider thresholds, and its kernels never rank with fp32's.
    """

    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    head_dim: int
    dtype: str = "fp16"
    causal: bool = False
    accumulate: str = "fp32"
    operation: ClassVar[str] = "attention"

    def __post_init__(self) -> None:
        for name in ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} in a workload: give a number from 1 up.")
        if self.heads % self.kv_heads:
            raise UsageError(
                f"heads={self.heads} is not a multiple of kv_heads={self.kv_heads}: "
                "every key/value head serves the same number of query heads; change h or hkv."
            )
        if self.head_dim not in HEAD_DIMS:
            raise UsageError(f"head_dim {self.head_dim}: use a multiple of 16 from 16 to 256.")
        if self.dtype not in DTYPES:
            raise UsageError(f"dtype '{self.dtype}' is unknown: use {' or '.join(DTYPES)}.")
        if self.accumulate not in ACCUMULATORS or (self.accumulate, self.dtype) == ("fp16", "bf16"):
            raise UsageError(
                f"acc={self.accumulate} with dtype {self.dtype}: use acc=fp32, or acc=fp16 with dtype=fp16."
            )

    def __str__(self) -> str:
        shape = (
            f"b={self.batch},h={self.heads},hkv={self.kv_heads},sq={self.seq_q},skv={self.seq_kv},"
            f"d={self.head_dim},dtype={self.dtype}"
        )
        accuracy = "" if self.accumulate == "fp32" else f",acc={self.accumulate}"
        return shape + accuracy + (",causal" if self.causal else "")

    @property
    def gqa_ratio(self) -> int:
        return self.heads // self.kv_heads

    @property
    def visible_pairs(self) -> int:
        """(query, key) pairs of one head that the mask lets through."""
        if not self.causal:
            return self.seq_q * self.seq_kv
        offset = self.seq_kv - self.seq_q
        first = max(0, -offset)  # queries before it see nothing
        rows = self.seq_q - first
        smallest = first + offset + 1
        return rows * smallest + rows * (rows - 1) // 2

    @property
    def flops(self) -> int:
        """Multiply-adds count two; only visible pairs count (the physics floor uses this)."""
        return 4 * self.batch * self.heads * self.visible_pairs * self.head_dim

    @property
    def reported_flops(self) -> int:
        """The field's convention for TFLOPS: a causal mask with Sq = Skv counts half of the full square."""
        if self.causal and self.seq_q == self.seq_kv:
            return 2 * self.batch * self.heads * self.seq_q * self.seq_kv * self.head_dim
        return self.flops

    @property
    def bytes_moved(self) -> int:
        """Each of Q, K, V read once and O written once, in bytes."""
        rows = 2 * self.heads * self.seq_q + 2 * self.kv_heads * self.seq_kv
        return 2 * self.batch * rows * self.head_dim

    @property
    def precision(self) -> str:
        """What thresholds go by: the dtype, or "fp16-scores" where scores may be fp16 sums."""
        return self.dtype if self.accumulate == "fp32" else "fp16-scores"

    def compile_key(self, arch: str) -> AttentionKey:
        return AttentionKey(self.head_dim, self.dtype, self.causal, self.gqa_ratio, arch, self.accumulate)

    @property
    def extents(self) -> tuple[int, ...]:
        return self.seq_q, self.heads, self.batch

    def names(self) -> dict[str, int]:
        return {
            "batch": self.batch,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "seq_q": self.seq_q,
            "seq_kv": self.seq_kv,
        }


def _shape(
    batch: int, heads: int, kv_heads: int, seq_q: int, seq_kv: int, head_dim: int
) -> AttentionWorkload:
    return AttentionWorkload(batch, heads, kv_heads, seq_q, seq_kv, head_dim)


# The seeds' three, then the rows of the H200 anchors. A name is a shape; alone it means full mask, fp16.
NAMED: dict[str, AttentionWorkload] = {
    "mission": _shape(1, 8, 8, 512, 512, 64),
    "seed_short": _shape(1, 8, 8, 256, 256, 64),
    "seed_long": _shape(1, 8, 8, 1024, 1024, 64),
    "short128": _shape(1, 8, 8, 128, 128, 64),
    "short256": _shape(2, 8, 8, 256, 256, 64),
    "s1k_d64": _shape(4, 16, 16, 1024, 1024, 64),
    "s2k_d64": _shape(16, 16, 16, 2048, 2048, 64),
    "s2k_d128": _shape(8, 16, 16, 2048, 2048, 128),
    "s4k_d128": _shape(4, 16, 16, 4096, 4096, 128),
    "s8k_d128": _shape(2, 16, 16, 8192, 8192, 128),
    "s16k_d128": _shape(1, 16, 16, 16384, 16384, 128),
    "s8k_d64": _shape(2, 16, 16, 8192, 8192, 64),
    "gqa4k_d128": _shape(4, 32, 8, 4096, 4096, 128),
    "gqa8k_d128": _shape(1, 32, 8, 8192, 8192, 128),
    "decode8k": _shape(16, 32, 8, 1, 8192, 128),
}

_FIELDS = {
    "b": ("batch",),
    "h": ("heads",),
    "hkv": ("kv_heads",),
    "s": ("seq_q", "seq_kv"),
    "sq": ("seq_q",),
    "skv": ("seq_kv",),
    "d": ("head_dim",),
}
_WORDS = {"dtype": "dtype", "acc": "accumulate"}
# The most that a launch can hold. Batches lie along a grid's z and heads along its y, each 65,535 at most
# (CUDA C++ Programming Guide, technical specifications); kernels count rows in 32 bits.
_ROWS = 2**31 - 1
_MOST = {"b": 65_535, "h": 65_535, "hkv": 65_535, "s": _ROWS, "sq": _ROWS, "skv": _ROWS, "d": 256}
_WHY = {
    "b": "batches lie along a grid's z",
    "h": "heads lie along a grid's y",
    "hkv": "heads lie along a grid's y",
    "d": "no kernel has wider rows",
}


def parse_workload(text: str) -> AttentionWorkload:
    """One workload from its name, a refined name, or the free form; UsageError says what is missing.

    `mission`, `s2k_d64,causal,dtype=bf16` or `b=4,h=32,hkv=8,s=4096,d=128`.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    named = NAMED.get(words[0]) if words else None
    fields = _read_words(words[1:] if named else words, text)
    numbers = {field: value for key, value in fields.items() if key in _FIELDS for field in _FIELDS[key]}
    marks = {key: value for key, value in fields.items() if key not in _FIELDS}
    if named:
        if "heads" in numbers and named.heads == named.kv_heads:
            numbers.setdefault("kv_heads", numbers["heads"])  # the name means one key/value head a query head
        asked = replace(named, **numbers, **marks)  # type: ignore[arg-type]
        return check_memory(asked, text, fitting, otherwise="use fewer heads")
    if "heads" in numbers:
        numbers.setdefault("kv_heads", numbers["heads"])
    if missing := _missing_words(numbers):
        raise UsageError(
            f"problem '{text}' lacks {', '.join(missing)}: write b=,h=,s=,d= (and hkv=, sq=, skv=, dtype=, "
            f"acc=, causal) or a name: {', '.join(NAMED)}."
        )
    asked = AttentionWorkload(**numbers, **marks)  # type: ignore[arg-type]
    return check_memory(asked, text, fitting, otherwise="use fewer heads")


def fitting(workload: AttentionWorkload, most_bytes: int) -> str:
    """Shorter sequences with which the tensors of the workload take no more bytes, as words of a problem;
    where that is not enough a smaller batch as well. Empty where it still does not fit.
    """
    for batch in (workload.batch, 1):
        row_bytes = 4 * batch * workload.head_dim  # of one head of Q and O, or of K and V
        part = min(1.0, most_bytes / replace(workload, batch=batch).bytes_moved)
        seq_q = max(1, int(workload.seq_q * part))
        left_bytes = most_bytes - seq_q * workload.heads * row_bytes
        seq_kv = min(int(workload.seq_kv * part) or 1, left_bytes // (workload.kv_heads * row_bytes))
        if seq_kv > 0:
            rows = f"s={seq_q}" if seq_q == seq_kv else f"sq={seq_q},skv={seq_kv}"
            return rows if batch == workload.batch else f"b={batch},{rows}"
    return ""


def _read_words(words: Sequence[str], text: str) -> dict[str, int | str | bool]:
    """Keys and values; UsageError where two words say the same thing."""
    found: dict[str, int | str | bool] = {}
    said: dict[str, str] = {}  # the word that set a field of the workload
    for word in words:
        key, value = _read_word(word, text)
        for field in _FIELDS.get(key, (key,)):
            if field in said:
                raise UsageError(
                    f"'{said[field]}' and '{word}' in problem '{text}' both set {field}: keep one."
                )
            said[field] = word
        found[key] = value
    return found


def _missing_words(numbers: dict[str, Any]) -> list[str]:
    """What is to be written for the sizes that a text lacks, as `s=`; a text that sets both lengths alone
    may lack one.
    """
    lacks = {key: [field not in numbers for field in fields] for key, fields in _FIELDS.items()}
    both = all(lacks["s"])
    wanted = ("b", "h", "s", "d") if both else ("b", "h", "sq", "skv", "d")
    return [f"{key}=" for key in wanted if all(lacks[key])]


def _read_word(word: str, text: str) -> tuple[str, int | str | bool]:
    if word in ("causal", "full"):
        return "causal", word == "causal"
    key, equals, value = word.partition("=")
    if key in _WORDS and equals:
        return _WORDS[key], value
    if key in _FIELDS and equals:
        if not value.isascii() or not value.isdigit():
            raise UsageError(f"'{word}' in problem '{text}': give a whole number from 1 up.")
        if len(value.lstrip("0")) > len(str(_MOST[key])) or int(value) > _MOST[key]:
            why = _WHY.get(key, "kernels count rows in 32 bits")
            raise UsageError(f"{key} in problem '{text}': at most {_MOST[key]:,}, for {why}.")
        return key, int(value)
    raise UsageError(
        f"'{word}' in problem '{text}' is neither a name nor a field."
        f"{did_you_mean(word, (*NAMED, 'causal', 'full'))} `evoflash problems` lists the names, the fields "
        "are b=,h=,hkv=,s=,sq=,skv=,d=,dtype=,acc=,causal."
    )


# What a workload is further away for, each by the octaves between the two: of the rows that fill the GPU, of
# the keys that the loop walks over, of query heads a key/value head; nearly another kernel: of the head dim.
_ROW_WEIGHT, _KEYS, _GROUP, _HEAD_DIM = 0.5, 0.5, 0.5, 4.0
_MASK, _DTYPE, _ACCUMULATOR = 1.0, 0.5, 1.0  # where they differ


def distance(a: AttentionWorkload, b: AttentionWorkload) -> float:
    """0 for the same workload. Rows are batch * heads * seq_q, since they decide how full the GPU is; keys
    are seq_kv.
    """
    return (
        _ROW_WEIGHT * octaves(a.batch * a.heads * a.seq_q, b.batch * b.heads * b.seq_q)
        + _KEYS * octaves(a.seq_kv, b.seq_kv)
        + _GROUP * octaves(a.gqa_ratio, b.gqa_ratio)
        + _HEAD_DIM * octaves(a.head_dim, b.head_dim)
        + _MASK * (a.causal != b.causal)
        + _DTYPE * (a.dtype != b.dtype)
        + _ACCUMULATOR * (a.accumulate != b.accumulate)
    )
