"""What the host part of an exported attention kernel is made of; the text itself is a template."""

from collections.abc import Iterable
from typing import Any

from evoflash.evaluation import TensorMap
from evoflash.paths import TEMPLATES

LAUNCHER = TEMPLATES / "lib" / "launcher.cu.j2"


def launcher_names(maps: Iterable[TensorMap]) -> dict[str, Any]:
    """The tensor maps in the launcher's words."""
    return {"maps": [_map(given) for given in maps]}


def _map(given: TensorMap) -> dict[str, str]:
    of_keys = given.of in "KV"
    _, heads, rows, columns = given.box
    swizzle = f"{given.swizzle}B" if given.swizzle else "NONE"
    promotion = f"L2_{given.l2_promotion}B" if given.l2_promotion else "NONE"
    return {
        "tensor": given.of.lower(),
        "heads": "kv_heads" if of_keys else "heads",
        "rows": "seq_kv" if of_keys else "seq_q",
        "box": f"{heads}, {rows}, {columns}",
        "swizzle": f"CU_TENSOR_MAP_SWIZZLE_{swizzle}",
        "promotion": f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}",
        "heads_inside": str(given.heads_inside).lower(),
    }
