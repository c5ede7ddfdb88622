"""Calls in the emulator: where tensors lie, what a workspace holds, and calls that follow one another."""

from dataclasses import replace

import numpy as np
import pytest

from evoflash.emulator.call import EmulatorRun, run_calls
from evoflash.emulator.launch import Memory
from evoflash.emulator.preflight import preflight
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.inputs import draw
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.specs import load_gpu

GPU, SMALL = load_gpu("a100"), AttentionWorkload(1, 2, 2, 9, 40, 64)
FAMILY = load_family("flash_direct")
KEY = SMALL.compile_key(GPU.arch)
RUN = EmulatorRun("eager", "fifo", 1, 10.0)
# A kernel that copies Q to O, and adds what it finds in the workspace or keeps there what it has seen.
TEXT = """#include "ef.h"
using Far = long long;
extern "C" __global__ void copy(
    const unsigned short* Q, const void* K, const void* V, unsigned short* O, float* LSE,
    int seq_q, int seq_kv, int heads, int kv_heads, Far, Far, Far, Far, Far, Far, Far, Far, Far, Far, Far,
    Far, float, unsigned* workspace) {
  const int at = blockIdx.x * 32 + threadIdx.x;
  unsigned kept = 0;
  if (at == 0) { BODY }
  if (at < seq_q * heads * 64) ef::stg(O + at, (unsigned short)(ef::ldg(Q + at) + kept));
}
EF_EXPORT_KERNEL(copy)
"""


def called(body: str, calls: int, *, zeroed: int) -> list[tuple[set[str], bool]]:
    """Of each call on inputs of its own: kinds of reports, and whether O is a copy of Q."""
    library = gxx.build(TEXT.replace("BODY", body), name="copy")
    launch = LaunchConfig("copy", (36, 1, 1), (32, 1, 1), 0, workspace_bytes=64, zeroed_bytes=zeroed)
    inputs = [draw("normal", SMALL, seed=seed) for seed in range(calls)]
    found = run_calls(library, (launch,), SMALL, inputs, RUN)
    return [
        ({report.kind for part in parts for report in part.reports}, (output.tensors["O"] == each.q).all())
        for (parts, output), each in zip(found, inputs, strict=False)
    ]


def test_each_call_has_inputs_of_its_own_and_what_was_left_in_the_workspace() -> None:
    assert called("ef::stg(workspace + 1, 5u);", 3, zeroed=0) == [(set(), True)] * 3


@pytest.mark.parametrize("zeroed", [0, 4])
def test_what_lies_behind_the_zeroed_part_of_a_workspace_holds_nothing(zeroed: int) -> None:
    (only,) = called("kept = ef::ldg(workspace + 1);", 2, zeroed=zeroed)
    assert only[0] == {"uninit-global"}


def test_the_zeroed_part_may_be_read_and_must_be_zero_again() -> None:
    assert called("kept = ef::ldg(workspace);", 2, zeroed=4) == [(set(), True)] * 2
    (only,) = called("ef::stg(workspace, 1u);", 2, zeroed=4)
    assert only[0] == {"workspace-not-zeroed"}


def test_displaced_arrays_lie_anywhere_16_bytes_behind_aligned_addresses() -> None:
    def addresses(seed: int) -> list[int]:
        with Memory(seed) as memory:
            return [memory.array("x", (100,), np.uint16, lead=16).ctypes.data for _ in range(24)]

    first = addresses(1)
    assert first == addresses(1) != addresses(2)
    assert {address % 256 for address in first} == {16}
    for bit in range(20, 41):
        assert {address >> bit & 1 for address in first} == {0, 1}
        assert all((a ^ b) >> bit & 1 for a, b in zip(addresses(2), addresses(3), strict=True))


@pytest.mark.parametrize("bit", [18, 30, 40])
@pytest.mark.sample(1)
def test_a_kernel_that_goes_by_a_bit_of_an_address_is_found(bit: int) -> None:
    space = FAMILY.space((KEY,), GPU)
    right = render(space.genome(FAMILY.seeds[0].values), KEY, GPU)
    assert not preflight(right, FAMILY, GPU, seed=3).complaint
    entry = "float scale) {\n"
    assert right.source.count(entry) == 1
    wrong = right.source.replace(
        entry, f"{entry}  seq_kv -= (unsigned long long)V >> {bit} & 1 && seq_kv > 1;\n"
    )
    assert preflight(replace(right, source=wrong), FAMILY, GPU, seed=3).complaint
