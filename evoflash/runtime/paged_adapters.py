"""A kernel of paged attention under the argument lists of engines: FlashInfer's decode, FlashAttention's.

An adapter makes views and passes numbers on: it copies no cache and reads no length on the host. What the
kernel does not compute it refuses, as the kernel does.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .launch import Refused

Paged = Callable[..., Any]  # a PagedAttention, or what is called as one
Cache = Any  # a tensor of both, or a pair: torch is not installed wherever types are checked


def flashinfer_run(attend: Paged) -> Callable[..., Any]:
    """`flashinfer_decode_run` of a kernel: BatchDecodeWithPagedKVCacheWrapper.run, told by keywords what
    plan() tells the wrapper.
    """

    def flashinfer_decode_run(
        q: Tensor,
        paged_kv_cache: Cache,
        *args: Any,
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        kv_layout: str = "NHD",
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        pos_encoding_mode: str = "NONE",
        max_seq_kv: int | None = None,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        out: Tensor | None = None,
        lse: Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: Tensor | None = None,
        q_len_per_req: int | None = 1,
        skip_softmax_threshold_scale_factor: float | None = None,
        kv_cache_sf: Any = None,
    ) -> Any:
        """The output (batch * q_len_per_req, heads, head_dim); with return_lse also the logarithms of the
        sums, of base 2.
        """
        absent = {"args": args or None, "kv_cache_sf": kv_cache_sf}
        _refuse_given(absent | {"skip_softmax_threshold_scale_factor": skip_softmax_threshold_scale_factor})
        if pos_encoding_mode != "NONE":
            raise Refused(
                f"pos_encoding_mode is {pos_encoding_mode!r}: rotate q and K before, and give 'NONE'."
            )
        k, v = (paged_kv_cache, None) if isinstance(paged_kv_cache, Tensor) else paged_kv_cache
        rows, batch = q_len_per_req or 1, last_page_len.shape[0]
        if q.shape[0] != batch * rows:
            raise Refused(f"q has {q.shape[0]} rows: {batch} sequences of {rows} rows have {batch * rows}.")
        scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
        for factor in (q_scale, k_scale):
            scale *= 1.0 if factor is None else _number(factor, "a scale")
        found = attend(
            *(q, k, v, indices),
            page_indptr=indptr,
            last_page_len=last_page_len,
            layout=kv_layout,
            out=out,
            lse=lse if return_lse else None,
            return_lse=return_lse,
            softmax_scale=scale,
            v_factor=1.0 if v_scale is None else _number(v_scale, "v_scale"),
            window_left=-1 if window_left is None else window_left,
            softcap=logits_soft_cap or 0.0,
            sinks=sinks,
            max_seq_q=rows,
            max_seq_kv=max_seq_kv,
            lse_base=2,
        )
        return found

    return flashinfer_decode_run


class FlashInferDecode:
    """BatchDecodeWithPagedKVCacheWrapper on a kernel: its constructor, plan() and run().

    plan() plans nothing: it remembers where lengths and pages are. With use_cuda_graph it copies them to the
    buffers that the constructor was given, which captured calls read.
    """

    def __init__(
        self,
        attend: Paged,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: Tensor | None = None,
        paged_kv_indices_buffer: Tensor | None = None,
        paged_kv_last_page_len_buffer: Tensor | None = None,
        backend: str = "auto",
        jit_args: Sequence[Any] | None = None,
    ) -> None:
        """The workspace, use_tensor_cores and backend play no part: the kernel has scratch of its own."""
        _refuse_given({"jit_args": jit_args})
        self._run, self._layout, self._device = (
            flashinfer_run(attend),
            kv_layout,
            float_workspace_buffer.device,
        )
        buffers = paged_kv_indptr_buffer, paged_kv_indices_buffer, paged_kv_last_page_len_buffer
        if use_cuda_graph and any(each is None for each in buffers):
            raise Refused(
                "use_cuda_graph: give the three buffers paged_kv_..._buffer, which captured calls read."
            )
        self._buffers = tuple(each for each in buffers if each is not None) if use_cuda_graph else ()
        self._planned: dict[str, Any] = {}

    @property
    def is_cuda_graph_enabled(self) -> bool:
        return bool(self._buffers)

    def plan(
        self,
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        pos_encoding_mode: str = "NONE",
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: Any = "float16",
        kv_data_type: Any = None,
        o_data_type: Any = None,
        data_type: Any = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        non_blocking: bool = True,
        block_tables: Tensor | None = None,
        seq_lens: Tensor | None = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
    ) -> None:
        """Numbers of pages and lengths may be on the host or on the device. What run() is given says heads,
        pages and dtypes; a fixed_split_size is the compiled kernel's own.
        """
        given = indptr, indices, last_page_len
        if self._buffers:
            at, pages, last = self._buffers
            if at.shape != indptr.shape or last.shape != last_page_len.shape or len(indices) > len(pages):
                raise Refused(
                    f"{len(last_page_len)} sequences of {len(indices)} pages: the buffers have room for "
                    f"{len(last)} sequences, no more and no fewer, and {len(pages)} pages."
                )
            for buffer, new in zip(self._buffers, given, strict=True):
                buffer[: len(new)].copy_(new, non_blocking=non_blocking)
            given = at, pages, last
        else:
            given = tuple(each.to(self._device, non_blocking=non_blocking) for each in given)
        self._planned = {
            **dict(zip(("indptr", "indices", "last_page_len"), given, strict=True)),
            "pos_encoding_mode": pos_encoding_mode,
            "window_left": window_left,
            "logits_soft_cap": logits_soft_cap,
            "sm_scale": sm_scale,
        }

    begin_forward = plan

    def run(
        self,
        q: Tensor,
        paged_kv_cache: Cache,
        *args: Any,
        window_left: int | None = None,
        **how: Any,
    ) -> Any:
        """As flashinfer_decode_run, of what was planned last."""
        if not self._planned:
            raise Refused("run() before plan(): plan first, as with FlashInfer.")
        window = self._planned["window_left"] if window_left is None else window_left
        given = {**self._planned, "window_left": window, "kv_layout": self._layout}
        return self._run(q, paged_kv_cache, *args, **given, **how)

    def run_return_lse(self, *args: Any, **how: Any) -> Any:
        return self.run(*args, **{**how, "return_lse": True})


def flashinfer_wrapper(attend: Paged) -> Callable[..., FlashInferDecode]:
    """FlashInferDecode of a kernel, with the arguments of FlashInfer's constructor."""
    return partial(FlashInferDecode, attend)


def flash_attn_varlen(attend: Paged) -> Callable[..., Any]:
    """`flash_attn_varlen_func` of a kernel, as vLLM calls it with a block_table."""
    contract = getattr(attend, "contract", None)

    def flash_attn_varlen_func(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        max_seqlen_q: int,
        cu_seqlens_q: Tensor,
        max_seqlen_k: int,
        cu_seqlens_k: Tensor | None = None,
        seqused_k: Tensor | None = None,
        q_v: Tensor | None = None,
        dropout_p: float = 0.0,
        softmax_scale: float | None = None,
        causal: bool = False,
        window_size: Sequence[int] | None = None,
        softcap: float = 0.0,
        alibi_slopes: Tensor | None = None,
        deterministic: bool = False,
        return_attn_probs: bool = False,
        block_table: Tensor | None = None,
        return_softmax_lse: bool = False,
        out: Tensor | None = None,
        scheduler_metadata: Tensor | None = None,
        q_descale: Tensor | None = None,
        k_descale: Tensor | None = None,
        v_descale: Tensor | None = None,
        num_splits: int = 0,
        fa_version: int = 3,
        s_aux: Tensor | None = None,
        cp_world_size: int = 1,
        cp_rank: int = 0,
        cp_tot_seqused_k: Tensor | None = None,
    ) -> Any:
        """The output (rows, heads, head_dim); with return_softmax_lse also the natural logarithms of the
        sums, float32 (heads, rows). K and V are (blocks, block_size, kv_heads, head_dim), with any strides.

        scheduler_metadata, num_splits and, of a cache in 16 bits, descales play no part, as in
        FlashAttention. A kernel that was not compiled for ragged rows takes calls with max_seqlen_q=1, of
        which every sequence has its row, places that fill up a batch too.
        """
        absent = {"q_v": q_v, "alibi_slopes": alibi_slopes, "cp_tot_seqused_k": cp_tot_seqused_k}
        _refuse_given(absent | {"cu_seqlens_k": cu_seqlens_k, "dropout_p": dropout_p or None})
        _refuse_given({"return_attn_probs": return_attn_probs or None})
        if block_table is None or seqused_k is None:
            raise Refused("give block_table and seqused_k: the kernel reads keys and values in pages.")
        if cp_world_size != 1:
            raise Refused(f"cp_world_size is {cp_world_size}: the kernel sees all keys of a sequence.")
        left, right = (-1, -1) if window_size is None else window_size
        if not (causal or right == 0 or max_seqlen_q == 1):
            raise Refused("causal is False: the kernel's queries see no keys behind their own.")
        if right > 0 and max_seqlen_q > 1 and not causal:
            raise Refused(f"window_size is {tuple(window_size or ())}: queries see no keys behind their own.")
        is_ragged = contract is None or contract.ragged
        if not is_ragged and (max_seqlen_q != 1 or q.shape[0] != seqused_k.shape[0]):
            raise Refused(
                f"{q.shape[0]} rows of q, up to {max_seqlen_q} each, of {seqused_k.shape[0]} sequences: "
                "the kernel was compiled for equal rows: search with `ragged` for such batches."
            )
        lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32) if return_softmax_lse else None
        found = attend(
            *(q, k, v, block_table, seqused_k),
            out=out,
            lse=None if lse is None else lse.t(),
            softmax_scale=softmax_scale,
            window_left=left,
            softcap=softcap,
            sinks=s_aux,
            q_indptr=cu_seqlens_q if is_ragged else None,
            max_seq_q=max_seqlen_q,
            max_seq_kv=max_seqlen_k,
        )
        return found if lse is None else (found[0], lse)

    return flash_attn_varlen_func


def _refuse_given(absent: dict[str, Any]) -> None:
    """Refused where one of these is there."""
    if given := [name for name, value in absent.items() if value is not None]:
        raise Refused(f"{', '.join(given)}: the kernel has no such thing: leave it away.")


def _number(given: Any, what: str) -> float:
    """A scale as a number of the host. Refused for a tensor, which would have to be waited for."""
    if isinstance(given, Tensor):
        raise Refused(f"{what} is a tensor: give a number, which the host knows.")
    return float(given)
