"""xFormers' memory-efficient attention, by the operator that its own dispatch chooses; its name is recorded.

It takes (B, S, H, D), and grouped heads as (B, S, groups, heads of a group, D) with expanded keys and values.
"""

from collections.abc import Iterator
from typing import Any

from evoflash.extras import install
from evoflash.gpu.baselines.attention import attention_on
from evoflash.gpu.baselines.contender import LibraryCall, import_library, version
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.workload import AttentionWorkload

_INSTALL = install("xformers")


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """One way: by strides, nothing is copied."""
    del name
    yield _attention(import_library("xformers.ops.fmha", _INSTALL), attention_on(bench))


def _attention(library: Any, workload: AttentionWorkload) -> LibraryCall:
    ratio, scale, mask = workload.gqa_ratio, dense.scale(workload), _mask(library, workload)
    environment = {"xformers": version("xformers") or "unknown", "operator": "not asked yet"}
    chosen: list[Any] = []

    def attend(q: Any, k: Any, v: Any) -> Any:
        if not chosen:  # the operator that is recorded is the one that runs
            asked = library.Inputs(query=q, key=k, value=v, attn_bias=mask, scale=scale)
            chosen.append(library._dispatch_fw(asked, False))
            environment["operator"] = chosen[0].NAME
        return library.memory_efficient_attention_forward(q, k, v, attn_bias=mask, scale=scale, op=chosen[0])

    def arrange(x: Any) -> Any:
        rows = x.transpose(1, 2)
        if ratio == 1:
            return rows
        groups = rows.unflatten(2, (workload.kv_heads, -1))
        return groups.expand(-1, -1, -1, ratio, -1)

    def heads_first(out: Any) -> Any:
        return (out if ratio == 1 else out.flatten(2, 3)).transpose(1, 2)

    return LibraryCall(attend, environment, arrange, heads_first)


def _mask(library: Any, workload: AttentionWorkload) -> Any:
    """Bottom-right aligned; a single query sees everything."""
    if not workload.causal or workload.seq_q == 1:
        return None
    if workload.seq_q == workload.seq_kv:
        return library.attn_bias.LowerTriangularMask()
    return library.attn_bias.LowerTriangularFromBottomRightMask()
