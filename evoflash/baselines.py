"""Library kernels to be beaten, timed by the same code on the same memory as the candidates; needs torch.

Each is PyTorch's scaled_dot_product_attention restricted to one backend. torch's `is_causal` aligns the mask
top-left: where Sq differs from Skv a bottom-right bias takes its place, and a single causal query, which sees
everything, runs unmasked. A backend that has no kernel for a workload is absent, with torch's reason.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evoflash import abi
from evoflash.benchmark import Bench
from evoflash.launcher import wait
from evoflash.memory import Arena
from evoflash.problem import Workload
from evoflash.validator import Output

BACKENDS = {
    "sdpa_flash": "FLASH_ATTENTION",
    "sdpa_cudnn": "CUDNN_ATTENTION",
    "sdpa_efficient": "EFFICIENT_ATTENTION",
}
_LIMIT_S = 30.0


class BaselineAbsentError(Exception):
    """A library is not installed or has no kernel for this workload; the message is its reason, one line."""


def baseline(name: str, bench: Bench) -> "SdpaContender":
    """A baseline that has run once on the bench's workload. Raises BaselineAbsentError."""
    try:
        import torch
    except ImportError:
        raise BaselineAbsentError('torch is not installed: pip install "evoflash[baselines]"') from None
    reasons = []
    # Grouped heads natively where the backend can; else keys and values are repeated beforehand, untimed.
    for repeat in (False, True) if bench.workload.gqa_ratio > 1 else (False,):
        contender = SdpaContender(name, torch, bench, repeat_heads=repeat)
        try:
            contender.run(bench)
        except RuntimeError as error:
            reasons.append((str(error).strip().splitlines() or ["no reason given"])[0])
        else:
            return contender
    raise BaselineAbsentError(reasons[0])


class SdpaContender:
    """One SDPA backend on the memory of a bench: torch tensors that are views of its arenas."""

    def __init__(self, name: str, torch: Any, bench: Bench, *, repeat_heads: bool) -> None:
        self.name = name
        self.repeats_heads = repeat_heads
        self._torch = torch
        self._backend = getattr(torch.nn.attention.SDPBackend, BACKENDS[name])
        self._views = [_tensors(torch, arena) for arena in bench.arenas]
        self._inputs = [tuple(self._shaped(x) for x in views) for views in self._views]
        self._options = _options(torch, bench.workload, repeat_heads=repeat_heads)
        self._outputs: dict[int, Any] = {}
        torch.cuda.synchronize()  # repeated on torch's stream, read on ours

    def _shaped(self, view: Any) -> Any:
        missing = self._views[0][0].shape[1] // view.shape[1]
        return view.repeat_interleave(missing, dim=1) if self.repeats_heads and missing > 1 else view

    def refresh(self) -> None:
        """Follow inputs that were overwritten: repeated heads are copies."""
        for views, inputs in zip(self._views, self._inputs, strict=True):
            for view, used in zip(views, inputs, strict=True):
                if used is not view:
                    used.copy_(self._shaped(view))
        self._torch.cuda.synchronize()

    @property
    def environment(self) -> dict[str, str]:
        """Versions that the result depends on."""
        cudnn = self._torch.backends.cudnn.version()
        heads = "repeated" if self.repeats_heads else "native"
        return {"torch": self._torch.__version__, "cudnn": str(cudnn), "grouped_heads": heads}

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        """See benchmark.Contender. Captured by torch, whose allocator must know; replayed on our stream."""
        torch, graph = self._torch, self._torch.cuda.CUDAGraph()
        external = torch.cuda.ExternalStream(bench.stream.ptr)
        self.run(bench)
        self._outputs = {}
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            for at in order:  # one output per input set, as the candidates have
                self._outputs[at] = self._attend(at)

        def replay() -> None:
            with torch.cuda.stream(external):
                graph.replay()

        return replay

    def run(self, bench: Bench) -> None:
        """One eager call, to completion: handles and plans are made here, not inside a capture."""
        with self._torch.cuda.stream(self._torch.cuda.ExternalStream(bench.stream.ptr)):
            self._outputs = {0: self._attend(0)}
        wait(bench.stream, limit_s=_LIMIT_S)

    def output(self, at: int = 0) -> Output:
        """What the last run or replay wrote for an input set."""
        bits = self._outputs[at].contiguous().view(self._torch.int16).cpu().numpy()
        return Output(bits.view(np.uint16))

    def _attend(self, at: int) -> Any:
        functional, attention = self._torch.nn.functional, self._torch.nn.attention
        with self._torch.no_grad(), attention.sdpa_kernel([self._backend]):
            return functional.scaled_dot_product_attention(*self._inputs[at], **self._options)


def _tensors(torch: Any, arena: Arena) -> tuple[Any, Any, Any]:
    w = arena.workload
    kind = torch.float16 if w.dtype == "fp16" else torch.bfloat16

    def view(name: str, heads: int, rows: int) -> Any:
        bits = arena.buffers[name].device_bytes.view(np.int16).reshape(w.batch, heads, rows, w.head_dim)
        return torch.as_tensor(bits, device="cuda").view(kind)

    return view("Q", w.heads, w.seq_q), view("K", w.kv_heads, w.seq_kv), view("V", w.kv_heads, w.seq_kv)


def _options(torch: Any, workload: Workload, *, repeat_heads: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"scale": abi.scale(workload)}
    if workload.gqa_ratio > 1 and not repeat_heads:
        options["enable_gqa"] = True
    if workload.causal and workload.seq_q == workload.seq_kv:
        options["is_causal"] = True
    elif workload.causal and workload.seq_q > 1:
        from torch.nn.attention.bias import causal_lower_right

        options["attn_mask"] = causal_lower_right(workload.seq_q, workload.seq_kv)
    return options
