"""What exported files say of the linear layer: how they are called, and FlashInfer's Solution of it."""

from collections.abc import Mapping
from typing import Any

from evoflash.errors import UsageError
from evoflash.operation import PythonDoor, SolutionForm
from evoflash.operations.linear.workload import BLOCK, ROW_CLASSES, LinearWorkload

_USE = """# Put this file beside your program. It needs Python 3.10, PyTorch 2.11 and an NVIDIA driver
# of CUDA 12, or later ones.
#
#     from {module} import linear
#     y = linear(x, w)                     # x (..., k) and w (n, k), as torch.nn.functional.linear
#     y = linear(x, w, w_scale)            # w in float8_e4m3fn, what multiplies it in float32
#     linear(x, w, w_scale, bias=bias, residual=residual, out=out)
#
# Of a kernel that starts early w and w_scale must not be written by the kernel before it on the stream.
"""
_HUB_USE = """```python
from pathlib import Path
from kernels import get_local_kernel

kernel = get_local_kernel(Path("this/folder"))
y = kernel.linear(x, w)            # x (..., k) and w (n, k), as torch.nn.functional.linear
y = kernel.linear(x, w, w_scale)   # w in float8_e4m3fn, what multiplies it in float32
```

What it does not compute (more rows, another dtype or GPU, gradients) it refuses with a `Refused` of one line.
"""
# Of a package with several kernels.
_PACKAGE = '''\
"""A linear layer for PyTorch: {kernels} for {gpu}, chosen by evoflash for {shapes}.

{chosen_by}

    from {name} import linear
    y = linear(x, w)              # x (..., k) and w (n, k), as torch.nn.functional.linear
    y = linear(x, w, w_scale)     # w in float8_e4m3fn, what multiplies it in float32

What no kernel was chosen for PyTorch computes, of a w in 8 bits slowly; fallback=False refuses it.
portfolio.json has the kernels, their times and the rule by which the dispatcher goes.
"""

from pathlib import Path

from .launch import Refused
from .linear_portfolio import LinearPortfolio

__all__ = ["LinearPortfolio", "Refused", "linear"]

linear = LinearPortfolio.read(Path(__file__).parent)
'''
DOORS: Mapping[str, PythonDoor] = {
    "torch": PythonDoor(
        "A linear layer for PyTorch",
        ("torch_memory", "torch_linear"),
        ("torch_linear", "Linear"),
        _USE,
        {},
        _HUB_USE,
        "linear(x, w, w_scale=None, *, bias=None, residual=None, out=None)",
    ),
    "portfolio": PythonDoor(
        "A linear layer for PyTorch",
        ("torch_memory", "torch_linear", "dispatch", "packaged", "linear_portfolio"),
        ("linear_portfolio", "LinearPortfolio"),
        _PACKAGE,
    ),
}
NO_DOOR: Mapping[str, str] = {
    "cupy": "CuPy has no bfloat16 and e4m3 arrays: use --kind torch, or --kind cubin, which takes addresses"
}


def computes(contract: Mapping[str, Any]) -> str:
    added = "".join(f", plus a {name}" for name in ("bias", "residual") if contract[name])
    return f"y = x W^T{added}, x and y in bf16, W in {contract['dtype']}, up to {contract['most_rows']} rows"


# ---- a Solution of FlashInfer

_FEWEST_ELSEWHERE = 32  # rows of x from which FlashInfer has its own kernel for large batches
_RUN = '''

def run(input, weight, input_scale=None, weight_scale=None):
    """FlashInfer's call. What no kernel here was compiled for goes to FlashInfer's own: more rows, x in 8
    bits, a scale for each row of W.
    """
    if input_scale is None and weight_scale is not None:
        try:
            return linear(input, weight, weight_scale)
        except Refused as refused:
            reason = refused
    else:
        reason = Refused("the kernel takes input in bfloat16 and weight with its weight_scale.")
    return _flashinfers_own(reason)(input, weight, input_scale, weight_scale)


def _flashinfers_own(reason):
    """The function that calls are taken from. Raises `reason` where there is no FlashInfer."""
    try:
        from flashinfer.gemm import fp8_blockscale_gemm_sm90 as function
    except ImportError:
        raise reason from None
    while getattr(function, "_trace_apply", False):
        function = function.__wrapped__
    return function
'''
_REFERENCE = """\
import torch


def run(input, weight, input_scale=None, weight_scale=None):
    x, w = input.double(), weight.double()
    if input_scale is not None:
        x = x * input_scale.double().repeat_interleave({block}, 1)[:, : x.shape[1]]
    scale = weight_scale.double().repeat_interleave({block}, 0).repeat_interleave({block}, 1)
    return (x @ (w * scale[: w.shape[0], : w.shape[1]]).T).to(torch.bfloat16)
"""


def definition(w: LinearWorkload) -> dict[str, Any]:
    """What FlashInfer's trace calls its function for block-scaled layers of this n and k."""
    if w.weights != "fp8b128" or w.bias or w.residual:
        raise UsageError(
            f"'{w}': FlashInfer sends elsewhere what has dtype=fp8b128 and neither bias nor residual: "
            "use --kind torch."
        )
    if w.n % 64 or w.k % BLOCK:
        raise UsageError(
            f"'{w}': FlashInfer takes an n that is a multiple of 64 and a k of {BLOCK}: use --kind torch."
        )
    return {
        "name": f"fp8_blockscale_gemm_sm90_n{w.n}_k{w.k}",
        "op_type": "gemm_fp8",
        "description": "y = x W^T, W in e4m3 with a scale for each 128 x 128 of it.",
        "axes": {
            "M": {"type": "var"},
            "N": {"type": "const", "value": w.n},
            "K": {"type": "const", "value": w.k},
            "K_div_128": {"type": "var"},
            "N_div_128": {"type": "var"},
        },
        "inputs": {
            "input": {"shape": ["M", "K"], "dtype": "bfloat16"},
            "weight": {"shape": ["N", "K"], "dtype": "float8_e4m3fn"},
            "input_scale": {"shape": ["M", "K_div_128"], "dtype": "float32", "optional": True},
            "weight_scale": {"shape": ["N_div_128", "K_div_128"], "dtype": "float32", "optional": True},
        },
        "outputs": {"out": {"shape": ["M", "N"], "dtype": "bfloat16"}},
        "tags": [
            "fi_api:flashinfer.gemm.gemm_base.fp8_blockscale_gemm_sm90",
            "status:verified",
            "quantization:float8_e4m3fn",
        ],
        "reference": _REFERENCE.format(block=BLOCK),
    }


def variants(w: LinearWorkload) -> tuple[LinearWorkload, ...]:
    """A workload for each number of rows that a kernel may be compiled for, as far as FlashInfer asks."""
    classes = (rows for rows in ROW_CLASSES if rows <= _FEWEST_ELSEWHERE)
    return tuple(LinearWorkload(rows, w.n, w.k, w.weights) for rows in classes)


SOLUTION = SolutionForm(
    door="torch", run=_RUN, definition=definition, variants=variants, is_destination_passed=False
)
