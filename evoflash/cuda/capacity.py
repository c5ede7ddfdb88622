"""Whether a GPU has room for a launch: clusters, blocks that must all be there at once; launches nothing."""

import math

from evoflash.evaluation import Launch
from evoflash.gpu import GpuSpec
from evoflash.perf_model.estimate import occupancy

# What a launch may ask of any GPU: CUDA's programming guide, compute capabilities up to 12.0.
_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
_MOST_SMEM_BYTES = 227 * 1024  # of a block
_CLUSTERS_FROM = 90  # compute capability
_LARGEST_CLUSTER = 16  # blocks; more than 8 have to be allowed, which launch_attributes.py does


def beyond_every_gpu(launch: Launch) -> str:
    """Why no GPU can run the launch, in one line; empty when there may be one that can."""
    for axis, blocks, most in zip("xyz", launch.grid, _MOST_BLOCKS, strict=True):
        if blocks > most:
            return f"{launch.entry}: a grid of {blocks} blocks along {axis}; a GPU launches at most {most}"
    if launch.smem_bytes > _MOST_SMEM_BYTES:
        limit = f"no GPU gives a block more than {_MOST_SMEM_BYTES}"
        return f"{launch.entry}: {launch.smem_bytes} bytes of shared memory; {limit}"
    return ""


def does_not_fit(launch: Launch, gpu: GpuSpec, *, registers: int, smem_static_bytes: int = 0) -> str:
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


def too_many(launch: Launch, room: int) -> str:
    """The complaint about a resident launch of more blocks than there is room for."""
    blocks = math.prod(launch.grid)
    return f"{launch.entry}: its {blocks} blocks wait for one another, and {room} fit on the GPU at once"
