"""How a portfolio's dispatcher tells attention's shapes apart. Chooses no kernel."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evoflash.operation import DispatchForm
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.runtime.dispatch import Dispatcher


def sizes(w: AttentionWorkload) -> tuple[int, int, int]:
    """What a bucket is of: batch * heads, seq_q, seq_kv."""
    return w.batch * w.heads, w.seq_q, w.seq_kv


def ask(dispatcher: Dispatcher, key: tuple[Any, ...], w: AttentionWorkload) -> int:
    head_dim, dtype, causal, _ = key
    return dispatcher.kernel(head_dim, dtype, causal, (w.batch, w.heads, w.kv_heads, w.seq_q, w.seq_kv))


def between(first: AttentionWorkload, second: AttentionWorkload, part: float) -> AttentionWorkload:
    """The shape at that part of the way, in octaves; the number of heads is that of the nearer end."""

    def mean(a: int, b: int) -> float:
        return float(a ** (1 - part) * b**part)

    nearer = first if part < 0.5 else second
    rows = mean(first.batch * first.heads, second.batch * second.heads)
    return replace(
        first,
        batch=max(1, round(rows / nearer.heads)),
        heads=nearer.heads,
        kv_heads=nearer.kv_heads,
        seq_q=max(1, round(mean(first.seq_q, second.seq_q))),
        seq_kv=max(1, round(mean(first.seq_kv, second.seq_kv))),
    )


def as_served(w: AttentionWorkload) -> AttentionWorkload:
    """As the dispatcher serves it: a single causal query sees all keys and needs no mask."""
    return replace(w, causal=False) if w.seq_q == 1 and w.causal else w


def part(w: AttentionWorkload) -> AttentionWorkload:
    """One batch and one key/value head."""
    return replace(w, batch=1, heads=w.heads // w.kv_heads, kv_heads=1)


def why_not(w: AttentionWorkload) -> str:
    """Why no dispatcher can choose a kernel for it; empty if one can."""
    return "" if w.accumulate == "fp32" else "acc=fp16 is no choice of a dispatcher: leave it out"


def folder(key: Mapping[str, Any]) -> str:
    mask = "causal" if key["causal"] else "full"
    return f"d{key['head_dim']}-{key['dtype']}-{mask}-gqa{key['gqa_ratio']}"


def columns(w: AttentionWorkload) -> dict[str, str]:
    return {
        "b": str(w.batch),
        "h/hkv": f"{w.heads}/{w.kv_heads}",
        "sq": str(w.seq_q),
        "skv": str(w.seq_kv),
    }


PORTFOLIO = DispatchForm(
    names=("head_dim", "dtype", "causal", "gqa_ratio"),
    sizes=sizes,
    ask=ask,
    between=between,
    served=as_served,
    part=part,
    why_not=why_not,
    folder=folder,
    columns=columns,
    libraries=("sdpa_flash", "sdpa_cudnn"),
    library=("PyTorch's attention", "SDPA"),
)
