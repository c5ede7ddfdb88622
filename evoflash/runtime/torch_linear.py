"""Kernels of the linear layer as a function of PyTorch tensors: checks, the output, the launch.

Only the standard library, torch and the runtime's own modules. Forward only. Nothing here waits for the GPU.
An eager call goes straight to the launch; torch.compile, tensor subclasses and functorch meet an operator.
"""

import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from .launch import Kernel, Refused
from .torch_memory import Workspaces, device_now, overlap, stream_of

_WEIGHTS = {"bf16": torch.bfloat16, "fp8b128": torch.float8_e4m3fn, "fp8t": torch.float8_e4m3fn}
_MOST_SHAPES = 4096
_SCHEMA = "(Tensor x, Tensor w, Tensor? w_scale, Tensor? bias, Tensor? residual, Tensor(a!) out) -> ()"
_is_compiling_rows = torch.compiler.is_compiling
_dispatch_depth = torch._C._len_torch_dispatch_stack


class Linear:
    """Kernels that compute one thing for up to so many rows of x each. Call it with tensors."""

    def __init__(self, kernels: Kernel | Sequence[Kernel]) -> None:
        """A call goes to the first kernel, by the rows it is compiled for, that takes its rows."""
        given = [kernels] if isinstance(kernels, Kernel) else list(kernels)
        self.kernels = sorted(given, key=lambda each: int(each.contract.most_rows))
        contract = self.kernels[-1].contract
        self.weights, self.dtype = contract.weights, _WEIGHTS[contract.weights]
        self.has_bias, self.has_residual, self.most_rows = (
            contract.bias,
            contract.residual,
            contract.most_rows,
        )
        self.scale_shape: Callable[[int, int], tuple[int, int]] = contract.scale_shape
        digits = "".join(sha for each in self.kernels for sha in each.digests)
        self.name = f"evoflash_linear_{hashlib.sha256(digits.encode()).hexdigest()[:12]}"
        self._launches: dict[Hashable, Callable[..., None]] = {}
        self._workspaces = Workspaces()
        self._operator = self._registered_operator()

    def __repr__(self) -> str:
        return f"<evoflash linear layer {self.name}: {self.serves}>"

    @property
    def serves(self) -> str:
        """The tensors that it takes, in words."""
        added = [word for word, has in (("bias", self.has_bias), ("residual", self.has_residual)) if has]
        return f"W in {self.weights}, 1 to {self.most_rows} rows" + "".join(f", {word}" for word in added)

    def __call__(
        self,
        x: Tensor,
        w: Tensor,
        w_scale: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """x wᵀ, of x (..., k) in bfloat16 and w (n, k); (..., n) in bfloat16, a new tensor unless `out` is
        given, which is written to and returned.

        `w_scale`, float32, multiplies w: (n / 128, k / 128), rounded up, or one number, as the kernel was
        compiled. `bias` is (n) and `residual` (..., n), both bfloat16. Raises Refused, of one line, for what
        the kernels do not compute. Captured calls of one stream share a workspace: graphs that were captured
        on one stream must not run at the same time.
        """
        if why := self.why_not(x, w, w_scale, bias=bias, residual=residual, out=out):
            raise Refused(why)
        if out is not None and any(overlap(out, each) for each in (x, w, w_scale, bias, residual)):
            raise Refused("out overlaps an input in memory: give a tensor of its own.")
        result = x.new_empty((*x.shape[:-1], w.shape[0])) if out is None else out
        if x.numel() == 0:
            return result
        if _is_compiling_rows() or _dispatch_depth():
            self._operator(x, w, w_scale, bias, residual, result)
        else:
            self.compute(x, w, w_scale, bias, residual, result)
        return result

    def why_not(
        self,
        x: Tensor,
        w: Tensor,
        w_scale: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> str:
        """Why no kernel computes the call; empty if one may."""
        if x.dim() < 1 or w.dim() != 2 or x.shape[-1] != w.shape[1]:
            return f"x {tuple(x.shape)} and w {tuple(w.shape)}: give (..., k) and (n, k)."
        n, k = w.shape
        if x.dtype != torch.bfloat16 or w.dtype != self.dtype:
            return (
                f"x is {str(x.dtype)[6:]} and w {str(w.dtype)[6:]}: the kernel takes bfloat16 and "
                f"{str(self.dtype)[6:]}."
            )
        rows = x.shape[:-1].numel()
        if rows > self.most_rows:
            return f"{rows} rows of x: the kernel was compiled for up to {self.most_rows}."
        wanted: dict[str, tuple[Tensor | None, bool, tuple[int, ...], torch.dtype]] = {
            "w_scale": (w_scale, self.weights != "bf16", self.scale_shape(n, k), torch.float32),
            "bias": (bias, self.has_bias, (n,), torch.bfloat16),
            "residual": (residual, self.has_residual, (*x.shape[:-1], n), torch.bfloat16),
        }
        for name, (given, is_wanted, shape, dtype) in wanted.items():
            if (given is not None) != is_wanted:
                return f"the kernel was compiled {'with' if is_wanted else 'without'} {name}."
            if given is None or (name == "w_scale" and given.numel() == 1 == self.scale_shape(n, k)[0]):
                continue
            if tuple(given.shape) != shape or given.dtype != dtype:
                return (
                    f"{name} is {str(given.dtype)[6:]} {tuple(given.shape)}: give {str(dtype)[6:]} {shape}."
                )
        if out is not None and (out.dtype != torch.bfloat16 or out.shape != (*x.shape[:-1], n)):
            return f"out is {str(out.dtype)[6:]} {tuple(out.shape)}: give bfloat16 {(*x.shape[:-1], n)}."
        tensors = [each for each in (x, w, w_scale, bias, residual, out) if each is not None]
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
            return "the kernel is forward only: call it under torch.no_grad()."
        if x.device.type != "cuda" or any(each.device != x.device for each in tensors):
            places = ", ".join(sorted({str(each.device) for each in tensors}))
            return f"the tensors are on {places}: move them to one GPU."
        return ""

    def compute(self, *tensors: Tensor | None) -> None:
        """Write to the last of (x, w, w_scale, bias, residual, out), of a call that why_not() has nothing
        against.
        """
        x, w, w_scale, bias, residual, out = tensors
        assert x is not None, "of a call that is one"
        rows = [each if each is None else _as_rows(each) for each in (x, residual, out)]
        given = (rows[0], w, w_scale, rows[1], rows[2])
        key = (
            *((each.shape, each.stride()) if each is not None else None for each in given),
            x.get_device(),
        )
        launch = self._launches.get(key)
        if launch is None:
            if len(self._launches) >= _MOST_SHAPES:
                self._launches.clear()
            launch = self._launches.setdefault(key, self._launch_of(given))
        addresses = [0 if each is None else each.data_ptr() for each in given]
        bias_at = 0 if bias is None else bias.data_ptr()
        if x.get_device() == device_now():
            launch(addresses, bias_at)
            return
        with torch.cuda.device(x.get_device()):
            launch(addresses, bias_at)

    def _launch_of(self, given: Sequence[Tensor | None]) -> Callable[[Sequence[int], int], None]:
        """What launches calls of the shapes and strides of (x, w, w_scale, residual, out). Refused where none
        can be.
        """
        x, w, w_scale, residual, out = given
        assert x is not None
        assert w is not None
        device = x.get_device()
        kernel = next(each for each in self.kernels if each.contract.most_rows >= x.shape[0])
        flat_scale = w_scale.reshape(1, 1) if w_scale is not None and w_scale.numel() == 1 else w_scale
        tensors = [each for each in (x, w, flat_scale, residual, out) if each is not None]
        if any(each.stride(-1) != 1 and each.shape[-1] != 1 for each in tensors):
            raise Refused("the last dimension of a tensor is not contiguous: its stride must be 1.")
        strides = [(each.stride(0) if each.shape[0] > 1 else _alone(each),) for each in tensors]
        plan = kernel.plan((x.shape[0], *w.shape), strides, device=device)

        def launch(addresses: Sequence[int], bias: int) -> None:
            stream = stream_of(device)
            workspace = self._workspaces.address(kernel, plan, device, stream)
            plan.launch(tuple(addresses), bias, workspace, stream)

        return launch

    def _registered_operator(self) -> Any:
        """Of torch.ops, unless this process has it already: equal names are equal kernels."""
        namespace = getattr(torch.ops, self.name)
        if not hasattr(namespace, "_evoflash"):
            library = torch.library.Library(self.name, "FRAGMENT")
            namespace._evoflash = library  # lives as long as the process: what is compiled may call it
            library.define(f"linear{_SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
            library.impl("linear", self.compute, "CUDA")
            torch.library.register_fake(f"{self.name}::linear", lambda *arguments: None, lib=library)
        return namespace.linear.default


def _as_rows(tensor: Tensor) -> Tensor:
    """(..., columns) as (rows, columns) of the same memory. Refused where that is none."""
    if tensor.dim() == 2:
        return tensor
    try:
        return tensor.view(-1, tensor.shape[-1])
    except RuntimeError:
        raise Refused(
            f"a tensor {tuple(tensor.shape)} with strides {tensor.stride()} is no matrix of rows: copy it."
        ) from None


def _alone(tensor: Tensor) -> int:
    """A stride of the one row of a tensor, which has none that counts."""
    return -(-int(tensor.shape[-1]) // 16) * 16
