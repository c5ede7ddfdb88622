"""The Triton kernel of the baseline `triton`: forward attention after FlashAttention-2. Chooses no tile.

Imported only where Triton is installed. A program owns `block_m` queries of one head and walks over the keys
in tiles of `block_n`: first those that every query of it sees, without a mask, then the few that have one.
"""

# mypy: ignore-errors
# Triton reads the annotations of a kernel's parameters and knows none but its own.

import importlib
from typing import Any

triton: Any = importlib.import_module("triton")
tl: Any = importlib.import_module("triton.language")


def _walk(
    acc,
    total,
    peak,
    q,
    k_at,
    v_at,
    k_row,
    v_row,
    rows,
    first,
    last,
    seq_kv,
    offset,
    scale,
    block_n: tl.constexpr,
    causal: tl.constexpr,
    masked: tl.constexpr,
):
    """Keys `first` to `last`, a tile at a time; the accumulator, the sums and the maxima after them."""
    columns = tl.arange(0, block_n)
    for start in tl.range(first, last, block_n):
        k_tile, v_tile = k_at + start * k_row, v_at + start * v_row
        inside = start + columns < seq_kv
        k = tl.load(k_tile, mask=inside[None, :], other=0.0) if masked else tl.load(k_tile)
        scores = tl.dot(q, k)
        if masked:
            seen = inside[None, :]
            if causal:
                seen = seen & (start + columns[None, :] <= rows[:, None] + offset)
            scores = tl.where(seen, scores, float("-inf"))
        above = tl.maximum(peak, tl.max(scores, 1) * scale)
        # A row that has seen no key yet has no maximum; 0 in its place keeps NaNs out.
        base = tl.where(above == float("-inf"), 0.0, above) if masked else above
        p = tl.math.exp2(scores * scale - base[:, None])
        fade = tl.math.exp2(peak - base)
        total = total * fade + tl.sum(p, 1)
        acc = acc * fade[:, None]
        v = tl.load(v_tile, mask=inside[:, None], other=0.0) if masked else tl.load(v_tile)
        acc = tl.dot(p.to(v.dtype), v, acc)
        peak = above
    return acc, total, peak


walk = triton.jit(_walk)


def _forward(
    q,
    k,
    v,
    o,
    q_batch,
    q_head,
    q_row,
    k_batch,
    k_head,
    k_row,
    v_batch,
    v_head,
    v_row,
    o_batch,
    o_head,
    o_row,
    seq_q,
    seq_kv,
    heads,
    ratio,
    scale,
    head_dim: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    causal: tl.constexpr,
):
    """O of one tile of queries. Strides are in elements, the last dimension is contiguous; `scale` includes
    log2(e); head_dim is a power of two. Causal is bottom-right aligned.
    """
    tile = tl.program_id(0)
    if causal:  # the longest first
        tile = tl.num_programs(0) - 1 - tile
    head, batch = tl.program_id(1) % heads, (tl.program_id(1) // heads).to(tl.int64)
    rows, columns, dims = (
        tile * block_m + tl.arange(0, block_m),
        tl.arange(0, block_n),
        tl.arange(0, head_dim),
    )
    has_row, offset = (rows < seq_q)[:, None], seq_kv - seq_q
    q_at = q + batch * q_batch + head * q_head + rows[:, None] * q_row + dims[None, :]
    k_at = k + batch * k_batch + head // ratio * k_head + columns[None, :] * k_row + dims[:, None]
    v_at = v + batch * v_batch + head // ratio * v_head + columns[:, None] * v_row + dims[None, :]
    queries = tl.load(q_at, mask=has_row, other=0.0)
    acc = tl.zeros([block_m, head_dim], dtype=tl.float32)
    total = tl.zeros([block_m], dtype=tl.float32)
    peak = tl.full([block_m], float("-inf"), dtype=tl.float32)
    end, whole = seq_kv, seq_kv // block_n * block_n
    if causal:
        end = tl.maximum(0, tl.minimum(seq_kv, (tile + 1) * block_m + offset))
        whole = tl.maximum(0, tl.minimum(seq_kv, tile * block_m + offset + 1)) // block_n * block_n
    acc, total, peak = walk(
        acc, total, peak, queries, k_at, v_at, k_row, v_row, rows, 0, whole, seq_kv, offset, scale,
        block_n, causal, False,
    )  # fmt: skip
    acc, total, peak = walk(
        acc, total, peak, queries, k_at, v_at, k_row, v_row, rows, whole, end, seq_kv, offset, scale,
        block_n, causal, True,
    )  # fmt: skip
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    o_at = o + batch * o_batch + head * o_head + rows[:, None] * o_row + dims[None, :]
    tl.store(o_at, out.to(o.dtype.element_ty), mask=has_row)


forward = triton.jit(_forward)
