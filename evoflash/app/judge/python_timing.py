"""Times Python that launches kernels beside PyTorch's own, by a clock that its process cannot reach.

The clock is this process's, from the request for some calls to the answer, which holds a sum over all that
they wrote: an output that is computed later is not in it. Each call is on columns in an order that the
request alone says. A call's time is what further calls add; what order and sum take is measured with a
function that computes nothing, and taken off. The contenders take turns in an order drawn for each round, and
what they answered is judged by the reference when the round is over: a GPU that waits for the host in between
lowers its clock, and the next contender would pay for it.
"""

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evoflash.app.judge.answer import AnswerTiming
from evoflash.app.judge.python_forms import (
    GivenInput,
    PythonCaller,
    PythonCallError,
    arrays_of,
    given_inputs,
    inputs_of,
    output_of,
    python_caller,
    request_of,
)
from evoflash.app.judge.python_text import PythonText
from evoflash.operation import operation_of
from evoflash.sandbox.boundary import Boundary
from evoflash.validation.validator import judge
from evoflash.workload import ELEMENT_BYTES, TestInput, Workload

_FEW, _ROUNDS = 4, 9
# Calls that the longer request adds: as many as these seconds and these bytes hold, since outputs stay until
# one of them is shown.
_LEAST_MORE, _MOST_MORE, _LONG_S, _KEPT_BYTES = 10, 60, 0.1, 2 << 30
_KEPT = 2  # ranks left out at each end of the interval of nine rounds: 96 % in the middle
_NAME = "pytorch"
# What PyTorch's own function computes on the inputs, by operation; and a function that computes nothing.
_OWN = {
    "attention": (
        "import torch\ndef run(q, k, v):\n    return torch.nn.functional.scaled_dot_product_attention("
        "q, k, v, is_causal={causal}, enable_gqa=q.shape[1] != k.shape[1])\n"
    ),
    "linear": "import torch\ndef run(x, w, *more):\n    return torch.nn.functional.linear(x, w)\n",
    "paged_attention": """\
import torch
def run(q, k_cache, v_cache, kv_indptr, kv_indices, kv_last_page_len):
    batch, page = kv_indptr.numel() - 1, k_cache.shape[1]
    pages = kv_indptr[1:] - kv_indptr[:-1]
    at = kv_indptr[:-1, None] + torch.arange({columns}, device=q.device)
    k, v = (x[kv_indices[at.clamp(max=kv_indices.numel() - 1)]].flatten(1, 2).transpose(1, 2)
            for x in (k_cache, v_cache))
    seen = torch.arange(k.shape[2], device=q.device) < ((pages - 1) * page + kv_last_page_len)[:, None]
    return torch.nn.functional.scaled_dot_product_attention(
        q[:, :, None], k, v, attn_mask=seen[:, None, None], enable_gqa=True)[:, :, 0]
""",
}
_NOTHING = """\
import torch
out = []
def run(x, *more):
    out or out.append(torch.zeros({shape}, dtype=x.dtype, device=x.device))
    return out[0]
"""


@dataclass(frozen=True, slots=True)
class _Answer:
    """To a request for some calls: what it took, the sum of each call's output, and the columns it was on."""

    took_s: float
    sums: object
    shifts: Sequence[Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class _TimedCaller:
    caller: PythonCaller
    workload: Workload
    inputs: TestInput
    given: Sequence[GivenInput]

    def prepare(self) -> None:
        self.caller.ask(request_of(self.workload, self.given, "hold", 0), arrays_of(self.given))

    def ask(self, calls: int, rng: np.random.Generator) -> _Answer:
        """How long so many calls take, and what is said of them. PythonCallError."""
        moved = _names_of_moved(self.workload)
        tensors = [each for each in self.given if each.dtype]
        shifts = [
            [int(rng.integers(each.value.shape[-1])) if each.tensor in moved else 0 for each in tensors]
            for _ in range(calls)
        ]
        told = {**request_of(self.workload, self.given, "many", 0), "shifts": shifts}
        begun_s = time.perf_counter()
        said, _ = self.caller.ask(told)
        took_s = time.perf_counter() - begun_s
        names = [each.tensor for each in tensors]
        return _Answer(took_s, said.get("sums"), [dict(zip(names, each, strict=True)) for each in shifts])

    def judge(self, answer: _Answer, rng: np.random.Generator) -> None:
        """One call of the last request by the reference. PythonCallError."""
        sums, shifts = answer.sums, answer.shifts
        which = int(rng.integers(len(shifts)))
        _, body = self.caller.ask({"do": "show", "which": which})
        output, _ = output_of(self.workload, body)
        (first, *_) = output.tensors.values()
        total = int(np.ascontiguousarray(first).reshape(-1).view(np.int16).sum(dtype=np.int64))
        if not isinstance(sums, list) or len(sums) != len(shifts) or sums[which] != total:
            raise PythonCallError("hack", "what it shows is not what was there when it said that it was done")
        inputs = _with_columns_moved(self.inputs, shifts[which])
        operation = operation_of(self.workload)
        expected = operation.expect(self.workload, inputs, where=operation.sample(self.workload, rng))
        verdict = judge(self.workload, [(inputs, expected, output)])
        if not verdict.passed:
            raise PythonCallError("incorrect", f"a timed call is wrong: {verdict.reason} [{self.workload}]")


@lru_cache(maxsize=4)  # every request of a kernel that is timed asks
def _names_of_moved(workload: Workload) -> frozenset[str]:
    """The inputs whose columns are moved: no weights, and nothing of one axis."""
    named = (each for each in inputs_of(workload) if not each.is_constant)
    return frozenset(each.name for each in named if len(each.shape) > 1)


def _with_columns_moved(inputs: TestInput, shifts: Mapping[str, int]) -> TestInput:
    """With the columns of each tensor so far round."""
    moved = {name: np.roll(array, shifts.get(name, 0), -1) for name, array in inputs.tensors.items()}
    found = {id(array): moved[name] for name, array in inputs.tensors.items()}
    names = [each.name for each in dataclasses.fields(inputs)]  # type: ignore[arg-type]
    if "tensors" in names:
        return dataclasses.replace(inputs, tensors=moved)  # type: ignore[type-var]
    changed = {name: found[id(getattr(inputs, name))] for name in names if id(getattr(inputs, name)) in found}
    made: TestInput = dataclasses.replace(inputs, **changed)  # type: ignore[type-var]
    return made


def why_not_timed(workload: Workload) -> str:
    """Where PyTorch has no function to be timed beside; "" where it has one."""
    more = ("window", "softcap", "sink", "ragged")
    if any(getattr(workload, name, False) for name in more) or (
        operation_of(workload).python_inputs is not None and getattr(workload, "seq_q", 1) > 1
    ):
        return "PyTorch has no function of its own for such attention on pages"
    return ""


def time_python(
    text: str,
    read: PythonText,
    boundary: Boundary,
    *,
    workload: Workload,
    seed: int,
    deadline_s: float,
    device: str = "cuda",
) -> AnswerTiming:
    """Its time beside PyTorch's own on one workload. PythonCallError for a call that is wrong."""
    operation, rng = operation_of(workload), np.random.default_rng(seed)
    (inputs, *_) = operation.timed_inputs(workload, sets=1, rng=rng)
    (rows, *_) = (each for each in operation.tensors(workload) if each.role == "rows")
    own = _OWN[operation.name].format(
        **{name: getattr(workload, name, False) for name in ("causal", "columns")}
    )
    nothing = _NOTHING.format(shape=rows.shape)
    texts = (text, read.form, read.style), (own, "run", ""), (nothing, "run", "")
    most = min(_MOST_MORE, _KEPT_BYTES // (math.prod(rows.shape) * ELEMENT_BYTES[rows.dtype]))
    given = given_inputs(workload, inputs)
    with contextlib.ExitStack() as stack:
        timed = []
        for source, name, style in texts:
            inside = python_caller(source, name, boundary, device=device, deadline_s=deadline_s, style=style)
            timed.append(_TimedCaller(stack.enter_context(inside), workload, inputs, given))
        for each in timed:  # which have begun together
            each.prepare()
        _round_us(timed, _LEAST_MORE, rng)  # PyTorch chooses its kernels, and Triton compiles
        slowest_s = max(each.ask(_FEW, rng).took_s for each in timed) / _FEW
        more = max(_LEAST_MORE, min(most, int(_LONG_S / slowest_s)))
        rounds = [_round_us(timed, more, rng) for _ in range(_ROUNDS)]
    return _timing(rounds, more)


def check_timed_calls(caller: PythonCaller, workload: Workload, *, seed: int) -> None:
    """A few calls as they are timed, of which one is judged. PythonCallError."""
    rng = np.random.default_rng(seed)
    (inputs, *_) = operation_of(workload).timed_inputs(workload, sets=1, rng=rng)
    timed = _TimedCaller(caller, workload, inputs, given_inputs(workload, inputs))
    timed.prepare()
    for _ in range(2):
        timed.judge(timed.ask(_FEW, rng), rng)


def _round_us(timed: Sequence[_TimedCaller], more: int, rng: np.random.Generator) -> list[float]:
    """What a further call of each adds. The first of them, whose kernel it is, is judged. PythonCallError."""
    took_s = []
    for calls in (_FEW, _FEW + more):
        answers = {}
        for at in rng.permutation(len(timed)):
            timed[at].ask(calls, rng)  # clocks and caches are those of this one's calls, whoever was before
            answers[int(at)] = timed[at].ask(calls, rng)
        timed[0].judge(answers[0], rng)
        took_s.append([answers[at].took_s for at in range(len(timed))])
    return [(longer - shorter) / more * 1e6 for shorter, longer in zip(*took_s, strict=True)]


def _timing(rounds: Sequence[Sequence[float]], more: int) -> AnswerTiming:
    nothing = statistics.median(each[2] for each in rounds)
    own, theirs = ([max(each[at] - nothing, 1e-3) for each in rounds] for at in (0, 1))
    ratios = sorted(their / mine for mine, their in zip(own, theirs, strict=True))
    low, high = ratios[_KEPT - 1], ratios[-_KEPT]
    return AnswerTiming(
        median_us=statistics.median(own),
        p10_us=None,
        p90_us=None,
        samples=len(own) * more,
        protocol="calls from outside",
        clock_mhz=None,
        baseline=_NAME,
        baseline_us=statistics.median(theirs),
        ratio=statistics.median(ratios),
        ratio_ci95=(low, high),
        verdict="faster" if low > 1.0 else "slower" if high < 1.0 else "tie",
    )
