"""An exported portfolio tried in a Python that has PyTorch and not evoflash: right numbers, the host's cost.

    python -I in_package.py FOLDER/fast_attention found.json

Each shape of portfolio.json is computed by the package and by PyTorch in float32. Started by measure.py.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
MOST_ERROR = {"fp16": 2e-3, "bf16": 1.2e-2}  # relative L2; rounding O alone costs up to 2^-11 and 2^-8
ROUNDS, CALLS = 15, 200  # a round is enqueued without a wait: fewer calls than the GPU's queue holds
HELD_BYTES = 4 << 30  # of float32 scores at a time


def imported(package: Path) -> Any:
    """The package in a folder, under the folder's name."""
    where = [str(package)]
    spec = importlib.util.spec_from_file_location(
        package.name, package / "__init__.py", submodule_search_locations=where
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"{package} is no package")
    module = importlib.util.module_from_spec(spec)
    sys.modules[package.name] = module
    spec.loader.exec_module(module)
    return module


def sizes_of(problem: str) -> dict[str, Any]:
    """The words of a canonical problem."""
    words = dict(word.partition("=")[::2] for word in problem.split(","))
    numbers = {name: int(words[name]) for name in ("b", "h", "hkv", "sq", "skv", "d")}
    return {**numbers, "dtype": words["dtype"], "causal": "causal" in words}


def drawn(sizes: dict[str, Any], device: str) -> tuple[torch.Tensor, ...]:
    """Q, K and V of normal numbers."""
    of_q = (sizes["b"], sizes["h"], sizes["sq"], sizes["d"])
    of_k = (sizes["b"], sizes["hkv"], sizes["skv"], sizes["d"])
    kind = DTYPES[sizes["dtype"]]
    return tuple(torch.randn(shape, dtype=kind, device=device) for shape in (of_q, of_k, of_k))


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """In float32, so many heads at a time as fit; the mask is aligned at the bottom right."""
    group, keys = q.shape[1] // k.shape[1], k.shape[2]
    out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    step = max(1, HELD_BYTES // (4 * q.shape[0] * q.shape[2] * keys))
    mask = torch.ones(q.shape[2], keys, dtype=torch.bool, device=q.device).tril(keys - q.shape[2])
    for first in range(0, q.shape[1], step):
        heads = list(range(first, min(first + step, q.shape[1])))
        kv = [head // group for head in heads]
        scores = q[:, heads].float() @ k[:, kv].float().transpose(2, 3) * q.shape[3] ** -0.5
        if causal:
            scores = scores.masked_fill(~mask, float("-inf"))
        out[:, heads] = torch.softmax(scores, dim=3) @ v[:, kv].float()
    return out


def tried(attention: Any, shape: dict[str, Any], device: str) -> dict[str, Any]:
    """The package's error on a shape, in both layouts, and whether that is small."""
    sizes = sizes_of(shape["problem"])
    q, k, v = drawn(sizes, device)
    right = expected(q, k, v, sizes["causal"])
    is_ours = shape["kernel"] is not None and device == "cuda"
    dense = attention(q, k, v, causal=sizes["causal"], fallback=not is_ours)
    rows_first = [each.transpose(1, 2).contiguous() for each in (q, k, v)]
    other = attention(*rows_first, causal=sizes["causal"], layout="bshd", fallback=not is_ours).transpose(
        1, 2
    )
    errors = [float((each.float() - right).norm() / right.norm()) for each in (dense, other)]
    return {
        "problem": shape["problem"],
        "kernel": shape["kernel"],
        "rel_l2": errors,
        "is_right": max(errors) <= MOST_ERROR[sizes["dtype"]],
    }


def host_us(call: Any, rounds_of: int = ROUNDS, calls: int = CALLS) -> float:
    """Microseconds of the host for a call that only enqueues: the median over rounds."""
    rounds = []
    for _ in range(rounds_of):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - began) / calls * 1e6)
    return statistics.median(rounds)


def costs(attention: Any, shapes: list[dict[str, Any]], device: str) -> dict[str, Any]:
    """What a decision takes, and a call of the smallest shape beside one of its kernel alone, in turns."""
    known = [sizes_of(each["problem"]) for each in shapes if each["kernel"] is not None]
    smallest = min(known, key=lambda each: each["b"] * each["h"] * each["sq"] * each["skv"] * each["d"])
    q, k, v = drawn(smallest, device)
    causal = smallest["causal"]
    member = attention.member(q, k, causal=causal) if device == "cuda" else None
    alone = [] if member is None else [host_us(lambda: member(q, k, v))]
    how = () if device == "cuda" else (1, 1)  # a rehearsal computes: one call is enough
    through = host_us(lambda: attention(q, k, v, causal=causal), *how)
    alone += [] if member is None else [host_us(lambda: member(q, k, v))]
    return {
        **decisions(attention, known),
        "lookup_us": host_us(lambda: attention.member(q, k, causal=causal)),
        "call_us": through,
        "member_call_us": statistics.mean(alone) if alone else None,
    }


def decisions(attention: Any, known: list[dict[str, Any]]) -> dict[str, float]:
    """Microseconds of a decision over all shapes and growing key lengths, and of each bucket's first one."""
    asked = [
        (
            each["d"],
            each["dtype"],
            each["causal"],
            (each["b"], each["h"], each["hkv"], each["sq"], each["skv"] + more),
        )
        for each in known
        for more in range(0, 1000, 10)
    ]
    first = []
    for _ in range(ROUNDS):
        dispatcher = type(attention.dispatcher)(attention.description["rule"])
        began = time.perf_counter()
        found = [dispatcher.kernel(*one) for one in asked]
        first.append((time.perf_counter() - began) / len(asked) * 1e6)
        if any(number < 0 for number in found):
            raise SystemExit("a shape of the mix, or one a little longer, falls back")
    again = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for one in asked:
            dispatcher.kernel(*one)
        again.append((time.perf_counter() - began) / len(asked) * 1e6)
    buckets = []
    for one in asked[:: len(asked) // len(known)]:
        fresh = type(attention.dispatcher)(attention.description["rule"])
        began = time.perf_counter()
        fresh.kernel(*one)
        buckets.append((time.perf_counter() - began) * 1e6)
    return {
        "decision_us": statistics.median(again),
        "growing_us": statistics.median(first),
        "first_decision_us": statistics.median(buckets),
    }


def main() -> None:
    """Try every shape, measure what a call costs the host, write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rehearse", action="store_true", help="On the CPU: nothing is measured.")
    given = parser.parse_args()
    if importlib.util.find_spec("evoflash") is not None and not given.rehearse:
        raise SystemExit("evoflash can be imported here: this would show nothing")
    attention = imported(given.package).attention
    device = "cpu" if given.rehearse else "cuda"
    torch.manual_seed(0)
    shapes = attention.description["shapes"]
    found = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "shapes": [tried(attention, shape, device) for shape in shapes],
        **costs(attention, shapes, device),
    }
    given.output.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    with torch.no_grad():
        main()
