"""Trials of TMA's boxes: rank, swizzle, element type, direction, place in the tensor. Runs none.

What NumPy expects is written here from the PTX ISA's rules: a box lies packed, innermost dimension first, its
16-byte chunks moved by bits of their addresses; outside of the tensor there are zeros, and nothing is stored.
An H200 adds three rules (docs/conformance.md): chunks that begin inside a row of the tensor are stored whole;
boxes begin at multiples of 16 bytes of a row (https://github.com/triton-lang/triton/issues/7385); those that
are stored begin at no negative coordinate.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from evoflash.launch import LaunchConfig
from evoflash.trust.conformance.cases import (
    UNWRITTEN,
    Array,
    Case,
    Label,
    Map,
    Module,
    Pointer,
    Primitive,
    Trial,
    primitives,
)

SOURCE = Path(__file__).with_name("kernels") / "tma.cu"
THREADS = 32
BASE = 1024  # of the box in shared memory, which itself begins at a multiple of 1024
_COORDINATES = "abcde"
_RANKS = range(1, 6)
_BOX = ((), (5,), (5, 3), (4, 3, 2), (4, 2, 3, 2))  # rows of a box, by rank - 1
_TALL = (24,)  # two dimensions: three times the pattern of a swizzle
_PLAIN_ROW = 48  # bytes of a box's row without a swizzle
_PADDING = 16  # bytes between the tensor's rows
_CHUNK_BYTES = 16  # a box begins at a multiple of them in its row; what is stored ends at one


def modules(arch: str) -> Iterator[Module]:
    """One text for each rank."""
    here = [entry for entry in primitives() if entry.name in _MAKERS and entry.runs_on(arch)]
    for rank in _RANKS if here else ():
        chosen = [
            (entry, case) for entry in here for case in entry.cases() if case.modes.get("rank", 1) == rank
        ]
        labels = tuple(Label.of(*each) for each in chosen)
        yield Module(f"tma_{rank}", source(rank), labels, _trials(chosen))


def source(rank: int) -> str:
    """The kernels for boxes of that rank."""
    text = Template(SOURCE.read_text(encoding="utf-8"))
    return text.substitute(at=f"ef::at({', '.join(_COORDINATES[:rank])})")


def _trials(chosen: list[tuple[Primitive, Case]]) -> Callable[[], Iterator[Trial]]:
    return lambda: (_MAKERS[entry.name](entry, case) for entry, case in chosen)


# ---- the tensor and the box


@cache
def box_map(rank: int, swizzle: int, dtype: str, buffer: str) -> Map:
    """The map that all trials of these modes use: no extent is a multiple of the box's."""
    element = 4 if dtype == "float" else 2
    rows = _TALL if rank == 2 else _BOX[rank - 1]
    box = ((swizzle or _PLAIN_ROW) // element, *rows)
    dims = tuple(2 * side + 3 for side in box[:1]) + tuple(side + side // 2 + 2 for side in rows)
    strides: list[int] = []
    bytes_below = -(-dims[0] * element // 16) * 16 + _PADDING
    for dim in dims[1:]:
        strides.append(bytes_below)
        bytes_below = bytes_below * dim + _PADDING
    return Map(buffer, dtype, dims, tuple(strides), box, swizzle)  # type: ignore[arg-type]


def place(tensor: Map, where: str) -> tuple[int, ...]:
    """Where the box begins."""
    unit = _CHUNK_BYTES // tensor.element_bytes
    if where in ("inside", "outside"):
        first, *others = (unit, *(1,) * (len(tensor.dims) - 1))
        if where == "outside" and others:
            others[-1] = tensor.dims[-1] + 2
        elif where == "outside":
            first = tensor.dims[0] + unit
    elif where == "edge":
        first, *others = (dim - side // 2 for dim, side in zip(tensor.dims, tensor.box, strict=True))
    else:  # before
        first, *others = (-(side // 2) for side in tensor.box)
    return (first // unit * unit, *others)


def box_bytes(tensor: Map) -> int:
    """What one copy moves."""
    return int(np.prod(tensor.box)) * tensor.element_bytes


def tensor_bytes(tensor: Map) -> int:
    """From the tensor's first element to its last, in whole words of 16 bytes."""
    last = sum((dim - 1) * stride for dim, stride in zip(tensor.dims[1:], tensor.strides, strict=True))
    return -(-(last + tensor.dims[0] * tensor.element_bytes) // 16) * 16


def walk(tensor: Map, at: tuple[int, ...], address: int, *, writes: bool = False) -> tuple[Array, Array]:
    """For each byte of the box, packed: its offset in the tensor, -1 outside; its offset from `address` in
    shared memory, where the swizzle puts it. What a box `writes` ends with a row's last whole chunk.
    """
    unit = _CHUNK_BYTES // tensor.element_bytes if writes else 1
    dims = (-(-tensor.dims[0] // unit) * unit, *tensor.dims[1:])
    grids = np.meshgrid(*(np.arange(side) for side in reversed(tensor.box)), indexing="ij")
    index = [grid.reshape(-1) + start for grid, start in zip(reversed(grids), at, strict=True)]
    inside = np.all([(i >= 0) & (i < dim) for i, dim in zip(index, dims, strict=True)], axis=0)
    steps = (tensor.element_bytes, *tensor.strides)
    element = sum(i * step for i, step in zip(index, steps, strict=True))
    source = np.where(inside, element, -1)
    within = np.arange(tensor.element_bytes)
    offsets = np.where(source[:, None] < 0, -1, source[:, None] + within).reshape(-1)
    packed = address + np.arange(offsets.size)
    moved = packed ^ ((packed >> 7 & tensor.swizzle // 16 - 1) << 4 if tensor.swizzle else 0)
    return offsets, moved - address


def _random_bytes(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)


def _unwritten(shape: tuple[int, ...]) -> Array:
    return np.full(shape, UNWRITTEN, np.uint32)


def shift(where: str) -> int:
    """Bytes from BASE to the box: not always a multiple of a swizzle's pattern."""
    return 384 if where in ("edge", "before") else 0


def _arguments(tensor: Map, where: str) -> tuple[Any, ...]:
    coordinates = (*place(tensor, where), 0, 0, 0, 0)[:5]
    return (np.int32(box_bytes(tensor)), np.int32(shift(where)), *(np.int32(x) for x in coordinates))


# ---- trials


def _load(entry: Primitive, case: Case) -> Trial:
    modes = case.modes
    tensor = box_map(modes["rank"], modes["swizzle"], modes["dtype"], "tensor")
    where = str(modes["place"])
    values = _random_bytes(tensor_bytes(tensor), 1)
    return Trial(
        cases=(Label.of(entry, case),),
        launches=(_launch(f"load{modes['hint']}", tensor),),
        arguments=(tensor, Pointer("out"), *_arguments(tensor, where)),
        inputs={"tensor": values},
        results={"out": _unwritten((box_bytes(tensor) // 4,))},
        expected={"out": load_box(tensor, where, values)},
    )


def load_box(tensor: Map, where: str, values: Array, *, first: int | None = None) -> Array:
    """The box in shared memory, as words; `first`: its first coordinate, where it is another."""
    at = place(tensor, where)
    offsets, places = walk(tensor, at if first is None else (first, *at[1:]), BASE + shift(where))
    out = np.zeros(box_bytes(tensor), np.uint8)
    out[places] = np.where(offsets < 0, 0, values[offsets])
    return out.view(np.uint32)


def _multicast(entry: Primitive, case: Case) -> Trial:
    modes, blocks = case.modes, int(case.modes["cluster"])
    tensor = box_map(modes["rank"], modes["swizzle"], "f16", "tensor")
    where = "edge"
    values = _random_bytes(tensor_bytes(tensor), 2)
    words = box_bytes(tensor) // 4
    expected = _unwritten((blocks, 2, words))
    expected[:, 0] = load_box(tensor, where, values)
    expected[1::2, 1] = load_box(tensor, where, values, first=_CHUNK_BYTES // tensor.element_bytes)
    return Trial(
        cases=(Label.of(entry, case),),
        launches=(_launch(f"multicast{modes['hint']}", tensor, blocks=blocks),),
        arguments=(tensor, Pointer("out"), *_arguments(tensor, where)),
        inputs={"tensor": values},
        results={"out": _unwritten((blocks, 2, words))},
        expected={"out": expected},
    )


def _store(entry: Primitive, case: Case) -> Trial:
    modes = case.modes
    tensor = box_map(modes["rank"], modes["swizzle"], modes["dtype"], "tensor")
    where = str(modes["place"])
    image = _random_bytes(box_bytes(tensor), 3)
    before = _unwritten((tensor_bytes(tensor) // 4,))
    offsets, places = walk(tensor, place(tensor, where), BASE + shift(where), writes=True)
    after = before.view(np.uint8).copy()
    after[offsets[offsets >= 0]] = image[places[offsets >= 0]]
    kernel = f"store{modes['hint']}"
    return _storing(entry, case, kernel, tensor, where, image=image, before=before, after=after)


def _reduce(entry: Primitive, case: Case) -> Trial:
    modes, dtype = case.modes, str(case.modes["dtype"])
    tensor = box_map(modes["rank"], modes["swizzle"], dtype, "tensor")
    where = "edge"
    rng = np.random.default_rng(4)
    image = to_bits(rng.integers(-8, 9, box_bytes(tensor) // tensor.element_bytes), dtype).view(np.uint8)
    before = rng.integers(-8, 9, tensor_bytes(tensor) // tensor.element_bytes)
    offsets, places = walk(tensor, place(tensor, where), BASE + shift(where), writes=True)
    first = (offsets >= 0) & (np.arange(offsets.size) % tensor.element_bytes == 0)
    sums = before.astype(np.float32)
    added = image.view(to_bits(np.zeros(1), dtype).dtype)
    sums[offsets[first] // tensor.element_bytes] += value_of(added, dtype)[
        places[first] // tensor.element_bytes
    ]
    after = to_bits(sums, dtype).view(np.uint8)
    kernel, before = f"reduce_{dtype}", to_bits(before, dtype)
    return _storing(entry, case, kernel, tensor, where, image=image, before=before, after=after)


def _storing(
    entry: Primitive,
    case: Case,
    kernel: str,
    tensor: Map,
    where: str,
    *,
    image: Array,
    before: Array,
    after: Array,
) -> Trial:
    return Trial(
        cases=(Label.of(entry, case),),
        launches=(_launch(kernel, tensor),),
        arguments=(tensor, Pointer("image"), *_arguments(tensor, where)),
        inputs={"image": image},
        results={"tensor": before.view(np.uint32)},
        expected={"tensor": after.view(np.uint32)},
    )


def _prefetch(entry: Primitive, case: Case) -> Trial:
    tensor = box_map(case.modes.get("rank", 1), 64, "f16", "tensor")
    where = "edge"
    values = _random_bytes(tensor_bytes(tensor), 5)
    return Trial(
        cases=(Label.of(entry, case),),
        launches=(_launch("prefetch_map" if entry.name == "tma_prefetch_map" else "prefetch", tensor),),
        arguments=(tensor, Pointer("out"), *_arguments(tensor, where)),
        inputs={"tensor": values},
        results={"out": _unwritten((box_bytes(tensor) // 4,))},
        expected={"out": load_box(tensor, where, values)},
    )


def _launch(kernel: str, tensor: Map, *, blocks: int = 1) -> LaunchConfig:
    # Two boxes: the kernels for clusters take two. Shifted.
    smem = 2 * BASE + 2 * -(-box_bytes(tensor) // BASE) * BASE
    return LaunchConfig(kernel, (blocks, 1, 1), (THREADS, 1, 1), smem, cluster=(blocks, 1, 1))


_MAKERS: dict[str, Callable[[Primitive, Case], Trial]] = {
    "tma_load": _load,
    "tma_load_multicast": _multicast,
    "tma_store": _store,
    "tma_reduce_add": _reduce,
    "tma_prefetch": _prefetch,
    "tma_prefetch_map": _prefetch,
}


# ---- 16-bit floats


def to_bits(values: Array, dtype: str) -> Array:
    """Numbers that fit exactly, as bits of "f16", "bf16" or "float"."""
    floats = values.astype(np.float32)
    if dtype == "float":
        return floats
    if dtype == "f16":
        return floats.astype(np.float16).view(np.uint16)
    return (floats.view(np.uint32) >> 16).astype(np.uint16)


def value_of(words: Array, dtype: str) -> Array:
    """The other way round, as float32."""
    if dtype == "float":
        return words.view(np.float32)
    if dtype == "f16":
        return words.view(np.float16).astype(np.float32)
    return (words.astype(np.uint32) << 16).view(np.float32)
