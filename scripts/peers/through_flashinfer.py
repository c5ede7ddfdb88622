"""Times exported kernels of the linear layer through FlashInfer's own function, beside FlashInfer's kernels.

    evoflash export ID --kind flashinfer-trace -o FOLDER
    python -m scripts.peers.through_flashinfer FOLDER [--rows 1,8,16] [-o FILE]

One process calls flashinfer.gemm.fp8_blockscale_gemm_sm90, which FLASHINFER_TRACE_APPLY_PATH sends to the
folder's kernels, and the function below that, which is FlashInfer's own, in turns: CUDA graphs of calls that
rotate through so many copies of W that none is found in L2. It prints a JSON line for each layer and number
of rows: median us of both, and the relative L2 error of both against double precision. Needs an sm_90 GPU,
PyTorch and FlashInfer from 0.6.14 on.
"""

import argparse
import importlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

_NAME = re.compile(r"fp8_blockscale_gemm_sm90_n(\d+)_k(\d+)\.json")
_ROWS = "1,2,4,8,16,31"
_TURNS, _WARM = 30, 3


def layers(folder: Path) -> list[tuple[int, int]]:
    """n and k of the folder's Solutions."""
    names = sorted(path.name for path in (folder / "solutions").rglob("*.json"))
    return [(int(found[1]), int(found[2])) for name in names if (found := _NAME.fullmatch(name))]


def measured(folder: Path, rows: list[int]) -> Iterator[dict[str, Any]]:
    """A record for each layer of the folder and each number of rows."""
    os.environ |= {"FLASHINFER_TRACE_APPLY": "1", "FLASHINFER_TRACE_APPLY_PATH": str(folder)}
    flashinfer, torch = (importlib.import_module(name) for name in ("flashinfer", "torch"))
    gemm, trace_apply = (importlib.import_module(f"flashinfer.{name}") for name in ("gemm", "trace_apply"))

    ours = gemm.fp8_blockscale_gemm_sm90
    theirs = ours.__wrapped__
    for n, k in layers(folder):
        count = 2 * torch.cuda.get_device_properties(0).L2_cache_size // (n * k) + 2
        weights = [_weights(torch, n, k, seed) for seed in range(count)]
        for m in rows:
            x = torch.randn(m, k, device="cuda", generator=_generator(torch, m)).bfloat16()
            hits = _hits(trace_apply)
            outputs = [function(x, weights[0][0], None, weights[0][1]) for function in (ours, theirs)]
            assert _hits(trace_apply) == hits + 1, "FlashInfer did not send the call to the folder's kernel"
            right = _right(x, *weights[0])
            errors = [float((out.double() - right).norm() / right.norm()) for out in outputs]
            us = _in_turns(torch, [_graph(torch, each, x, weights) for each in (ours, theirs)])
            yield {
                "layer": f"{n}x{k}",
                "m": m,
                "device": torch.cuda.get_device_name(),
                "flashinfer": flashinfer.__version__,
                "ours_us": us[0] / count,
                "theirs_us": us[1] / count,
                "ours_rel_l2": errors[0],
                "theirs_rel_l2": errors[1],
            }


def _generator(torch: Any, seed: int) -> Any:
    return torch.Generator("cuda").manual_seed(seed)


def _weights(torch: Any, n: int, k: int, seed: int) -> tuple[Any, Any]:
    drawn = torch.randn(n, k, device="cuda", generator=_generator(torch, seed))
    scale = 1e-3 * (1 + torch.rand(-(-n // 128), k // 128, device="cuda"))
    return drawn.to(torch.float8_e4m3fn), scale


def _right(x: Any, w: Any, scale: Any) -> Any:
    whole = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[: w.shape[0], : w.shape[1]]
    return x.double() @ (w.double() * whole.double()).T


def _hits(trace_apply: Any) -> int:
    return sum(each.get("hit", 0) for each in trace_apply.stats().values())


def _graph(torch: Any, function: Callable[..., Any], x: Any, weights: list[tuple[Any, Any]]) -> Any:
    """A call with each W, the first ones before that as FlashInfer compiles and resolves names then."""
    for w, scale in weights[:2]:
        function(x, w, None, scale)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for w, scale in weights:
            function(x, w, None, scale)
    return graph


def _in_turns(torch: Any, graphs: list[Any]) -> list[float]:
    """Median us of a replay of each."""
    times: list[list[float]] = [[] for _ in graphs]
    for turn in range(_WARM + _TURNS):
        for graph, mine in zip(graphs, times, strict=True):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            if turn >= _WARM:
                mine.append(1e3 * start.elapsed_time(stop))
    return [median(mine) for mine in times]


def main() -> None:
    """Parse the command line and print the records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", default=_ROWS)
    parser.add_argument("-o", "--out", type=Path)
    asked = parser.parse_args()
    lines = []
    for record in measured(asked.folder, [int(each) for each in asked.rows.split(",")]):
        lines.append(json.dumps(record))
        print(lines[-1], flush=True)
    if asked.out:
        asked.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
