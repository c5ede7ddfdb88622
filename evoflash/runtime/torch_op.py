"""An exported kernel as a function of PyTorch tensors: checks, the output, the launch.

Only the standard library, torch and the runtime's own modules. Forward only. Nothing here waits for the GPU.

An eager call as one before it goes to the launch without PyTorch's dispatcher, which would cost more than
all the rest; everything else (torch.compile, tensor subclasses, functorch, autocast) goes through the
operators of torch_operators.py.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from .launch import Kernel, Refused
from .torch_call import Call, Recent, guard_of, is_plain
from .torch_fallback import by_sdpa, into, why_nonsense
from .torch_operators import operators
from .zeros import MOST_ZEROS

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
_MOST_CALLS = 4096  # a decode adds a length with every token; then all are forgotten and made again
_MOST_RECENT = 6  # calls that are looked through before the plans

_is_compiling = torch.compiler.is_compiling
_is_grad_on = torch.is_grad_enabled
_modes = torch._C._len_torch_dispatch_stack
_like, _empty = torch.empty_like, torch.empty
# A build of PyTorch without CUDA has none of these: no tensor there is on a GPU either.
_current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
_is_capturing: Callable[[], bool] = getattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False)


class Attention:
    """One exported kernel. Call it with tensors; `serves` says what it computes."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, contract = kernel, kernel.description["contract"]
        self.head_dim = int(contract["head_dim"])
        self.group = int(contract["gqa_ratio"])  # query heads for each key/value head
        name = f"evoflash_{_identity(kernel.description)}"
        self.begin(name, contract["dtype"], causal=bool(contract["causal"]))

    def begin(self, name: str, dtype: str, *, causal: bool) -> None:
        """What an attention needs, of whichever kernels it is made."""
        self.name, self.dtype, self.causal = name, DTYPES[dtype], causal
        self._plans: dict[Hashable, Call] = {}
        self._zeroed: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()
        # Replaced, never changed, so that threads may read them; the second those within the operators.
        self._recent: tuple[Recent, ...] = ()
        self._recent_inside: tuple[Recent, ...] = ()
        self._operators = operators(self)

    def __repr__(self) -> str:
        return f"<evoflash attention {self.name}: {self.serves}>"

    @property
    def serves(self) -> str:
        """The tensors that it takes, in words."""
        mask = "causal" if self.causal else "no mask"
        group = "one query head" if self.group == 1 else f"{self.group} query heads"
        return f"{str(self.dtype)[6:]}, head_dim {self.head_dim}, {group} for each key/value head, {mask}"

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        causal: bool | None = None,
        scale: float | None = None,
        layout: str = "bhsd",
        return_lse: bool = False,
        out: Tensor | None = None,
        fallback: bool = False,
    ) -> Any:
        """softmax(q k^T * scale) v of q (batch, heads, seq_q, head_dim), k and v (batch, kv_heads, seq_kv,
        head_dim), or with layout="bshd" of (batch, seq, heads, head_dim). Views are read as they lie; only
        their last dimension has to be contiguous.

        `causal` None is the kernel's own mask; a causal one is aligned at the bottom right. `scale` None is
        1/sqrt(head_dim). Returns the output in q's shape and memory order; with return_lse also the logarithm
        of the sum of exponentials, float32 (batch, heads, seq_q). `out` is written to and returned. Raises
        Refused, of one line, for what the kernel does not compute; with fallback=True PyTorch's
        scaled_dot_product_attention computes that.
        """
        if not _is_compiling() and not _modes():
            asked = causal, scale, layout, out is None
            known: Recent | None
            for known in self._recent:
                if known.asked == asked and (
                    known.guard(q, k, v) if out is None else known.guard(q, k, v, out)
                ):
                    break
            else:
                known = self._prepare(q, k, v, out, asked)
            if known is not None and known.call.device == _current_device():
                result = known.new_out() if out is None else out
                lse = known.call.new_lse() if return_lse else None
                try:
                    known.call.enqueue(q, k, v, result, lse, is_given=out is not None)
                except Refused:
                    if not fallback:
                        raise
                else:
                    return (result, lse) if return_lse else result
        how = {"causal": causal, "scale": scale, "layout": layout, "return_lse": return_lse}
        return self._call_checked(q, k, v, out, fallback, **how)

    # ---- plans

    def _prepare(
        self, q: Any, k: Any, v: Any, out: Any, asked: tuple[bool | None, float | None, str, bool]
    ) -> Recent | None:
        """Such a call, remembered; None where the slower path has to say what is wrong."""
        causal, scale, layout, _ = asked
        given = (q, k, v) if out is None else (q, k, v, out)
        if why_nonsense(q, k, v, out, layout) or not is_plain(*given):
            return None
        given_out = _like(q) if out is None else out
        q, k, v, result = _as_bhsd(layout, q, k, v, given_out)
        if self.why_not(q, k, v, causal):
            return None
        try:
            call = self.call_of(q, k, v, result, scale)
        except Refused:
            return None
        made = Recent(asked, guard_of(*given), call, given_out)
        self._recent = (made, *self._recent[: _MOST_RECENT - 1])
        return made

    def call_of(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scale: float | None) -> Call:
        """The plan for tensors in the order (batch, heads, seq, head_dim). Refused where there is none."""
        device = q.get_device()
        key = (q.shape, k.shape, q.stride(), k.stride(), v.stride(), out.stride(), scale, device)
        call = self._plans.get(key)
        if call is not None:
            return call
        (batch, heads, seq_q, _), (_, kv_heads, seq_kv, _) = q.shape, k.shape
        if inner := [name for name, t in zip("qkv", (q, k, v), strict=True) if t.stride(3) != 1]:
            raise Refused(
                f"the last dimension of {', '.join(inner)} is not contiguous: its stride must be 1."
            )
        if out.stride(3) != 1:
            raise Refused("the last dimension of the output is not contiguous: its stride must be 1.")
        strides = tuple(t.stride()[:3] for t in (q, k, v, out))
        plan = self.kernel.plan((batch, heads, kv_heads, seq_q, seq_kv), strides, device=device, scale=scale)
        if len(self._plans) >= _MOST_CALLS:
            self._plans.clear()
        return self._plans.setdefault(key, Call(plan, self, (q, k, v, out)))

    def why_not(self, q: Tensor, k: Tensor, v: Tensor, causal: bool | None) -> str:
        """Why the kernel does not compute a call whose shapes fit together; empty if it may."""
        if _is_grad_on() and (q.requires_grad or k.requires_grad or v.requires_grad):
            return "the kernel is forward only: call it under torch.no_grad(), or with fallback=True."
        if q.device.type != "cuda":
            return f"the tensors are on {q.device}, the kernel runs on a GPU: move them there."
        if any(t.dtype != self.dtype for t in (q, k, v)):
            given = ", ".join(sorted({str(t.dtype)[6:] for t in (q, k, v)}))
            return f"the tensors are {given}, the kernel computes {str(self.dtype)[6:]}: convert them."
        # The one query of a decode sees every key under either mask.
        if causal is not None and causal != self.causal and q.shape[2] != 1:
            return f"causal={causal}, the kernel was compiled for causal={self.causal}."
        return self.why_not_for(q, k)

    def why_not_for(self, q: Tensor, k: Tensor) -> str:
        """As why_not(), of the sizes that the kernel was compiled for."""
        if q.shape[3] != self.head_dim:
            return f"head_dim is {q.shape[3]}, the kernel was compiled for {self.head_dim}."
        if q.shape[1] != k.shape[1] * self.group:
            return (
                f"{q.shape[1]} query heads on {k.shape[1]} key/value heads: the kernel was compiled for "
                f"{self.group} query heads on each."
            )
        return ""

    def zeroed_workspace(self, call: Call, stream: int) -> tuple[int, Tensor | None]:
        """A workspace whose first numbers are zero, and what must live until the launch.

        Calls of one stream share it, since each leaves it so; a captured one has its own, for a graph may run
        beside them.
        """
        if call.workspace_bytes > MOST_ZEROS:
            room = _empty(call.workspace_bytes, dtype=torch.uint8, device=call.device)
            room[: call.zeroed_bytes].zero_()
            return room.data_ptr(), room
        if _is_capturing():
            return self.kernel.zeros(call.workspace_bytes, device=call.device), None
        known = self._zeroed.get((call.device, stream))
        if known is None:
            with self._lock:
                new = self.kernel.zeros(MOST_ZEROS, device=call.device)
                known = self._zeroed.setdefault((call.device, stream), new)
        return known, None

    # ---- within the operators

    def compute(self, tensors: tuple[Tensor, ...], lse: Tensor | None, scale: float) -> None:
        """Write to the last of (q, k, v, out), in the order (batch, heads, seq, head_dim), and to lse.

        Refused for what the kernel does not compute.
        """
        q, k, v, out = tensors
        for known in self._recent_inside:
            if known.asked == scale and known.guard(q, k, v, out):
                call = known.call
                break
        else:
            if why := self.why_not(q, k, v, None):
                raise Refused(why)
            call = self.call_of(q, k, v, out, scale)
            if is_plain(*tensors):
                self._recent_inside = (
                    Recent(scale, guard_of(*tensors), call, out),
                    *self._recent_inside[: _MOST_RECENT - 1],
                )
        if call.device == _current_device():
            call.enqueue(q, k, v, out, lse, is_given=True)
            return
        with torch.cuda.device(call.device):
            call.enqueue(q, k, v, out, lse, is_given=True)

    # ---- everything but plain tensors

    def _call_checked(
        self, q: Tensor, k: Tensor, v: Tensor, out: Tensor | None, fallback: bool, **how: Any
    ) -> Any:
        """As __call__, through PyTorch's dispatcher."""
        if why := why_nonsense(q, k, v, out, how["layout"]):
            raise Refused(why)
        is_bshd, return_lse = how["layout"] == "bshd", how["return_lse"]
        q, k, v, *given = _as_bhsd(how["layout"], q, k, v, *([] if out is None else [out]))
        to = given[0] if given else None
        q, k, v, why = self._cast(q, k, v)
        why = why or self.why_not(q, k, v, how["causal"])
        if not why:
            result, lse = self._by_operator(q, k, v, to, fallback, scale=how["scale"], return_lse=return_lse)
        elif fallback:
            mask = self.causal if how["causal"] is None else how["causal"]
            found = by_sdpa(q, k, v, causal=mask, scale=how["scale"], return_lse=return_lse)
            result, lse = into(to, found)
        else:
            raise Refused(why)
        if is_bshd:
            result = result.transpose(1, 2)
        result = result if out is None else out
        return (result, lse) if return_lse else result

    def _cast(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, str]:
        """The tensors as autocast wants them, as it does with PyTorch's own attention; and why not, if so."""
        if q.device.type != "cuda" or not torch.is_autocast_enabled("cuda"):
            return q, k, v, ""
        wanted = torch.get_autocast_dtype("cuda")
        if wanted != self.dtype:
            return q, k, v, f"autocast asks for {str(wanted)[6:]}, the kernel computes {str(self.dtype)[6:]}."
        q, k, v = (tensor.to(wanted) for tensor in (q, k, v))
        return q, k, v, ""

    def _by_operator(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor | None,
        fallback: bool,
        *,
        scale: float | None,
        return_lse: bool,
    ) -> tuple[Tensor, Tensor | None]:
        by = q.shape[3] ** -0.5 if scale is None else float(scale)
        if out is not None:
            lse = q.new_empty(q.shape[:3], dtype=torch.float32) if return_lse else None
            self._operators.out(q, k, v, out, lse, by, fallback)
            return out, lse
        if return_lse:
            result, lse = self._operators.lse(q, k, v, by, fallback)
            return result, lse
        return self._operators.plain(q, k, v, by, fallback), None


def _identity(description: Mapping[str, Any]) -> str:
    """A few digits that tell kernels apart, whatever their files are called."""
    images = {
        arch: {name: value for name, value in image.items() if name != "file"}
        for arch, image in description["images"].items()
    }
    text = json.dumps([description["contract"], images], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _as_bhsd(layout: str, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Views in the order (batch, heads, seq, head_dim)."""
    return tensors if layout == "bhsd" else tuple(tensor.transpose(1, 2) for tensor in tensors)
