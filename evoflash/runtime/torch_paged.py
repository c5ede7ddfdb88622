"""A kernel of paged attention as a function of PyTorch tensors: checks, the output, the launch.

Only the standard library, torch and the runtime's own modules. Forward only. Nothing here waits for the GPU,
and no length is read on the host: one captured graph serves all lengths. An eager call goes straight to the
launch; torch.compile, tensor subclasses and functorch meet an operator.
"""

import hashlib
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .attention_paged import PagedAddresses
from .launch import Kernel, Refused
from .torch_memory import Workspaces, device_now, overlap, stream_of

_PAGED_TORCH = {"fp16": torch.float16, "bf16": torch.bfloat16}
_SINKS = {torch.float32: "fp32", torch.bfloat16: "bf16"}
_INTEGERS = (torch.int32, torch.uint32)  # of lengths, which have no sign
_MOST_LAUNCHES = 4096
_BOUND_BITS, _MOST_ROOM = 5, 1 << 30  # of a bound of keys
_PAGED_SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor page_table, Tensor? kv_lengths, Tensor? q_indptr, "
    "Tensor? page_indptr, Tensor? last_page_len, Tensor? sinks, Tensor(a!) out, Tensor(b!)? lse, "
    "float scale, float v_factor, float softcap, SymInt window_left, SymInt max_seq_q, SymInt max_seq_kv, "
    "int lse_base, SymInt kv_length_bias, bool early) -> ()"
)
_is_compiling_paged = torch.compiler.is_compiling
_paged_depth = torch._C._len_torch_dispatch_stack


class PagedTensors(NamedTuple):
    """The operator's tensors, in its order."""

    q: Tensor
    k: Tensor  # of pages (pages, page_size, kv_heads, head_dim), as v is
    v: Tensor
    page_table: Tensor
    kv_lengths: Tensor | None
    q_indptr: Tensor | None
    page_indptr: Tensor | None
    last_page_len: Tensor | None
    sinks: Tensor | None
    out: Tensor
    lse: Tensor | None

    @property
    def batch(self) -> int:
        """Sequences, of tensors that were checked."""
        lengths = self.last_page_len if self.kv_lengths is None else self.kv_lengths
        return 0 if lengths is None else int(lengths.shape[0])


_TABLE = PagedTensors._fields.index("page_table")


class PagedScalars(NamedTuple):
    """The operator's numbers, in its order; a bound of 0 is none."""

    scale: float
    v_factor: float
    softcap: float
    window_left: int
    max_seq_q: int
    max_seq_kv: int
    lse_base: int
    kv_length_bias: int
    early: bool


class PagedAttention:
    """One exported kernel. Call it with tensors; `serves` says what it computes."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.contract = kernel, kernel.contract
        self.dtype = _PAGED_TORCH[self.contract.dtype]
        digits = "".join(kernel.digests) + str(self.contract)
        self.name = f"evoflash_paged_{hashlib.sha256(digits.encode()).hexdigest()[:12]}"
        self._launches: dict[Hashable, Callable[..., None]] = {}
        self._workspaces = Workspaces()
        self._operator = self._registered_operator()

    def __repr__(self) -> str:
        return f"<evoflash paged attention {self.name}: {self.serves}>"

    @property
    def serves(self) -> str:
        """The tensors that it takes, in words."""
        c = self.contract
        features = [name for name in ("window", "softcap", "sink", "ragged") if getattr(c, name)]
        pages = "pages of any size" if c.page_unit == 1 else f"pages of a multiple of {c.page_unit} keys"
        rows = "one query row" if c.rows == 1 else f"1 to {c.rows} query rows"
        return ", ".join(
            (
                f"{str(self.dtype)[6:]}, head_dim {c.head_dim}",
                f"{c.gqa_ratio} query heads for each key/value head",
                f"{rows} a sequence",
                pages,
                *features,
            )
        )

    def __call__(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor | None,
        page_table: Tensor,
        kv_lengths: Tensor | None = None,
        *,
        out: Tensor | None = None,
        lse: Tensor | None = None,
        return_lse: bool = False,
        softmax_scale: float | None = None,
        window_left: int = -1,
        softcap: float = 0.0,
        sinks: Tensor | None = None,
        q_indptr: Tensor | None = None,
        page_indptr: Tensor | None = None,
        last_page_len: Tensor | None = None,
        max_seq_q: int | None = None,
        max_seq_kv: int | None = None,
        layout: str = "NHD",
        page_size: int = 1,
        kv_length_bias: int = 0,
        v_factor: float = 1.0,
        lse_base: int = 0,
        early: bool = False,
    ) -> Any:
        """Attention of the rows of q (total rows, heads, head_dim), or (batch, rows, heads, head_dim), on the
        keys and values of a paged cache, causal from the bottom right. Returns the output in q's shape;
        with `return_lse`, or where `lse` is given, also the logarithms of the sums, float32 in q's shape
        without its last dimension, natural or of `lse_base` 2.

        A cache is (pages, page_size, kv_heads, head_dim), or with layout="HND" (pages, kv_heads, page_size,
        head_dim), with any strides but the last, K's and V's each of their own; or one tensor of both, which
        has 2 in its second dimension, with v_cache None; or slots (slots, kv_heads, head_dim), of which
        `page_size` make a page. `page_table` (batch, pages) has int32 numbers of pages and `kv_lengths`
        (batch) the keys of each sequence, new ones included; or `page_table` has them end to end,
        `page_indptr` (batch + 1) says where each sequence's begin and `last_page_len` (batch) how full its
        last page is.
        An empty sequence gives zeros, and -inf for `lse`.

        Sequences have q's rows in equal shares, or as `q_indptr` (batch + 1) says, `max_seq_q` at most.
        `window_left`: keys before its own that a query sees, -1 all. `max_seq_kv` bounds lengths, by default
        what the table has room for; a captured graph serves all lengths up to it. `early`: the launch before
        this one on the stream writes neither lengths nor tables. Raises Refused, of one line, for what the
        kernel does not compute. Captured calls of one stream share a workspace: graphs that were captured on
        one stream must not run at the same time.
        """
        k, v = _as_pages(k_cache, v_cache, layout, page_size)
        result = q.new_empty(q.shape) if out is None else out
        if lse is None and return_lse:
            lse = q.new_empty(q.shape[:-1], dtype=torch.float32)
        lengths = kv_lengths, q_indptr, page_indptr, last_page_len
        tensors = PagedTensors(q, k, v, page_table, *lengths, sinks, result, lse)
        if why := self._why_not(tensors) or _index_trouble(tensors):
            raise Refused(why)
        if q.numel() > 0 and tensors.batch > 0:
            scale = self.contract.head_dim**-0.5 if softmax_scale is None else float(softmax_scale)
            bounds = max_seq_q or 0, max_seq_kv or 0
            more = window_left, *bounds, lse_base, kv_length_bias, bool(early)
            scalars = PagedScalars(scale, float(v_factor), float(softcap or 0.0), *more)
            if _is_compiling_paged() or _paged_depth():
                self._operator(*tensors, *scalars)
            else:
                if out is not None and any(overlap(out, each) for each in (q, k, v, lse)):
                    raise Refused("out overlaps an input in memory: give a tensor of its own.")
                self.compute(*tensors, *scalars)
        return result if lse is None else (result, lse)

    def _why_not(self, tensors: PagedTensors) -> str:
        """Why the kernel does not take these tensors; empty if it may."""
        q, k, v, sinks, out, lse = (getattr(tensors, name) for name in ("q", "k", "v", "sinks", "out", "lse"))
        d = self.contract.head_dim
        if q.dim() not in (3, 4) or k.shape != v.shape or k.dim() != 4:
            return (
                f"q {tuple(q.shape)}, K {tuple(k.shape)}, V {tuple(v.shape)}: give (rows, heads, head_dim) "
                "and pages (pages, page_size, kv_heads, head_dim)."
            )
        if q.shape[-1] != d or k.shape[-1] != d:
            return f"head_dim is {q.shape[-1]} of q, {k.shape[-1]} of K: the kernel was compiled for {d}."
        given = {"q": q, "K": k, "V": v, "out": out}
        if any(each.dtype != self.dtype for each in given.values()):
            told = ", ".join(f"{name} is {str(each.dtype)[6:]}" for name, each in given.items())
            return f"{told}: the kernel takes {str(self.dtype)[6:]}."
        if any(each.stride(-1) != 1 for each in given.values()):
            return "the last dimension of q, of the cache or of out is not contiguous: its stride must be 1."
        if out.shape != q.shape:
            return f"out is {tuple(out.shape)}: give {tuple(q.shape)}, as q is."
        if lse is not None and (lse.dtype != torch.float32 or lse.shape != q.shape[:-1]):
            return f"lse is {str(lse.dtype)[6:]} {tuple(lse.shape)}: give float32 {tuple(q.shape[:-1])}."
        if sinks is not None and (
            sinks.dtype not in _SINKS or sinks.shape != (q.shape[-2],) or not sinks.is_contiguous()
        ):
            return (
                f"sinks are {str(sinks.dtype)[6:]} {tuple(sinks.shape)}: give a contiguous tensor of "
                f"({q.shape[-2]}) in float32 or bfloat16."
            )
        everything = [*given.values(), *(each for each in (sinks, lse) if each is not None)]
        if torch.is_grad_enabled() and any(each.requires_grad for each in everything):
            return "the kernel is forward only: call it under torch.no_grad()."
        return _where_trouble(everything)

    def compute(self, *given: Any) -> None:
        """Write to `out` and `lse`, of PagedTensors and PagedScalars that __call__ has nothing against.
        Refused for a shape that the kernel was not compiled for.
        """
        count = len(PagedTensors._fields)
        tensors, numbers = PagedTensors(*given[:count]), PagedScalars(*given[count:])
        numbers = numbers._replace(max_seq_kv=_bound(tensors, numbers.max_seq_kv))
        shapes = [None if each is None else (each.shape, each.stride(), each.dtype) for each in tensors]
        shapes[_TABLE] = tensors.page_table.stride()  # its size is in the bound
        device = tensors.q.get_device()
        key = *shapes, numbers, device
        launch = self._launches.get(key)
        if launch is None:
            if len(self._launches) >= _MOST_LAUNCHES:
                self._launches.clear()
            launch = self._launches.setdefault(key, self._launch_of(tensors, numbers))
        addresses = [0 if each is None else each.data_ptr() for each in tensors]
        if device == device_now():
            launch(addresses)
            return
        with torch.cuda.device(device):
            launch(addresses)

    def _launch_of(self, tensors: PagedTensors, numbers: PagedScalars) -> Callable[[list[int]], None]:
        """What launches calls of these shapes and strides. Refused where none can be."""
        q, k, v, lse, batch = tensors.q, tensors.k, tensors.v, tensors.lse, tensors.batch
        pages, page_size, kv_heads, _ = k.shape
        is_ragged, is_csr = tensors.q_indptr is not None, tensors.page_indptr is not None
        total = q.shape[:-2].numel()
        if is_ragged and q.dim() == 4:
            raise Refused(
                "q has rows of its own for each sequence: with q_indptr give (rows, heads, head_dim)."
            )
        rows = numbers.max_seq_q or (self.contract.rows if is_ragged else -(-total // batch))
        # Of a ragged call further rows would be nobody's: an engine pads q.
        total = min(total, batch * rows) if is_ragged else total
        shape = (
            *(batch, q.shape[-2], kv_heads, rows, numbers.max_seq_kv, total, page_size),
            pages,
        )
        strides = [
            _row_strides(q, rows),
            *((each.stride(0), each.stride(2), each.stride(1)) for each in (k, v)),
            _row_strides(tensors.out, rows),
            (1, 1, 1) if lse is None else _row_strides(lse[..., None], rows),
            (0 if is_csr else tensors.page_table.stride(0),),
        ]
        device = q.get_device()
        plan = self.kernel.plan(
            *(shape, strides),
            device=device,
            scale=numbers.scale,
            v_factor=numbers.v_factor,
            softcap=numbers.softcap,
            window_left=numbers.window_left,
            sink_dtype="" if tensors.sinks is None else _SINKS[tensors.sinks.dtype],
            is_ragged=is_ragged,
            lse_base=numbers.lse_base,
            kv_length_bias=numbers.kv_length_bias,
            is_early=numbers.early,
        )

        def launch(addresses: list[int]) -> None:
            stream = stream_of(device)
            workspace = self._workspaces.address(self.kernel, plan, device, stream)
            plan.launch(PagedAddresses(*(*addresses, workspace)), stream)  # in PagedTensors' order

        return launch

    def _registered_operator(self) -> Any:
        """Of torch.ops, unless this process has it already: equal names are equal kernels."""
        namespace = getattr(torch.ops, self.name)
        if not hasattr(namespace, "_evoflash"):
            library = torch.library.Library(self.name, "FRAGMENT")
            namespace._evoflash = library  # lives as long as the process: what is compiled may call it
            tags = ("pt2_compliant_tag", "needs_exact_strides")
            known = tuple(getattr(torch.Tag, tag) for tag in tags if hasattr(torch.Tag, tag))
            library.define(f"paged_attention{_PAGED_SCHEMA}", tags=known)
            library.impl("paged_attention", self.compute, "CUDA")
            operator = f"{self.name}::paged_attention"
            torch.library.register_fake(operator, lambda *arguments: None, lib=library)
        return namespace.paged_attention.default


def _as_pages(k: Tensor, v: Tensor | None, layout: str, page_size: int) -> tuple[Tensor, Tensor]:
    """Views (pages, page_size, kv_heads, head_dim) of a cache, however it is given."""
    if v is None:
        if k.dim() != 5 or k.shape[1] != 2:
            raise Refused(f"a cache {tuple(k.shape)} without V: give one with 2 in its second dimension.")
        k, v = k[:, 0], k[:, 1]
    if layout not in ("NHD", "HND"):
        raise Refused(f"layout is {layout!r}: give 'NHD' or 'HND'.")
    if k.dim() == 3:
        return _slots_as_pages(k, page_size), _slots_as_pages(v, page_size)
    return (k, v) if layout == "NHD" else (k.transpose(1, 2), v.transpose(1, 2))


def _slots_as_pages(slots: Tensor, page_size: int) -> Tensor:
    """Whole pages of a pool of rows; rows behind the last whole page are nobody's."""
    if page_size < 1 or slots.dim() != 3:
        raise Refused(f"slots {tuple(slots.shape)}, page_size {page_size}: give (slots, kv_heads, head_dim).")
    whole = slots.shape[0] // page_size
    return slots[: whole * page_size].unflatten(0, (whole, page_size))


def _row_strides(tensor: Tensor, rows: int) -> tuple[int, int, int]:
    """Of a sequence, a row and a head, of (rows, heads, columns) or (batch, rows, heads, columns)."""
    if tensor.dim() == 4:
        return tensor.stride(0), tensor.stride(1), tensor.stride(2)
    return rows * tensor.stride(0), tensor.stride(0), tensor.stride(1)


def _bound(tensors: PagedTensors, asked: int) -> int:
    """The keys that grids and scratch are made for: what is asked, or all that the table has room for; some
    more, so that calls whose bounds differ by little share a plan.
    """
    table, page_size = tensors.page_table, tensors.k.shape[1]
    room = int(table.shape[-1] * page_size)
    if tensors.page_indptr is not None:  # all sequences' pages together
        return min(_MOST_ROOM, _rounded_up(min(asked or room, max(room, 1))))
    if asked > room:
        raise Refused(
            f"max_seq_kv is {asked}: the table has {table.shape[-1]} pages of {page_size} keys a sequence: "
            "give more, or fewer keys."
        )
    return min(_MOST_ROOM, room, _rounded_up(asked or room))


def _rounded_up(number: int) -> int:
    step = 1 << max(0, number.bit_length() - _BOUND_BITS)
    return -(-number // step) * step


def _index_trouble(tensors: PagedTensors) -> str:
    """Why lengths and tables are none; empty where they are."""
    names = "page_table", "kv_lengths", "last_page_len", "page_indptr", "q_indptr"
    q, given = tensors.q, {name: getattr(tensors, name) for name in names}
    table, lengths, last = given["page_table"], given["kv_lengths"], given["last_page_len"]
    is_csr = given["page_indptr"] is not None
    if table is None or (lengths is None and (last is None or not is_csr)):
        return "lengths are missing: give kv_lengths, or page_indptr with last_page_len."
    counts = lengths if lengths is not None else last
    assert counts is not None, "one of them is there"
    batch = counts.shape[0] if counts.dim() == 1 else -1
    wanted = {"kv_lengths": batch, "last_page_len": batch, "page_indptr": batch + 1, "q_indptr": batch + 1}
    for name, count in wanted.items():
        tensor = given[name]
        if tensor is not None and (batch < 0 or tensor.shape != (count,) or not tensor.is_contiguous()):
            what = f"{name} is {tuple(tensor.shape)}"
            return f"{what}: give a contiguous tensor of {count if batch >= 0 else 'a number a sequence'}."
    if table.dim() != (1 if is_csr else 2) or (table.numel() > 1 and table.stride(-1) != 1):
        what = "numbers of pages, end to end" if is_csr else "(batch, pages), each row contiguous"
        return f"page_table is {tuple(table.shape)}, strides {table.stride()}: give {what}."
    if not is_csr and (table.shape[0] != batch or table.shape[1] < 1):
        return f"page_table is {tuple(table.shape)}: give a row of pages for each of {batch} sequences."
    found = [each for each in given.values() if each is not None]
    if any(each.dtype not in _INTEGERS for each in found):
        told = ", ".join(f"{k} {str(v.dtype)[6:]}" for k, v in given.items() if v is not None)
        return f"lengths and tables are int32 numbers, not {told}."
    if q.dim() == 4 and q.shape[0] != batch:
        return f"q is {tuple(q.shape)} of {batch} sequences: give (batch, rows, heads, head_dim)."
    return _where_trouble([q, *found])


def _where_trouble(tensors: list[Tensor]) -> str:
    """Why tensors are not where a kernel reaches them; empty where they are."""
    if tensors[0].device.type == "cuda" and all(each.device == tensors[0].device for each in tensors):
        return ""
    places = ", ".join(sorted({str(each.device) for each in tensors}))
    return f"the tensors are on {places}: move them to one GPU."
