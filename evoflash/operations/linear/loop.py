"""How a kernel's walk over k cuts the linear layer's work, for the performance model. Measures nothing."""

from evoflash.operation import Loop, Work
from evoflash.operations.linear.workload import LinearWorkload, element_bytes


def work(workload: LinearWorkload, loop: Loop) -> Work:
    """The steps of each CTA: of its rows of W, and of its share of k where several share them."""
    steps = -(-workload.k // loop.keys)
    share = -(-steps // loop.splits)
    of_rows = [min(share, max(0, steps - split * share)) for split in range(loop.splits)]
    return Work(
        tuple(of_rows) * (-(-workload.n // (loop.rows * loop.row_cluster)) * loop.row_cluster),
        copies=1,
        batch=1,
        parts=loop.splits // loop.cluster,  # a cluster has no more than these, and merges them itself
        part_bytes=4 * loop.rows * workload.m,
        common_bytes=workload.m * workload.k * element_bytes(workload.x),
    )
