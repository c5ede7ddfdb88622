"""PyTorch's linear layers on cuBLASLt: in BF16, and in 8 bits with one scale for x and one for W.

`cublaslt` is torch.nn.functional.linear. What of the workload has 8 bits is made BF16 beforehand, untimed:
what a program without 8-bit kernels does, which reads twice the bytes. `scaled_mm` is torch._scaled_mm: x is
rounded to 8 bits beforehand, untimed, and W is given new codes where its scales are of blocks.
"""

from collections.abc import Iterator
from typing import Any

from evoflash.gpu.baselines.contender import LibraryCall, torch
from evoflash.gpu.baselines.linear import (
    OFF_BY_8_BITS,
    OFF_BY_8_BITS_TWICE,
    linear_on,
    numbers_of_x,
)
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.linear.e4m3 import LARGEST
from evoflash.operations.linear.workload import BLOCK, LinearWorkload


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    library = torch()
    yield (
        _plain(library, linear_on(bench, adds_bias=True))
        if name == "cublaslt"
        else _scaled_product(library, linear_on(bench))
    )


def _plain(library: Any, workload: LinearWorkload) -> LibraryCall:
    def attend(x: Any, w: Any, *bias: Any) -> Any:
        return library.nn.functional.linear(x, w, *bias)

    def together(x: Any, w: Any, *others: Any) -> tuple[Any, ...]:
        """x and W in BF16, and the bias where there is one."""
        if workload.weights != "bf16":
            w = _numbers(w, others[0], workload).to(library.bfloat16)
        if workload.x != "bf16":
            x = numbers_of_x(x, others, workload).to(library.bfloat16)
        return (x, w, *(bias.reshape(-1) for bias in others[-1:] if workload.bias))

    made = "as given" if workload.weights == "bf16" else "made BF16, untimed"
    # W's numbers times their scales are rounded once more there.
    off = 0.0 if workload.weights == "bf16" else 5e-3
    return LibraryCall(attend, {"weights": made}, together=together, rel_l2=off)


def _scaled_product(library: Any, workload: LinearWorkload) -> LibraryCall:
    def attend(x: Any, w: Any, x_scale: Any, w_scale: Any) -> Any:
        return library._scaled_mm(
            x,
            w.t(),
            scale_a=x_scale,
            scale_b=w_scale,
            out_dtype=library.bfloat16,
            use_fast_accum=True,
        )

    def together(x: Any, w: Any, *scale: Any) -> tuple[Any, ...]:
        """x and W in 8 bits, each with one scale."""
        x_codes, x_scale = _in_8_bits(library, numbers_of_x(x, scale, workload))
        if workload.weights == "fp8t":
            return x_codes, w, x_scale, scale[0].reshape(1, 1)
        w_codes, w_scale = _in_8_bits(library, _numbers(w, scale[0], workload) if scale else w.float())
        return x_codes, w_codes, x_scale, w_scale

    environment = {"x": "8 bits, rounded untimed", "accumulation": "fast"}
    off = OFF_BY_8_BITS if workload.weights == "fp8t" else OFF_BY_8_BITS_TWICE
    return LibraryCall(attend, environment, together=together, rel_l2=off)


def _in_8_bits(library: Any, numbers: Any) -> tuple[Any, Any]:
    """Codes of e4m3, and the scale that multiplies them."""
    scale = (numbers.abs().max() / LARGEST).clamp(min=1e-30).reshape(1, 1)
    return (numbers / scale).to(library.float8_e4m3fn), scale


def _numbers(codes: Any, scale: Any, workload: LinearWorkload) -> Any:
    """W in fp32, of its codes and their scales."""
    numbers = codes.float()
    if workload.weights == "fp8t":
        return numbers * scale
    each = scale.repeat_interleave(BLOCK, dim=0)[: workload.n]
    return numbers * each.repeat_interleave(BLOCK, dim=1)[:, : workload.k]
