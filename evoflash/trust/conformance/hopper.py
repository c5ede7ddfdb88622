"""Trials of what came with Hopper: TMA's boxes and wgmma, in every shape, type, swizzle and direction. Runs
none.

What NumPy expects is written here from the PTX ISA's rules and layouts, independently of the emulator.

A box lies packed, innermost dimension first, its 16-byte chunks moved by bits of their addresses; outside of
the tensor there are zeros, and nothing is stored. An H200 adds three rules (docs/conformance.md): chunks that
begin inside a row of the tensor are stored whole; boxes begin at multiples of 16 bytes of a row
(https://github.com/triton-lang/triton/issues/7385); those that are stored begin at no negative coordinate.

The images of wgmma's operands in shared memory hold NaN in every byte that the product must not read.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
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
    to_bits,
    value_of,
)

Modes = Mapping[str, Any]  # a case's value on each axis

_TMA_SOURCE = Path(__file__).with_name("kernels") / "tma.cu"
_TMA_THREADS = 32
BASE = 1024  # of the box in shared memory, which itself begins at a multiple of 1024
_COORDINATES = "abcde"
_RANKS = range(1, 6)
_BOX = ((), (5,), (5, 3), (4, 3, 2), (4, 2, 3, 2))  # rows of a box, by rank - 1
_TALL = (24,)  # two dimensions: three times the pattern of a swizzle
_PLAIN_ROW = 48  # bytes of a box's row without a swizzle
_PADDING = 16  # bytes between the tensor's rows
_CHUNK_BYTES = 16  # a box begins at a multiple of them in its row; what is stored ends at one


def tma_modules(arch: str) -> Iterator[Module]:
    """One text for each rank."""
    here = [entry for entry in primitives() if entry.name in _MAKERS and entry.runs_on(arch)]
    for rank in _RANKS if here else ():
        chosen = [
            (entry, case) for entry in here for case in entry.cases() if case.modes.get("rank", 1) == rank
        ]
        trials = [(Label.of(entry, case), case.modes) for entry, case in chosen]
        labels = tuple(label for label, _ in trials)
        yield Module(f"tma_{rank}", source(rank), labels, partial(_trials, trials))


def source(rank: int) -> str:
    """The kernels for boxes of that rank."""
    text = Template(_TMA_SOURCE.read_text(encoding="utf-8"))
    return text.substitute(at=f"ef::at({', '.join(_COORDINATES[:rank])})")


def _trials(cases: list[tuple[Label, Modes]]) -> Iterator[Trial]:
    return (_MAKERS[label.primitive](label, modes) for label, modes in cases)


# ---- TMA: the tensor and the box


@cache
def box_map(rank: int, swizzle: int, dtype: str) -> Map:
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
    return Map("tensor", dtype, dims, tuple(strides), box, swizzle)  # type: ignore[arg-type]


def place(tensor: Map, where: str) -> tuple[int, ...]:
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


# ---- TMA: trials


def _load(label: Label, modes: Modes) -> Trial:
    tensor = box_map(modes["rank"], modes["swizzle"], modes["dtype"])
    return _load_trial(label, f"load{modes['hint']}", tensor, str(modes["place"]), seed=1)


def _prefetch(label: Label, modes: Modes) -> Trial:
    tensor = box_map(modes.get("rank", 1), 64, "f16")
    kernel = "prefetch_map" if label.primitive == "tma_prefetch_map" else "prefetch"
    return _load_trial(label, kernel, tensor, "edge", seed=5)


def _load_trial(label: Label, kernel: str, tensor: Map, where: str, *, seed: int) -> Trial:
    values = _random_bytes(tensor_bytes(tensor), seed)
    results = {"out": _unwritten((box_bytes(tensor) // 4,))}
    expected = {"out": load_box(tensor, where, values)}
    return _trial(label, kernel, tensor, where, inputs={"tensor": values}, results=results, expected=expected)


def load_box(tensor: Map, where: str, values: Array, *, first: int | None = None) -> Array:
    """The box in shared memory, as words; `first`: its first coordinate, where it is another."""
    at = place(tensor, where)
    offsets, places = walk(tensor, at if first is None else (first, *at[1:]), BASE + shift(where))
    out = np.zeros(box_bytes(tensor), np.uint8)
    out[places] = np.where(offsets < 0, 0, values[offsets])
    return out.view(np.uint32)


def _multicast(label: Label, modes: Modes) -> Trial:
    blocks = int(modes["cluster"])
    tensor = box_map(modes["rank"], modes["swizzle"], "f16")
    where = "edge"
    values = _random_bytes(tensor_bytes(tensor), 2)
    results = {"out": _unwritten((blocks, 2, box_bytes(tensor) // 4))}
    expected = results["out"].copy()
    expected[:, 0] = load_box(tensor, where, values)
    expected[1::2, 1] = load_box(tensor, where, values, first=_CHUNK_BYTES // tensor.element_bytes)
    return _trial(
        label,
        f"multicast{modes['hint']}",
        tensor,
        where,
        inputs={"tensor": values},
        results=results,
        expected={"out": expected},
        blocks=blocks,
    )


def _store(label: Label, modes: Modes) -> Trial:
    tensor = box_map(modes["rank"], modes["swizzle"], modes["dtype"])
    where = str(modes["place"])
    image = _random_bytes(box_bytes(tensor), 3)
    before = _unwritten((tensor_bytes(tensor) // 4,))
    offsets, places = walk(tensor, place(tensor, where), BASE + shift(where), writes=True)
    after = before.view(np.uint8).copy()
    after[offsets[offsets >= 0]] = image[places[offsets >= 0]]
    return _store_trial(
        label, f"store{modes['hint']}", tensor, where, image=image, before=before, after=after
    )


def _reduce(label: Label, modes: Modes) -> Trial:
    dtype, where = str(modes["dtype"]), "edge"
    tensor = box_map(modes["rank"], modes["swizzle"], dtype)
    size, rng = tensor.element_bytes, np.random.default_rng(4)
    image = to_bits(rng.integers(-8, 9, box_bytes(tensor) // size), dtype)
    before = rng.integers(-8, 9, tensor_bytes(tensor) // size)
    offsets, places = walk(tensor, place(tensor, where), BASE + shift(where), writes=True)
    first = (offsets >= 0) & (np.arange(offsets.size) % size == 0)
    sums = before.astype(np.float32)
    sums[offsets[first] // size] += value_of(image, dtype)[places[first] // size]
    before, after = to_bits(before, dtype), to_bits(sums, dtype)
    image = image.view(np.uint8)
    return _store_trial(label, f"reduce_{dtype}", tensor, where, image=image, before=before, after=after)


def _store_trial(
    label: Label, kernel: str, tensor: Map, where: str, *, image: Array, before: Array, after: Array
) -> Trial:
    results, expected = {"tensor": before.view(np.uint32)}, {"tensor": after.view(np.uint32)}
    return _trial(label, kernel, tensor, where, inputs={"image": image}, results=results, expected=expected)


def _trial(
    label: Label,
    kernel: str,
    tensor: Map,
    where: str,
    *,
    inputs: dict[str, Array],
    results: dict[str, Array],
    expected: dict[str, Array],
    blocks: int = 1,
) -> Trial:
    """A launch on the tensor and on the buffer beside it, to which its box goes or from which it comes."""
    (beside,) = {*inputs, *results} - {"tensor"}
    coordinates = (*place(tensor, where), 0, 0, 0, 0)[:5]
    numbers = (np.int32(number) for number in (box_bytes(tensor), shift(where), *coordinates))
    # Two boxes: the kernels for clusters take two. Shifted.
    smem = 2 * BASE + 2 * -(-box_bytes(tensor) // BASE) * BASE
    return Trial(
        cases=(label,),
        launches=(LaunchConfig(kernel, (blocks, 1, 1), (_TMA_THREADS, 1, 1), smem, cluster=(blocks, 1, 1)),),
        arguments=(tensor, Pointer(beside), *numbers),
        inputs=inputs,
        results=results,
        expected=expected,
    )


_MAKERS: dict[str, Callable[[Label, Modes], Trial]] = {
    "tma_load": _load,
    "tma_load_multicast": _multicast,
    "tma_store": _store,
    "tma_reduce_add": _reduce,
    "tma_prefetch": _prefetch,
    "tma_prefetch_map": _prefetch,
}


_WGMMA_SOURCE = Path(__file__).with_name("kernels") / "wgmma.cu"
_WGMMA_THREADS, ROWS = 128, 64
_DEPTH_BYTES = 32  # of an operand along k
_B_START = 8192
_TASK_WORDS = 16
_ENCODED = {0: 0, 128: 1, 64: 2, 32: 3}  # ef::wgmma_swizzle
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "e4m3": 0x7F7F}
_E4M3 = np.array([0x00, 0x38, 0x40, 0x44, 0x48], np.uint8)  # of 0 to 4
_LINE = 16  # bytes that a swizzle moves together


def wgmma_modules(arch: str) -> Iterator[Module]:
    """One text for each N."""
    here = [entry for entry in primitives() if "n" in entry.axes and entry.runs_on(arch)]
    for n in here[0].axes["n"] if here else ():
        yield _wgmma_module(int(n), here)


@dataclass(frozen=True, slots=True)
class WgmmaModule:
    """The cases that one compiled kernel serves: they differ in swizzles and scale_d."""

    n: int
    dtype: str
    a_major: str  # "" where A is in registers
    b_major: str
    entry: Primitive
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        return f"{self.entry.name}_{self.dtype}_{self.a_major or 'r'}_{self.b_major}"

    @property
    def text(self) -> str:
        trans = [str(int(major == "mn")) for major in (self.a_major, self.b_major) if major]
        place = "from_shared" if self.a_major else "from_registers"
        values = ", ".join((*trans, str(self.n // 2), f"ef::{self.dtype}"))
        if self.dtype == "e4m3":
            place, values = "codes_from_shared", str(self.n // 2)
        return f"""
extern "C" __global__ void __launch_bounds__(128)
{self.name}(const u32* tasks, const u32x4* images, u32x4* out) {{
  {place}<{values}>(tasks, images, out);
}}
EF_EXPORT_KERNEL({self.name})
"""


def kernels(n: int, entries: list[Primitive]) -> list[WgmmaModule]:
    """Those for a tile of n columns."""

    def shape(case: Case) -> tuple[str, str, str]:
        return str(case.modes["dtype"]), str(case.modes.get("a_major", "")), str(case.modes["b_major"])

    found = []
    for entry in entries:
        cases = sorted(replace(entry, axes={**entry.axes, "n": (n,)}).cases(), key=shape)
        found += [WgmmaModule(n, *key, entry, tuple(group)) for key, group in groupby(cases, key=shape)]
    return found


def _wgmma_module(n: int, entries: list[Primitive]) -> Module:
    here = kernels(n, entries)
    text = _WGMMA_SOURCE.read_text(encoding="utf-8") + "".join(kernel.text for kernel in here)
    labels = tuple(Label.of(kernel.entry, case) for kernel in here for case in kernel.cases)
    return Module(f"wgmma_n{n}", text, labels, lambda: (_wgmma_trial(kernel) for kernel in here))


# ---- wgmma: operands


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """One operand as it lies in shared memory: its bytes, and the descriptor's fields in bytes."""

    image: Array  # uint16
    start: int
    leading: int
    stride: int
    swizzle: int


def operand(values: Array, dtype: str, major: str, swizzle: int, *, base: int, step: int) -> Operand:
    """An operand of shape (mn, depth), K or MN running along memory. `base`: where the image will lie,
    `step`: which of the steps of a swizzle's span the operand is, where K runs along memory.
    """
    mn, k = (grid.reshape(-1) for grid in np.indices(values.shape))
    span, size = swizzle or _LINE, _DEPTH_BYTES // values.shape[1]
    across = span // 2  # elements of a span, of 16 bits where MN runs along it
    step = step % (span // _DEPTH_BYTES) if swizzle and major == "k" else 0
    if major == "k" and not swizzle:
        leading, stride = len(values) * 16 + 128, 128
        address = mn % 8 * 16 + mn // 8 * stride + k * size // 16 * leading + k * size % 16
    elif major == "k":
        leading, stride = 16, 8 * span
        address = mn % 8 * span + mn // 8 * stride + k * size + _DEPTH_BYTES * step
    elif not swizzle:
        leading, stride = 128, 256 + 128
        address = mn % 8 * 2 + mn // 8 * stride + k % 8 * 16 + k // 8 * leading
    else:
        leading, stride = 16 * span, 8 * span
        address = mn % across * 2 + mn // across * leading + k % 8 * span + k // 8 * stride
    if swizzle:
        address = address ^ (base + address >> 7 & swizzle // _LINE - 1) * _LINE
    image = np.full(-(-(int(address.max()) + 2) // 1024) * 512, _NAN[dtype], np.uint16)
    if dtype == "e4m3":
        codes = _E4M3[np.abs(values)] | np.where(values < 0, 0x80, 0).astype(np.uint8)
        image.view(np.uint8)[address] = codes.reshape(-1)
    else:
        image[address // 2] = to_bits(values, dtype).reshape(-1)
    return Operand(image, _DEPTH_BYTES * step, leading, stride, swizzle)


def registers(values: Array, dtype: str) -> Operand:
    """Operand A, (64, 16), as 128 threads hold it: four registers each, of mma.m16n8k16's A in each warp."""
    thread = np.arange(_WGMMA_THREADS)
    row, column = thread // 32 * 16 + thread % 32 // 4, thread % 4 * 2
    halves = np.arange(2)
    image = np.empty((_WGMMA_THREADS, 4, 2), np.uint16)
    for register in range(4):
        rows, columns = row + 8 * (register % 2), column + 8 * (register // 2)
        image[:, register] = to_bits(values, dtype)[rows[:, None], columns[:, None] + halves]
    return Operand(image.reshape(-1), 0, 0, 0, 0)


def accumulators(matrix: Array) -> Array:
    """A (64, n) matrix as 128 threads hold it: (thread, n / 2)."""
    thread, i = np.indices((_WGMMA_THREADS, matrix.shape[1] // 2))
    row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
    result: Array = matrix[row, i // 4 * 8 + thread % 4 * 2 + i % 2]
    return result


def initial_accumulators(n: int) -> Array:
    """What accumulators hold before the product: see begin() in wgmma.cu."""
    thread, i = np.indices((_WGMMA_THREADS, n // 2))
    return ((thread * 7 + i * 3) % 17 - 8).astype(np.float32)


# ---- wgmma: trials


def _wgmma_trial(kernel: WgmmaModule) -> Trial:
    rng, depth = np.random.default_rng(kernel.n), _DEPTH_BYTES // (1 if kernel.dtype == "e4m3" else 2)
    a, b = rng.integers(-4, 5, (ROWS, depth)), rng.integers(-4, 5, (kernel.n, depth))
    product = accumulators((a @ b.T).astype(np.float32))
    images = _Images()
    tasks = np.zeros((len(kernel.cases), _TASK_WORDS), np.uint32)
    expected = np.empty((len(kernel.cases), _WGMMA_THREADS, kernel.n // 2), np.float32)
    for number, case in enumerate(kernel.cases):
        modes = case.modes
        if kernel.a_major:
            first = operand(a, kernel.dtype, kernel.a_major, int(modes["a_swizzle"]), base=0, step=number)
        else:
            first = registers(a, kernel.dtype)
        second = operand(
            b, kernel.dtype, kernel.b_major, int(modes["b_swizzle"]), base=_B_START, step=number // 3
        )
        tasks[number, :13] = (*images.add(first), *images.add(second), modes["scale_d"])
        expected[number] = product + initial_accumulators(kernel.n) * int(modes["scale_d"])
    return Trial(
        cases=tuple(Label.of(kernel.entry, case) for case in kernel.cases),
        launches=(
            LaunchConfig(kernel.name, (len(tasks), 1, 1), (_WGMMA_THREADS, 1, 1), _B_START + images.largest),
        ),
        arguments=(Pointer("tasks"), Pointer("images"), Pointer("out")),
        inputs={"tasks": tasks, "images": images.all()},
        results={"out": np.full(expected.shape, UNWRITTEN, np.uint32)},
        expected={"out": expected.view(np.uint32)},
    )


class _Images:
    """The images of a trial one behind another; equal ones are kept once."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self._images: list[Array] = []
        self._size = 0  # in units of 16 bytes
        self.largest = 0  # in bytes

    def add(self, operand: Operand) -> tuple[int, ...]:
        """The image's place and size in units of 16 bytes, and the descriptor's fields."""
        size = operand.image.nbytes // 16
        key = operand.image.tobytes()
        if key not in self._places:
            self._places[key] = self._size
            self._images.append(operand.image)
            self._size += size
            self.largest = max(self.largest, operand.image.nbytes)
        fields = (operand.start, operand.leading, operand.stride, _ENCODED[operand.swizzle])
        return (self._places[key], size, *fields)

    def all(self) -> Array:
        return np.concatenate(self._images)
