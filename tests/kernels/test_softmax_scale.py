"""Kernels take the softmax scale as an argument: exported launchers may be given any that is above zero."""

import math

import numpy as np
import pytest

from evoflash.emulator import launch as emulator
from evoflash.emulator.call import map_tensor
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.numerics import decode, encode
from evoflash.operations.attention.forms.dense import arguments
from evoflash.operations.attention.inputs import draw
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.problem import Problem
from evoflash.specs import load_gpu

GPU = load_gpu("h200")
WORKLOAD = AttentionWorkload(1, 2, 1, 40, 72, 64, causal=True)
FAMILIES = ("flash_cluster", "flash_direct", "flash_mma", "flash_simt", "flash_wgmma", "flash_wmma")


def output(family, genome, q, k, v, *, softmax_scale):
    """O and LSE, as bits."""
    library = gxx.build(render(genome, WORKLOAD.compile_key(GPU.arch), GPU).source, name=family.name)
    launches = family.launches(genome, WORKLOAD, GPU)
    with emulator.Memory() as memory:
        inputs = {
            name: memory.array(name, x.shape, x.dtype, fill=x)
            for name, x in zip("QKV", (q, k, v), strict=True)
        }
        out = memory.array("O", q.shape, np.uint16, writable=True)
        lse = memory.array("LSE", q.shape[:3], np.float32, writable=True)
        arrays = {**inputs, "O": out}
        scratch = memory.array("workspace", (max(1, launches[0].workspace_bytes),), np.uint8, writable=True)
        given = (
            *(map_tensor(each, arrays[each.of]) for each in launches[0].maps),
            *arguments(
                WORKLOAD,
                tuple(array.ctypes.data for array in (*inputs.values(), out, lse)),
                workspace=scratch.ctypes.data if launches[0].workspace_bytes else 0,
                softmax_scale=softmax_scale,
            ),
        )
        for launch in launches:
            assert emulator.run_launch(library, launch, given).reports == ()
        return out.tobytes(), lse.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.sample(2)
def test_half_the_scale_and_twice_the_queries_give_the_same_bits(name):
    family, problem = load_family(name), Problem((WORKLOAD,))
    genome = family.seeds_for(problem, family.space(problem.compile_keys(GPU.arch), GPU), GPU)[0]
    case = draw("normal", WORKLOAD, seed=1)
    doubled = encode(2 * decode(case.q, "fp16"), "fp16")
    usual = 1 / math.sqrt(WORKLOAD.head_dim)

    right = output(family, genome, case.q, case.k, case.v, softmax_scale=usual)
    same = output(family, genome, doubled, case.k, case.v, softmax_scale=usual / 2)
    other = output(family, genome, case.q, case.k, case.v, softmax_scale=usual / 2)

    assert same == right
    assert other != right
