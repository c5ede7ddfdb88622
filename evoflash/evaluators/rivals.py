"""What an estimate has to keep up with to be worth a proof: the best times of kernels that are proven.

Most genes do not change an estimate, so that half a search may have one time: times that the model hardly
tells apart count as one, or each plateau on the way would be proven eight times over.
"""

from collections.abc import Iterable, Sequence

ELITES = 8
FEW = 2.5  # while there are fewer: what takes so many times the best one's time will not be one that matters
_ALIKE = 1.001  # times no further apart than this are one


def rivals(proven_us: Iterable[float]) -> tuple[float, ...]:
    """The best times of proven kernels, fastest first, each once; eight at most."""
    found: list[float] = []
    for us in sorted(proven_us):
        if not found or us > _ALIKE * found[-1]:
            found.append(us)
    return tuple(found[:ELITES])


def beaten_by(us: float, times_us: Sequence[float]) -> float | None:
    """The rival or limit that makes a proof of an estimate needless; None where it is worth one.

    Whatever is faster than all of them is worth one, however little.
    """
    if not times_us or us < times_us[0]:
        return None
    alike = next((rival for rival in times_us if rival / _ALIKE <= us <= rival * _ALIKE), None)
    limit = times_us[-1] if len(times_us) >= ELITES else FEW * times_us[0]
    return alike or (limit if us >= limit else None)
