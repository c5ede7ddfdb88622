"""launch.json as records, and which shapes and strides its kernel takes. Asks no driver."""

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .expressions import compile_expression

FORMAT, VERSION = "evoflash-launch", 1
SIZES = ("batch", "heads", "kv_heads", "seq_q", "seq_kv")
TENSORS = ("q", "k", "v", "o")
POINTERS = (*TENSORS, "lse", "workspace")
# How an argument lies in its slot of 8 bytes, for struct.
KINDS = {"pointer": "Q", "int32": "i4x", "int64": "q", "float32": "f4x"}
AXES = ("batch", "head", "row")
_STRIDES = tuple(f"{tensor}_stride_{axis}" for tensor, axis in itertools.product(TENSORS, AXES))
_NAMES = frozenset((*POINTERS, *SIZES, *_STRIDES, "scale"))
_MOST = 2**31 - 1
_MOST_SCALE = 1e6  # far below what float32 holds
_STRIDE_END = 2**39  # elements; the driver takes tensor maps with strides below 2^40 bytes
_ROW_ALIGNMENT = 8  # elements: rows begin at multiples of 16 bytes

Size = Callable[[Mapping[str, int]], int]
Strides = tuple[int, int, int]  # batch, head, row; in elements


class Refused(ValueError):  # noqa: N818  # what it says is not an error of the kernel: the call is not for it
    """A call that the kernel was not verified for or cannot serve, in one line: what is wrong, what to do."""


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a call; sizes are functions of a shape."""

    entry: str
    grid: tuple[Size, ...]
    block: tuple[Size, ...]
    shared_bytes: Size  # dynamic shared memory
    cluster: tuple[int, ...]
    resident: bool  # its blocks wait for one another: all of them must fit on the GPU at once
    dependent: bool  # may begin before the launch before it has ended


@dataclass(frozen=True)
class TensorMap:
    """A tensor map, one of a kernel's first arguments: TMA moves boxes of that tensor."""

    of: str  # one of TENSORS
    box: tuple[int, ...]  # batch, heads, rows, columns
    swizzle: int  # bytes
    l2_promotion: int  # bytes
    heads_inside: bool  # a box holds its heads row by row


@dataclass(frozen=True)
class Image:
    """The kernel as it is compiled and launched on GPUs of one architecture."""

    arch: str
    file: str
    sha256: str
    arguments: tuple[tuple[str, str], ...]  # kind and name, in the kernel's order; tensor maps stand before
    launches: tuple[Launch, ...]
    maps: tuple[TensorMap, ...]
    workspace_bytes: Size
    zeroed_bytes: Size

    def runs_on(self, capability: int) -> bool:
        """Whether a GPU of compute capability 90 loads it: sm_90a on 9.0 alone, sm_86 on 8.6 and 8.9."""
        compiled_for = int(self.arch.removeprefix("sm_").rstrip("af"))
        if self.arch.endswith(("a", "f")):
            return compiled_for == capability
        return compiled_for // 10 == capability // 10 and compiled_for <= capability


@dataclass(frozen=True)
class Description:
    """What launch.json says that launching takes."""

    name: str
    dtype: str
    head_dim: int
    gqa_ratio: int
    causal: bool
    scale: float
    images: tuple[Image, ...]

    def check(
        self, shape: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> tuple[dict[str, int], list[Strides]]:
        """The sizes by name and the strides as tensor maps take them. Refused for what was not verified."""
        sizes = dict(zip(SIZES, _whole(shape, SIZES, "a shape"), strict=True))
        batch, heads, kv_heads, seq_q, seq_kv = sizes.values()
        if heads != kv_heads * self.gqa_ratio:
            raise Refused(
                f"{self.name} serves {self.gqa_ratio} query heads a key/value head: {heads} heads over "
                f"{kv_heads} key/value heads need another kernel."
            )
        if max(batch * heads * seq_q, batch * kv_heads * seq_kv) > _MOST:
            raise Refused(f"{self.name} takes at most {_MOST} rows a tensor: split the batch.")
        if len(strides) != len(TENSORS):
            raise Refused(f"strides of {len(strides)} tensors: give those of q, k, v and o.")
        extents = {"q": (batch, heads, seq_q), "k": (batch, kv_heads, seq_kv)}
        extents |= {"v": extents["k"], "o": extents["q"]}
        return sizes, [
            self._strides(name, extents[name], given) for name, given in zip(TENSORS, strides, strict=True)
        ]

    def check_scale(self, scale: float | None) -> float:
        """The softmax scale, by default the description's. Refused for what is no scale."""
        if scale is None:
            return self.scale
        if not isinstance(scale, (int, float)) or not 0 < scale < _MOST_SCALE:
            raise Refused(f"a scale of {scale!r}: kernels take a number above 0 and below {_MOST_SCALE:g}.")
        return float(scale)

    def _strides(self, name: str, extents: tuple[int, ...], given: Sequence[int]) -> Strides:
        """Those given; of an axis of one element, which has none that counts, that of a dense tensor."""
        known = _whole(given, AXES, f"{name}'s strides", least=0)
        held, ends = {}, self.head_dim
        for _, extent, axis in sorted(zip(known, extents, range(3), strict=True)):
            stride = known[axis] if extent > 1 else -(-ends // _ROW_ALIGNMENT) * _ROW_ALIGNMENT
            if stride < ends or stride % _ROW_ALIGNMENT or stride >= _STRIDE_END:
                raise Refused(
                    f"{name} has strides {tuple(known)} (batch, head, row) for extents {extents}: "
                    f"rows of {self.head_dim} must not overlap, strides be multiples of {_ROW_ALIGNMENT}, "
                    "all below 2^39."
                )
            held[axis], ends = stride, stride * (extent - 1) + ends
        return held[0], held[1], held[2]


def parse_description(given: Mapping[str, Any]) -> Description:
    """The records of a launch.json; Refused where it is none, or a later version than this launcher knows."""
    if not isinstance(given, Mapping) or given.get("format") != FORMAT:
        raise Refused(f"this is no launch.json of evoflash: its 'format' is not '{FORMAT}'.")
    if given.get("version") != VERSION:
        raise Refused(
            f"launch.json has version {given.get('version')}, this launcher reads {VERSION}: take its own."
        )
    try:
        return _parse(given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refused(
            f"launch.json is damaged ({type(error).__name__}: {error}): export the kernel again."
        ) from None


def _parse(given: Mapping[str, Any]) -> Description:
    contract = given["contract"]
    return Description(
        name=str(given["name"]),
        dtype=str(contract["dtype"]),
        head_dim=int(contract["head_dim"]),
        gqa_ratio=int(contract["gqa_ratio"]),
        causal=bool(contract["causal"]),
        scale=float(contract["scale"]),
        images=tuple(_image(arch, image) for arch, image in given["images"].items()),
    )


def _image(arch: str, given: Mapping[str, Any]) -> Image:
    return Image(
        arch=arch,
        file=str(given["file"]),
        sha256=str(given["sha256"]),
        arguments=tuple(map(_argument, given["arguments"])),
        launches=tuple(map(_launch, given["launches"])),
        maps=tuple(map(_tensor_map, given["tensor_maps"])),
        workspace_bytes=compile_expression(given["workspace_bytes"], SIZES),
        zeroed_bytes=compile_expression(given["zeroed_bytes"], SIZES),
    )


def _argument(text: str) -> tuple[str, str]:
    kind, name = text.split(" ")
    if kind not in KINDS or name not in _NAMES:
        raise ValueError(f"argument '{text}'")
    return kind, name


def _launch(given: Mapping[str, Any]) -> Launch:
    return Launch(
        entry=str(given["entry"]),
        grid=_three(given["grid"]),
        block=_three(given["block"]),
        shared_bytes=compile_expression(given["shared_memory_bytes"], SIZES),
        cluster=tuple(map(int, given["cluster"])),
        resident=bool(given["resident"]),
        dependent=bool(given["dependent"]),
    )


def _three(given: Iterable[object]) -> tuple[Size, ...]:
    x, y, z = (compile_expression(side, SIZES) for side in given)
    return x, y, z


def _tensor_map(given: Mapping[str, Any]) -> TensorMap:
    if given["of"] not in TENSORS:
        raise ValueError(f"a tensor map of {given['of']}")
    box = tuple(map(int, given["box"]))
    return TensorMap(
        given["of"], box, int(given["swizzle"]), int(given["l2_promotion"]), bool(given["heads_inside"])
    )


def _whole(given: Sequence[int], names: Sequence[str], what: str, *, least: int = 1) -> list[int]:
    try:
        numbers = [operator.index(number) for number in given]
    except TypeError:
        numbers = []
    if len(numbers) != len(names) or min(numbers) < least or (least and max(numbers) > _MOST):
        raise Refused(f"{what} of {given!r}: give {', '.join(names)}, whole numbers from {least} up.")
    return numbers
