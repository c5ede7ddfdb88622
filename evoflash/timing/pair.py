"""Two contenders that were timed in turns, as a record. Times nothing: comparison.py does."""

from dataclasses import dataclass

from evoflash.timing import intervals


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two contenders timed in turns: first over second. Below 1 the first is faster."""

    first: str
    second: str
    workload: str
    protocol: str
    ratio: float  # of times, from pairs
    low: float  # the ratio's interval; see intervals.py
    high: float
    noise: float = intervals.MINIMAL_EFFECT  # relative; copies of one kernel, loaded apart, differ by as much
    n: int = 0  # pairs, or blocks of pairs
    confidence: float = 1 - intervals.ALPHA  # of the interval

    @property
    def answer(self) -> str:
        """'faster', 'slower' or 'unclear', said of the first; unclear never replaces an incumbent."""
        return intervals.answer(self.low, self.high, noise=self.noise)
