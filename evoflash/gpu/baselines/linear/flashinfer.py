"""FlashInfer's block-scaled linear layer on Hopper, which vLLM calls by default for fewer than 32 rows.

`flashinfer_block` hands in x in BF16, as vLLM does: the call rounds it to 8 bits by itself, which is timed.
`flashinfer_block_fp8x` hands in codes and scales: the workload's own, or such as were made beforehand,
untimed. FlashInfer compiles its kernels on their first use: minutes with few cores, then kept in its own
cache.
"""

from collections.abc import Iterator
from typing import Any

from evoflash.extras import install
from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    LibraryCall,
    import_library,
    torch,
    version,
)
from evoflash.gpu.baselines.linear import OFF_BY_8_BITS, linear_on
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.linear.e4m3 import LARGEST
from evoflash.operations.linear.workload import BLOCK, X_SCALE_STEP

_INSTALL = install("flashinfer")


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    library, tensors, workload = import_library("flashinfer.gemm", _INSTALL), torch(), linear_on(bench)
    if workload.weights != "fp8b128":
        raise BaselineAbsentError("it takes e4m3 weights with 128 x 128 scales: use dtype=fp8b128")
    if name == "flashinfer_block" and workload.x != "bf16":
        raise BaselineAbsentError("it takes x in BF16: flashinfer_block_fp8x takes codes")
    function = library.fp8_blockscale_gemm_sm90

    def with_bf16(x: Any, w: Any, scale: Any) -> Any:
        return function(x, w, weight_scale=scale)

    def with_codes(x: Any, x_scale: Any, w: Any, scale: Any) -> Any:
        return function(x, w, input_scale=x_scale, weight_scale=scale)

    def in_8_bits(x: Any, w: Any, scale: Any, *x_scale: Any) -> tuple[Any, ...]:
        """x's codes, and a scale for each row and 128 columns in the order in which the kernels read them,
        whatever the tensor's shape says: those of a block side by side, a multiple of 16 bytes of them.
        """
        if x_scale:  # NaN behind the last row is no concern of theirs
            return x, x_scale[0], w, scale
        blocks = x.float().unflatten(1, (-1, BLOCK))
        made = (blocks.abs().amax(dim=2) / LARGEST).clamp(min=1e-30)
        codes = (blocks / made.unsqueeze(2)).flatten(1).to(tensors.float8_e4m3fn)
        rows = -(-workload.m // X_SCALE_STEP) * X_SCALE_STEP
        placed = made.new_zeros(made.shape[1], rows)
        placed[:, : workload.m] = made.t()
        return codes, placed, w, scale

    environment = {"flashinfer-python": version("flashinfer-python") or "unknown"}
    if name == "flashinfer_block":
        yield LibraryCall(with_bf16, {**environment, "x": "BF16"}, rel_l2=OFF_BY_8_BITS)
        return
    made = {**environment, "x": "8 bits, rounded untimed" if workload.x == "bf16" else "8 bits, as given"}
    yield LibraryCall(with_codes, made, together=in_8_bits, rel_l2=OFF_BY_8_BITS)
