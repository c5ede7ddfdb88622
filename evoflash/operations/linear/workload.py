"""Workloads of the linear layer (its shapes), what kernels are compiled for, and their texts. Pure data.

How far apart two workloads are is told here too, for an archive of kernels.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from evoflash.errors import UsageError, did_you_mean

BLOCK = 128  # rows and columns of W that share a scale, where scales are of blocks
# What W consists of: bf16; e4m3 with an fp32 scale for each block of 128 x 128; e4m3 with one fp32 scale.
WEIGHTS = ("bf16", "fp8b128", "fp8t")
# A kernel is compiled for up to so many rows of x; how many there are is told at run time.
ROW_CLASSES = (1, 2, 4, 8, 16, 32, 64)
_STEP = 16  # elements: rows of x and of W are whole vectors of 16 bytes


@dataclass(frozen=True, slots=True)
class LinearKey:
    """The part of a workload that a kernel is compiled for; everything else is a run-time argument."""

    weights: str
    rows: int  # of x, at most
    arch: str  # "sm_89", "sm_90a" ...
    bias: bool = False
    residual: bool = False
    operation: ClassVar[str] = "linear"

    def __str__(self) -> str:
        added = "".join(f",{name}" for name in ("bias", "residual") if getattr(self, name))
        return f"m<={self.rows},dtype={self.weights}{added},{self.arch}"

    def names(self) -> dict[str, Any]:
        """What templates and the expressions of their headers see of it."""
        return {
            "weights": self.weights,
            "rows": self.rows,
            "bias": self.bias,
            "residual": self.residual,
            "weight_bytes": weight_bytes(self.weights),
        }

    @property
    def fewest(self) -> int:
        """Rows of x that a workload of this key has at least."""
        return max((known + 1 for known in ROW_CLASSES if known < self.rows), default=1)

    def workload(self, m: int, n: int, k: int) -> "LinearWorkload":
        """A workload that compiles to this key: the way back from Workload.compile_key."""
        return LinearWorkload(m, n, k, self.weights, bias=self.bias, residual=self.residual)


def weight_bytes(weights: str) -> int:
    """Of an element of W."""
    return 2 if weights == "bf16" else 1


@dataclass(frozen=True, slots=True)
class LinearWorkload:
    """y = x W^T, and what is added to it: x is (m, k), W (n, k), y (m, n); x and y are bf16.

    W's scales multiply: `fp8b128` has one for each 128 x 128 elements of W, the last of a row or column for
    what is left; `fp8t` has one for all. A bias is one number for each column of y, a residual one for each
    element.
    """

    m: int
    n: int
    k: int
    weights: str = "bf16"
    bias: bool = False
    residual: bool = False
    operation: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            if getattr(self, name) < 1:
                raise UsageError(
                    f"{name}={getattr(self, name)} in a linear problem: give a number from 1 up."
                )
        if self.m > ROW_CLASSES[-1]:
            raise UsageError(
                f"m={self.m}: this is the linear layer of a decoding step, of at most {ROW_CLASSES[-1]} rows."
            )
        if self.k % _STEP:
            raise UsageError(f"k={self.k}: rows are read by 16 bytes, use a multiple of {_STEP}.")
        if self.weights not in WEIGHTS:
            raise UsageError(
                f"dtype '{self.weights}' of a linear problem is unknown: use {', '.join(WEIGHTS)}."
            )

    def __str__(self) -> str:
        """The canonical form: the key in the database, accepted by --problem."""
        added = "".join(f",{name}" for name in ("bias", "residual") if getattr(self, name))
        return f"linear:m={self.m},n={self.n},k={self.k},dtype={self.weights}{added}"

    @property
    def dtype(self) -> str:
        """Of x and y."""
        return "bf16"

    @property
    def precision(self) -> str:
        """What thresholds go by: the output's type, since sums are in fp32 and W is exact as it is given."""
        return "bf16"

    @property
    def flops(self) -> int:
        """Multiply-adds count two."""
        return 2 * self.m * self.n * self.k

    @property
    def reported_flops(self) -> int:
        return self.flops

    @property
    def scale_shape(self) -> tuple[int, int]:
        """Of W's scales; (0, 0) where it has none."""
        if self.weights == "bf16":
            return 0, 0
        return (1, 1) if self.weights == "fp8t" else (-(-self.n // BLOCK), -(-self.k // BLOCK))

    @property
    def bytes_moved(self) -> int:
        """W, its scales, x and what is added read once, y written once."""
        scales, added = math.prod(self.scale_shape), self.n * self.bias + self.m * self.n * self.residual
        weights = weight_bytes(self.weights) * self.n * self.k
        return weights + 4 * scales + 2 * (self.m * self.k + self.m * self.n + added)

    @property
    def extents(self) -> tuple[int, ...]:
        return self.m, self.n, self.k

    def compile_key(self, arch: str) -> LinearKey:
        rows = next(known for known in ROW_CLASSES if known >= self.m)
        return LinearKey(self.weights, rows, arch, self.bias, self.residual)

    def names(self) -> dict[str, int]:
        """The run-time sizes, by the names that launch expressions use."""
        return {"m": self.m, "n": self.n, "k": self.k}


# (n, k) of layers as they lie on one GPU: Llama 3.1 8B whole, 70B over eight GPUs, DeepSeek V3 over eight.
NAMED: dict[str, tuple[int, int]] = {
    "8b_qkv": (6144, 4096),
    "8b_o": (4096, 4096),
    "8b_gateup": (28672, 4096),
    "8b_down": (4096, 14336),
    "8b_head": (128256, 4096),
    "70b_tp8_qkv": (1280, 8192),
    "70b_tp8_o": (8192, 1024),
    "70b_tp8_gateup": (7168, 8192),
    "70b_tp8_down": (8192, 3584),
    "dsv3_qkv_a": (2112, 7168),
    "dsv3_q_b": (3072, 1536),
    "dsv3_o": (7168, 2048),
    "dsv3_kv_a": (576, 7168),
}
_MOST = 1 << 24  # of n and k: offsets within a row and numbers of rows are counted in 32 bits
_SWITCHES = ("bias", "residual")
_FORM = "m=16,n=6144,k=4096,dtype=bf16|fp8b128|fp8t, perhaps bias and residual"


def parse_workload(text: str) -> LinearWorkload:
    """One workload of `m=16,n=6144,k=4096,dtype=fp8b128`, or of a layer's name in the place of n and k."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    found: dict[str, Any] = {}
    for word in words:
        for key, value in _read_word(word, text).items():
            if key in found:
                raise UsageError(f"'{word}' in problem 'linear:{text}' sets {key} again: keep one.")
            found[key] = value
    missing = [name for name in ("m", "n", "k") if name not in found]
    if missing:
        raise UsageError(
            f"problem 'linear:{text}' lacks {', '.join(missing)}: write {_FORM}; names of n and k are "
            f"{', '.join(NAMED)}."
        )
    return LinearWorkload(**found)


def _read_word(word: str, text: str) -> dict[str, Any]:
    if word in NAMED:
        return dict(zip(("n", "k"), NAMED[word], strict=True))
    if word in _SWITCHES:
        return {word: True}
    key, equals, value = word.partition("=")
    if key == "dtype" and equals:
        return {"weights": value}
    if key in ("m", "n", "k") and equals:
        if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) > _MOST:
            raise UsageError(f"'{word}' in problem 'linear:{text}': give a whole number from 1 to {_MOST:,}.")
        return {key: int(value)}
    raise UsageError(
        f"'{word}' in problem 'linear:{text}' is neither a field nor a layer's name."
        f"{did_you_mean(word, NAMED)} Write {_FORM}."
    )


def fitting(workload: LinearWorkload, most_bytes: int) -> str:
    """Fewer columns of y with which the tensors take no more bytes, as words of a problem; empty where none
    fits.
    """
    n = int(workload.n * most_bytes / workload.bytes_moved)
    while n > 0 and replace(workload, n=n).bytes_moved > most_bytes:
        n -= max(1, n // 1000)
    return f"n={n}" if n > 0 else ""


# What a workload is further away for: by the octaves between two, and where other code is compiled.
_SIZE, _DEPTH, _ROWS, _WEIGHTS, _ADDED = 1.0, 1.0, 0.5, 2.0, 0.5


def distance(a: LinearWorkload, b: LinearWorkload) -> float:
    """0 for the same workload. The columns of y decide how full the GPU is, k how long a column takes."""
    return (
        _SIZE * _octaves(a.n, b.n)
        + _DEPTH * _octaves(a.k, b.k)
        + _ROWS * _octaves(a.m, b.m)
        + _WEIGHTS * (a.weights != b.weights)
        + _ADDED * ((a.bias != b.bias) + (a.residual != b.residual))
    )


def _octaves(a: int, b: int) -> float:
    return abs(math.log2(a / b))
