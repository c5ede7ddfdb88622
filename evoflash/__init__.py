"""evoflash evolves CUDA kernels of attention and decode linear layers: mutate, compile, check, time, keep.

A module imports from its own floor and from those below, never upwards; pyproject.toml has the exact order,
`lint-imports` checks it. To follow a search from the command to the launch, read cli/commands/search.py,
app/search/, search.py, evaluators/ and gpu/process/, in this order.

interfaces:

    cli/    The command line
    api/    The Python interface, which is what `import evoflash` offers to scripts and notebooks
    mcp/    The application as tools for programs that speak the Model Context Protocol, over stdio
            (docs/mcp.md)
    torch/  evoflash's kernels in a PyTorch program
    views/  Shows the records of the application as text, tables, JSON and pages, one file a subject

application:

    app/    The use cases, one file or folder for each thing that a command or a Python call asks for
    trust/  Tests of the tool itself, by frauds that it must reject and a GPU that its emulator must match

engines:

    evaluators/  Evaluators turn a genome into an Evaluation
    families/    An alias, for one release, of evoflash.kernels for users' own files
    exports/     Writers that turn a genome into files that need no evoflash
    replay/      Searches on recorded search spaces, whose kernels were measured once
    gpu/         The only way to the GPU, for launches, checks, timing and other libraries' kernels
    emulator/    The CPU emulator runs a kernel thread by thread and reports races, deadlocks and bad accesses
    champions/   The shipped archive of the best genome measured for each problem
    kernels/     Kernel families, which make a search space, CUDA text and machine code of a template
    llm/         A language model as an operator of the search
    strategies/  Search strategies, which propose genomes and learn from what became of them
    validation/  Judges whether outputs are right, with NumPy on the host
    perf_model/  The performance model, which estimates a kernel's time from counters and a data sheet
    isolation    Runs functions in processes of their own, so that a crash or a hang costs one call and not
                 the search
    search       THE LOOP, to be read first, which asks a strategy, evaluates, stores and tells

knowledge:

    store/       The database of runs, evaluations, baselines and lineage, the one truth from which a search
                 resumes
    operations/  What kernels compute, a folder for each operation, and what must hold of all of them

ground:

    gene_edits         What mutation operators are made of
    mutations          The package of mutation operators, whose files are in the folder mutations/ of the
                       checkout
    evaluation         The records of what became of a genome
    model_exchange     An exchange with a language model as records
    problem            A problem, one workload of an operation or several, and how it is written
    operation          The record of what an operation gives to the rest of evoflash, and finding one by name
    workload           A shape of an operation, its tensors, inputs and right outputs, as records
    launch             One kernel launch as records, and whether a GPU has room for it
    space              Genomes, params and search spaces
    specs/             What each GPU allows and how fast it is, read from specs/<name>.toml
    numerics           16-bit floats as bit patterns, to and from float32, and which are not finite
    notices            Notes for the person while something works
    written_files      Writes files whole or not at all, and never over one that evoflash did not write or
                       that was edited since
    hardware_counters  A kernel's hardware counters as records, which limit binds it by them, and how far it
                       is from it
    estimate_error     How far each family's estimates are from measured times, and which estimates are a tie
    extensions         Finds and loads families, operators, GPUs and strategies of one's own in extension
                       folders
    paths              Where the shipped folders (templates/, mutations/, db/) and the user's are, and why the
                       cache fails
    settings           What a person has set, by environment variables and config files
    sandbox/           The sandbox in which text from somebody else is compiled and run
    blame              Notes what of a candidate has begun in a process, for whoever asks what it died of
    errors             The errors that evoflash raises at people
    extras             What pip is asked for to install one of evoflash's extras
    runtime/           What exported kernels need on the machine of their user
    spawning           Starts Python processes that need neither the caller's script nor /dev/shm
    version            The version of evoflash, which files, databases and records name
    fork_server        Forks Python processes from one that has loaded their modules already
"""

import importlib
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

# Its threads spin while they wait: on the small products of the reference they cost three times the CPU of
# the work itself, and several worker processes run side by side anyway. Read when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from evoflash.version import __version__ as __version__

if TYPE_CHECKING:
    from evoflash.api import *  # noqa: F403  (what its __all__ names, for type checkers)

_ERRORS = (
    "DeviceError",
    "EvoflashError",
    "NoKernelError",
    "SandboxError",
    "StoreError",
    "TemplateError",
    "UsageError",
)
_RECORDS = (
    *("Kernel", "KernelCheck", "KernelComparison", "KernelVerification", "Leaderboard", "Problem"),
    *("ProblemSearch", "RunInsights", "RunReport", "SearchComparison", "SearchResult", "Step", "Table"),
)
_CALLS = (
    *("best", "check", "compare", "compare_runs", "evaluate", "evaluations", "export", "insights"),
    *("leaderboard", "load_family", "parse_problem", "record", "replay", "report", "runs", "search"),
    *("search_each", "verify"),
)
__all__ = [*_ERRORS, *_RECORDS, *_CALLS]
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
    return sorted([*__all__, "__version__"])
