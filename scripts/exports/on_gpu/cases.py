"""The exported kernels and tensors for them, in both layouts, and the ways to call a kernel."""

import importlib
import json
import re

import torch

TIMED = ("prefill", "short", "decode")
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
REHEARSED = {"b": 1, "h": 4, "hkv": 1, "sq": 16, "skv": 16, "d": 128}


class Cases:
    """The exports of a folder; in a rehearsal on the CPU, with small tensors."""

    def __init__(self, folder, *, rehearse):
        self.rehearse, self.folder = rehearse, folder
        self.device = "cpu" if rehearse else "cuda"
        self.device_name = "cpu" if rehearse else torch.cuda.get_device_name()
        self.workloads = json.loads((folder / "workloads.json").read_text())
        self.names = list(self.workloads)

    def module(self, name):
        return importlib.import_module(name)

    def attention(self, name):
        """The exported function; in a rehearsal it has to be PyTorch's."""
        function = self.module(name).attention
        if not self.rehearse:
            return function
        return lambda q, k, v, **how: function(q, k, v, **{**how, "fallback": True})

    def sizes(self, name):
        """batch, heads, kv_heads, seq_q, seq_kv, head_dim, dtype, causal."""
        text = self.workloads[name]
        numbers = {key: int(value) for key, value in re.findall(r"\b(\w+)=(\d+)", text)}
        if self.rehearse:
            numbers |= REHEARSED | {"d": numbers["d"], "sq": min(numbers["sq"], 16)}
            numbers["hkv"] = 4 if name == "short" else 1
        dtype = DTYPES[re.search(r"dtype=(\w+)", text)[1]]
        return *(numbers[key] for key in ("b", "h", "hkv", "sq", "skv", "d")), dtype, "causal" in text

    def tensors(self, name, layout, seed=0):
        """q, k and v in the order that `layout` says, as that lies in memory."""
        batch, heads, kv_heads, seq_q, seq_kv, head_dim, dtype, _ = self.sizes(name)
        generator = torch.Generator(self.device).manual_seed(seed)
        made = []
        for head_count, rows in ((heads, seq_q), (kv_heads, seq_kv), (kv_heads, seq_kv)):
            shape = (batch, head_count, rows, head_dim)
            if layout == "bshd":
                shape = (batch, rows, head_count, head_dim)
            made.append(torch.randn(shape, generator=generator, device=self.device, dtype=dtype))
        return made

    def synchronize(self):
        if not self.rehearse:
            torch.cuda.synchronize()

    def ways(self, name, layout):
        """The function called eagerly, compiled, and replayed from a CUDA graph, each on given tensors."""
        eager = self.attention(name)
        yield "eager", lambda q, k, v: eager(q, k, v, layout=layout)
        compiled = torch.compile(lambda q, k, v: eager(q, k, v, layout=layout), fullgraph=True, dynamic=False)
        yield "compiled", compiled
        if not self.rehearse:
            yield "graph", Graphed(lambda q, k, v: eager(q, k, v, layout=layout))


class Graphed:
    """A call captured once: later calls replay it on the same tensors."""

    def __init__(self, function):
        self.function, self.graph = function, None

    def __call__(self, q, k, v):
        if self.graph is None:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.function(q, k, v)
            torch.cuda.current_stream().wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = self.function(q, k, v)
            self.tensors = q, k, v
        self.graph.replay()
        return self.out


def as_bhsd(layout, *tensors):
    return tensors if layout == "bhsd" else tuple(tensor.transpose(1, 2) for tensor in tensors)


def exact(q, k, v, causal):
    """In float32, one batch element and head group at a time; the mask is aligned at the bottom right."""
    group, (seq_q, seq_kv) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    sums = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    seen = (
        torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device).tril(seq_kv - seq_q) if causal else None
    )
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = q[b, h].double() @ k[b, h // group].double().T * q.shape[3] ** -0.5
            if seen is not None:
                scores.masked_fill_(~seen, float("-inf"))
            sums[b, h] = scores.logsumexp(dim=1)
            out[b, h] = torch.softmax(scores, dim=1) @ v[b, h // group].double()
    return out, sums


def distance(found, right):
    return float((found.float() - right).norm() / right.norm())
