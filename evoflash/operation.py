"""The record of what an operation gives to the rest of evoflash, and finding one by name. Computes nothing.

An operation is what kernels compute: attention, say. All that knows its tensors, its arithmetic and its
shapes is behind one `Operation`; search, compilers, emulator, validator and clock ask that, and know no
tensor by name. Only this module knows where operations are; it loads them when asked.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from evoflash.errors import UsageError
from evoflash.settings import lookup
from evoflash.workload import (
    CompileKey,
    DeviceReference,
    ExpectedOutputs,
    Reach,
    Relation,
    Sample,
    TensorSpec,
    Thresholds,
    Workload,
)

if TYPE_CHECKING:
    import numpy as np


Delivery = Literal["eager", "lazy", "random"]  # when an asynchronous copy's bytes arrive in the emulator
Schedule = Literal["fifo", "random"]  # which thread of the emulator runs next


@dataclass(frozen=True, slots=True)
class InputNames:
    """Which kinds of inputs are drawn where."""

    small: tuple[str, ...]  # for shapes of which every row is compared; the first is ordinary data
    at_size: tuple[str, ...]  # for the benchmark's shape, where a reference is costly; the first is ordinary
    scheduled: tuple[str, ...]  # for runs under many schedules, another with every run
    after_timing: str  # never shown to a kernel before it has been timed
    ordinary: frozenset[str]  # those whose errors are pooled


_Of = TypeVar("_Of")


@dataclass(frozen=True, slots=True)
class Loop:
    """The main loop of a genome, as its header's [model] describes it.

    A CTA owns some rows of the output and walks over what they are made of, `keys` items in a step.
    """

    rows: int  # of the output, that a CTA owns
    keys: int  # items that a CTA consumes in a step
    stages: int  # depth of its ring of tiles; 1 is none
    splits: int  # CTAs over the grid that share the items of one block of rows
    pack: int = 1  # groups whose rows share a CTA: it owns rows // pack of each
    cluster: int = 1  # CTAs that walk the same tiles together
    overlaps: int = 0  # on wgmma, 1: a warpgroup's second product runs beside its arithmetic
    row_tiles: int = 1  # on wgmma: of 64 rows, that a warpgroup computes
    warpgroups: int = 0  # on wgmma: that compute attention, each a chain of its own; 0: no such chains
    lead: int = 0  # half steps that the shallowest ring of boxes runs ahead of what reads them
    operand_bytes: int = 0  # of operand A, that wgmma reads in shared memory in a step of a CTA
    most_ctas: int = 0  # that a GPU gets of CTAs that take piece after piece; 0: a CTA for each piece
    noted_pieces: int = 0  # that such a CTA notes and may come back to
    section: int = 0  # groups of rows that CTAs go through before the next such section; 0: no sections
    part_keys: int = 0  # items of a step that are masked at a time, apart from the rest; 0: all of them
    shares: int = 0  # 1: CTAs have equal shares of a list of all steps, whoever has them
    grain: int = 1  # steps that one CTA takes together, where CTAs have equal shares of a list of steps
    load_lines: int = 0  # of the first-level cache that a step's loads touch, where those are many; 0: few
    loop_instructions: int = 95  # of a warp in a step, beside those counted: addresses, ring slots, mask test
    uncounted_once: int = 0  # warp instructions of a CTA outside of its loop that no primitive stands for
    once_bytes: int = 0  # of a step's loads, that no other CTA loads and the first-level cache does not keep
    # for which what CTAs load alike is copied before the loop, in front of what it streams
    first_steps: int = 0
    queue_cycles: int = 0  # that what L2 has waits behind what DRAM sends, where that is asked for far ahead
    fetchers: int = 1  # lanes that share asking for a step's bulk copies
    row_cluster: int = 1  # CTAs of a cluster side by side over the rows; the grid has whole clusters
    merge_batch: int = 4  # parts that a thread loads at a time where it merges what CTAs left in memory
    merge_bytes: int = 16  # of each of them
    emulation_cost: int = 1  # CPU time that the emulator takes for a multiplication of a step, over wgmma's
    before: int = 0  # launches of a call that come before the one that has this loop

    def first_of(self, launches: Sequence[_Of]) -> tuple[_Of, ...]:
        """What belongs to the launches, that of the one with the loop first."""
        return (launches[self.before], *launches[: self.before], *launches[self.before + 1 :])


@dataclass(frozen=True, slots=True)
class Work:
    """A workload cut into a loop's pieces, for the performance model."""

    steps: tuple[int, ...]  # that each CTA of one group, or pack of groups, takes, in launch order
    copies: int  # groups, or packs of groups, over all batches
    batch: int  # what a persistent grid is filled up to a multiple of
    parts: int = 1  # CTAs that share what one of them owns; the last of them merges what all left in memory
    part_bytes: int = 0  # that each of them leaves there
    common_bytes: int = 0  # of what CTAs load, that all with the same share of the items load; 0: nothing


@dataclass(frozen=True, slots=True)
class EmulatedRun:
    """One run of the pre-flight: a small workload in the emulator, with inputs of one kind."""

    workload: Workload
    inputs: str
    delivery: Delivery
    schedule: Schedule
    crowded: bool = False  # on a GPU with room for few CTAs: persistent CTAs then take several blocks each
    sms: int = 0  # of that GPU; 0: with room for a single CTA
    without: tuple[str, ...] = ()  # optional outputs that are not asked for
    # Tensors lie as their `spread` says, with a gap behind each row, and scales are others than usual.
    is_strided: bool = False
    shrunk: tuple[str, ...] = ()  # constants of the text that must be smaller: kernels/renderer.py
    is_counted: bool = False  # gives a point of the performance model's line; two runs of a plan do
    # Called three times in one memory, if there is a workspace: on other inputs, and on the first again.
    is_repeated: bool = False
    is_brief: bool = False  # one of many alike, whose verdict is kept only if it complains
    # Dear, and there for numbers that few bits do not count: a finalist's hidden shapes on a GPU have them.
    is_left_to_gpu: bool = False


@dataclass(frozen=True, slots=True)
class PythonDoor:
    """How an operation's kernels are a function of a library's arrays, in the files that are exported."""

    title: str  # "Attention for PyTorch"
    modules: tuple[str, ...]  # of evoflash.runtime, behind those that launch; each imports those before it
    maker: tuple[str, str]  # a module and its class, which makes the function of a launch.Kernel
    use: str  # a comment for people, at a file's head; it is a {module}
    offers: Mapping[str, str] = field(default_factory=dict)  # what else a file gives, and its module
    hub_use: str = ""  # how a folder for Hugging Face's hub is used, of `kernel`, and a signature
    signature: str = ""
    # Further functions that are made of the operation's, by name: a module and what makes one of it.
    made: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SolutionForm:
    """A kernel as a Solution of FlashInfer's formats, which is one Python file with a function `run`."""

    door: str  # the library whose arrays `run` is given
    run: str  # Python that defines it, of the door's function
    definition: Callable[[Any], dict[str, Any]]  # of a workload: the problem that is solved; or UsageError
    # (workload) -> those whose compiled kernels are in the file, as far as the genome is valid for them
    variants: Callable[[Any], Sequence[Workload]]
    is_destination_passed: bool  # whether `run` is given its outputs, as flashinfer-bench wants by default
    # Why FlashInfer must not send its calls to such a Solution, in one line; empty: it may.
    not_routed: str = ""


@dataclass(frozen=True, slots=True)
class LaunchForm:
    """How evoflash.runtime launches an operation's kernels, as launch.json says it."""

    name: str
    sizes: tuple[str, ...]  # of Workload.names() those that launch.json's expressions are of
    arguments: Callable[..., list[str]]  # (has_workspace=) -> kind and name of each argument of a kernel
    contract: Callable[[Any], dict[str, Any]]  # of a workload: those like it that its kernel computes
    computes: Callable[[Mapping[str, Any]], str]  # the same in words, of the contract
    function: str  # what exported files call it: "attention"
    doors: Mapping[str, PythonDoor]  # by library: "torch", "cupy"
    solution: SolutionForm | None  # None: its kernels leave as no Solution; no_door says what to use
    no_door: Mapping[str, str] = field(default_factory=dict)  # what to use in the place of one that is not


@dataclass(frozen=True, slots=True)
class DispatchForm:
    """What a portfolio's dispatcher tells an operation's shapes apart by."""

    names: tuple[str, ...]  # of the compile key: a shape gets none of another's kernels
    sizes: Callable[[Any], tuple[int, int, int]]  # of a workload: what its bucket is of
    ask: Callable[[Any, tuple[Any, ...], Any], int]  # (dispatcher, values of names, workload) -> kernel
    between: Callable[[Any, Any, float], Any]  # the workload at that part of the way from one to another
    served: Callable[[Any], Any]  # the workload as which the dispatcher serves one
    part: Callable[[Any], Any]  # of a workload: what the emulator runs in its place
    why_not: Callable[[Any], str]  # no dispatcher can choose for a workload; empty: it can
    folder: Callable[[Mapping[str, Any]], str]  # of a compile key's names: what its kernel's folder says
    columns: Callable[[Any], dict[str, str]]  # of a workload: its sizes in a table for people
    libraries: tuple[str, ...]  # that are timed beside the fastest kernel
    library: tuple[str, str]  # what computes the rest, and its title in a table


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation: functions and names, no state.

    Functions take and return the operation's own workloads, keys and inputs; which ones the comments say.
    """

    name: str
    parse: Callable[[str], Workload]  # a workload from its text without "name:"; or UsageError
    compile_key: Callable[..., CompileKey]  # the class: a dataclass of texts, numbers and truth values
    probe: Workload  # an ordinary small one, with which templates are tried when they are loaded

    # How its problems are written, in lines for people; and the one that is meant where a family of it is
    # named and no problem: empty: the probe.
    problem_help: str = field(default="", kw_only=True)
    usual_problem: str = field(default="", kw_only=True)

    # ---- the call
    tensors: Callable[[Any], tuple[TensorSpec, ...]]  # of a workload: inputs first, then outputs
    groups: str  # what a group of rows is called, in the plural: "heads"
    # (workload, addresses by tensor name with 0 for an output not wanted, strides by tensor name in elements,
    # workspace=address or 0) -> NumPy scalars in launch order. Tensor maps stand before them.
    arguments: Callable[..., tuple[np.generic, ...]]

    # ---- right and wrong
    inputs: InputNames
    draw: Callable[..., Any]  # (name, workload, seed=) -> test input, always the same for the same three
    timed_inputs: Callable[..., Sequence[Any]]  # (workload, sets=, rng=) -> that many different test inputs
    sample: Callable[[Any, np.random.Generator], Sample]  # of a workload: what is compared at size
    expect: Callable[..., ExpectedOutputs]  # (workload, test input, where=sample) -> the right outputs
    # (test input, workload, seed=) -> what must hold between outputs of changed inputs, the cheapest first
    relations: Callable[..., Iterator[Relation | Reach]]
    thresholds: Callable[[], Mapping[str, Thresholds]]  # by Workload.precision
    # (test input, workload, rng=) -> a relation of the same rows in other places, exact to the bit; or None
    rearranged: Callable[..., Relation] | None = field(default=None, kw_only=True)
    # (test input, workload) -> inputs with the same right outputs at other values of further arguments, and
    # these as keywords of `arguments`; None: it takes none
    rescale: Callable[..., tuple[Any, Mapping[str, float]]] | None = field(default=None, kw_only=True)
    # (workload, test input) -> what a function in Python is given, by the names that engines have for it:
    # an array, its type and the tensor of the input whose columns it has; or a number. None: the inputs.
    python_inputs: Callable[[Any, Any], Mapping[str, tuple[Any, ...]]] | None = field(
        default=None, kw_only=True
    )
    device_reference: DeviceReference | None = field(default=None, kw_only=True)
    # (workload) -> bytes that a workspace may have beside parts of every result (most_workspace_bytes)
    further_scratch: Callable[[Any], int] | None = field(default=None, kw_only=True)

    # ---- shapes to check a kernel on
    check_workloads: Callable[[Sequence[Any]], tuple[Workload, ...]]  # of compile keys; the cheapest first
    hidden_workloads: Callable[..., tuple[Workload, ...]]  # (compile keys, seed=), drawn for finalists
    # (compile key, a genome's loop, whole_groups=False) -> the runs; whole_groups: of workloads that have the
    # compile key itself, for kernels that are not known to take parts of them
    preflight_runs: Callable[..., tuple[EmulatedRun, ...]]
    # (compile key, a genome's loop, seed=) -> more of them, drawn for the candidate; and what only the best
    # meet, which takes long
    drawn_runs: Callable[..., tuple[EmulatedRun, ...]] | None = field(default=None, kw_only=True)
    finalist_runs: Callable[..., tuple[EmulatedRun, ...]] | None = field(default=None, kw_only=True)

    # ---- the performance model, and the archive
    work: Callable[[Any, Loop], Work]  # of a workload
    # (workload, bytes) -> the largest workload like it whose tensors fit in these, as text; empty: none does
    fitting: Callable[[Any, int], str] | None = field(default=None, kw_only=True)
    distance: Callable[[Any, Any], float]  # between two workloads; 0: their best kernels are the same
    # (workload) -> exponentials that it takes, for a report's rooflines; None: it takes none
    exponentials: Callable[[Any], int] | None = field(default=None, kw_only=True)

    # ---- export
    interface: Path  # a Jinja template of the exported file's C declarations, which stand before the kernel
    interface_names: Callable[[], Mapping[str, Any]]  # what else it sees
    launcher: Path  # a Jinja template of the exported file's host part, behind the kernel
    launcher_names: Callable[[Iterable[Any]], Mapping[str, Any]]  # of tensor maps: what else it sees
    launch_form: LaunchForm | None = field(default=None, kw_only=True)  # None: it is exported as C++ alone
    portfolio: DispatchForm | None = field(default=None, kw_only=True)  # None: no portfolio is made of it


DEFAULT = "attention"  # of problems and templates that name none
_SHIPPED = {
    "attention": "evoflash.operations.attention.operation",
    "linear": "evoflash.operations.linear.operation",
    "paged_attention": "evoflash.operations.paged.operation",
}
# Words of a problem that only this operation's have, which therefore need not name it; a last _ begins one.
_WORDS = {
    "paged_attention": ("page", "lengths", "window", "softcap", "sink", "ragged", "invariant", "serving_")
}


def load(name: str) -> Operation:
    """The operation of that name, `OPERATION` of its module. UsageError lists the known ones."""
    if name in _SHIPPED:  # asked for thousands of times in a pre-flight: settings need not be read
        return _load(_SHIPPED[name])
    modules = _modules()
    if name not in modules:
        raise UsageError(f"no operation is called '{name}': known are {', '.join(sorted(modules))}.")
    return _load(modules[name])


def operation_of(what: Workload | CompileKey) -> Operation:
    """The operation of a workload or of a compile key."""
    return load(what.operation)


_PARTS, _COUNTERS = 32, 4096  # of a workspace: results in float32, and bytes beside them


def most_workspace_bytes(workload: Workload) -> int:
    """What a kernel may ask for as global scratch: 32 parts of every result, as of keys divided among so many
    blocks, and 4096 bytes, and what the operation allows beside these. More has room for the results of many
    calls.
    """
    operation = operation_of(workload)
    outputs = (spec for spec in operation.tensors(workload) if spec.role != "input")
    further = operation.further_scratch(workload) if operation.further_scratch else 0
    return _PARTS * 4 * sum(math.prod(spec.shape) for spec in outputs) + _COUNTERS + further


def all_in_words() -> tuple[Operation, ...]:
    """All that say how their problems are written, the default one first."""
    names = sorted(_modules(), key=lambda name: (name != DEFAULT, name))
    return tuple(operation for operation in map(load, names) if operation.problem_help)


def default() -> Operation:
    """The operation of problems and templates that name none."""
    return load(DEFAULT)


def operation_of_words(text: str) -> Operation:
    """The operation of a workload's text that names none: the one whose words it has, or the default one."""
    words = [word.strip().partition("=")[0] for word in text.split(",")]
    for name, known in _WORDS.items():
        starts = tuple(word for word in known if word.endswith("_"))
        if any(word in known or word.startswith(starts) for word in words):
            return load(name)
    return default()


def _modules() -> dict[str, str]:
    """Modules by operation: the shipped ones, and those of the setting `operations` ("name=module,...").

    A setting reaches worker processes too; the module must be importable in them.
    """
    setting, found = lookup("operations"), {}
    for entry in filter(None, (setting.value or "").split(",")):
        name, _, module = (part.strip() for part in entry.partition("="))
        if not name or not module:
            raise UsageError(f"{setting.source}: '{entry}': write name=module, with commas between.")
        found[name] = module
    return found | _SHIPPED


@cache
def _load(module: str) -> Operation:
    try:
        operation: Operation = importlib.import_module(module).OPERATION
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the operation in {module} cannot be loaded ({error}): it must be importable and have OPERATION."
        ) from None
    return operation
