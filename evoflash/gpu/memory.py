"""Device memory between bands of random bytes that must stay as they are. Launches and judges nothing.

The scratch memory that the kernels of one stream share is such memory too.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import DeviceError
from evoflash.gpu.launcher import LoadedKernel, cupy, settle

GUARD_BYTES = 32768  # on either side of a tensor: more than a tile row of any family overshoots
_POISON = 0xFF  # all ones is NaN in fp16, bf16 and fp32


class NoRoomError(DeviceError):
    """The GPU's memory is used up, by whomever."""


def allocate(size_bytes: int) -> Any:
    """A CuPy array of uint8. NoRoomError when the memory is used up."""
    try:
        return cupy().empty(size_bytes, dtype=np.uint8)
    except cupy().cuda.memory.OutOfMemoryError:
        raise NoRoomError(
            f"the GPU has no {size_bytes >> 20} MiB left: stop what else runs on it (nvidia-smi), or choose "
            "a smaller problem."
        ) from None


def has_room(size_bytes: int) -> bool:
    """Whether half of the device's memory stays free: the arenas and benches of any problem go first."""
    free, total = cupy().cuda.runtime.memGetInfo()
    return bool(free + cupy().get_default_memory_pool().free_bytes() - size_bytes >= total // 2)


class GuardedBuffer:
    """Device bytes between two bands of random ones, which must stay as they are."""

    def __init__(
        self, payload_bytes: int, *, rng: np.random.Generator, guard_bytes: int = GUARD_BYTES
    ) -> None:
        self._payload, self._guard = payload_bytes, guard_bytes
        self._bands = rng.integers(0, 256, (2, guard_bytes), dtype=np.uint8)
        self._memory = allocate(payload_bytes + 2 * guard_bytes)
        self._memory[:guard_bytes].set(self._bands[0])
        self._memory[guard_bytes + payload_bytes :].set(self._bands[1])
        self._image = allocate(2 * guard_bytes)  # of the bands
        self._image.set(self._bands.reshape(-1))
        settle()

    @property
    def pointer(self) -> int:
        return int(self._memory.data.ptr) + self._guard

    @property
    def device_bytes(self) -> Any:
        """The payload as a CuPy array of uint8 on the same memory."""
        return self._memory[self._guard : self._guard + self._payload]

    @property
    def bands(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Of both bands the address, that of what should lie there, and the bytes."""
        begin, image, size = int(self._memory.data.ptr), int(self._image.data.ptr), self._guard
        return (begin, image, size), (begin + size + self._payload, image + size, size)

    def write(self, values: NDArray[np.uint8]) -> None:
        self.device_bytes.set(values)

    def copy(self, image: Any) -> None:
        """The same from the device; whoever calls must settle()."""
        self.device_bytes.data.copy_from_device(image.data, self._payload)

    def poison(self, stream: Any) -> None:
        self.device_bytes.data.memset_async(_POISON, self._payload, stream)

    def read(self) -> NDArray[np.uint8]:
        data: NDArray[np.uint8] = self.device_bytes.get()
        return data

    def fault(self) -> str:
        """Empty while the bands are intact; else how many bytes changed, and where the first one lies."""
        below = self._memory[: self._guard].get() != self._bands[0]
        above = self._memory[self._guard + self._payload :].get() != self._bands[1]
        if above.any():
            return f"{int(above.sum())} bytes past its end, the first {int(above.argmax())} bytes behind"
        if below.any():
            return (
                f"{int(below.sum())} bytes before its start, the last {int(below[::-1].argmax()) + 1} ahead"
            )
        return ""


_SMALL = 1 << 23  # bytes: those of check shapes, of which a candidate has several


def workspace(size_bytes: int, zeroed_bytes: int) -> GuardedBuffer:
    """So much of it for kernels that expect so many zeros at its beginning before each launch."""
    return (_small if size_bytes <= _SMALL else _any)(size_bytes, zeroed_bytes)


@lru_cache(maxsize=8)
def _any(size_bytes: int, zeroed_bytes: int) -> GuardedBuffer:
    # One for all arenas, as a user would have: kernels of one stream never use it at the same time. Whoever
    # expects zeros shares it with none that leaves other things there.
    return GuardedBuffer(size_bytes, rng=np.random.default_rng())


_small = lru_cache(maxsize=64)(_any.__wrapped__)


def scratch_of(kernel: LoadedKernel) -> int:
    """The address of the kernel's, with zeros where the kernel expects them; 0 where it has none."""
    if not kernel.workspace_bytes:
        return 0
    buffer = workspace(kernel.workspace_bytes, kernel.zeroed_bytes)
    if kernel.zeroed_bytes:
        settle()
        buffer.device_bytes.data.memset(0, kernel.zeroed_bytes)
        settle()
    return buffer.pointer
