"""Workloads of the linear layer (its shapes), what kernels are compiled for, and their texts. Pure data.

How far apart two workloads are is told here too, for an archive of kernels.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from evoflash.errors import UsageError, did_you_mean
from evoflash.operations.problem_sizes import octaves

BLOCK = 128  # rows and columns of W that share a scale, where scales are of blocks
X_SCALE_STEP = 4  # scales of x in 16 bytes
# What W consists of: bf16; e4m3 with an fp32 scale for each block of 128 x 128; e4m3 with one fp32 scale.
WEIGHTS = ("bf16", "fp8b128", "fp8t")
# What x consists of: bf16; or, where W's scales are of blocks, e4m3 with an fp32 scale for each row and each
# 128 columns.
ACTIVATIONS = ("bf16", "e4m3")
# A kernel is compiled for up to so many rows of x; how many there are is told at run time.
ROW_CLASSES = (1, 2, 4, 8, 16, 24, 32, 40, 48, 64)
_STEP = 16  # elements: rows of x and of W are whole vectors of 16 bytes
_SWITCHES = ("bias", "residual")


@dataclass(frozen=True, slots=True)
class LinearKey:
    """The part of a workload that a kernel is compiled for; everything else is a run-time argument."""

    weights: str
    rows: int  # of x, at most
    arch: str  # "sm_89", "sm_90a" ...
    bias: bool = False
    residual: bool = False
    x: str = "bf16"
    operation: ClassVar[str] = "linear"

    def __str__(self) -> str:
        return f"m<={self.rows},{_kind(self)},{self.arch}"

    def names(self) -> dict[str, Any]:
        return {
            "weights": self.weights,
            "rows": self.rows,
            "bias": self.bias,
            "residual": self.residual,
            "weight_bytes": element_bytes(self.weights),
            "x_bytes": element_bytes(self.x),
        }

    @property
    def fewest(self) -> int:
        """Rows of x that a workload of this key has at least."""
        return max((known + 1 for known in ROW_CLASSES if known < self.rows), default=1)

    def workload(self, m: int, n: int, k: int) -> "LinearWorkload":
        """A workload that compiles to this key: the way back from Workload.compile_key."""
        return LinearWorkload(m, n, k, self.weights, bias=self.bias, residual=self.residual, x=self.x)


def element_bytes(kind: str) -> int:
    """Of an element of W, or of x."""
    return 2 if kind == "bf16" else 1


def _kind(what: "LinearKey | LinearWorkload") -> str:
    """The words that say of what types it is, and what is added."""
    x = "" if what.x == "bf16" else f",x={what.x}"
    return f"dtype={what.weights}{x}{''.join(f',{name}' for name in _SWITCHES if getattr(what, name))}"


@dataclass(frozen=True, slots=True)
class LinearWorkload:
    """y = x W^T, and what is added to it: x is (m, k), W (n, k), y (m, n); y is bf16, and x is unless it says
    otherwise.

    W's scales multiply: `fp8b128` has one for each 128 x 128 elements of W, the last of a row or column for
    what is left; `fp8t` has one for all. Those of x multiply, too: of each row, one for each 128 elements. A
    bias is one number for each column of y, a residual one for each element.
    """

    m: int
    n: int
    k: int
    weights: str = "bf16"
    bias: bool = False
    residual: bool = False
    x: str = "bf16"
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
        if self.x not in ACTIVATIONS:
            raise UsageError(f"x={self.x} of a linear problem is unknown: use {', '.join(ACTIVATIONS)}.")
        if self.x == "e4m3" and self.weights != "fp8b128":
            raise UsageError(
                f"x=e4m3 with dtype={self.weights}: x in 8 bits has a scale for each 128 columns, which goes "
                "with dtype=fp8b128."
            )

    def __str__(self) -> str:
        return f"linear:m={self.m},n={self.n},k={self.k},{_kind(self)}"

    @property
    def dtype(self) -> str:
        """Of y, and of what is added."""
        return "bf16"

    @property
    def precision(self) -> str:
        """What thresholds go by: the type of y, since sums are in fp32, and W and x exact as given."""
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
    def x_scale_shape(self) -> tuple[int, int]:
        """Of x's scales as they lie in memory, (blocks of k, rows): those of one block side by side, and as
        many as TMA wants, a multiple of 16 bytes. (0, 0) where it has none.
        """
        if self.x == "bf16":
            return 0, 0
        return -(-self.k // BLOCK), -(-self.m // X_SCALE_STEP) * X_SCALE_STEP

    @property
    def bytes_moved(self) -> int:
        """W, x, their scales and what is added read once, y written once."""
        scales = math.prod(self.scale_shape) + math.prod(self.x_scale_shape)
        added = self.n * self.bias + self.m * self.n * self.residual
        elements = element_bytes(self.weights) * self.n * self.k + element_bytes(self.x) * self.m * self.k
        return elements + 4 * scales + 2 * (self.m * self.n + added)

    @property
    def extents(self) -> tuple[int, ...]:
        return self.m, self.n, self.k

    def compile_key(self, arch: str) -> LinearKey:
        rows = next(known for known in ROW_CLASSES if known >= self.m)
        return LinearKey(self.weights, rows, arch, self.bias, self.residual, self.x)

    def names(self) -> dict[str, int]:
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
_FORM = "m=16,n=6144,k=4096,dtype=bf16|fp8b128|fp8t, perhaps x=e4m3, bias and residual"


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
    if key in ("dtype", "x") and equals:
        return {"weights" if key == "dtype" else "x": value}
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
_SIZE, _DEPTH, _ROWS, _WEIGHTS, _X, _ADDED = 1.0, 1.0, 0.5, 2.0, 1.0, 0.5


def distance(a: LinearWorkload, b: LinearWorkload) -> float:
    """0 for the same workload. The columns of y decide how full the GPU is, k how long a column takes."""
    return (
        _SIZE * octaves(a.n, b.n)
        + _DEPTH * octaves(a.k, b.k)
        + _ROWS * octaves(a.m, b.m)
        + _WEIGHTS * (a.weights != b.weights)
        + _X * (a.x != b.x)
        + _ADDED * ((a.bias != b.bias) + (a.residual != b.residual))
    )
