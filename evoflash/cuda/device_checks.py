"""Questions about device memory that are answered there: a flag comes back, never the data. Judges nothing.

The kernels are in device_checks.cu. They are compiled as candidates are, and wait for nothing: whoever asks
has waited for the kernel whose work is inspected.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.compilers.ef_layer import device_headers_sha
from evoflash.compilers.nvrtc import compile_candidate, first_error
from evoflash.cuda.launcher import LoadedKernel, cupy, new_stream, present_gpu, wait
from evoflash.errors import DeviceError
from evoflash.evaluation import Candidate, Launch
from evoflash.operation import registry
from evoflash.space import Genome

SOURCE = Path(__file__).with_name("device_checks.cu")
GROUP_BYTES = 16  # what a thread reads at once: sizes and addresses are multiples of it
_BLOCKS, _THREADS = 1024, 256
_LIMIT_S = 20.0


def differ(first: Any, second: Any) -> bool:
    """Whether two CuPy arrays of equal size differ in any bit."""
    groups = _groups(first, second)
    return _inspector().ask("differ", _pointer(first), _pointer(second), groups)


def holds_non_finite(values: Any, *, dtype: str) -> bool:
    """Whether a CuPy array of 16-bit floats ("fp16" or "bf16"), in any type, holds a NaN or an infinity."""
    groups = _groups(values)
    return _inspector().ask("non_finite", _pointer(values), groups, exponent_mask(dtype))


def exponent_mask(dtype: str) -> np.uint32:
    """The exponent's bits in both halves of a word."""
    return np.uint32(0x7C007C00 if dtype == "fp16" else 0x7F807F80)


def _pointer(array: Any) -> np.uint64:
    return np.uint64(array.data.ptr)


def _groups(*arrays: Any) -> np.int64:
    """How many groups each of the arrays is. ValueError where bytes would be left out."""
    sizes = {array.nbytes for array in arrays}
    if len(sizes) > 1 or any(x % GROUP_BYTES for array in arrays for x in (array.nbytes, array.data.ptr)):
        places = ", ".join(f"{array.nbytes} bytes at {array.data.ptr:#x}" for array in arrays)
        raise ValueError(f"not equal numbers of whole groups of {GROUP_BYTES} bytes: {places}")
    return np.int64(sizes.pop() // GROUP_BYTES)


class _Inspector:
    """The kernels in this process, a stream of their own, and the word that they answer in."""

    def __init__(self) -> None:
        path = cubin_path(f"sm_{present_gpu().compute_capability}")
        grid, block = (_BLOCKS, 1, 1), (_THREADS, 1, 1)
        self._kernels = {
            name: LoadedKernel(path, (Launch(name, grid, block, 0),)) for name in ("differ", "non_finite")
        }
        self._stream, self._answer = new_stream(), cupy().empty(1, dtype=np.uint32)

    def ask(self, question: str, *arguments: np.generic) -> bool:
        """True when any thread found something. Raises what wait() does."""
        with self._stream:
            self._answer.data.memset_async(0, self._answer.nbytes, self._stream)
            self._kernels[question].enqueue((*arguments, np.uint64(self._answer.data.ptr)))
        wait(self._stream, limit_s=_LIMIT_S)
        return bool(self._answer.get()[0])


@cache
def _inspector() -> _Inspector:
    return _Inspector()


def cubin_path(arch: str, path: Path = SOURCE) -> str:
    """The compiled kernels of a .cu of ours, from the cache if they are there; needs no GPU."""
    source = path.read_text(encoding="utf-8")
    # A kernel without genes; of the compile key only the arch plays a part.
    candidate = Candidate(
        genome=Genome(path.stem, 1, ()),
        compile_key=registry.default().probe.compile_key(arch),
        source=source,
        source_sha=hashlib.sha256((source + device_headers_sha()).encode()).hexdigest(),
    )
    build = compile_candidate(candidate)
    if not build.ok:
        raise DeviceError(f"{path.name} does not compile for {arch}: {first_error(build.log)}")
    return build.cubin_path
