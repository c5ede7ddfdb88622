"""How long a GPU's slots take for the CTAs of a launch: durations and order, not what makes them long."""

import heapq
import math

from evoflash.evaluation import Launch

_MAX_SCHEDULED = 20_000  # beyond this many CTAs the tail is a rounding error: divide instead


def makespan(durations: list[float], copies: int, slots: int) -> float:
    """Cycles until all is done when each free slot takes the next CTA in launch order (or, where the CTAs
    are persistent, the next of the pieces that they share). `durations`: of the CTAs of one of `copies`
    equal groups, in that order.

    Pieces that are handed out on demand go that way; those taken in turns are estimated as if they did.
    """
    count = len(durations) * copies
    if min(durations) == max(durations):
        return durations[0] * -(-count // slots)
    if count > _MAX_SCHEDULED:
        return sum(durations) * copies / slots + max(durations) / 2
    ends = [0.0] * min(slots, count)
    for _ in range(copies):
        for duration in durations:
            heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def at_work(launch: Launch, pieces: int, batch: int, sm_count: int) -> int:
    """CTAs of a launch that find work, of `pieces` in all.

    A persistent grid is filled up to a multiple of the batch, and what goes beyond the GPU's slots, which are
    a multiple of its SMs, returns at once. With a batch of more than half the SMs the slots cannot be told
    from the grid: all of it counts.
    """
    count = math.prod(launch.grid)
    over = count % sm_count
    is_filled_up = count < pieces and count > sm_count and over < batch <= sm_count / 2
    return count - over if is_filled_up else count
