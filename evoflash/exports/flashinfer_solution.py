"""The kind "solution" is a Solution of flashinfer-bench, and beside it the Definition that it solves.

flashinfer-bench calls `run(q, k, v, o, lse)` of the Solution's one Python file with PyTorch tensors: outputs
are handed in (destination passing). None of its own definitions is dense attention, so the Definition is
written too. The format is that of flashinfer-bench 0.1.2.
"""

import json
from pathlib import Path
from typing import Any

from evoflash.exports import cupy_file
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import form_of
from evoflash.written_files import write_text

_FILE = "attention.py"
RUN = '''

def run(q, k, v, o, lse):
    """Writes o and lse: flashinfer-bench's call, outputs last."""
    attention(q, k, v, out=o, lse=lse)
'''
_REFERENCE = """\
import math
import torch


def run(q, k, v):
    heads, kv_heads = q.shape[1], k.shape[1]
    k, v = (x.float().repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    scores = q.float() @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if {causal}:
        seq_q, seq_kv = scores.shape[-2:]
        seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device).tril(seq_kv - seq_q)
        scores = scores.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - lse.unsqueeze(-1)).nan_to_num(0.0)
    return (weights @ v).to(q.dtype), lse
"""
_DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes solution.json, and definition.json in its place beside it."""
    beside = path.with_name(path.name.removesuffix("solution.json") + "definition.json")
    if beside == path:
        beside = path.with_name(f"{path.stem}.definition.json")
    form_of(exported.problem.workloads[0])  # none: the operation leaves as C++ alone
    solved = definition(exported)
    write_text(path, json.dumps(solution(exported, solved["name"], path.name), indent=1) + "\n")
    write_text(beside, json.dumps(solved, indent=1) + "\n")
    return path, beside


def solution(exported: ExportRequest, definition_name: str, file_name: str) -> dict[str, Any]:
    """The Solution's fields."""
    text = cupy_file.text(exported, exported.command("solution", file_name))
    return {
        "name": f"evoflash_{exported.name}",
        "definition": definition_name,
        "author": "evoflash",
        "description": text.splitlines()[0].strip('"'),
        "spec": {
            "language": "python",
            "target_hardware": list(exported.gpu.device_names),
            "entry_point": f"{_FILE}::run",
            "dependencies": [],
            "destination_passing_style": True,
        },
        "sources": [{"path": _FILE, "content": text + RUN}],
    }


def definition(exported: ExportRequest) -> dict[str, Any]:
    """The Definition: dense attention with heads, head dimension, dtype and mask fixed, lengths free."""
    w: Any = exported.problem.workloads[0]
    mask = "causal" if w.causal else "full"
    dtype = _DTYPES[w.dtype]
    query = {"shape": ["batch", "heads", "seq_q", "head_dim"], "dtype": dtype}
    key = {"shape": ["batch", "kv_heads", "seq_kv", "head_dim"], "dtype": dtype}
    return {
        "name": f"gqa_dense_{mask}_h{w.heads}_kv{w.kv_heads}_d{w.head_dim}_{w.dtype}",
        "op_type": "gqa_dense",
        "description": "Attention of dense tensors; a causal mask is aligned at the bottom right.",
        "axes": {
            "heads": {"type": "const", "value": w.heads},
            "kv_heads": {"type": "const", "value": w.kv_heads},
            "head_dim": {"type": "const", "value": w.head_dim},
            **{name: {"type": "var"} for name in ("batch", "seq_q", "seq_kv")},
        },
        "inputs": {"q": query, "k": key, "v": key},
        "outputs": {"o": query, "lse": {"shape": ["batch", "heads", "seq_q"], "dtype": "float32"}},
        "reference": _REFERENCE.format(causal=w.causal),
    }
