"""How a kernel's walk over k cuts the linear layer's work, for the performance model. Measures nothing."""

from collections.abc import Mapping

from evoflash.operation import Loop, Work
from evoflash.operations.linear.workload import LinearWorkload


def work(workload: LinearWorkload, loop: Loop) -> Work:
    """The steps of each CTA: of its rows of W, and of its share of k where several share them."""
    steps = -(-workload.k // loop.keys)
    share = -(-steps // loop.splits)
    of_rows = [min(share, max(0, steps - split * share)) for split in range(loop.splits)]
    return Work(tuple(of_rows) * -(-workload.n // loop.rows), copies=1, batch=1)


def consumers(counts: Mapping[str, float], workload: LinearWorkload, loop: Loop) -> int:
    """No warpgroups compute: there is no family on wgmma."""
    return 0
