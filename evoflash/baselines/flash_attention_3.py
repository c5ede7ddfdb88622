"""FlashAttention-3 (`flash_attn_interface`), the flash-attention repository's Hopper kernels, as shipped.

Its split and packing heuristics are left at their defaults. Its causal mask is bottom-right aligned.
"""

from collections.abc import Iterator
from typing import Any

from evoflash.attention import abi
from evoflash.baselines.contender import (
    Attention,
    BaselineAbsentError,
    attention_on,
    imported,
    rows_first,
    rows_first_copied,
    version,
)
from evoflash.timing.benchmark import Bench

_INSTALL = "pip install flash-attn-3 from download.pytorch.org/whl, or build flash-attention/hopper"
# A build of the repository puts the interface on top; some wheels keep it inside the package.
_MODULES = ("flash_attn_interface", "flash_attn_3.flash_attn_interface")


def attentions(name: str, bench: Bench) -> Iterator[Attention]:
    """(B, S, H, D) by strides, or else copied; grouped heads natively."""
    del name
    w, library = attention_on(bench), _interface()
    scale, causal = abi.scale(w), w.causal

    def attend(q: Any, k: Any, v: Any) -> Any:
        found = library.flash_attn_func(q, k, v, softmax_scale=scale, causal=causal)
        return found[0] if isinstance(found, tuple) else found  # older ones return the LSE, too

    known = version("flash-attn-3") or getattr(library, "__version__", "")
    for arrange in (rows_first, rows_first_copied):
        yield Attention(attend, {"flash-attn-3": known or "unknown"}, arrange, rows_first)


def _interface() -> Any:
    for module in _MODULES[:-1]:
        try:
            return imported(module, _INSTALL)
        except BaselineAbsentError:
            continue
    return imported(_MODULES[-1], _INSTALL)
