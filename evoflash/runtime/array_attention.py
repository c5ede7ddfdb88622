"""An exported kernel called with arrays: checks them, finds stream and workspace, launches. Copies no array.

For CuPy above all, and for what has __cuda_array_interface__ or DLPack; PyTorch has a form of its own, which
its compiler and its graphs know (torch_op.py). Imports no library unless one is given its array, or is asked
for memory.
"""

import sys
import threading
from dataclasses import dataclass
from typing import Any

from .attention_dense import DensePlan
from .description import Refused
from .launch import Kernel

_LAYOUTS = {"bhsd": (0, 1, 2), "bshd": (0, 2, 1)}  # where batch, heads and rows stand in a shape
_MOST_WORKSPACES = 64
_DTYPES = {
    "fp16": ("float16",),
    "bf16": ("bfloat16", "uint16"),
}  # uint16: the bits, where there is no bfloat16
_TYPES = {"<f2": "float16", "<f4": "float32", "<u2": "uint16", "<V2": "bfloat16"}


@dataclass(frozen=True)
class Array:
    """Where an array lies and how."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # elements
    dtype: str  # "float16", "bfloat16", "float32" ...
    device: int | None  # the driver's number, None where the array does not say
    is_read_only: bool = False

    def end(self) -> int:
        """The address behind the last element, of two bytes."""
        spans = (stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True))
        return self.address + 2 * (1 + sum(spans))


class Attention:
    """A kernel as a function of arrays. May be called by many threads at once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self._lock = kernel, threading.Lock()
        contract = kernel.description["contract"]
        self._dtypes, self._head_dim = _DTYPES[contract["dtype"]], contract["head_dim"]
        self._name = kernel.description["name"]
        # Kept for calls that come: those of one stream run one after the other, so that one is enough for it.
        self._workspaces: dict[tuple[DensePlan, int], Any] = {}

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        layout: str = "bhsd",
        out: Any = None,
        lse: Any = None,
        scale: float | None = None,
        stream: Any = None,
    ) -> Any:
        """softmax(scale q k^T) v, written to `out`, a new array by default, and returned.

        q is (batch, heads, rows, head_dim), k and v (batch, key/value heads, rows, head_dim); with layout
        "bshd" rows stand before heads. Rows must be contiguous and begin at multiples of 16 bytes. `lse`, a
        dense float32 array (batch, heads, rows), receives the natural logarithm of each row's sum. `scale` is
        1/sqrt(head_dim) by default, `stream` the current one of q's library; it may be an address. Refused, a
        ValueError of one line, for any other dtype, shape or GPU. Returns before the kernel has run.
        """
        if layout not in _LAYOUTS:
            raise Refused(f"layout {layout!r}: use 'bhsd' or 'bshd'.")
        given = {name: self._read(name, array) for name, array in (("q", q), ("k", k), ("v", v))}
        device = self._device(given)
        if out is None:
            out = new_array(q, given["q"].shape, given["q"].dtype, device)
        given["o"] = self._read("out", out)
        shape = _shape(given, _LAYOUTS[layout])
        strides = [_strides(each, _LAYOUTS[layout]) for each in given.values()]
        plan = self.kernel.plan(shape, strides, device=device, scale=scale)
        _check_output(given)
        address = current_stream(q, device) if stream is None else _address_of(stream)
        workspace = self._workspace(plan, q, device, address) if plan.workspace_bytes else None
        scratch = 0 if workspace is None else array_of("workspace", workspace).address
        q_at, k_at, v_at, o_at = (each.address for each in given.values())
        plan.launch(q_at, k_at, v_at, o_at, _lse(lse, shape), scratch, address)
        return out

    def _read(self, name: str, given: Any) -> Array:
        array = array_of(name, given)
        if array.dtype not in self._dtypes:
            raise Refused(f"{name} is {array.dtype}: {self._name} takes {' or '.join(self._dtypes)}.")
        if len(array.shape) != 4 or array.shape[3] != self._head_dim:
            raise Refused(
                f"{name} has shape {array.shape}: {self._name} takes four axes, the last of {self._head_dim}."
            )
        if array.strides[3] != 1:
            raise Refused(f"{name} has columns {array.strides[3]} elements apart: they must be contiguous.")
        return array

    def _device(self, given: dict[str, Array]) -> int:
        found = {name: self._device_of(name, array) for name, array in given.items()}
        if len(set(found.values())) > 1:
            places = ", ".join(f"{name} on GPU {device}" for name, device in found.items())
            raise Refused(f"{places}: move them to one GPU.")
        return found["q"]

    def _device_of(self, name: str, array: Array) -> int:
        if array.device is not None:
            return array.device
        return self.kernel.device_of(array.address, name)

    def _workspace(self, plan: DensePlan, like: Any, device: int, stream: int) -> Any:
        """Scratch of a plan on a stream: calls on one stream never use it at the same time."""
        key = plan, stream
        with self._lock:
            if key not in self._workspaces:
                while len(self._workspaces) >= _MOST_WORKSPACES:
                    self._workspaces.pop(next(iter(self._workspaces)))
                self._workspaces[key] = new_zeros(like, plan.workspace_bytes, device, stream)
            return self._workspaces[key]


def _shape(given: dict[str, Array], axes: tuple[int, int, int]) -> tuple[int, int, int, int, int]:
    batch, heads, seq_q = (given["q"].shape[axis] for axis in axes)
    key_batch, kv_heads, seq_kv = (given["k"].shape[axis] for axis in axes)
    if given["v"].shape != given["k"].shape or key_batch != batch:
        shapes = ", ".join(f"{name} {given[name].shape}" for name in "qkv")
        raise Refused(f"shapes {shapes}: k and v have one shape, and q's batch.")
    if given["o"].shape != given["q"].shape:
        raise Refused(f"out has shape {given['o'].shape}, q {given['q'].shape}: they must be equal.")
    return batch, heads, kv_heads, seq_q, seq_kv


def _check_output(given: dict[str, Array]) -> None:
    """Refused where it cannot be written, or overlaps an input in memory, which other blocks may read yet."""
    out = given["o"]
    if out.is_read_only:
        raise Refused("out is read-only: give an array that may be written.")
    for name in "qkv":
        if given[name].address < out.end() and out.address < given[name].end():
            raise Refused(f"out overlaps {name} in memory: give an array of its own.")


def _strides(array: Array, axes: tuple[int, int, int]) -> tuple[int, int, int]:
    batch, head, row = (array.strides[axis] for axis in axes)
    return batch, head, row


def _lse(given: Any, shape: tuple[int, int, int, int, int]) -> int:
    """Its address; 0 where it is not wanted."""
    if given is None:
        return 0
    array, (batch, heads, _, rows, _) = array_of("lse", given), shape
    wanted = (batch, heads, rows)
    is_dense = array.strides == (heads * rows, rows, 1)
    if array.dtype != "float32" or array.shape != wanted or not is_dense:
        raise Refused(f"lse is {array.dtype} {array.shape}: give a dense float32 array {wanted}.")
    return array.address


def _address_of(stream: Any) -> int:
    for name in ("ptr", "cuda_stream"):  # of CuPy, of PyTorch
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if isinstance(stream, int):
        return stream
    raise Refused(f"a stream of type {type(stream).__name__}: give a CuPy stream or a CUDA stream's address.")


def array_of(name: str, given: Any) -> Array:
    """The array; Refused for what is none on a GPU."""
    if is_torch(given):
        if given.device.type != "cuda":
            raise Refused(f"{name} is on the {given.device.type}: move it to the GPU.")
        if given.requires_grad:
            raise Refused(f"{name} requires a gradient, the kernel is forward only: detach it.")
        kind = str(given.dtype).removeprefix("torch.")
        return Array(given.data_ptr(), tuple(given.shape), given.stride(), kind, given.device.index)
    try:
        described = given.__cuda_array_interface__
    except AttributeError:
        return _array_of_dlpack(name, given)
    except Exception as error:  # what a library raises for an array that is not on a GPU, or of its own dtype
        raise Refused(f"{name} cannot be read as a GPU array ({error}): give a CuPy array.") from None
    if described.get("mask") is not None:
        raise Refused(f"{name} has masked elements: give an array without a mask.")
    shape = tuple(described["shape"])
    size = int(described["typestr"][2:])
    strides = described.get("strides") or _dense(shape, size)
    if any(stride % size for stride in strides):
        raise Refused(f"{name} has strides {tuple(strides)} bytes: elements must lie {size} bytes apart.")
    kind = _TYPES.get(described["typestr"], described["typestr"])
    device = getattr(getattr(given, "device", None), "id", None)
    address, is_read_only = described["data"]
    in_elements = tuple(stride // size for stride in strides)
    return Array(address, shape, in_elements, kind, device, bool(is_read_only))


def _array_of_dlpack(name: str, given: Any) -> Array:
    if not hasattr(given, "__dlpack__"):
        raise Refused(f"{name} is a {type(given).__name__}: give an array that lies on the GPU.")
    import cupy

    try:
        return array_of(name, cupy.from_dlpack(given))
    except Refused:
        raise
    except Exception as error:  # one for each library, and for each reason
        raise Refused(f"{name} cannot be read by DLPack ({error}): give a CuPy array.") from None


def _dense(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    strides, span = [], size
    for extent in reversed(shape):
        strides.append(span)
        span *= extent
    return tuple(reversed(strides))


def is_torch(given: Any) -> bool:
    """Whether it is a tensor of PyTorch, which is then loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.Tensor)


def current_stream(like: Any, device: int) -> int:
    """The current stream of the library that an array is of; of CuPy where that is unknown."""
    if is_torch(like):
        return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    import cupy

    with cupy.cuda.Device(device):
        return int(cupy.cuda.get_current_stream().ptr)


def new_array(like: Any, shape: tuple[int, ...], dtype: str, device: int) -> Any:
    """Dense memory of the library that an array is of, of CuPy where that is unknown; not initialised."""
    if is_torch(like):
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=f"cuda:{device}")
    import cupy

    with cupy.cuda.Device(device):
        return cupy.empty(shape, getattr(like, "dtype", dtype))


def new_zeros(like: Any, count: int, device: int, stream: int) -> Any:
    """Bytes that are zero for what runs on the stream after this."""
    if is_torch(like):
        torch = sys.modules["torch"]
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device)):
            return torch.zeros(count, dtype=torch.uint8, device=f"cuda:{device}")
    import cupy

    with cupy.cuda.Device(device):
        memory = cupy.empty(count, "uint8")
        cupy.cuda.runtime.memsetAsync(memory.data.ptr, 0, count, stream)
        return memory
