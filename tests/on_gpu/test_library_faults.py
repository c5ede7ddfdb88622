"""A library that is wrong, is not captured or takes its process down, on a real GPU: it costs itself."""

import pytest
from on_gpu.libraries import SQUARE, judged

from evoflash.gpu.process.finals import FinalTask
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import IsolatedPool

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

# A library in the place of FlashAttention-3, which does to its process what the file beside it says.
LIBRARY = """
from pathlib import Path
import torch

def flash_attn_func(q, k, v, softmax_scale=None, causal=False):
    given = {"torch": torch, "v": v}
    exec(Path(__file__).with_name("fault.txt").read_text(), given)
    turned = [x.transpose(1, 2) for x in (q, k, given["v"])]
    out = torch.nn.functional.scaled_dot_product_attention(*turned, scale=softmax_scale, is_causal=causal)
    return out.transpose(1, 2)
"""
CRASH = "import ctypes; ctypes.string_at(0)"
STICKY = (
    "import cupy; write = cupy.RawKernel('extern \"C\" __global__ void write(int* p) { *p = 1; }', 'write');"
    " write((1,), (1,), (8,)); torch.cuda.synchronize()"
)
REFUSES_CAPTURE = "torch.cuda.synchronize()"
WRONG = "v = 1.01 * v"
RIGHT = "pass"


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """`plant(fault)`: the library, which is on the path of processes that start from now on, has it."""
    pytest.importorskip("torch", reason="needs torch: pip install '.[baselines]'")
    folder = tmp_path_factory.mktemp("library")
    (folder / "flash_attn_interface.py").write_text(LIBRARY)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield (folder / "fault.txt").write_text


@pytest.fixture(scope="module")
def judge(plant, spec):
    """`judge(library)` in one process: each start of PyTorch takes seconds."""
    with IsolatedPool(1) as pool:

        def judge(name):
            ending = pool.submit(judged, name, SQUARE, spec, timeout_s=300).result()
            assert ending.value is not None, ending.reason
            return ending.value

        yield judge


@pytest.fixture(scope="module")
def finalists(plant):
    """Finals, each in a process of its own; not those of the tests that take turns on the GPU."""
    with GpuWorker() as worker:
        yield worker.finalists


def test_a_planted_library_that_is_right_passes(plant, judge):
    plant(RIGHT)
    absent, verdict, environment = judge("fa3")
    assert (absent, verdict.passed) == ("", True)
    assert environment["layout"] == "views"


def test_a_library_that_is_wrong_by_one_per_cent_is_found_out(plant, judge):
    plant(WRONG)
    _, verdict, _ = judge("fa3")
    assert not verdict.passed


def test_a_library_that_cannot_be_captured_is_absent_and_the_next_one_runs(plant, judge):
    plant(REFUSES_CAPTURE)
    refused, after = judge("fa3"), judge("sdpa_flash")
    assert "captur" in refused[0]
    assert after[0] == ""
    assert after[1].passed


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(CRASH, "the process died of signal 11"), (STICKY, "illegal")],
    ids=["segmentation-fault", "sticky-error"],
)
def test_a_library_that_takes_its_process_down_costs_itself(plant, finalists, spec, fault, reason):
    plant(fault)
    ending = finalists(FinalTask((), (SQUARE,), spec, seed=5, baselines=("sdpa_flash", "fa3"))).result()
    assert ending.value is not None, ending.reason
    assert list(ending.value.timings) == ["sdpa_flash"]
    assert reason in ending.value.absent[f"fa3 on {SQUARE}"]
