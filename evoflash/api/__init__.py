"""The Python interface: what `import evoflash` offers, for scripts and notebooks. Shares the commands' work.

    calls    What Python code can call
    html     The records of the Python interface as HTML for notebooks
    records  What the Python interface returns
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
