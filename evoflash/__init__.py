"""evoflash evolves fused-attention CUDA kernels: mutate, compile, check, time, keep.

A package imports those below it only (pyproject.toml has the layers). To follow one search from the command
to the launch, read commands/search/, search.py, evaluators/, gpu_process/ and cuda/, in this order.

    cli           main, and the list of commands
    api/          what Python code may call: search, best, evaluate, ...
    torch/        kernels in PyTorch programs: the best known one for each call
    commands/     one file or folder for each command
    selftest/     frauds that must be rejected
    evaluators/   a genome becomes an Evaluation
    gpu_process/  what runs in the process that holds the GPU
    baselines/    attention of other libraries, timed beside ours
    conformance/  the emulator and a GPU compared, primitive by primitive
    attention/    all that knows attention; the rest asks it through operation/
    exports/      a genome becomes files that need no evoflash
    champions/    the shipped archive of the best kernels
    emulator/     runs a kernel on the CPU, with every check on
    timing/       times, and what they say
    cuda/         the GPU: memory, launches
    families/     a template becomes a search space, CUDA text and launches
    replay/       searches on recorded spaces
    strategies/   what to try next
    validation/   whether an output is right
    compilers/    CUDA text becomes a cubin, or a library for the emulator
    perf_model/   estimates a kernel's time
    store/        the database
    search        THE LOOP: ask, evaluate, store, tell
    isolation     functions in processes of their own
    gene_edits    what mutation operators are made of
    mutations/    where the operators are found: the top-level mutations/ folder
    evaluation    records: launches, builds, verdicts, timings, evaluations, runs
    problem       records: one workload or several, and their text
    operation/    records: workloads, tensors, what an operation (attention) does for the rest
    space         records: genes, search spaces, genomes
    gpu/          records: what a GPU allows and how fast it is; a file for each GPU
    extensions/   the user's own families, operators, GPUs and strategies: where they are
    paths         where shipped and the user's folders are
    settings/     environment variables and config files
    runtime/      launches an exported kernel; a part of exports, which needs no evoflash
    errors        what is raised at people

device/ has the headers of the ef:: layer and holds no Python.
"""

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

# Its threads spin while they wait: on the small products of the reference they cost three times the CPU of
# the work itself, and several worker processes run side by side anyway. Read when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evoflash.api import EvoflashError as EvoflashError
    from evoflash.api import Kernel as Kernel
    from evoflash.api import Leaderboard as Leaderboard
    from evoflash.api import Problem as Problem
    from evoflash.api import ProblemSearch as ProblemSearch
    from evoflash.api import SearchResult as SearchResult
    from evoflash.api import Step as Step
    from evoflash.api import best as best
    from evoflash.api import compare as compare
    from evoflash.api import evaluate as evaluate
    from evoflash.api import export as export
    from evoflash.api import leaderboard as leaderboard
    from evoflash.api import load_family as load_family
    from evoflash.api import parse_problem as parse_problem
    from evoflash.api import replay as replay
    from evoflash.api import search as search
    from evoflash.api import search_each as search_each

_RECORDS = ("EvoflashError", "Kernel", "Leaderboard", "Problem", "ProblemSearch", "SearchResult", "Step")
_CALLS = ("best", "compare", "evaluate", "export", "leaderboard", "load_family", "parse_problem")
__all__ = [*_RECORDS, *_CALLS, "replay", "search", "search_each"]
# The functions `search` and `replay` have the names of the modules that do their work.


class _Package(ModuleType):
    """A public name stays the function when Python, having imported a module of that name, would hide it."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """A public name, from evoflash/api/, which is loaded when the first of them is used."""
    if name not in __all__:
        raise AttributeError(f"module 'evoflash' has no attribute {name!r}")
    return getattr(importlib.import_module("evoflash.api"), name)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted([*__all__, "__version__"])
