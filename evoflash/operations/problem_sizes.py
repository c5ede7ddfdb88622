"""How large a problem may be, and how far apart two sizes are, whatever the operation. Reads no text."""

import math
from collections.abc import Callable
from typing import TypeVar

from evoflash.errors import UsageError
from evoflash.workload import Workload

_W = TypeVar("_W", bound=Workload)
_LARGEST_GPU_GB = 288  # the memory of a B300 (NVIDIA's data sheet), the largest of one GPU in 2026


def check_memory(workload: _W, text: str, fitting: Callable[[_W, int], str], *, otherwise: str) -> _W:
    """The workload; UsageError where no GPU has the memory for its tensors.

    `fitting` says in words what of it fits in so many bytes; `otherwise` is for where nothing does.
    """
    if workload.bytes_moved > _LARGEST_GPU_GB << 30:
        most = fitting(workload, _LARGEST_GPU_GB << 30)
        raise UsageError(
            f"the tensors of problem '{text}' take {workload.bytes_moved / 2**30:,.0f} GiB, more than any "
            f"GPU has ({_LARGEST_GPU_GB} GB): {f'at most {most} fits' if most else otherwise}."
        )
    return workload


def octaves(a: int, b: int) -> float:
    """How far apart two sizes are: by how many doublings."""
    return abs(math.log2(a / b))
