"""FlashAttention-3's compiled libraries, as other projects' wheels bring them. Calls none of their operators.

The projects are not imported: that would import all that they have.
"""

import importlib.util
from pathlib import Path
from typing import Any

from evoflash.gpu.baselines.contender import BaselineAbsentError, reason_of, torch

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
