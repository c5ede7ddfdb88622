"""Runs an exported kernel on PyTorch tensors with the launcher that was copied beside this file; no evoflash.

Its one argument is a folder with launch.json. Prints a line of JSON: the errors of every way of calling it.
tests/on_gpu/test_runtime.py copies it into a folder of its own and starts it.
"""

import json
import math
import sys
import threading

import torch
from runtime.launch import Kernel

SHAPES = (2, 2, 131, 257), (1, 3, 1, 700), (3, 1, 300, 90)  # batch, kv_heads, seq_q, seq_kv
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def tensor(shape, dtype, *, is_bshd, seed):
    """(batch, heads, rows, columns), in memory as it is or with the heads of a row together."""
    batch, heads, rows, columns = shape
    torch.manual_seed(seed)
    if is_bshd:
        return torch.randn(batch, rows, heads, columns, device="cuda").to(dtype).transpose(1, 2)
    return torch.randn(*shape, device="cuda").to(dtype)


def reference(q, k, v, *, scale, causal):
    """Output and LSE in float64."""
    k, v = (x.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * scale
    if causal:
        rows, keys = scores.shape[-2:]
        seen = torch.ones(rows, keys, dtype=torch.bool, device=q.device).tril(keys - rows)
        scores = scores.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)
    return torch.exp(scores - lse.unsqueeze(-1)).nan_to_num(0.0) @ v, lse


class Call:
    """One set of tensors and the plan for it."""

    def __init__(self, kernel, shape, *, is_bshd, scale=None, seed=0):
        contract = kernel.description["contract"]
        batch, heads, kv_heads, seq_q, seq_kv = shape
        columns, dtype = contract["head_dim"], TYPES[contract["dtype"]]
        query, key = (batch, heads, seq_q, columns), (batch, kv_heads, seq_kv, columns)
        shapes = (query, key, key, query)
        self.tensors = [tensor(s, dtype, is_bshd=is_bshd, seed=seed + n) for n, s in enumerate(shapes)]
        self.tensors[3].fill_(float("nan"))
        self.lse = torch.full(query[:3], float("nan"), device="cuda")
        strides = [each.stride()[:3] for each in self.tensors]
        self.plan = kernel.plan(shape, strides, device=0, scale=scale)
        self.workspace = torch.full((self.plan.workspace_bytes,), 255, dtype=torch.uint8, device="cuda")
        self.workspace[: self.plan.zeroed_bytes] = 0
        scale = contract["scale"] if scale is None else scale
        self.right = reference(*self.tensors[:3], scale=scale, causal=contract["causal"])

    def launch(self, stream):
        pointers = [each.data_ptr() for each in self.tensors]
        scratch = self.workspace.data_ptr() if self.plan.workspace_bytes else 0
        self.plan.launch(*pointers, self.lse.data_ptr(), scratch, stream)

    def errors(self):
        """Relative L2 error of the output, largest of LSE; what was left behind in the zeroed part."""
        out, lse = self.right
        error = ((self.tensors[3].double() - out).norm() / out.norm()).item()
        finite = torch.isfinite(lse)
        if not torch.equal(torch.isneginf(self.lse), ~finite):
            return [math.nan, math.nan, 0]
        of_lse = (self.lse.double() - lse)[finite].abs().max().item()
        return [error, of_lse, int(self.workspace[: self.plan.zeroed_bytes].count_nonzero())]

    def cleared(self):
        self.tensors[3].fill_(float("nan"))
        self.lse.fill_(float("nan"))
        torch.cuda.synchronize()
        return self


def stream_of(stream=None):
    return (stream or torch.cuda.current_stream()).cuda_stream


def once(call, times=1, stream=None):
    for _ in range(times):
        call.launch(stream_of(stream))
    torch.cuda.synchronize()
    return call.errors()


def captured(call):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call.launch(stream_of())
    call.cleared()
    graph.replay()
    torch.cuda.synchronize()
    return call.errors()


def many(call, stream):
    for _ in range(20):
        call.launch(stream.cuda_stream)


def threaded(kernel, shape):
    """Four threads that have no context yet, each on a stream and on tensors of its own."""
    calls = [Call(kernel, shape, is_bshd=index % 2 == 1, seed=10 * index) for index in range(4)]
    streams = [torch.cuda.Stream() for _ in calls]
    torch.cuda.synchronize()
    threads = [threading.Thread(target=many, args=pair) for pair in zip(calls, streams, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    found = [call.errors() for call in calls]
    return [max(each) for each in zip(*found, strict=True)]


def main():
    kernel = Kernel.read(sys.argv[1])
    ratio = kernel.description["contract"]["gqa_ratio"]
    found = {}
    for number, (batch, kv_heads, seq_q, seq_kv) in enumerate(SHAPES):
        shape = batch, kv_heads * ratio, kv_heads, seq_q, seq_kv
        for is_bshd in (False, True):
            call = Call(kernel, shape, is_bshd=is_bshd)
            layout = "bshd" if is_bshd else "bhsd"
            found[f"{layout} {shape}"] = once(call.cleared(), times=3)
            found[f"{layout} {shape} in a graph"] = captured(call.cleared())
            found[f"{layout} {shape} on a stream"] = once(call.cleared(), stream=torch.cuda.Stream())
            if number == 0:
                other = Call(kernel, shape, is_bshd=is_bshd, scale=0.3)
                found[f"{layout} {shape}, another scale"] = once(other)
    found["threads"] = threaded(kernel, (2, 2 * ratio, 2, 131, 257))
    assert not any(name.partition(".")[0] in ("evoflash", "cupy") for name in sys.modules)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
