"""Tensor maps by the CUDA driver, and a kernel that takes them. Compiles, judges and times nothing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.evaluation import Build
from evoflash.gpu.driver import encode_map
from evoflash.gpu.launcher import LoadedKernel
from evoflash.operations.attention.workload import AttentionWorkload
from scripts.hopper_kernel.cases import Configuration, TensorMap


def encode(tensor: TensorMap) -> NDArray[np.void]:
    """The driver's form of a tensor map. bf16 travels as f16: nothing is computed on the way."""
    return encode_map(tensor.pointer, tensor.sizes, tensor.strides_bytes, tensor.box, swizzle=128)


class TmaKernel(LoadedKernel):
    """A configuration's cubin for one workload; makes its tensor maps from the pointers that it is given."""

    def __init__(self, build: Build, configuration: Configuration, workload: AttentionWorkload) -> None:
        super().__init__(build.cubin_path, (configuration.launch(workload),))
        self._configuration, self._workload = configuration, workload

    def enqueue(self, arguments: tuple[np.generic, ...]) -> None:
        """See LoadedKernel; tensors are dense."""
        q, k, v, o = (int(pointer) for pointer in arguments[:4])
        maps = self._configuration.maps(self._workload, (q, k, v, o))
        given: tuple[Any, ...] = (*(encode(tensor) for tensor in maps), *arguments)
        super().enqueue(given)
