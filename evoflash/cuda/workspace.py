"""The scratch memory that kernels of one stream share, between guards; launches nothing."""

from functools import lru_cache

import numpy as np

from evoflash.cuda.guarded_buffer import GuardedBuffer
from evoflash.cuda.launcher import LoadedKernel, settle

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
