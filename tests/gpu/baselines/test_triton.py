"""The Triton baseline without a GPU: which setting is taken, what is absent and why, and its kernel's numbers
in Triton's own interpreter, where PyTorch and Triton are installed.
"""

import importlib.util
import json
import math
import subprocess
import sys
import types

import numpy as np
import pytest
from places import environment

from evoflash.gpu.baselines import DEFAULT, NAMES, OPTIONAL, contender
from evoflash.gpu.baselines.attention import triton
from evoflash.gpu.baselines.contender import BaselineAbsentError, BaselineFailedError, LibraryCall
from evoflash.operations.attention.reference import attention
from evoflash.operations.attention.workload import AttentionWorkload


def bench_of(head_dim=64):
    return types.SimpleNamespace(workload=AttentionWorkload(1, 2, 2, 9, 9, head_dim))


@pytest.fixture
def installed(monkeypatch):
    """Triton is there, and a contender is no more than the setting that it was called with."""
    monkeypatch.setitem(sys.modules, "triton", types.ModuleType("triton"))

    def called(workload, setting):
        return LibraryCall(lambda q, k, v: setting, {})

    monkeypatch.setattr(triton, "library_call", called)
    monkeypatch.setattr(contender, "LibraryContender", lambda name, bench, call: call.attend(0, 0, 0))
    return monkeypatch


def test_it_is_a_rival_that_need_not_be_there_and_that_finals_do_without():
    assert "triton" in NAMES
    assert "triton" not in DEFAULT
    assert "triton" in OPTIONAL


def test_without_triton_it_is_absent_and_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(BaselineAbsentError, match=r"triton is not installed: pip install"):
        next(triton.calls("triton", bench_of()))


def test_a_head_dimension_that_is_no_power_of_two_is_not_its_business(installed):
    with pytest.raises(BaselineAbsentError, match="96 is no power of two"):
        next(triton.calls("triton", bench_of(96)))


def test_the_fastest_setting_is_taken_and_all_times_are_recorded(installed):
    times = dict(
        zip(triton.SETTINGS, [5.0, 4.0, "out of shared memory", 3.0, 6.0, 7.0, 8.0, 9.0], strict=True)
    )
    installed.setattr(contender, "_time_us", lambda make, *_, **_named: times[make()])
    (found,) = triton.calls("triton", bench_of())
    assert found.environment["setting"] == str(triton.SETTINGS[3])
    tried = found.environment["tried"]
    assert f"{triton.SETTINGS[1]}: 4.00 us" in tried
    assert str(triton.SETTINGS[2]) not in tried


def test_where_no_setting_runs_it_is_absent_with_the_first_reason(installed):
    reasons = iter(["out of shared memory", *["something else"] * 7])
    installed.setattr(contender, "_time_us", lambda *_, **_named: next(reasons))
    with pytest.raises(BaselineAbsentError, match="none of its settings ran: out of shared memory"):
        next(triton.calls("triton", bench_of()))


def test_trying_settings_has_a_limit(installed):
    installed.setattr(contender, "_time_us", lambda *_, **_named: 1.0)
    installed.setattr(contender, "time", types.SimpleNamespace(monotonic=iter([0.0, 1.0, 1e9]).__next__))
    (found,) = triton.calls("triton", bench_of())
    assert found.environment["tried"] == f"{triton.SETTINGS[0]}: 1.00 us"


def test_settings_are_few_and_no_two_the_same():
    assert len(set(triton.SETTINGS)) == len(triton.SETTINGS) <= 8


def test_a_refused_setting_is_a_reason_and_a_lost_process_is_not(monkeypatch):
    def time_one(raised):
        def run(bench):
            raise raised

        def make():
            return types.SimpleNamespace(try_out=run)

        return contender._time_us(make, bench_of(), None, None, name="triton")

    assert time_one(BaselineAbsentError("out of shared memory")) == "out of shared memory"
    with pytest.raises(BaselineFailedError):
        time_one(BaselineFailedError("triton: illegal address"))


# ---- the kernel, in Triton's interpreter


SHAPES = [
    AttentionWorkload(2, 4, 4, 9, 9, 16, causal=True),
    AttentionWorkload(2, 6, 2, 5, 9, 16, causal=True),
    AttentionWorkload(1, 6, 2, 5, 9, 16),
    AttentionWorkload(1, 2, 1, 130, 300, 64, causal=True),
    AttentionWorkload(1, 2, 1, 300, 130, 64, causal=True),  # rows that see nothing
    AttentionWorkload(1, 2, 2, 200, 193, 32),
    AttentionWorkload(2, 4, 1, 1, 257, 128),
]


def largest_errors():
    """In a process where Triton was imported to interpret: of each shape, over two settings."""
    import torch

    for w in SHAPES:
        rng = np.random.default_rng(3)
        shapes = [(w.batch, w.heads, w.seq_q, w.head_dim), *2 * [(w.batch, w.kv_heads, w.seq_kv, w.head_dim)]]
        tensors = [torch.from_numpy(rng.standard_normal(shape).astype(np.float16)) for shape in shapes]
        q, k, v = (x.numpy().astype(np.float32) for x in tensors)
        expected, _ = attention(q, k, v, causal=w.causal, scale=1 / math.sqrt(w.head_dim))
        settings = (triton.SETTINGS[0], triton.SETTINGS[6])
        outs = [triton.library_call(w, setting).attend(*tensors).float().numpy() for setting in settings]
        yield max(float(np.abs(out - expected).max()) for out in outs)  # NaN, where there is one


@pytest.fixture(scope="module")
def errors():
    for needed in ("torch", "triton"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"needs {needed}: pip install '.[baselines]'")
    if np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        pytest.skip("Triton 3.6's interpreter takes int() of an array of one, which NumPy 2.5 refuses")
    code = (
        "import json; from tests.baselines import test_triton as t; print(json.dumps([*t.largest_errors()]))"
    )
    variables = environment(TRITON_INTERPRET="1")
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(SHAPES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("workload", SHAPES, ids=str)
def test_the_kernel_computes_attention(errors, workload):
    assert errors[workload] < 2e-3
