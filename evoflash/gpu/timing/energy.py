"""Measures the energy that a call takes, by the board's own counter over calls back to back. Times nothing.

The counter (NVML) has the whole board in it, also what it takes at rest, and moves some ten times a second.
So calls follow one another for two seconds, counted from one move of the counter to another. They run under
the power cap, whatever the protocol that times them: a kernel that is faster at its boost clock need not take
less.
"""

import time
from collections.abc import Callable

from evoflash.gpu.launcher import wait
from evoflash.gpu.timing.benchmark import REPLAY_LIMIT_S, Bench, Contender, capture, sample
from evoflash.gpu.timing.clocks import energy_counter_mj

LEAST_S = 2.0  # the counter's steps are 20 to 100 ms apart, and a move is seen within a turn
WARM_S = 0.25
TURN_US = 1e4  # calls between two looks at the counter: each look leaves the GPU idle for some 20 us
_LIMIT_S = 10.0  # for a counter that stands still


def energy_mj(contender: Contender, bench: Bench) -> float | None:
    """Millijoules a call, on inputs from DRAM; None where NVML has no counter, or it stands still."""
    read = counter(bench)
    if read() is None:
        return None
    protocol = bench.protocols[0]
    replay, launches = capture(contender, bench, protocol)
    replays = max(1, round(TURN_US / (launches * sample(replay, bench, protocol, launches=launches))))

    def turn() -> int:
        for _ in range(replays):
            replay()
        wait(bench.stream, limit_s=REPLAY_LIMIT_S)
        return replays * launches

    until = time.monotonic() + WARM_S
    while time.monotonic() < until:
        turn()
    return per_call_mj(turn, read, now=time.monotonic)


def counter(bench: Bench) -> Callable[[], int | None]:
    """What the board has taken since the driver was loaded, in mJ, whenever it is asked."""
    return lambda: energy_counter_mj(bench.pci_bus_id)


def per_call_mj(
    turn: Callable[[], int], read: Callable[[], int | None], *, now: Callable[[], float]
) -> float | None:
    """Millijoules a call between two moves of the counter that are at least LEAST_S apart; None without them.

    `turn` makes calls, waits for them and says how many they were; `now` is a clock in seconds.
    """
    last, begun = read(), now()
    first: int | None = None  # what the counter said at its first move
    first_s, calls = 0.0, 0
    while now() - begun < _LIMIT_S:
        made, said = turn(), read()
        calls += made
        if said is None or last is None:
            return None
        if said == last:
            continue
        if first is None:
            first, first_s, calls = said, now(), 0
        elif now() - first_s >= LEAST_S:
            return (said - first) / calls
        last = said
    return None
