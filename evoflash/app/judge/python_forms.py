"""Judges Python that launches kernels (`custom_kernel`, `ModelNew`, `Model`, `run`), called in a sandbox.

It runs with PyTorch in a process that is given inputs and answers with outputs; references and verdicts stay
here. Each call has fresh contents: in memory that held others before, and in other memory. The text is read
first (python_text.py); python_timing.py takes times.
"""

import importlib.util
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.app.check.findings import Finding, advice
from evoflash.app.judge.answer import AnswerStatus, KernelAnswer
from evoflash.app.judge.python_text import FORMS, STYLES, PythonText, read_python
from evoflash.app.judge.sources import SubmittedText
from evoflash.errors import SandboxError, UsageError
from evoflash.numerics import ARRAY_TYPES
from evoflash.operation import operation_of
from evoflash.problem import Problem, parse_problem
from evoflash.sandbox.boundary import Boundary
from evoflash.sandbox.process import ConfinedProcess
from evoflash.validation.cases import draw_case
from evoflash.validation.validator import judge
from evoflash.workload import Output, TensorSpec, TestInput, Workload

_WORKER = "evoflash.app.judge.torch_worker"  # which alone imports PyTorch
_FRAME_BYTES, _MOST_ANSWER = 16, 1 << 31
_MEMORY_BYTES = 8 << 30
# Of a shape whose reference is computed on the host: one of ours, and the problem's own.
_MOST_FLOPS, _MOST_OWN_FLOPS = 1 << 27, 1 << 30
_OF_HOST = (Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu"))  # which PyTorch reads for its threads
_CALLS = ((0, 0), (1, 0), (2, 1))  # of each shape: which contents, and in which memory
_STATUS: Mapping[str, AnswerStatus] = {"raised": "runtime_error", "wrong": "incorrect", "lazy": "hack"}
_KINDS = {"hack": "tampering", "incorrect": "wrong-result", "timeout": "hang", "runtime_error": "exception"}
_HELP = advice("exception").remedy
_NEEDS_GPU = ("CUDA", "NVIDIA", "triton", "cuda")  # words of what PyTorch says where there is none


class PythonCallError(Exception):
    """A call that brought no output; `status` is what that makes of the file."""

    def __init__(self, status: AnswerStatus, words: str, line: int = 0) -> None:
        self.status, self.line = status, line
        super().__init__(words)


@dataclass(frozen=True, slots=True)
class PythonCaller:
    """The foreign function, in its process."""

    process: ConfinedProcess
    deadline_s: float  # of time.monotonic()

    def ask(self, told: Mapping[str, Any], arrays: Sequence[Any] = ()) -> tuple[dict[str, Any], bytes]:
        """What it answers to a request. PythonCallError."""
        text, body = json.dumps(told).encode(), b"".join(map(np.ndarray.tobytes, arrays))
        sizes = len(text).to_bytes(8, "little") + len(body).to_bytes(8, "little")
        self.process.send(sizes + text + body)
        head = self.process.receive(_FRAME_BYTES, self.deadline_s)
        if head is None:
            raise self._loss()
        head_size, body_size = (int.from_bytes(head[at : at + 8], "little") for at in (0, 8))
        if head_size + body_size > _MOST_ANSWER:
            raise PythonCallError("hack", "what its process answers is no answer of a call")
        whole = self.process.receive(head_size + body_size, self.deadline_s)
        if whole is None:
            raise self._loss()
        try:
            said = json.loads(whole[:head_size])
            if not isinstance(said, dict):
                raise ValueError
            if "error" in said:
                words = " ".join(str(said["error"]).split())[:300]
                if said["kind"] == "machine":
                    raise SandboxError(words)
                raise PythonCallError(
                    _STATUS.get(str(said["kind"]), "runtime_error"), words, int(said["line"])
                )
        except (ValueError, KeyError, TypeError, RecursionError):
            raise PythonCallError("hack", "what its process answers is no answer of a call") from None
        return said, whole[head_size:]

    def _loss(self) -> PythonCallError:
        if self.process.broken_limit:
            return PythonCallError("runtime_error", f"it took more than {self.process.broken_limit}")
        if time.monotonic() >= self.deadline_s:
            return PythonCallError("timeout", "no answer in the time that there is; its process was killed")
        code, said = self.process.last_words()
        if "ModuleNotFoundError" in said or "ImportError" in said:
            raise SandboxError(f"PyTorch cannot be loaded in the sandbox: {said[:300]}")
        return PythonCallError("runtime_error", f"its process ended with code {code}: {said[:200]}")


@contextmanager
def python_caller(
    text: str, form: str, boundary: Boundary, *, device: str, deadline_s: float, style: str = ""
) -> Iterator[PythonCaller]:
    """A process in the sandbox with the file of that text, which is gone when the block ends. `style`: how
    its function is called, if not as one of that name is.
    """
    with tempfile.TemporaryDirectory(prefix="evoflash-") as name:
        folder = Path(name)
        shown, scratch = folder / "shown", folder / "tmp"
        shown.mkdir()
        scratch.mkdir()
        os.chmod(scratch, 0o777)  # whoever it is inside
        os.chmod(folder, 0o755)
        (shown / "submission.py").write_text(text, encoding="utf-8")
        argv = [sys.executable, "-s", "-m", _WORKER, str(shown / "submission.py")]
        argv += [form, style or STYLES[form], device]
        inside = replace(boundary, has_gpu=device == "cuda")
        with ConfinedProcess(
            inside, argv, read=(shown, *_OF_HOST), write=scratch, memory_bytes=_MEMORY_BYTES
        ) as process:
            yield PythonCaller(process, deadline_s)


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def wanted_problem(path: Path, read: PythonText, problem: str | None) -> Problem:
    """What a file is judged for. UsageError where nobody says it, or no Python is called with its inputs."""
    if not (problem or read.problem):
        raise UsageError(
            f"what {path} computes is not said: give --problem, or write "
            '`# evoflash check: problem = "mission"` into it.'
        )
    wanted = parse_problem(problem or read.problem)
    return wanted


def judge_python(
    submitted: SubmittedText,
    boundary: Boundary,
    *,
    problem: str | None,
    device: str,
    is_first_look: bool,
    seed: int,
    deadline_s: float,
) -> tuple[KernelAnswer, Problem, PythonText]:
    """What its calls on small shapes come to, on the host or the GPU. UsageError, SandboxError."""
    path, text = Path(submitted.shown), submitted.text
    read = read_python(path, text, entry=submitted.entry, outputs_last=submitted.outputs_last)
    wanted = wanted_problem(path, read, problem)
    answer = KernelAnswer(str(path), "", "correct", rung="preflight", problem=str(wanted))
    if read.findings:
        first, more = read.findings[0], len(read.findings) - 1
        reason = f"line {first.line}: {first.message}" + (f" (and {more} more)" if more else "")
        return (
            replace(answer, status="hack", reason=reason, findings=_finding_records(read.findings, text)),
            wanted,
            read,
        )
    refusal = read.refusal
    if not has_torch():
        about = FORMS.get(read.form, FORMS["run"])
        refusal = f"{about} (`{read.form}`) runs with PyTorch, which is not installed: pip install torch"
    if refusal:
        return replace(answer, status="refused", reason=refusal, rung=""), wanted, read
    workloads = _shapes(wanted, is_first_look=is_first_look, seed=seed)
    checks, worst, largest = 0, None, -1.0
    try:
        process = python_caller(
            text, read.form, boundary, device=device, deadline_s=deadline_s, style=read.style
        )
        with process as caller:
            for workload, calls in _calls(workloads, seed):
                errors = [_judged_call(caller, workload, *call) for call in calls]
                checks += len(errors)
                if max(errors) > largest:
                    largest = max(errors)
                    worst = {"shape": str(workload), "rel_l2": largest}
    except PythonCallError as error:
        status, reason = error.status, f"line {error.line}: {error}" if error.line else str(error)
        if device == "cpu" and status == "runtime_error" and any(word in reason for word in _NEEDS_GPU):
            status, reason = "refused", f"it needs a GPU, and none is used here: {reason}"
        kind = _KINDS.get(status)
        found = _finding_records([Finding(kind, str(error), error.line, instead=_HELP)], text) if kind else ()
        answer = replace(answer, status=status, reason=reason, findings=found)
    return replace(answer, checks=checks, worst=worst), wanted, read


def _finding_records(findings: Sequence[Finding], text: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(each.as_dict(text.splitlines()) for each in findings)


def inputs_of(workload: Workload) -> list[TensorSpec]:
    return [each for each in operation_of(workload).tensors(workload) if each.role == "input"]


def _shapes(wanted: Problem, *, is_first_look: bool, seed: int) -> tuple[Workload, ...]:
    """Small shapes on which any kernel of the problem is checked, drawn ones, and the problem's own where it
    is small. Lengths that are the same in the problem are the same in all: Python that is written for such
    need not say where a mask begins otherwise.
    """
    operation, keys = operation_of(wanted.workloads[0]), wanted.compile_keys("")
    shapes = [*operation.check_workloads(keys)]
    shapes += () if is_first_look else operation.hidden_workloads(keys, seed=seed)
    if all(_is_square(each) for each in wanted.workloads):
        shapes = [_square_shape(each) for each in shapes]
    own = [each for each in wanted.workloads if each.flops <= _MOST_OWN_FLOPS]
    return tuple(dict.fromkeys([*own, *(each for each in shapes if each.flops <= _MOST_FLOPS)]))


def _is_square(workload: Workload) -> bool:
    lengths = [getattr(workload, name, None) for name in ("seq_q", "seq_kv")]
    return lengths[0] is not None and lengths[0] == lengths[1]


def _square_shape(workload: Workload) -> Workload:
    shape: Any = workload
    made: Workload = replace(shape, seq_q=shape.seq_kv)
    return made


def _calls(workloads: Sequence[Workload], seed: int) -> Iterator[tuple[Workload, list[tuple[str, int, int]]]]:
    """The kind of inputs, their seed, and the memory of each call."""
    for at, workload in enumerate(workloads):
        kinds = itertools.cycle(operation_of(workload).inputs.small)
        names = list(itertools.islice(kinds, at, at + len(_CALLS)))
        yield (
            workload,
            [
                (name, seed + 10 * at + contents, place)
                for name, (contents, place) in zip(names, _CALLS, strict=True)
            ],
        )


@dataclass(frozen=True, slots=True)
class GivenInput:
    """What the function is given for one of its parameters: a tensor, or a number."""

    name: str
    value: Any  # an array, of 16-bit floats their patterns; or a number
    dtype: str = ""  # of an array
    tensor: str = ""  # the test input's, whose columns it has; empty: of none


def given_inputs(workload: Workload, inputs: TestInput) -> list[GivenInput]:
    """In the order in which the function gets them."""
    operation = operation_of(workload)
    if operation.python_inputs is None:
        return [
            GivenInput(each.name.lower(), inputs.tensors[each.name], each.dtype, each.name)
            for each in inputs_of(workload)
        ]
    given = operation.python_inputs(workload, inputs)
    return [GivenInput(name, *parts) for name, parts in given.items()]


def request_of(workload: Workload, given: Sequence[GivenInput], what: str, place: int) -> dict[str, Any]:
    """A request with the shapes of a workload's tensors, and the numbers. Where an operation says what its
    inputs are called, a function gets those that it names.
    """
    outputs = [each for each in operation_of(workload).tensors(workload) if each.role != "input"]
    return {
        "do": what,
        "place": place,
        "inputs": [
            [each.name, each.dtype, np.shape(each.value) if each.dtype else each.value] for each in given
        ],
        "outputs": [[each.dtype, each.shape] for each in outputs if each.role == "rows"],
        "further": [[each.dtype, each.shape] for each in outputs if each.role != "rows"],
        "by_name": operation_of(workload).python_inputs is not None,
    }


def arrays_of(given: Sequence[GivenInput]) -> list[Any]:
    return [np.ascontiguousarray(each.value) for each in given if each.dtype]


def output_of(workload: Workload, body: bytes, count: object = 0) -> tuple[Output, bytes]:
    """The outputs of rows in an answer and of others as far as there are `count` of all, and what stands
    behind them. PythonCallError.
    """
    arrays, at = {}, 0
    outputs = [each for each in operation_of(workload).tensors(workload) if each.role != "input"]
    rows = [each for each in outputs if each.role == "rows"]
    further = [each for each in outputs if each.role != "rows"]
    more = count - len(rows) if isinstance(count, int) else 0
    for spec in (*rows, *further[: max(0, more)]):
        kind = np.dtype(ARRAY_TYPES[spec.dtype])
        end = at + int(np.prod(spec.shape)) * kind.itemsize
        if end > len(body):
            raise PythonCallError("hack", "what its process answers has not the sizes of the outputs")
        arrays[spec.name], at = np.frombuffer(body[at:end], kind).reshape(spec.shape), end
    return Output(arrays), body[at:]


def _judged_call(caller: PythonCaller, workload: Workload, name: str, seed: int, place: int) -> float:
    """The error of one call. PythonCallError for one that is wrong."""
    inputs, expected = draw_case(workload, name, seed)
    given = given_inputs(workload, inputs)
    arrays = arrays_of(given)
    said, body = caller.ask(request_of(workload, given, "call", place), arrays)
    output, kept = output_of(workload, body, said.get("outputs"))
    if kept != b"".join(map(np.ndarray.tobytes, arrays)):
        raise PythonCallError("incorrect", f"it changes its inputs, of {workload}")
    verdict = judge(workload, [(inputs, expected, output)])
    if not verdict.passed:
        raise PythonCallError("incorrect", f"the result is wrong: {verdict.reason} [{workload}]")
    return float(verdict.rel_l2)
