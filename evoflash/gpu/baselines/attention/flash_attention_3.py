"""FlashAttention-3, the flash-attention repository's Hopper kernels, as shipped.

They come from a build of its own, or else from xFormers' wheels of version 0.0.33 and 0.0.34, which bring the
compiled library. Its split and packing heuristics are left at their defaults. Its causal mask is bottom-right
aligned.
"""

import importlib.util
from collections.abc import Callable, Iterator
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
    file = _in_xformers()
    if file is None:
        raise absent
    return _of_operator(file), f"in xFormers {version('xformers') or 'of an unknown version'}"


def _of_interface(library: Any) -> Call:
    return lambda q, k, v, scale, causal: library.flash_attn_func(q, k, v, softmax_scale=scale, causal=causal)


def _in_xformers() -> Path | None:
    """The compiled library in an installed xFormers, which is not imported: that would import all it has."""
    package = importlib.util.find_spec("xformers")
    places = (package and package.submodule_search_locations) or ()
    files = (Path(place) / "flash_attn_3" / "_C.so" for place in places)
    return next((file for file in files if file.exists()), None)


def _of_operator(file: Path) -> Call:
    """Its operator, which chooses the number of splits itself as the interface's would for num_splits=0."""
    operators = torch().ops
    try:
        operators.load_library(str(file))
    except OSError as error:  # it was built for a CUDA runtime, which has to be there
        raise BaselineAbsentError(f"FlashAttention-3 in xFormers: {reason_of(error)}") from None
    forward = operators.flash_attn_3.fwd
    return lambda q, k, v, scale, causal: forward(q, k, v, softmax_scale=scale, is_causal=causal)
