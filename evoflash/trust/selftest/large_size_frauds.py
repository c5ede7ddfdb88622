"""Mistakes that only many keys make small, made by NumPy in the kernel's place and judged as at size.

At 32768 keys an absolute tolerance of 1e-2 lets most of them through. No kernel runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.evaluation import Rung
from evoflash.numerics import Bits, decode, encode
from evoflash.operation import Sample
from evoflash.operations.attention.forms.dense import scale as softmax_scale
from evoflash.operations.attention.inputs import AT_SIZE, AttentionInputs
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.trust.selftest.corpus import ExpectedRejection
from evoflash.validation.cases import large_case
from evoflash.validation.validator import Part, judge

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
