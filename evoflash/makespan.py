"""How long a GPU's slots take for the CTAs of a launch: durations and order, not what makes them long."""

import heapq

_MAX_SCHEDULED = 20_000  # beyond this many CTAs the tail is a rounding error: divide instead


def makespan(durations: list[float], heads: int, slots: int) -> float:
    """Cycles until all is done when each free slot takes the next CTA in launch order (or, where the CTAs
    are persistent, the next of the pieces that they share). `durations`: of one head's CTAs, in that order.
    """
    count = len(durations) * heads
    if min(durations) == max(durations):
        return durations[0] * -(-count // slots)
    if count > _MAX_SCHEDULED:
        return sum(durations) * heads / slots + max(durations) / 2
    ends = [0.0] * min(slots, count)
    for _ in range(heads):
        for duration in durations:
            heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)
