"""A library's kernel on the memory of a bench: what all libraries share, from views to graphs.

Knows no library and no operation: each library has a file of its own, which says how it is called and which
layout it wants.

Which baseline, or what else, a GPU process is busy with: noted before it starts, and struck out when it is
done. A process that is at one thing for too long ends, and the note says where it stood.
"""

import faulthandler
import importlib
import importlib.metadata
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evoflash.extras import install
from evoflash.gpu.arena import Arena
from evoflash.gpu.launcher import KernelHungError, settle, wait
from evoflash.gpu.timing.benchmark import Bench, measure
from evoflash.gpu.timing.protocols import SCREENED, SHORT, Pace, TimingProtocol
from evoflash.operation import operation_of
from evoflash.workload import ELEMENT_BYTES, Output, TensorSpec

S = TypeVar("S")  # a setting of a library

LIMIT_S = 300.0  # FlashInfer compiles its kernels on their first use, FlashAttention-4 one for each setting
_OVERDUE = re.compile(r"Timeout \((.+)\)!")  # how the traceback of faulthandler's watchdog begins
_STOOD = re.compile(r'^  File "(?:.*/)?([^/"]+/[^/"]+)", line (\d+) in (\w+)', re.MULTILINE)

_notes: Path | None = None
_busy = False
_step: tuple[str, float] | None = None  # what the process is at beside baselines, and how long it may be


class BaselineFailedError(Exception):
    """A baseline left the GPU process unusable, or failed where others wait for it; the message says how."""


def note_in(path: str | Path) -> None:
    """From now on notes of this process go to that file, which its parent reads when the process is gone."""
    global _notes
    _notes = Path(path)


@contextmanager
def attempt(name: str, *, limit_s: float = LIMIT_S) -> Iterator[None]:
    """Something may happen to the process while this baseline is under way. The note stays where the block
    raises or the process ends in it. Without a file nothing is noted; an attempt within another is the same.
    """
    global _busy
    if _notes is None or _busy:
        yield
        return
    _busy = True
    _watch(name, limit_s)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        _busy = False
    _notes.write_text("")
    if _step is not None:
        _watch(*_step)


def begin_step(what: str, *, limit_s: float) -> None:
    """From now on this process is at that, but for attempts on its way. It ends where that takes longer."""
    global _step
    _step = what, limit_s
    if _notes is not None:
        _watch(*_step)


def end_steps(blamed: str = "") -> None:
    """Nothing more is watched; the note says who is to blame for the end, if anybody is."""
    global _step
    faulthandler.cancel_dump_traceback_later()
    _step = None
    if _notes is not None:
        _notes.write_text(f"{blamed}\n" if blamed else "")


def _watch(what: str, limit_s: float) -> None:
    assert _notes is not None, "where nothing is noted nothing is watched"
    file = _notes.open("w")  # the watchdog keeps it
    file.write(f"{what}\n")
    file.flush()
    faulthandler.dump_traceback_later(limit_s, exit=True, file=file)


def culprit(path: str | Path) -> tuple[str, str]:
    """What was under way when a process ended, mostly a baseline, and the watchdog's word on it; or empty."""
    name, _, rest = Path(path).read_text(errors="replace").partition("\n")
    overdue, stood = _OVERDUE.match(rest), _STOOD.search(rest)
    place = f", in {stood[3]} ({stood[1]}:{stood[2]})" if stood else ""
    return name, f"it took more than {overdue[1]} (h:mm:ss){place}" if overdue else ""


TORCH_DTYPES = {
    "e4m3": "float8_e4m3fn",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "int32": "int32",
}
_LIMIT_S = 30.0
_FASTEST = 3  # settings of a library that are timed again as finalists are
_REASON_COLUMNS = 200


class BaselineAbsentError(Exception):
    """A library is not installed or has no kernel for this workload; the message is its reason, one line."""


def same(tensor: Any) -> Any:
    """A library that takes and gives tensors as the operation has them."""
    return tensor


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """How a library is called on a workload.

    `attend` takes the inputs as `arrange` made them of the operation's, on torch's current stream, and
    returns its output, which `heads_first` turns into the operation's. Where `arrange` copies, that is not
    timed.
    """

    attend: Callable[..., Any]
    environment: Mapping[str, str]
    arrange: Callable[[Any], Any] = same
    heads_first: Callable[[Any], Any] = same
    together: Callable[..., tuple[Any, ...]] | None = None  # in the place of `arrange`: of all inputs at once
    rel_l2: float = 0.0  # what its output may be off where it rounds inputs by itself; 0: as a candidate's
    # `arrange` plans on the host for the lengths at hand: new ones need another capture
    is_planned: bool = False


def import_library(module: str, install: str) -> Any:
    """A module. BaselineAbsentError where it is not installed, or where something that it needs is not."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if module.startswith(missing):
            raise BaselineAbsentError(f"{missing} is not installed: {install}") from None
        raise BaselineAbsentError(f"{module} needs {missing}, which is not installed: {install}") from None


def torch() -> Any:
    """PyTorch; BaselineAbsentError without it."""
    return import_library("torch", install("baselines"))


def version(distribution: str) -> str:
    """The installed version of a distribution; empty where its files came without metadata."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def reason_of(error: BaseException) -> str:
    """One line of what a library raised."""
    if isinstance(error, SystemExit):
        return f"it called exit({error})"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:_REASON_COLUMNS]


class LibraryContender:
    """A library's kernel as a contender of benchmark.py, on the same inputs as the candidates."""

    def __init__(self, name: str, bench: Bench, attention: LibraryCall) -> None:
        self.name = name
        self._torch = torch()
        self._attention = attention
        self._specs = operation_of(bench.workload).tensors(bench.workload)
        self._views = [_input_views(self._torch, arena, self._specs) for arena in bench.arenas]
        self._inputs = [self._arrange(views) for views in self._views]
        self._outputs: dict[int, Any] = {}
        self._is_stale = False  # what was captured is planned for other inputs
        self._torch.cuda.synchronize()  # copied on torch's stream, read on ours

    @property
    def environment(self) -> dict[str, str]:
        """Versions and settings that its times depend on, as mere strings: PyTorch's version is of a class of
        its own, and the process that reads that from a GPU process would load all of PyTorch.
        """
        views = {view.data_ptr() for views in self._views for view in views}
        is_copied = any(used.data_ptr() not in views for inputs in self._inputs for used in inputs)
        layout = "copied into the library's, untimed" if is_copied else "views"
        found = {"torch": self._torch.__version__, "layout": layout, **self._attention.environment}
        return {name: str(value) for name, value in found.items()}

    @property
    def rel_l2(self) -> float:
        """What its output may be off where it rounds inputs by itself; 0: as a candidate's."""
        return self._attention.rel_l2

    def _arrange(self, views: Sequence[Any]) -> tuple[Any, ...]:
        if self._attention.together is not None:
            return self._attention.together(*views)
        return tuple(self._attention.arrange(view) for view in views)

    def refresh(self) -> None:
        """Copy inputs again that were overwritten: some libraries work on copies."""
        views = {view.data_ptr() for views in self._views for view in views}
        for given, inputs in zip(self._views, self._inputs, strict=True):
            if all(used.data_ptr() in views for used in inputs):
                continue
            for used, fresh in zip(inputs, self._arrange(given), strict=True):
                if used.data_ptr() not in views:
                    used.copy_(fresh)
        self._is_stale = self._attention.is_planned
        self._torch.cuda.synchronize()

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        """See benchmark.Contender. Captured by torch, whose allocator must know; replayed on our stream.

        BaselineFailedError whatever the library raises: the others cannot go on in this process.
        """
        with attempt(self.name):
            try:
                return self._capture(bench, order)
            except Exception as error:
                raise BaselineFailedError(f"{self.name}: {reason_of(error)}") from error

    def _capture(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        cuda = self._torch.cuda
        external = cuda.ExternalStream(bench.stream.ptr)
        graph = self._capture_graph(bench, order)

        def replay() -> None:
            nonlocal graph
            if self._is_stale:
                graph = self._capture_graph(bench, order)
            with cuda.stream(external):
                graph.replay()

        return replay

    def _capture_graph(self, bench: Bench, order: Sequence[int]) -> Any:
        cuda = self._torch.cuda
        graph = cuda.CUDAGraph()
        self.refresh()
        self.run(bench)
        self._outputs = {}
        with cuda.graph(graph, stream=cuda.Stream()):
            for at in order:  # one output per input set, as the candidates have
                self._outputs[at] = self._attend(at)
        self._is_stale = False
        return graph

    def calls(self, bench: Bench) -> Callable[[int], None]:
        """See benchmark.Caller; as a user's program calls it, the library's own Python included."""
        cuda = self._torch.cuda
        stream = cuda.ExternalStream(bench.stream.ptr)

        def call(at: int) -> None:
            with cuda.stream(stream):
                self._outputs = {at: self._attend(at)}

        return call

    def run(self, bench: Bench) -> None:
        """One eager call, to completion: handles and plans are made here, not inside a capture."""
        self.calls(bench)(0)
        wait(bench.stream, limit_s=_LIMIT_S)

    def try_out(self, bench: Bench) -> None:
        """One eager call and one replay. BaselineAbsentError where the library refuses, BaselineFailedError
        where the process cannot be used any more.
        """
        try:
            replay = self._capture(bench, [0])
            replay()
            wait(bench.stream, limit_s=_LIMIT_S)
        except (Exception, SystemExit) as error:
            check_device(self.name, error)
            self._outputs = {}
            self._torch.cuda.empty_cache()
            raise BaselineAbsentError(reason_of(error)) from error

    def output(self, at: int = 0) -> Output:
        """What the last run or replay wrote for an input set."""
        out = self.tensor(at).contiguous().view(self._torch.int16).cpu().numpy().view(np.uint16)
        return Output({next(spec.name for spec in self._specs if spec.role == "rows"): out})

    def tensor(self, at: int = 0) -> Any:
        """The same as a torch tensor, which the next replay overwrites."""
        return self._attention.heads_first(self._outputs[at])

    def _attend(self, at: int) -> Any:
        with self._torch.no_grad():
            return self._attention.attend(*self._inputs[at])


def check_device(name: str, error: BaseException) -> None:
    """BaselineFailedError when the context did not outlive the error: CUDA then refuses everything after."""
    if isinstance(error, KernelHungError):  # a wait for the device would hang, too
        raise BaselineFailedError(f"{name} {error}") from error
    try:
        settle()
    except Exception as lost:
        said = f"{reason_of(error)}; then {reason_of(lost)}"
        raise BaselineFailedError(f"{name}: {said}") from error


def time_settings(
    name: str,
    bench: Bench,
    settings: Iterable[S],
    call_of: Callable[[S], LibraryCall],
    *,
    protocol: TimingProtocol,
    limit_s: float,
    is_right: Callable[[LibraryContender], bool] = lambda contender: True,
) -> tuple[dict[S, float], list[str]]:
    """Short times in us of those settings that run and give what is right, and why the others do not. After
    the limit no more are tried.

    Where a sample of the protocol waits for an idle GPU, all are timed without that, and the fastest again.
    """
    if protocol.pace is Pace.BOOST:
        first_us, reasons = time_settings(
            name, bench, settings, call_of, protocol=SCREENED, limit_s=limit_s, is_right=is_right
        )
        settings = sorted(first_us, key=first_us.__getitem__)[:_FASTEST]
    else:
        reasons = []
    times_us: dict[S, float] = {}
    deadline = time.monotonic() + limit_s
    for setting in settings:
        if time.monotonic() > deadline:
            break
        found = _time_us(
            partial(_contender, name, bench, call_of, setting), bench, protocol, is_right, name=name
        )
        if isinstance(found, str):
            reasons.append(found)
        else:
            times_us[setting] = found
    return times_us, reasons


def _contender(name: str, bench: Bench, call_of: Callable[[S], LibraryCall], setting: S) -> LibraryContender:
    return LibraryContender(name, bench, call_of(setting))


def _time_us(
    make: Callable[[], LibraryContender],
    bench: Bench,
    protocol: TimingProtocol,
    is_right: Callable[[LibraryContender], bool],
    *,
    name: str,
) -> float | str:
    """A short time of what is made, or why there is none."""
    try:
        contender = make()
        contender.try_out(bench)
        if not is_right(contender):
            return "it gives another result"
        return measure(contender, bench, protocol, rule=SHORT)[0].median_us
    except BaselineAbsentError as refused:
        return str(refused)
    except BaselineFailedError:  # try_out has looked whether the process is lost
        raise
    except Exception as error:
        check_device(name, error)
        return f"{type(error).__name__}: {reason_of(error)}"


def fastest_call(times_us: Mapping[S, float], call_of: Callable[[S], LibraryCall]) -> LibraryCall:
    """The call with the setting of the least time, and all times in its environment."""
    best = min(times_us, key=times_us.__getitem__)
    tried = "; ".join(f"{setting}: {time_us:.2f} us" for setting, time_us in times_us.items())
    call = call_of(best)
    return replace(call, environment={**call.environment, "setting": str(best), "tried": tried})


def _input_views(torch: Any, arena: Arena, specs: Sequence[TensorSpec]) -> tuple[Any, ...]:
    bits = {1: np.uint8, 2: np.int16, 4: np.int32}
    return tuple(
        torch.as_tensor(
            arena.buffers[spec.name].device_bytes.view(bits[ELEMENT_BYTES[spec.dtype]]).reshape(spec.shape),
            device="cuda",
        ).view(getattr(torch, TORCH_DTYPES[spec.dtype]))
        for spec in specs
        if spec.role == "input"
    )
