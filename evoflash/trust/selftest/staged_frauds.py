"""Frauds that are no text of a kernel: staged on the books, in outputs made by NumPy, and on the clock.

The harness's own code is asked what it says to them. Books and outputs need no GPU. Contenders that cheat the
clock are timed and checked as candidates are, in a GPU process; a search has no such contenders, as its
kernels are launched by evoflash alone: these show that the harness would notice if that ever went wrong.
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
from evoflash.gpu import launcher
from evoflash.gpu.process import cache
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.benchmark import Bench, KernelContender, measure, time_interleaved
from evoflash.gpu.timing.paired import beats_physics, compare
from evoflash.gpu.timing.protocols import StoppingRule
from evoflash.kernels.family import load_family
from evoflash.numerics import Bits, decode, encode
from evoflash.operations.attention.forms.dense import scale as softmax_scale
from evoflash.operations.attention.inputs import AT_SIZE, AttentionInputs
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.trust.selftest.corpus import LIMIT_S, ExpectedRejection
from evoflash.validation.cases import large_case
from evoflash.validation.validator import Part, judge
from evoflash.workload import Sample

_WORKLOAD = parse_workload("mission")
_PROBLEM = Problem((_WORKLOAD,))
_GPU = load_gpu("h200")
_ROUNDS = 48


@dataclass(frozen=True, slots=True)
class StagedFraud:
    """A fraud that is no kernel's text, or a control; `complain` gives the harness's answer, "" where it
    believes.
    """

    name: str
    does: str
    source: str
    rung: Rung
    complain: Callable[[Any], str]  # of a seed; of contenders, of a task whose kernel is honest
    words: str = ""  # in the answer, a regular expression; "": a control

    @property
    def expected_rejection(self) -> ExpectedRejection:
        return ExpectedRejection({self.rung: self.words} if self.words else {})

    def answer(self, asked: int | GpuTask) -> Mapping[Rung, str]:
        return {self.rung: self.complain(asked)}


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
    StagedFraud(
        "a faster kernel",
        "is 3 % faster in every turn",
        "control",
        Rung.TIMING,
        _control(_in_turns(0.97, 1.0, 0)),
    ),
    StagedFraud("a possible time", "takes 5 us on the mission", "control", Rung.TIMING, _time_complaint(5.0)),
    StagedFraud(
        "another machine code", "differs from all before", "control", Rung.COMPILE, _duplicate_complaint("B")
    ),
    StagedFraud("a faster measurement", "was measured at 1 us", "control", Rung.DONE, _pretender()),
    StagedFraud(
        "slower kernel with a lucky sample",
        "is 2 % slower, and had one sample at a fifth of its time",
        "evolution 3.1 no. 47",
        Rung.TIMING,
        _in_turns(1.02, 0.2, 1),
        "called slower|called unclear",
    ),
    StagedFraud(
        "lucky in every tenth sample",
        "is 2 % slower, and rested in five samples of 48",
        "evolution 3.1 no. 47",
        Rung.TIMING,
        _in_turns(1.02, 0.2, 5),
        "called slower|called unclear",
    ),
    StagedFraud(
        "samples that are no numbers",
        "has NaN among its samples",
        "evolution 3.1 no. 34",
        Rung.TIMING,
        _in_turns(1.02, math.nan, 1),
        "called slower|called unclear",
    ),
    StagedFraud(
        "luckiest of a thousand",
        "is an incumbent's copy, picked by the least of a thousand noisy times",
        "evolution 3.1 no. 48",
        Rung.TIMING,
        _luckiest_of_many,
        "then unclear",
    ),
    StagedFraud(
        "faster than physics",
        "takes a nanosecond for the mission",
        "evolution 3.1 no. 33",
        Rung.TIMING,
        _time_complaint(0.001),
        "beats physics",
    ),
    StagedFraud(
        "no time at all",
        "takes 0 us: a clock that was never started",
        "evolution 3.1 no. 7",
        Rung.TIMING,
        _time_complaint(0.0),
        "beats physics",
    ),
    StagedFraud(
        "a negative time",
        "ends before it begins: event handles mixed up",
        "evolution 3.1 no. 5",
        Rung.TIMING,
        _time_complaint(-1.0),
        "beats physics",
    ),
    StagedFraud(
        "NaN timing",
        "has a median that is no number",
        "evolution 3.1 no. 34",
        Rung.TIMING,
        _time_complaint(math.nan),
        "beats physics",
    ),
    StagedFraud(
        "a twin timed as a new kernel",
        "has other genes and the same machine code",
        "seed history 2, stale binary",
        Rung.COMPILE,
        _duplicate_complaint("A"),
        "the same kernel as",
    ),
    StagedFraud(
        "an estimate against a measurement",
        "was estimated at 1 us",
        "evolution 3.1 no. 29",
        Rung.DONE,
        _pretender(basis=Basis.ESTIMATED, model_version="1"),
        _KEPT,
    ),
    StagedFraud(
        "a bound taken for a time",
        "was stopped early after 1 us",
        "stopped timings are lower bounds",
        Rung.DONE,
        _pretender(timings=(_BOUND,)),
        _KEPT,
    ),
    StagedFraud(
        "a screen taken for a proof",
        "took 1 us in a short look and was not checked any further",
        "screened kernels are not proven",
        Rung.DONE,
        _pretender(status=Status.SCREENED, rung=Rung.TIMING),
        _KEPT,
    ),
    StagedFraud(
        "fast and wrong",
        "took 1 us and failed the check after timing",
        "seed history 3.3",
        Rung.DONE,
        _pretender(status=Status.CORRECTNESS, rung=Rung.TIMING),
        _KEPT,
    ),
)


# ---- outputs of many keys ----
# At 32768 keys an absolute tolerance of 1e-2 lets most of these mistakes through.

Array = NDArray[np.float32]

# Few rows: each of them has all the keys.
WORKLOADS = tuple(parse_workload(f"b=1,h=1,sq=64,skv={keys},d=64") for keys in (4096, 32768))
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


# ---- contenders ----

_FEW = StoppingRule(min_samples=5, max_samples=5, rel_error=1.0, max_s=3.0)
_MANY = StoppingRule(min_samples=40, max_samples=60, rel_error=2e-3, max_s=4.0)
_EVERY = 13  # replays of which the lucky one skips one


@dataclass(frozen=True, slots=True)
class Ahead(KernelContender):
    """Does its work while the graph is made; a replay does nothing."""

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        call = self.calls(bench)
        for at in order:
            call(at)
        launcher.wait(bench.stream, limit_s=LIMIT_S)
        return lambda: None


@dataclass(frozen=True, slots=True)
class Once(KernelContender):
    """Works in the first replay, and leaves its output for the others."""

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        replays = iter([KernelContender.graph(self, bench, order)])
        return lambda: next(replays, lambda: None)()


@dataclass(frozen=True, slots=True)
class Aside(KernelContender):
    """Works on a stream that the clock does not look at."""

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        aside = _Aside(bench, launcher.new_stream())
        return KernelContender.graph(self, aside, order)  # type: ignore[arg-type]


class _Aside:
    """A bench whose stream is another one."""

    def __init__(self, bench: Bench, stream: object) -> None:
        self.arenas, self.stream = bench.arenas, stream

    graph_of = Bench.graph_of


@dataclass(frozen=True, slots=True)
class Lucky(KernelContender):
    """Does everything twice, but rests in every thirteenth replay."""

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        twice, replays = KernelContender.graph(self, bench, [*order, *order]), iter(range(1 << 30))
        return lambda: twice() if next(replays) % _EVERY else None


def try_cheat(name: str, task: GpuTask) -> Mapping[Rung, str]:
    """What timing says to the cheat of that name, made of a task's honest kernel. Raises CuPy's errors."""
    return next(cheat for cheat in CHEATS if cheat.name == name).answer(task)


def _clock_complaint(contender_of: type[KernelContender]) -> Callable[[GpuTask], str]:
    def complain(task: GpuTask) -> str:
        workload, launches = task.timed[0]
        kernel, bench = task.kernel(workload, launches), cache.bench(workload, task.spec, task.seed)
        contender = contender_of("cheat", kernel)
        if isinstance(contender, Lucky):
            return _beside_honest(contender, KernelContender("honest", kernel), bench)
        return _time_cheat(contender, bench, task)

    return complain


def _time_cheat(contender: KernelContender, bench: Bench, task: GpuTask) -> str:
    timing, _ = measure(contender, bench, bench.protocols[0], rule=_FEW)
    if wonder := beats_physics(timing, bench.workload, task.spec):
        return wonder
    verdict = judge_replay(contender, bench, seed=task.seed, timed_us=timing.median_us)
    return "" if verdict.passed else f"after timing: {verdict.reason}"


def _beside_honest(contender: Lucky, honest: KernelContender, bench: Bench) -> str:
    protocol, rng = bench.protocols[0], np.random.default_rng()
    samples, _ = time_interleaved([contender, honest], bench, protocol, rule=_MANY, rng=rng)
    found = compare(
        samples, contender.name, honest.name, workload=str(bench.workload), protocol=protocol.name
    )
    least = min(samples[contender.name]) / min(samples[honest.name])
    said = f"called {found.answer} ({found.ratio:.2f}), though its least sample is {least:.2f} of the other's"
    return "" if found.answer == "faster" else said


_NOTICED = "beats physics|after timing"
CHEATS = (
    StagedFraud(
        "an honest contender",
        "works in every replay",
        "control",
        Rung.TIMING,
        _clock_complaint(KernelContender),
    ),
    StagedFraud(
        "work moved outside the timed region",
        "computes while the graph is captured and does nothing when it is replayed",
        "evolution 3.1 no. 3",
        Rung.TIMING,
        _clock_complaint(Ahead),
        _NOTICED,
    ),
    StagedFraud(
        "only the first replay works",
        "leaves its output for the replays that are timed",
        "evolution 3.1 no. 8, 11",
        Rung.TIMING,
        _clock_complaint(Once),
        _NOTICED,
    ),
    StagedFraud(
        "work on another stream",
        "launches on a stream without the clock's events",
        "evolution 3.1 no. 1",
        Rung.TIMING,
        _clock_complaint(Aside),
        _NOTICED,
    ),
    StagedFraud(
        "slower, with lucky samples",
        "does everything twice and rests in every thirteenth sample",
        "evolution 3.1 no. 47",
        Rung.TIMING,
        _clock_complaint(Lucky),
        "called slower|called unclear",
    ),
)
