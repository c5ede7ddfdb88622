"""Calls of paged attention as engines make them: caches laid out as theirs are, and the right outputs."""

import math
from dataclasses import dataclass

import torch

ENGINES = ("paged_attention", "flash_attn_varlen_func", "flashinfer")
LAYOUTS = ("NHD", "HND", "one tensor", "one tensor, HND", "rows of 2 D", "slots")


@dataclass(frozen=True)
class Asked:
    """One call's numbers; sequences have `rows` rows each, or as many as the list says."""

    lengths: list
    rows: int | list = 1
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    page: int = 16
    dtype: torch.dtype = torch.float16
    window: int = -1  # as FlashAttention has it: keys before its own that a query sees
    softcap: float = 0.0
    has_sinks: bool = False

    @property
    def each_rows(self):
        return [self.rows] * len(self.lengths) if isinstance(self.rows, int) else self.rows


class Pages:
    """Queries, a pool of pages in some order, and what says where each sequence's lie.

    `make(shape, dtype)` gives memory; what no sequence has holds NaN.
    """

    def __init__(self, asked, make, *, columns=None, seed=0):
        self.asked, self._make = asked, make
        generator = torch.Generator().manual_seed(seed)
        a = asked
        needed = [-(-length // a.page) for length in a.lengths]
        columns = columns or max(1, *needed)
        order = (torch.randperm(sum(needed), generator=generator) + 1).int()  # page 0 is nobody's
        self.pages = sum(needed) + 2
        shape = (self.pages, a.page, a.kv_heads, a.head_dim)
        self.k, self.v = (torch.full(shape, math.nan, dtype=a.dtype) for _ in "kv")
        table = torch.full((len(a.lengths), columns), -1, dtype=torch.int32)
        at = 0
        for sequence, (length, count) in enumerate(zip(a.lengths, needed, strict=True)):
            table[sequence, :count] = order[at : at + count]
            for key in range(length):
                page = int(table[sequence, key // a.page])
                for pool in (self.k, self.v):
                    row = torch.randn(a.kv_heads, a.head_dim, generator=generator)
                    pool[page, key % a.page] = row.to(a.dtype)
            at += count
        self.total = sum(a.each_rows)
        queries = torch.randn(self.total, a.heads, a.head_dim, generator=generator)
        self.q = self.copied(queries.to(a.dtype))
        self.out = self.copied(torch.full_like(queries, math.nan).to(a.dtype))
        self.table, self.lengths = self.copied(table), self.copied(torch.tensor(a.lengths, dtype=torch.int32))
        self.indptr = self.copied(_ends(needed))
        self.indices = self.copied(torch.cat([row[:n] for row, n in zip(table, needed, strict=True)]))
        last = [(length - 1) % a.page + 1 if length else 0 for length in a.lengths]
        self.last = self.copied(torch.tensor(last, dtype=torch.int32))
        self.q_indptr = self.copied(_ends(a.each_rows))
        logits = torch.randn(a.heads, generator=generator)
        self.sinks = self.copied(logits) if a.has_sinks else None

    def copied(self, tensor):
        memory = self._make(tensor.shape, tensor.dtype)
        return memory.copy_(tensor)

    def cache(self, layout):
        """K and V as (pages, page, kv_heads, head_dim) lie in an engine's memory."""
        a, both = self.asked, torch.stack([self.k, self.v], dim=1)
        match layout:
            case "NHD":
                return self.copied(self.k), self.copied(self.v)
            case "HND":
                return tuple(self.copied(each.transpose(1, 2)) for each in (self.k, self.v))
            case "one tensor":
                return self.copied(both)
            case "one tensor, HND":
                return self.copied(both.transpose(2, 3))
            case "rows of 2 D":  # vLLM 0.33: (blocks, kv_heads, block, 2 D), given as views
                rows = self.copied(torch.cat([self.k, self.v], dim=-1).transpose(1, 2))
                return tuple(half.transpose(1, 2) for half in rows.split(a.head_dim, dim=-1))
            case "slots":  # SGLang: (slots, kv_heads, head_dim) with a few more than make whole pages
                more = torch.full((3, a.kv_heads, a.head_dim), math.nan, dtype=a.dtype)
                return tuple(
                    self.copied(torch.cat([each.flatten(0, 1), *([more] if a.page > 3 else [])]))
                    for each in (self.k, self.v)
                )

    def right(self):
        """The output, and the natural logarithms of the sums (rows, heads)."""
        a, found, logs, first = self.asked, [], [], 0
        for sequence, (length, rows) in enumerate(zip(a.lengths, a.each_rows, strict=True)):
            where = torch.arange(length)
            table = self.table[sequence].cpu().long()
            k, v = (pool[table[where // a.page], where % a.page].double() for pool in (self.k, self.v))
            k, v = (each.repeat_interleave(a.heads // a.kv_heads, dim=1) for each in (k, v))
            q = self.q[first : first + rows].cpu().double()
            scores = torch.einsum("rhd,khd->hrk", q, k) * a.head_dim**-0.5
            if a.softcap:
                scores = a.softcap * torch.tanh(scores / a.softcap)
            newest = torch.arange(rows)[:, None] + length - rows
            hidden = where > newest
            if a.window >= 0:
                hidden |= where < newest - a.window
            scores = scores.masked_fill(hidden, -math.inf)
            if self.sinks is not None:
                sink = self.sinks.cpu().double()[:, None, None].expand(a.heads, rows, 1)
                scores = torch.cat([scores, sink], dim=-1)
            lse = torch.logsumexp(scores, dim=-1)
            shares = torch.exp(scores - lse[..., None]).nan_to_num(0.0)[..., :length]
            found.append(torch.einsum("hrk,khd->rhd", shares, v))
            logs.append(lse.t())
            first += rows
        return torch.cat(found), torch.cat(logs)


def _ends(counts):
    return torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], dtype=torch.int32)


def is_near(out, right, *, of=4e-3):
    """Whether all of an output is what it should be, by its size; NaN is not."""
    difference = (out.cpu().double() - right).norm()
    return bool(difference <= of * right.norm()) if right.norm() > 0 else bool((out == 0).all())


def called(functions, pages, layout, engine):
    """Output and natural LSE (rows, heads), by an engine's argument list."""
    cache, a = pages.cache(layout), pages.asked
    is_hnd = layout.endswith("HND")
    match engine:
        case "paged_attention":
            k, v = (cache, None) if isinstance(cache, torch.Tensor) else cache
            return functions.paged_attention(
                *(pages.q, k, v, pages.table, pages.lengths),
                layout="HND" if is_hnd else "NHD",
                page_size=a.page,
                out=pages.out,
                return_lse=True,
            )
        case "flash_attn_varlen_func":
            k, v = cache.unbind(1) if isinstance(cache, torch.Tensor) else cache
            if k.dim() == 3:  # as SGLang does
                k, v = (each[: pages.pages * a.page].view(-1, a.page, *each.shape[1:]) for each in (k, v))
            k, v = (each.transpose(1, 2) if is_hnd else each for each in (k, v))
            out, lse = functions.flash_attn_varlen_func(
                *(pages.q, k, v),
                max_seqlen_q=max(a.each_rows),
                cu_seqlens_q=pages.q_indptr,
                max_seqlen_k=max(a.lengths),
                seqused_k=pages.lengths,
                softmax_scale=a.head_dim**-0.5,
                causal=True,
                window_size=[a.window, 0 if a.window >= 0 else -1],
                softcap=a.softcap,
                block_table=pages.table,
                return_softmax_lse=True,
                out=pages.out,
                s_aux=pages.sinks,
                **{f"{name}_descale": torch.ones(1).expand(len(a.lengths), a.kv_heads) for name in "qkv"},
                fa_version=3,
            )
            return out, lse.t()
        case "flashinfer":
            cache = cache if isinstance(cache, torch.Tensor) or cache[0].dim() == 4 else None
            wrapper = functions.flashinfer_decode_wrapper(
                torch.empty(1, device=pages.q.device), "HND" if is_hnd else "NHD"
            )
            sizes = a.heads, a.kv_heads, a.head_dim, a.page
            wrapper.plan(pages.indptr, pages.indices, pages.last, *sizes, q_data_type=a.dtype)
            out, lse = wrapper.run(pages.q, cache, return_lse=True)
            return out, lse * math.log(2)
