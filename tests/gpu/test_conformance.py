"""The emulator and the GPU agree on every primitive bit for bit; on approximations, within their error."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from evoflash import emulator, hostcompiler
from evoflash.evaluation import Launch
from evoflash.launcher import LoadedKernel, cupy, new_stream, settle, wait
from evoflash.layer import nvrtc_headers

pytestmark = pytest.mark.gpu

KERNELS = Path(__file__).parents[1] / "kernels"
ALL_BITS = np.arange(65536, dtype=np.uint16)
APPROXIMATIONS = r"""
#include "ef.h"

// in: 4096 floats; out: 4096 each of ex2, lg2 and rcp.
extern "C" __global__ void __launch_bounds__(256) approximations(const float* in, float* out) {
  const ef::u32 index = blockIdx.x * 256 + threadIdx.x;
  const float value = ef::ldg(in + index);
  ef::stg(out + index, ef::ex2(value));
  ef::stg(out + 4096 + index, ef::lg2(value));
  ef::stg(out + 8192 + index, ef::rcp(value));
}
EF_EXPORT_KERNEL(approximations)
"""


@dataclass(frozen=True)
class Case:
    """A kernel of tests/kernels, its launch, and its arguments: those named out* are written and compared."""

    file: str
    entry: str
    blocks: int
    threads: int
    arrays: dict[str, np.ndarray]
    exact: bool = True
    smem_bytes: int = 2048

    @property
    def source(self):
        return APPROXIMATIONS if not self.file else (KERNELS / self.file).read_text()

    @property
    def launch(self):
        return Launch(self.entry, (self.blocks, 1, 1), (self.threads, 1, 1), self.smem_bytes)


def on_the_emulator(case):
    library = hostcompiler.build(case.source, name=case.entry)
    with emulator.Memory() as memory:
        given = {
            name: memory.array(name, array.shape, array.dtype, writable=name.startswith("out"), fill=array)
            for name, array in case.arrays.items()
        }
        pointers = [np.uint64(array.ctypes.data) for array in given.values()]
        emulation = emulator.run(library, case.launch, pointers)
        assert emulation.reports == ()
        return {name: array.copy() for name, array in given.items() if name.startswith("out")}


def on_the_gpu(case, arch, folder):
    kernel = LoadedKernel(compiled(case.source, arch, folder), [case.launch])
    stream = new_stream()
    given = {name: cupy().asarray(array) for name, array in case.arrays.items()}
    settle()
    with stream:
        kernel.enqueue(tuple(np.uint64(array.data.ptr) for array in given.values()))
    wait(stream, limit_s=5)
    return {name: array.get() for name, array in given.items() if name.startswith("out")}


@cache
def compiled(source, arch, folder):
    """The cubin's path; the headers are handed to NVRTC as compiler.py does it."""
    from cupy.cuda import nvrtc  # here: where CuPy is missing these tests are skipped, not broken

    program = nvrtc.createProgram(source, "conformance.cu", *nvrtc_headers(source))
    try:
        nvrtc.compileProgram(program, ["-std=c++17", f"-arch={arch}"])
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    path = folder / f"conformance-{abs(hash(source))}.cubin"
    path.write_bytes(nvrtc.getCUBIN(program))
    return str(path)


def bf16_bits(values):
    """Round to nearest even; no NaN among them."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def stored(values, kind):
    return values.astype(np.float16) if kind == "f16" else bf16_bits(values)


def every_primitive():
    """From 1 up: the sums stay positive, so that no logarithm is a NaN; nothing leaves the exact integers."""
    values = np.random.default_rng(1).integers(1, 4, 512)
    arrays = {
        "half": stored(values, "f16"),
        "out_half": np.zeros(64, np.uint16),
        "brain": stored(values, "bf16"),
        "out_brain": np.zeros(64, np.uint16),
        "out": np.zeros(64, np.float32),  # sums of what is approximate
    }
    return Case("primitives.cu", "primitives", 1, 64, arrays, exact=False)


def matrices():
    arrays = {"in": np.arange(256, dtype=np.uint16).reshape(32, 8), "out": np.zeros((32, 12), np.uint32)}
    return Case("tiles.cu", "matrices", 1, 32, arrays)


def multiply(kind, seed):
    rng = np.random.default_rng(seed)
    arrays = {
        "a": stored(rng.integers(-8, 9, (16, 16)), kind),
        "b": stored(rng.integers(-8, 9, (8, 16)), kind),
        "c": rng.integers(-99, 100, (16, 8)).astype(np.float32),
        "out": np.zeros((16, 8), np.float32),
    }
    return Case("tiles.cu", f"multiply_{kind}", 1, 32, arrays)


def wmma(kind, stride, c_stride):
    """Both layouts of B, an accumulator from memory and back, `stride` elements between rows."""
    rng = np.random.default_rng(stride)
    a, b = rng.integers(-8, 9, (2, 16, 16))
    arrays = {
        "a": stored(a, kind),
        "b": stored(b, kind),
        "c": rng.integers(-99, 100, (16, 16)).astype(np.float32),
        "strides": np.array([stride, c_stride], np.int32),
        "out": np.zeros((2, 16, 16), np.float32),
    }
    return Case("wmma.cu", f"wmma_{kind}", 1, 32, arrays, smem_bytes=3 * 16 * 48 * 4)


def narrow_copies():
    arrays = {"in": np.arange(1, 257, dtype=np.uint32), "out": np.zeros(256, np.uint32)}
    return Case("wmma.cu", "narrow_copies", 1, 32, arrays)


def exchanges():
    return Case("tiles.cu", "exchanges", 1, 32, {"out": np.zeros((32, 5), np.float32)})


def widen():
    arrays = {
        "out_f16_float": np.zeros(65536, np.float32),
        "out_bf16_float": np.zeros(65536, np.float32),
        "out_f16": np.zeros(65536, np.uint16),
        "out_bf16": np.zeros(65536, np.uint16),
    }
    return Case("conversions.cu", "widen", 256, 256, arrays)


def narrow():
    """Integers of every size, odd ones half way between two 16-bit floats among them, then every bf16."""
    powers = 2.0 ** np.arange(10, 26)
    near = (powers[:, None] + np.arange(-1024, 1024)).reshape(-1)
    every_bf16 = (ALL_BITS[::2].astype(np.uint32) << 16).view(np.float32)
    arrays = {
        "in": np.concatenate([near.astype(np.float32), every_bf16]),
        "out_f16": np.zeros(65536, np.uint16),
        "out_bf16": np.zeros(65536, np.uint16),
        "out_f16_pair": np.zeros(65536, np.uint32),
        "out_bf16_pair": np.zeros(65536, np.uint32),
    }
    return Case("conversions.cu", "narrow", 256, 256, arrays)


def approximations(values):
    arrays = {"in": values.astype(np.float32), "out": np.zeros((3, 4096), np.float32)}
    return Case("", "approximations", 16, 256, arrays, exact=False)


def bits(values):
    """Bit patterns; every NaN is one NaN, for PTX promises no payload."""
    if values.dtype.kind != "f":
        return values
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


EXACT = {
    "ldmatrix": matrices(),
    "mma f16": multiply("f16", 3),
    "mma f16 again": multiply("f16", 4),
    "mma bf16": multiply("bf16", 3),
    "mma bf16 again": multiply("bf16", 4),
    "wmma f16": wmma("f16", 16, 16),
    "wmma f16, rows apart": wmma("f16", 48, 40),
    "wmma bf16": wmma("bf16", 16, 16),
    "wmma bf16, rows apart": wmma("bf16", 24, 24),
    "copies of 4, 8 and 16 bytes": narrow_copies(),
    "shuffles and votes": exchanges(),
    "16 bits to float and back": widen(),
    "float to 16 bits": narrow(),
}


@pytest.mark.parametrize("case", EXACT.values(), ids=EXACT)
def test_the_emulator_and_the_gpu_agree_bit_for_bit(case, spec, cubins):
    expected, found = on_the_emulator(case), on_the_gpu(case, spec.arch, cubins)
    for name in expected:
        np.testing.assert_array_equal(bits(found[name]), bits(expected[name]), err_msg=name)


def test_every_primitive_together_agrees_but_for_what_is_approximate(spec, cubins):
    case = every_primitive()
    expected, found = on_the_emulator(case), on_the_gpu(case, spec.arch, cubins)
    for name in ("out_half", "out_brain"):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    np.testing.assert_allclose(found["out"], expected["out"], rtol=1e-6)


@pytest.mark.parametrize(("row", "name", "low"), [(0, "ex2", -120.0), (1, "lg2", 2.0), (2, "rcp", 1e-3)])
def test_approximations_agree_within_their_error(row, name, low, spec, cubins):
    case = approximations(np.linspace(low, 120.0, 4096))
    expected, found = on_the_emulator(case)["out"][row], on_the_gpu(case, spec.arch, cubins)["out"][row]
    np.testing.assert_allclose(found, expected, rtol=2.0**-21, err_msg=name)


def test_approximations_agree_exactly_at_the_ends(spec, cubins):
    """What kernels rely on: a row's largest score against itself, nothing visible, nothing summed."""
    ends = [0.0, -0.0, np.inf, -np.inf, 1e-40, -1e-40, -150.0, 130.0, -1e4, 1e4]
    case = approximations(np.resize(np.array(ends), 4096))
    expected, found = on_the_emulator(case)["out"], on_the_gpu(case, spec.arch, cubins)["out"]
    whole = np.isin(np.abs(expected), [0.0, 1.0, np.inf]) | np.isnan(expected)
    np.testing.assert_array_equal(found[whole], expected[whole])
