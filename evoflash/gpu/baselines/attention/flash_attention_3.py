"""FlashAttention-3, the flash-attention repository's Hopper kernels, as shipped.

They come from a build of its own, or else from xFormers' wheels of version 0.0.33 and 0.0.34 or from vLLM's,
which bring the compiled library. Its split and packing heuristics are left at their defaults. Its causal mask
is bottom-right aligned.
"""

from collections.abc import Callable, Iterator
from typing import Any

from evoflash.gpu.baselines.attention import attention_on, rows_first, rows_first_dense
from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    LibraryCall,
    import_library,
    version,
)
from evoflash.gpu.baselines.flash_attention_3 import operators_in_vllm, operators_in_xformers
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.attention.forms import dense

_INSTALL = 'pip install "xformers==0.0.34", which brings it'
# A build of the repository puts the interface on top; some wheels keep it inside the package.
_MODULES = ("flash_attn_interface", "flash_attn_3.flash_attn_interface")

Call = Callable[[Any, Any, Any, float, bool], Any]  # q, k, v, scale, causal -> output, or output first


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """(B, S, H, D) by strides, or else copied; grouped heads natively."""
    del name
    w = attention_on(bench)
    call, known = _library()
    scale, causal = dense.scale(w), w.causal

    def attend(q: Any, k: Any, v: Any) -> Any:
        found = call(q, k, v, scale, causal)
        return found[0] if isinstance(found, tuple | list) else found  # some return the LSE, too

    for arrange in (rows_first, rows_first_dense):
        yield LibraryCall(attend, {"flash-attn-3": known}, arrange, rows_first)


def _library() -> tuple[Call, str]:
    """How it is called, and its version for the record. BaselineAbsentError where there is none."""
    for module in _MODULES:
        try:
            library = import_library(module, _INSTALL)
        except BaselineAbsentError as missing:
            absent = missing
            continue
        known = version("flash-attn-3") or getattr(library, "__version__", "")
        return _of_interface(library), known or "unknown"
    if operators := operators_in_xformers():
        return _of_xformers(operators), f"in xFormers {version('xformers') or 'of an unknown version'}"
    if operators := operators_in_vllm():
        return _of_vllm(operators), f"in vLLM {version('vllm') or 'of an unknown version'}"
    raise absent


def _of_interface(library: Any) -> Call:
    return lambda q, k, v, scale, causal: library.flash_attn_func(q, k, v, softmax_scale=scale, causal=causal)


def _of_xformers(operators: Any) -> Call:
    """Its operator, which chooses the number of splits itself as the interface's would for num_splits=0."""
    return lambda q, k, v, scale, causal: operators.fwd(q, k, v, softmax_scale=scale, is_causal=causal)


def _of_vllm(operators: Any) -> Call:
    """The same operator with the arguments of vLLM's branch, which have no defaults."""
    before = (None,) * 20  # no new keys, no output, no lengths, pages, padding, positions or 8-bit scales
    return lambda q, k, v, scale, causal: operators.fwd(
        q, k, v, *before, scale, causal, -1, -1, 0.0, True, None, 0, None, 0, None, 1, 0, None
    )
