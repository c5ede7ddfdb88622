"""The Python interface, which is what `import evoflash` offers to scripts and notebooks.

It calls the same use cases (app/) as the command line, and prints nothing.

    calls    Searches, asks a database, evaluates, compares and exports from Python
    html     Shows the records of the Python interface as HTML in notebooks
    records  The records that the Python interface returns, which notebooks show as formatted text
"""

from evoflash.api.calls import (
    ProblemSearch,
    best,
    compare,
    evaluate,
    export,
    leaderboard,
    replay,
    search,
    search_each,
)
from evoflash.api.records import Kernel, KernelComparison, Leaderboard, Ranking, SearchResult, Step
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
