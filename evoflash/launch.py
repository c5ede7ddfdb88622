"""One kernel launch as records: grid, block, shared memory, cluster, tensor maps. Launches nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

SWIZZLES = (0, 32, 64, 128)  # bytes of the span in which 16-byte chunks change places


L2_PROMOTIONS = (0, 64, 128, 256)  # bytes that L2 fetches together


PORTABLE_CLUSTER = 8  # blocks; a larger cluster has to be allowed for its kernel


@dataclass(frozen=True, slots=True)
class TensorMapSpec:
    """A tensor map that a kernel takes as an argument: TMA then moves boxes of an array.

    `box` is in the order of the array's shape: of an attention tensor (batch, heads, rows, columns). With
    `heads_inside` a box holds its heads row by row: (batch, rows, heads, columns) is its order in shared
    memory, and that of the coordinates in the kernel, the last of them first.
    """

    of: str  # the array's name; Q, K, V or O of an attention kernel
    box: tuple[int, ...]
    swizzle: int = 0  # one of SWIZZLES
    l2_promotion: int = 256  # one of L2_PROMOTIONS
    heads_inside: bool = False


def geometry(
    wanted: TensorMapSpec, shape: Sequence[int], strides_bytes: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """What encoders take of an array: dims, strides in bytes of all but the first, box; contiguous first."""
    axes = list(reversed(range(len(shape))))
    if wanted.heads_inside:
        axes = [3, 1, 2, 0]
    dims, strides, box = (tuple(each[axis] for axis in axes) for each in (shape, strides_bytes, wanted.box))
    return dims, strides[1:], box


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """One kernel launch of a candidate on one workload."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem_bytes: int  # dynamic shared memory
    workspace_bytes: int = 0  # global scratch, the same for all launches of a candidate; 0: no such argument
    cluster: tuple[int, int, int] = (1, 1, 1)  # blocks
    resident: bool = False  # its blocks wait for one another: all of them must fit on the GPU at once
    dependent: bool = False  # may begin before the launch before it has ended (programmatic dependent launch)
    maps: tuple[TensorMapSpec, ...] = ()  # the first arguments, the same for all launches of a candidate
    zeroed_bytes: int = 0  # at the workspace's beginning: zero before a call, and left so by it
