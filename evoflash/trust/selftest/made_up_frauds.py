"""Frauds made up without a kernel: times and books as records, and outputs by NumPy in the kernel's place.

The harness's own code is asked what it says to them. Nothing is compiled and nothing is timed; what needs a
clock is in clock_frauds.py.
"""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.evaluation import Basis, Build, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.evaluators.pipeline import Duplicates
from evoflash.gpu.timing.paired import beats_physics, compare
from evoflash.kernels.family import load_family
from evoflash.numerics import Bits, decode, encode
from evoflash.operation import Sample
from evoflash.operations.attention.forms.dense import scale as softmax_scale
from evoflash.operations.attention.inputs import AT_SIZE, AttentionInputs
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.trust.selftest.corpus import ExpectedRejection
from evoflash.validation.cases import large_case
from evoflash.validation.validator import Part, judge

_WORKLOAD = parse_workload("mission")
_PROBLEM = Problem((_WORKLOAD,))
_GPU = load_gpu("h200")
_ROUNDS = 48


@dataclass(frozen=True, slots=True)
class Book:
    """A fraud on the books, or a control; `complain` gives the harness's answer, "" where it believes."""

    name: str
    does: str
    source: str
    rung: Rung
    complain: Callable[[int], str]  # of a seed
    words: str = ""  # in the answer, a regular expression; "": a control

    @property
    def expected_rejection(self) -> ExpectedRejection:
        return ExpectedRejection({self.rung: self.words} if self.words else {})


def try_book(book: Book, seed: int) -> Mapping[Rung, str]:
    """The harness's answer."""
    return {book.rung: book.complain(seed)}


# ---- times ----


def _in_turns(slower_by: float, lucky: float, count: int) -> Callable[[int], str]:
    """A contender slower by that factor but for `count` lucky samples, against an honest incumbent."""

    def complain(seed: int) -> str:
        rng = np.random.default_rng(seed)
        incumbent, contender = 100 * np.exp(rng.normal(0, 0.003, (2, _ROUNDS)))
        contender *= slower_by
        contender[rng.permutation(_ROUNDS)[:count]] *= lucky
        samples = {"contender": contender.tolist(), "incumbent": incumbent.tolist()}
        found = compare(samples, "contender", "incumbent", workload=str(_WORKLOAD), protocol="cold")
        return "" if found.answer == "faster" else f"its time is called {found.answer} ({found.ratio:.3f})"

    return complain


def _luckiest_of_many(seed: int) -> str:
    """The best of a thousand single times of one kernel, taken in turns with it again."""
    rng = np.random.default_rng(seed)
    first_us = float((100 * np.exp(rng.normal(0, 0.02, 1000))).min())
    again, incumbent = 100 * np.exp(rng.normal(0, 0.02, (2, _ROUNDS)))
    samples = {"winner": again.tolist(), "incumbent": incumbent.tolist()}
    found = compare(samples, "winner", "incumbent", workload=str(_WORKLOAD), protocol="cold")
    return "" if found.answer == "faster" else f"{first_us:.1f} us once, then {found.answer}"


def _time_complaint(median_us: float) -> Callable[[int], str]:
    timing = Timing(str(_WORKLOAD), "cold", median_us, median_us, median_us, n=60)
    return lambda seed: beats_physics(timing, _WORKLOAD, _GPU)


def _control(complain: Callable[[int], str]) -> Callable[[int], str]:
    """Of a contender that is faster indeed: a complaint when it is not called so."""
    return lambda seed: complain(seed).replace("its time is called", "though faster, it is called")


# ---- books ----


def _genomes() -> Sequence[Genome]:
    """Two genomes with the same launches."""
    space = load_family("flash_mma").space(_PROBLEM.compile_keys(_GPU.arch), _GPU)
    values = {"warps": 4, "block_n": 64, "kv_unroll": 1}
    return space.genome(values), space.genome({**values, "kv_unroll": 2})


def _evaluation(genome: Genome, score_us: float, *, code: str = "", **changes: Any) -> Evaluation:
    timing = Timing(str(_WORKLOAD), "cold", score_us, score_us, score_us, n=60)
    key = _WORKLOAD.compile_key(_GPU.arch)
    build = Build(genome.id, key, "source", "cubin", text_sha=code or genome.id)
    made = Evaluation(genome, str(_PROBLEM), _GPU.name, Basis.MEASURED, Status.CORRECT, Rung.DONE)
    honest = replace(made, builds=(build,), timings=(timing,), score_us=score_us)
    return replace(honest, **changes)


def _duplicate_complaint(code: str) -> Callable[[int], str]:
    """Whether a genome whose machine code is `code` is timed, when one with the code "A" has been."""

    def complain(seed: int) -> str:
        first, second = _genomes()
        duplicates = Duplicates(_PROBLEM, _GPU, [_evaluation(first, 10.0, code="A")])
        found = duplicates.original_of(second, _evaluation(second, 9.0, code=code).builds)
        return f"the same kernel as {found.genome.id}" if found else ""

    return complain


def _pretender(**changes: Any) -> Callable[[int], str]:
    """Whether a row at 1 us, changed so, becomes the best kernel over an honest one at 10 us."""

    def complain(seed: int) -> str:
        honest, other = _genomes()
        rows = (_evaluation(honest, 10.0), _evaluation(other, 1.0, **changes))
        with tempfile.TemporaryDirectory() as folder, open_store(str(Path(folder) / "test.db")) as store:
            for at, evaluation in enumerate(rows):
                key = RunKey(str(_PROBLEM), _GPU.name, evaluation.basis, "evolution", seed + at)
                run = store.begin(key, gpu_hash="", budget=2, argv=(), environment={})
                store.add(run, evaluation, Proposal(evaluation.genome))
            best = store.best(str(_PROBLEM), _GPU.name)
        kept = best is not None and best.genome == honest
        return "the honest kernel stays the best" if kept else ""

    return complain


_BOUND = Timing(str(_WORKLOAD), "cold", 1.0, 1.0, 1.0, n=1, censored=True)
_KEPT = "stays the best"

BOOKS = (
    Book(
        "a faster kernel",
        "is 3 % faster in every turn",
        "control",
        Rung.TIMING,
        _control(_in_turns(0.97, 1.0, 0)),
    ),
    Book("a possible time", "takes 5 us on the mission", "control", Rung.TIMING, _time_complaint(5.0)),
    Book(
        "another machine code", "differs from all before", "control", Rung.COMPILE, _duplicate_complaint("B")
    ),
    Book("a faster measurement", "was measured at 1 us", "control", Rung.DONE, _pretender()),
    Book(
        "slower kernel with a lucky sample",
        "is 2 % slower, and had one sample at a fifth of its time",
        "evolution 3.1 no. 47",
        Rung.TIMING,
        _in_turns(1.02, 0.2, 1),
        "called slower|called unclear",
    ),
    Book(
        "lucky in every tenth sample",
        "is 2 % slower, and rested in five samples of 48",
        "evolution 3.1 no. 47",
        Rung.TIMING,
        _in_turns(1.02, 0.2, 5),
        "called slower|called unclear",
    ),
    Book(
        "samples that are no numbers",
        "has NaN among its samples",
        "evolution 3.1 no. 34",
        Rung.TIMING,
        _in_turns(1.02, math.nan, 1),
        "called slower|called unclear",
    ),
    Book(
        "luckiest of a thousand",
        "is an incumbent's copy, picked by the least of a thousand noisy times",
        "evolution 3.1 no. 48",
        Rung.TIMING,
        _luckiest_of_many,
        "then unclear",
    ),
    Book(
        "faster than physics",
        "takes a nanosecond for the mission",
        "evolution 3.1 no. 33",
        Rung.TIMING,
        _time_complaint(0.001),
        "beats physics",
    ),
    Book(
        "no time at all",
        "takes 0 us: a clock that was never started",
        "evolution 3.1 no. 7",
        Rung.TIMING,
        _time_complaint(0.0),
        "beats physics",
    ),
    Book(
        "a negative time",
        "ends before it begins: event handles mixed up",
        "evolution 3.1 no. 5",
        Rung.TIMING,
        _time_complaint(-1.0),
        "beats physics",
    ),
    Book(
        "NaN timing",
        "has a median that is no number",
        "evolution 3.1 no. 34",
        Rung.TIMING,
        _time_complaint(math.nan),
        "beats physics",
    ),
    Book(
        "a twin timed as a new kernel",
        "has other genes and the same machine code",
        "seed history 2, stale binary",
        Rung.COMPILE,
        _duplicate_complaint("A"),
        "the same kernel as",
    ),
    Book(
        "an estimate against a measurement",
        "was estimated at 1 us",
        "evolution 3.1 no. 29",
        Rung.DONE,
        _pretender(basis=Basis.ESTIMATED, model_version="1"),
        _KEPT,
    ),
    Book(
        "a bound taken for a time",
        "was stopped early after 1 us",
        "stopped timings are lower bounds",
        Rung.DONE,
        _pretender(timings=(_BOUND,)),
        _KEPT,
    ),
    Book(
        "a screen taken for a proof",
        "took 1 us in a short look and was not checked any further",
        "screened kernels are not proven",
        Rung.DONE,
        _pretender(status=Status.SCREENED, rung=Rung.TIMING),
        _KEPT,
    ),
    Book(
        "fast and wrong",
        "took 1 us and failed the check after timing",
        "seed history 3.3",
        Rung.DONE,
        _pretender(status=Status.CORRECTNESS, rung=Rung.TIMING),
        _KEPT,
    ),
)


Array = NDArray[np.float32]

# Few rows: each of them has all the keys.
WORKLOADS = tuple(parse_workload(f"b=1,h=1,sq=64,skv={keys},d=64") for keys in (4096, 32768))
LIMIT_S = 60.0
_WRONG = ExpectedRejection({Rung.CORRECTNESS: "wrong"})


@dataclass(frozen=True, slots=True)
class Mistake:
    """Attention with one mistake; without one it is the control."""

    name: str
    factor: Callable[[int], float] = lambda head_dim: 1.0  # on the scale
    drops: Callable[[NDArray[np.intp], int], NDArray[np.bool_]] | None = None  # of (key, keys): left out
    round_weights: Callable[[Array], Array] = lambda weights: decode(encode(weights, "fp16"), "fp16")
    output: Callable[[Array], Array] = lambda out: out

    @property
    def expected_rejection(self) -> ExpectedRejection:
        return _WRONG if self.name != "honest" else ExpectedRejection()


def _three_bits(weights: Array) -> Array:
    """Weights with three bits behind the leading one, rounded to nearest."""
    fraction, exponent = np.frexp(weights)
    return np.ldexp(np.round(fraction * 16) / 16, exponent).astype(np.float32)


MISTAKES = (
    Mistake("honest"),
    Mistake("last key dropped", drops=lambda key, keys: key == keys - 1),
    Mistake("last 64 keys dropped", drops=lambda key, keys: key >= keys - 64),
    Mistake("one tile of many dropped", drops=lambda key, keys: key // 64 == keys // 128),
    Mistake("a tenth of the keys dropped", drops=lambda key, keys: key % 10 == 9),
    Mistake("scale off by 1 %", factor=lambda head_dim: 1.01),
    Mistake("scale from d-1", factor=lambda head_dim: float((head_dim / (head_dim - 1)) ** 0.5)),
    Mistake("P with 3 mantissa bits", round_weights=_three_bits),
    Mistake("scores ignored", factor=lambda head_dim: 0.0),
    Mistake("writes zeros", output=lambda out: 0 * out),
)


def try_mistake(name: str, workload: AttentionWorkload, seed: int) -> Mapping[Rung, str]:
    """What the thresholds that judge a kernel at the benchmark's shape say to the mistake of that name."""
    mistake, parts = next(each for each in MISTAKES if each.name == name), []
    for kind in AT_SIZE:
        inputs, expected = large_case(workload, kind, seed)
        assert isinstance(inputs, AttentionInputs), "the workloads here are attention's"
        parts.append((inputs, expected, _mistaken_part(mistake, workload, inputs, expected.sample)))
    return {Rung.CORRECTNESS: judge(workload, parts).reason}


def _mistaken_part(
    mistake: Mistake, workload: AttentionWorkload, inputs: AttentionInputs, where: Sample
) -> Part:
    heads = [_head(mistake, workload, inputs, int(head), where.rows) for head in where.groups]
    outputs: dict[str, NDArray[Any]] = {
        "O": np.stack([out for out, _ in heads]),
        "LSE": np.stack([lse for _, lse in heads]),
    }
    return Part(outputs, broken="")


def _head(
    mistake: Mistake, workload: AttentionWorkload, inputs: AttentionInputs, flat: int, rows: NDArray[np.intp]
) -> tuple[Bits, Array]:
    """Output bits and LSE of one head's rows, in the precision of a careful kernel but for the mistake."""
    batch, head = divmod(flat, workload.heads)
    q = decode(inputs.q[batch, head][rows], workload.dtype)
    k, v = (decode(x[batch, head // workload.gqa_ratio], workload.dtype) for x in (inputs.k, inputs.v))
    scores = q @ k.T * np.float32(softmax_scale(workload) * mistake.factor(workload.head_dim))
    if mistake.drops:
        scores[:, mistake.drops(np.arange(workload.seq_kv), workload.seq_kv)] = -np.inf
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(axis=1, keepdims=True)
    out = mistake.output(mistake.round_weights(weights) @ v / total)
    return encode(out, workload.dtype), (top + np.log(total))[:, 0]
