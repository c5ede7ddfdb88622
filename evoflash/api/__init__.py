"""The Python interface: what `import evoflash` offers, for scripts and notebooks. Shares the commands' work.

    searching    search, best, leaderboard, evaluate
    several      search_each: several problems
    exporting    export
    comparing    replay, compare
    records      what they return: Kernel, Leaderboard, SearchResult, Step
    html         the same as HTML, which notebooks show

Nothing here is loaded before a name of it is used, and no GPU is touched before a kernel is measured.
"""

from evoflash.api.comparing import compare, replay
from evoflash.api.exporting import export
from evoflash.api.records import Kernel, KernelComparison, Leaderboard, Ranking, SearchResult, Step
from evoflash.api.searching import best, evaluate, leaderboard, search
from evoflash.api.several import ProblemSearch, search_each
from evoflash.errors import EvoflashError
from evoflash.families.family import load_family
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
