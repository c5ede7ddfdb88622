"""evoflash evolves fused-attention CUDA kernels: mutate, compile, check, time, keep.

A package imports those below it only (pyproject.toml has the layers). To follow a search from the command to
the launch, read cli/commands/search.py, app/search/, search.py, evaluators/ and gpu/process/, in this order.

interfaces:

    cli/    One file or folder for each command, and what they share
    api/    The Python interface
    torch/  evoflash's kernels in a PyTorch program
    views/  Records of the application as words

application:

    app/    Use cases
    trust/  Does the tool tell the truth on this machine? Frauds that must be rejected, and the emulator
            against a GPU.

engines:

    evaluators/  Evaluators turn a genome into an Evaluation
    families/    Where users' own files of earlier releases look for families
    exports/     What a genome leaves evoflash as
    replay/      Search spaces that were measured once, and searches on them without a GPU. Nothing is
                 compiled or timed
    gpu/         The only way to the GPU: what is present, memory with guards, launches
    emulator/    The CPU emulator
    champions/   The shipped archive, <gpu>.toml
    kernels/     Kernel families
    strategies/  Search strategies by name
    validation/  Whether outputs are right
    perf_model/  The performance model
    isolation    Run functions in processes of their own, so that a crash or a hang costs one call and not the
                 search
    search       THE LOOP: ask a strategy, evaluate, store, tell

knowledge:

    store/       The database
    operations/  What kernels compute

ground:

    gene_edits  What mutation operators are made of
    mutations   Mutation operators
    evaluation  What became of a genome
    problem     What must be computed
    launch      Cut out of evoflash.evaluation
    operation   What an operation is to the rest of evoflash
    space       Params, search spaces and genomes
    specs/      GpuSpec
    numerics    16-bit floats as bit patterns
    notices     Notes for the person while something works
    extensions  Families, operators, GPUs and strategies of one's own, in folders outside of the package
    paths       Where the shipped folders (templates/, mutations/, db/) and the user's folders are
    settings    What a person has set
    errors      What evoflash raises at people
    runtime/    What exported kernels need on the machine of their user
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
