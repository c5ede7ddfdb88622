"""The Python interface, which is what `import evoflash` offers to scripts and notebooks.

comparing  Compares strategies on a recorded space and two kernels on the GPU, from Python
exporting  Writes a kernel as files from Python, in every form of `evoflash export`
html       Shows the records of the Python interface as HTML in notebooks
records    The records that the Python interface returns, which notebooks show as formatted text
searching  Searches from Python, for one problem or several, and asks a database what it knows
"""

from evoflash.api.comparing import compare, replay
from evoflash.api.exporting import export
from evoflash.api.records import Kernel, KernelComparison, Leaderboard, Ranking, SearchResult, Step
from evoflash.api.searching import ProblemSearch, best, evaluate, leaderboard, search, search_each
from evoflash.errors import EvoflashError
from evoflash.kernels.family import load_family
from evoflash.problem import Problem, parse_problem

__all__ = [
    "EvoflashError",
    "Kernel",
    "KernelComparison",
    "Leaderboard",
    "Problem",
    "ProblemSearch",
    "Ranking",
    "SearchResult",
    "Step",
    "best",
    "compare",
    "evaluate",
    "export",
    "leaderboard",
    "load_family",
    "parse_problem",
    "replay",
    "search",
    "search_each",
]
