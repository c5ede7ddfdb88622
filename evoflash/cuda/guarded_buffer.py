"""Device memory between bands of random bytes that must stay as they are. Launches and judges nothing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.cuda.launcher import cupy, settle
from evoflash.errors import DeviceError

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
