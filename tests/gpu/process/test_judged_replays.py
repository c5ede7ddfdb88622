"""When a judged launch is slower for what the kernel does, and when for what else the GPU does. No GPU."""

import itertools

from tables import table_of_cases

from evoflash.gpu.process.judged_replays import pace_complaint


@table_of_cases()
def test_pace(us, timed_us, pairs, slower, busy):
    """`us`: usual and judged times, over and over; `pairs`: how many are taken until there is an answer."""
    taken, times = [], itertools.cycle(us)

    def take():
        taken.append(tuple(next(times)))
        return taken[-1]

    said = pace_complaint("a launch", take, timed_us=timed_us, pauses_s=[0.0] * 6)
    assert said == (slower or "", busy or "")
    assert len(taken) == pairs
