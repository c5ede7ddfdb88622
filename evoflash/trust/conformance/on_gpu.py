"""Runs a trial on the GPU of this process. After an error the process's context is lost: see sweep.py."""

from typing import Any

import numpy as np

from evoflash.gpu.driver import encode_map
from evoflash.gpu.launcher import LoadedKernel, new_stream, wait
from evoflash.gpu.memory import on_device
from evoflash.trust.conformance.cases import Argument, Array, Map, Pointer, Trial

_DTYPES = {"f16": "fp16", "bf16": "bf16", "float": "fp32"}  # primitives have the words of C++
_LIMIT_S = 3.0  # a kernel here takes microseconds; other processes have their turns between


def run_on_gpu(trial: Trial, cubin_path: str) -> dict[str, Array]:
    """The results after the launches. Raises what launcher.wait does, and CuPy's own errors."""
    kernel, stream = LoadedKernel(cubin_path, trial.launches), new_stream()
    buffers = {name: on_device(values) for name, values in (*trial.inputs.items(), *trial.results.items())}
    with stream:
        kernel.enqueue(tuple(_argument(argument, buffers) for argument in trial.arguments))
    wait(stream, limit_s=_LIMIT_S)
    return {
        name: buffers[name].get().view(values.dtype).reshape(values.shape)
        for name, values in trial.results.items()
    }


def _argument(argument: Argument, buffers: dict[str, Any]) -> Any:
    if isinstance(argument, Pointer):
        return np.uint64(buffers[argument.buffer].data.ptr)
    if isinstance(argument, Map):
        return encode_map(
            buffers[argument.buffer].data.ptr,
            argument.dims,
            argument.strides,
            argument.box,
            dtype=_DTYPES[argument.dtype],
            swizzle=argument.swizzle,
        )
    return argument
