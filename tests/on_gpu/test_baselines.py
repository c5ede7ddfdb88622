"""Library baselines on a real GPU: each that is installed is right, and none can take the others with it."""

import textwrap

import pytest

from evoflash.gpu.baselines import NAMES, BaselineAbsentError, baseline
from evoflash.gpu.process.finals import FinalTask
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.worker import GpuWorker
from evoflash.gpu.timing.benchmark import Bench
from evoflash.isolation import IsolatedPool
from evoflash.operations.attention.workload import AttentionWorkload

pytestmark = pytest.mark.gpu

SQUARE = AttentionWorkload(2, 8, 8, 256, 256, 64)
WORKLOADS = (
    SQUARE,
    AttentionWorkload(1, 8, 4, 256, 512, 64, "fp16", causal=True),
    AttentionWorkload(2, 8, 2, 384, 384, 128, "bf16", causal=True),
    AttentionWorkload(2, 32, 8, 1, 2048, 128),
)
# A library in the place of FlashAttention-3, which does to its process what is written in its body.
LIBRARY = """
import torch

def flash_attn_func(q, k, v, softmax_scale=None, causal=False):
    {body}
    turned = [x.transpose(1, 2) for x in (q, k, v)]
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


@pytest.fixture(scope="module", autouse=True)
def torch():
    return pytest.importorskip("torch", reason="needs torch: pip install '.[baselines]'")


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A function that puts the library on the path of processes that start from now on."""

    def plant(body):
        text = textwrap.dedent(LIBRARY).format(body=body)
        (tmp_path / "flash_attn_interface.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)

    return plant


def judged(name, workload, spec):
    """In a process of its own: why it is absent, or the verdict on its output, and its environment."""
    bench = Bench(workload, spec=spec, seed=5)
    try:
        contender = baseline(name, bench)
    except BaselineAbsentError as absent:
        return str(absent), None, {}
    return "", judge_replay(contender, bench, seed=5), contender.environment


def judge(name, workload, spec):
    with IsolatedPool(1) as pool:
        ending = pool.submit(judged, name, workload, spec, timeout_s=300).result()
    assert ending.value is not None, ending.reason
    return ending.value


@pytest.mark.parametrize("name", NAMES)
def test_each_library_is_right_or_says_why_it_is_absent(name, spec, libraries):
    for workload in WORKLOADS:
        ending = libraries.submit(judged, name, workload, spec, timeout_s=300).result()
        assert ending.value is not None, ending.reason
        absent, verdict, environment = ending.value
        print(f"\n  {workload}: {absent or verdict} {environment}", end="")
        assert absent or verdict.passed, verdict.reason
        assert bool(absent) != bool(environment.get("torch"))


def test_a_planted_library_that_is_right_passes(planted, spec):
    planted(RIGHT)
    absent, verdict, environment = judge("fa3", SQUARE, spec)
    assert (absent, verdict.passed) == ("", True)
    assert environment["layout"] == "views"


def test_a_library_that_is_wrong_by_one_per_cent_is_found_out(planted, spec):
    planted(WRONG)
    _, verdict, _ = judge("fa3", SQUARE, spec)
    assert not verdict.passed


def test_a_library_that_cannot_be_captured_is_absent_and_the_next_one_runs(planted, spec):
    planted(REFUSES_CAPTURE)
    with IsolatedPool(1) as pool:
        refused = pool.submit(judged, "fa3", SQUARE, spec, timeout_s=300).result().value
        after = pool.submit(judged, "sdpa_flash", SQUARE, spec, timeout_s=300).result().value
    assert "captur" in refused[0]
    assert after[0] == ""
    assert after[1].passed


@pytest.mark.parametrize(
    ("body", "reason"),
    [(CRASH, "the process died of signal 11"), (STICKY, "illegal")],
    ids=["segmentation-fault", "sticky-error"],
)
def test_a_library_that_takes_its_process_down_costs_itself(planted, spec, body, reason):
    planted(body)
    with GpuWorker() as worker:
        task = FinalTask((), (SQUARE,), spec, seed=5, baselines=("sdpa_flash", "fa3"))
        ending = worker.finalists(task).result()
    assert ending.value is not None, ending.reason
    assert list(ending.value.timings) == ["sdpa_flash"]
    assert reason in ending.value.absent[f"fa3 on {SQUARE}"]
