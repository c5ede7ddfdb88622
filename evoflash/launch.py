"""One kernel launch as records, and whether a GPU has room for it. Launches nothing.

Records: grid, block, shared memory, cluster, tensor maps. Room: for clusters, and for blocks that must all be
there at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evoflash.specs import GpuSpec

SWIZZLES = (0, 32, 64, 128)  # bytes of the span in which 16-byte chunks change places
L2_PROMOTIONS = (0, 64, 128, 256)  # bytes that L2 fetches together
PORTABLE_CLUSTER = 8  # blocks; a larger cluster has to be allowed for its kernel (gpu/driver.py)
# What a launch may ask of any GPU: CUDA's programming guide, compute capabilities up to 12.0.
_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
_MOST_SMEM_BYTES = 227 * 1024  # of a block
_CLUSTERS_FROM = 90  # compute capability
_LARGEST_CLUSTER = 16  # blocks


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


def occupancy(launch: LaunchConfig, registers: int, smem_static: int, gpu: GpuSpec) -> int:
    """CTAs that fit on one SM; 0 when not even one does."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    warp_registers = -(-max(registers, 1) * 32 // 256) * 256  # allocated in units of 256 a warp
    return min(
        gpu.blocks_per_sm,
        gpu.threads_per_sm // threads,
        gpu.regs_per_sm // (warp_registers * -(-threads // 32)),
        gpu.smem_per_sm // (launch.smem_bytes + smem_static + 1024),
    )


def beyond_every_gpu(launch: LaunchConfig) -> str:
    """Why no GPU can run the launch, in one line; empty when there may be one that can."""
    for axis, blocks, most in zip("xyz", launch.grid, _MOST_BLOCKS, strict=True):
        if blocks > most:
            return f"{launch.entry}: a grid of {blocks} blocks along {axis}; a GPU launches at most {most}"
    if launch.smem_bytes > _MOST_SMEM_BYTES:
        limit = f"no GPU gives a block more than {_MOST_SMEM_BYTES}"
        return f"{launch.entry}: {launch.smem_bytes} bytes of shared memory; {limit}"
    return ""


def does_not_fit(launch: LaunchConfig, gpu: GpuSpec, *, registers: int, smem_static_bytes: int = 0) -> str:
    """Why the GPU cannot run the launch, in one line; empty when it can.

    Of clusters, the driver may fit fewer than this says (they do not straddle groups of SMs): it has the last
    word, see launcher.py.
    """
    if reason := beyond_every_gpu(launch):
        return reason
    size = math.prod(launch.cluster)
    if size > 1 and gpu.compute_capability < _CLUSTERS_FROM:
        return f"{launch.entry}: clusters need sm_{_CLUSTERS_FROM}, {gpu.name} is {gpu.arch}"
    if not 1 <= size <= _LARGEST_CLUSTER:
        return f"{launch.entry}: a cluster of {size} blocks; it has 1 to {_LARGEST_CLUSTER}"
    if any(blocks % side for blocks, side in zip(launch.grid, launch.cluster, strict=True)):
        return f"{launch.entry}: the grid {launch.grid} is no multiple of the cluster {launch.cluster}"
    if not launch.resident:
        return ""
    room = gpu.sm_count * occupancy(launch, registers, smem_static_bytes, gpu)
    return too_many(launch, room) if math.prod(launch.grid) > room else ""


def too_many(launch: LaunchConfig, room: int) -> str:
    """The complaint about a resident launch of more blocks than there is room for."""
    blocks = math.prod(launch.grid)
    return f"{launch.entry}: its {blocks} blocks wait for one another, and {room} fit on the GPU at once"
