"""Device memory that is zero when it is handed out and kept for the process's life: counters of kernels.

It is a variable of a module that the driver loads, so that no allocator and no CUDA graph owns it: a captured
call keeps its counters, and nothing has to set them to zero before a replay.
"""

import ctypes
import threading

from .driver import Current, Driver

_SLAB_BYTES, _SLOT_BYTES = 1 << 16, 256
MOST_ZEROS = 4096  # bytes of a piece of which many have room in one slab
_PTX = (
    b".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 256 .b8 evoflash_zeros[%d];\n\0"
)


class Zeros:
    """The zeros of one context; may be used by many threads at once."""

    def __init__(self, driver: Driver, context: int) -> None:
        self._driver, self._context, self._lock = driver, context, threading.Lock()
        self._next = self._end = 0

    def take(self, size: int) -> int:
        """The address of so many bytes that are nobody else's from here on."""
        needed = -(-size // _SLOT_BYTES) * _SLOT_BYTES
        with self._lock:
            if self._next + needed > self._end:
                self._load(max(_SLAB_BYTES, needed))
            address = self._next
            self._next += needed
        return address

    def _load(self, size_bytes: int) -> None:
        address, size = ctypes.c_uint64(0), ctypes.c_size_t(0)
        with Current(self._driver, self._context):
            module = self._driver.handle("cuModuleLoadData", _PTX % size_bytes)
            self._driver.call("cuModuleGetGlobal_v2", address, size, module, b"evoflash_zeros")
        self._next, self._end = address.value, address.value + size.value
