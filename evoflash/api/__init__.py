"""The Python interface, which is what `import evoflash` offers to scripts and notebooks.

comparing  Comparing from Python
exporting  A kernel as files from Python, in every form of `evoflash export`
html       The records of the Python interface as HTML for notebooks
records    What the Python interface returns
searching  Searching from Python, and asking a database what it knows
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
