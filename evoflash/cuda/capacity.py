"""Whether a GPU has room for a launch: clusters, blocks that must all be there at once; launches nothing."""

import math

from evoflash.evaluation import Launch
from evoflash.gpu import GpuSpec
from evoflash.perf_model.estimate import occupancy

_CLUSTERS_FROM = 90  # compute capability
_LARGEST_CLUSTER = 16  # blocks; more than 8 have to be allowed, which launch_attributes.py does


def does_not_fit(launch: Launch, gpu: GpuSpec, *, registers: int, smem_static_bytes: int = 0) -> str:
    """Why the GPU cannot run the launch, in one line; empty when it can.

    Of clusters, the driver may fit fewer than this says (they do not straddle groups of SMs): it has the last
    word, see launcher.py.
    """
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
