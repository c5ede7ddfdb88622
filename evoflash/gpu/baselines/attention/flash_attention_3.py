"""FlashAttention-3, the flash-attention repository's Hopper kernels, as shipped.

They come from a build of its own, or else from xFormers' wheels of version 0.0.33 and 0.0.34 or from vLLM's,
which bring the compiled library; these two are not imported, which would import all that they have. Its split
and packing heuristics are left at their defaults. Its causal mask is bottom-right aligned.
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.gpu.baselines.attention import attention_on, rows_first, rows_first_dense
from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    LibraryCall,
    import_library,
    reason_of,
    torch,
    version,
)
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.attention.forms import dense

VLLM_INSTALL = 'pip install "vllm==0.26.0"'
_IN_VLLM = "vllm_flash_attn/_vllm_fa3_C.abi3.so"
_IN_XFORMERS = "flash_attn_3/_C.so"


def operators_in_vllm() -> Any | None:
    """vLLM's operators, or None without it. BaselineAbsentError where they cannot be loaded."""
    return _operators("vllm", _IN_VLLM, "_vllm_fa3_C")


def operators_in_xformers() -> Any | None:
    """xFormers' operators, as operators_in_vllm."""
    return _operators("xformers", _IN_XFORMERS, "flash_attn_3")


def _operators(package: str, file: str, name: str) -> Any | None:
    found = importlib.util.find_spec(package)
    places = (found and found.submodule_search_locations) or ()
    path = next((each for each in (Path(place) / file for place in places) if each.exists()), None)
    if path is None:
        return None
    try:
        torch().ops.load_library(str(path))
    except OSError as error:  # it was built for another PyTorch, or for a CUDA runtime that has to be there
        raise BaselineAbsentError(f"FlashAttention-3 in {package}: {reason_of(error)}") from None
    return getattr(torch().ops, name)


_INSTALL = 'pip install "xformers==0.0.34", which brings it'
# A build of the repository puts the interface on top; some wheels keep it inside the package.
_MODULES = ("flash_attn_interface", "flash_attn_3.flash_attn_interface")

_LAYOUTS = (rows_first, rows_first_dense)
_UNKNOWN = "of an unknown version"

Arrange = Callable[[Any], Any]
Call = Callable[[Any, Any, Any, float, bool], Any]  # q, k, v, scale, causal -> output, or output first


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """(B, S, H, D) by strides, or else copied; grouped heads natively."""
    del name
    w = attention_on(bench)
    call, known, layouts = _library()
    scale, causal = dense.scale(w), w.causal

    def attend(q: Any, k: Any, v: Any) -> Any:
        found = call(q, k, v, scale, causal)
        return found[0] if isinstance(found, tuple | list) else found  # some return the LSE, too

    for arrange in layouts:
        yield LibraryCall(attend, {"flash-attn-3": known}, arrange, rows_first)


def _library() -> tuple[Call, str, Sequence[Arrange]]:
    """How it is called, its version for the record, and layouts to try. BaselineAbsentError without it."""
    for module in _MODULES:
        try:
            library = import_library(module, _INSTALL)
        except BaselineAbsentError as missing:
            absent = missing
            continue
        known = version("flash-attn-3") or getattr(library, "__version__", "")
        return _of_interface(library), known or "unknown", _LAYOUTS
    if operators := operators_in_xformers():
        return _of_xformers(operators), f"in xFormers {version('xformers') or _UNKNOWN}", _LAYOUTS
    if operators := operators_in_vllm():
        return _of_vllm(operators), f"in vLLM {version('vllm') or _UNKNOWN}", (rows_first_dense,)
    raise absent


def _of_interface(library: Any) -> Call:
    return lambda q, k, v, scale, causal: library.flash_attn_func(q, k, v, softmax_scale=scale, causal=causal)


def _of_xformers(operators: Any) -> Call:
    """Its operator, which chooses the number of splits itself as the interface's would for num_splits=0."""
    return lambda q, k, v, scale, causal: operators.fwd(q, k, v, softmax_scale=scale, is_causal=causal)


def _of_vllm(operators: Any) -> Call:
    """The same operator with the arguments of vLLM's branch, which have no defaults. Its build knows tokens
    of all sequences in a row alone; where each begins is noted once for a shape.
    """

    @cache
    def begins(batch: int, length: int, device: Any) -> Any:
        return torch().arange(0, (batch + 1) * length, length, dtype=torch().int32, device=device)

    def attend(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
        (batch, rows), keys = q.shape[:2], k.shape[1]
        given = (x.flatten(0, 1) for x in (q, k, v))
        found = operators.fwd(
            *given, None, None, None, None,  # no new keys, no output
            begins(batch, rows, q.device), begins(batch, keys, q.device), None, None, None, rows, keys,
            *(None,) * 9,  # no pages, padding, positions or 8-bit scales
            scale, causal, -1, -1, 0.0, True, None, 0, None, 0, None, 1, 0, None,
        )  # fmt: skip
        return found[0].unflatten(0, (batch, rows))

    return attend
