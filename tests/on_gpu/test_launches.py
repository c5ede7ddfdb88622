"""Clusters, resident and dependent launches on the GPU give what they give in the emulator."""

from functools import cache

import numpy as np
import pytest
from nvrtc_texts import compiled
from places import KERNELS

from evoflash.emulator import launch as emulator
from evoflash.gpu.launcher import LaunchRefusedError, LoadedKernel, cupy, new_stream, settle, wait
from evoflash.kernels import gxx
from evoflash.kernels.ef_layer import nvrtc_headers
from evoflash.launch import LaunchConfig

pytestmark = pytest.mark.gpu

BLOCK = (64, 1, 1)


def source(file, fault):
    return f"#define FAULT {fault}\n#line 1\n{(KERNELS / file).read_text()}"


@cache
def cubin_of(text, arch, folder):
    path = folder / f"launches-{abs(hash(text))}.cubin"
    path.write_bytes(compiled(text, arch, headers=nvrtc_headers(text))[1])
    return str(path)


def on_the_emulator(text, launch, arrays):
    library = gxx.build(text, name=launch.entry)
    with emulator.Memory() as memory:
        given = [memory.array(n, a.shape, a.dtype, writable=True, fill=a) for n, a in arrays.items()]
        emulation = emulator.run_launch(library, launch, [np.uint64(array.ctypes.data) for array in given])
        assert emulation.reports == ()
        return [array.copy() for array in given]


def on_the_gpu(cubin, launch, arrays):
    kernel, stream = LoadedKernel(cubin, [launch]), new_stream()
    given = [cupy().asarray(array) for array in arrays.values()]
    settle()
    with stream:
        kernel.enqueue(tuple(np.uint64(array.data.ptr) for array in given))
    wait(stream, limit_s=5)
    return [array.get() for array in given]


def words(*shape):
    return np.zeros(shape, np.int32)


CASES = {
    "reading in clusters of 2": (
        "cluster.cu",
        0,
        LaunchConfig("cluster", (6, 1, 1), BLOCK, 1024, cluster=(2, 1, 1)),
    ),
    "reading in clusters of 4": (
        "cluster.cu",
        0,
        LaunchConfig("cluster", (8, 1, 1), BLOCK, 1024, cluster=(4, 1, 1)),
    ),
    "arrive, then wait": (
        "cluster.cu",
        4,
        LaunchConfig("cluster", (4, 1, 1), BLOCK, 1024, cluster=(2, 1, 1)),
    ),
    "st.async": ("cluster.cu", 20, LaunchConfig("cluster", (4, 1, 1), BLOCK, 1024, cluster=(2, 1, 1))),
    "plain stores": ("cluster.cu", 23, LaunchConfig("cluster", (4, 1, 1), BLOCK, 1024, cluster=(2, 1, 1))),
    "the last block combines": ("atomics.cu", 0, LaunchConfig("combine", (4, 1, 1), BLOCK, 1024)),
    "the last block resets": ("atomics.cu", 6, LaunchConfig("combine", (4, 1, 1), BLOCK, 1024)),
    "turns by flags": ("atomics.cu", 10, LaunchConfig("turns", (3, 1, 1), BLOCK, 1024, resident=True)),
    "turns by fences": ("atomics.cu", 12, LaunchConfig("turns", (3, 1, 1), BLOCK, 1024, resident=True)),
    "a shared counter": ("atomics.cu", 40, LaunchConfig("last", (1, 1, 1), BLOCK, 1024)),
    "values": ("atomics.cu", 0, LaunchConfig("values", (1, 1, 1), (1, 1, 1), 1024)),
}


def arrays_of(launch):
    out = {"out": words(64 * launch.grid[0])}
    if launch.entry in ("cluster", "last"):
        return out
    scratch = words(65 * launch.grid[0])
    if launch.entry == "values":
        scratch[:12] = [5] * 8 + [np.float32(2.0).view(np.int32), 9, 8, 0]
    return {"workspace": scratch, **out}


@pytest.mark.parametrize(("file", "fault", "launch"), CASES.values(), ids=CASES)
def test_the_emulator_and_the_gpu_agree(file, fault, launch, spec, cubins):
    if launch.cluster != (1, 1, 1) and spec.compute_capability < 90:
        pytest.skip("clusters need sm_90")
    text, arrays = source(file, fault), arrays_of(launch)
    expected = on_the_emulator(text, launch, arrays)
    found = on_the_gpu(cubin_of(text, spec.arch, cubins), launch, arrays)
    for name, here, there in zip(arrays, expected, found, strict=True):
        np.testing.assert_array_equal(there, here, err_msg=name)


def test_a_dependent_launch_sees_what_the_one_before_it_wrote(spec, cubins):
    if spec.compute_capability < 90:
        pytest.skip("dependent launches need sm_90")
    cubin, blocks = cubin_of(source("global.cu", 10), spec.arch, cubins), 512
    produce = LoadedKernel(cubin, [LaunchConfig("produce", (blocks, 1, 1), BLOCK, 0)])
    consume = LoadedKernel(cubin, [LaunchConfig("consume", (blocks, 1, 1), BLOCK, 0, dependent=True)])
    scratch, out = (cupy().asarray(words(blocks, 64)) for _ in range(2))
    settle()
    stream = new_stream()
    for add in range(20):
        with stream:
            produce.enqueue((np.uint64(scratch.data.ptr), np.int32(add)))
            consume.enqueue((np.uint64(scratch.data.ptr), np.uint64(out.data.ptr)))
        wait(stream, limit_s=5)
        np.testing.assert_array_equal(out.get(), np.broadcast_to(2 * (np.arange(64) + add), (blocks, 64)))


def test_a_resident_launch_of_too_many_blocks_is_refused(spec, cubins):
    cubin = cubin_of(source("atomics.cu", 10), spec.arch, cubins)
    too_many = spec.sm_count * spec.blocks_per_sm + 1
    with pytest.raises(LaunchRefusedError, match=f"its {too_many} blocks wait for one another, .* fit"):
        LoadedKernel(cubin, [LaunchConfig("turns", (too_many, 1, 1), BLOCK, 1024, resident=True)])
