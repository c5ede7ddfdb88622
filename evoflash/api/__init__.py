"""The Python interface, which is what `import evoflash` offers to scripts and notebooks.

It calls the same use cases (app/) as the command line, and prints nothing.

    calls    Searches, asks for the best kernels, evaluates and exports from Python
    judging  Judges kernels from Python
    records  The records that the Python interface returns, which notebooks show as formatted text
    stored   Reads stored runs from Python
    words    Says errors as Python does, `gpu="l4"` for `--gpu l4`, and problems as the application takes them
"""

from evoflash.api import calls, judging, stored
from evoflash.api.calls import ProblemSearch
from evoflash.api.records import (
    Kernel,
    KernelCheck,
    KernelComparison,
    KernelVerification,
    Leaderboard,
    Ranking,
    RunInsights,
    RunReport,
    SearchResult,
    Step,
    Table,
)
from evoflash.api.words import in_python_words
from evoflash.app.repeats import SearchComparison
from evoflash.errors import (
    DeviceError,
    EvoflashError,
    NoKernelError,
    SandboxError,
    StoreError,
    TemplateError,
    UsageError,
)
from evoflash.kernels import family
from evoflash.problem import Problem
from evoflash.problem import parse_problem as parse

best = in_python_words(calls.best)
check = in_python_words(judging.check)
compare = in_python_words(judging.compare)
compare_runs = in_python_words(stored.compare_runs)
evaluate = in_python_words(calls.evaluate)
evaluations = in_python_words(stored.evaluations)
export = in_python_words(calls.export)
insights = in_python_words(stored.insights)
leaderboard = in_python_words(calls.leaderboard)
load_family = in_python_words(family.load_family)
parse_problem = in_python_words(parse)
record = in_python_words(stored.record)
replay = in_python_words(calls.replay)
report = in_python_words(stored.report)
runs = in_python_words(stored.runs)
search = in_python_words(calls.search)
search_each = in_python_words(calls.search_each)
verify = in_python_words(judging.verify)

__all__ = [
    "DeviceError",
    "EvoflashError",
    "Kernel",
    "KernelCheck",
    "KernelComparison",
    "KernelVerification",
    "Leaderboard",
    "NoKernelError",
    "Problem",
    "ProblemSearch",
    "Ranking",
    "RunInsights",
    "RunReport",
    "SandboxError",
    "SearchComparison",
    "SearchResult",
    "Step",
    "StoreError",
    "Table",
    "TemplateError",
    "UsageError",
    "best",
    "check",
    "compare",
    "compare_runs",
    "evaluate",
    "evaluations",
    "export",
    "insights",
    "leaderboard",
    "load_family",
    "parse_problem",
    "record",
    "replay",
    "report",
    "runs",
    "search",
    "search_each",
    "verify",
]
