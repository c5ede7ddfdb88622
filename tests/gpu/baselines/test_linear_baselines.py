"""The libraries' linear layers: which one is asked for which workload, and what PyTorch gives is right."""

import types

import numpy as np
import pytest

from evoflash.gpu import baselines
from evoflash.gpu.baselines import BaselineAbsentError, computing
from evoflash.gpu.baselines.linear import flashinfer, pytorch
from evoflash.operations.expectations import every_row
from evoflash.operations.linear.inputs import draw
from evoflash.operations.linear.reference import expect
from evoflash.operations.linear.workload import LinearWorkload

SHAPE = LinearWorkload(4, 256, 384, "fp8b128")
TORCH_TYPES = {np.uint8: "float8_e4m3fn", np.uint16: "bfloat16", np.float32: "float32"}


def bench_of(workload):
    return types.SimpleNamespace(workload=workload)


def test_a_workload_is_timed_beside_libraries_that_compute_its_operation():
    assert computing("linear", baselines.NAMES) == (
        "cublaslt",
        "scaled_mm",
        "flashinfer_block",
        "flashinfer_block_fp8x",
    )
    assert not set(computing("attention", baselines.DEFAULT)) & set(computing("linear", baselines.NAMES))
    assert computing("linear", ("fa3",)) == ("fa3",)  # which says itself why it is absent


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs torch: pip install 'evoflash[baselines]'")


KINDS = [("bf16", "bf16"), ("fp8b128", "bf16"), ("fp8t", "bf16"), ("fp8b128", "e4m3")]


@pytest.mark.parametrize(("weights", "x"), KINDS)
@pytest.mark.parametrize("bias", [False, True])
def test_what_pytorch_gives_is_right(torch, weights, x, bias):
    workload = LinearWorkload(5, 200, 400 if weights == "fp8b128" else 384, weights, bias=bias, x=x)
    inputs = draw("normal", workload, seed=1)
    tensors = [_tensor(torch, x) for x in inputs.tensors.values()]
    (called,) = pytorch.calls("cublaslt", bench_of(workload))

    out = called.attend(*called.together(*tensors)).float().numpy()

    right = expect(workload, inputs, where=every_row(workload)).rows["Y"].right[0]
    assert np.linalg.norm(out - right) < max(3e-3, called.rel_l2) * np.linalg.norm(right)


@pytest.mark.parametrize(("weights", "x"), KINDS)
def test_what_is_rounded_to_8_bits_is_as_far_off_as_is_allowed_for(torch, weights, x):
    workload = LinearWorkload(4, 256, 384, weights, x=x)
    inputs = draw("normal", workload, seed=1)
    (called,) = pytorch.calls("scaled_mm", bench_of(workload))

    x, w, x_scale, w_scale = called.together(*(_tensor(torch, x) for x in inputs.tensors.values()))
    out = ((x.float() * x_scale) @ (w.float() * w_scale).T).numpy()

    right = expect(workload, inputs, where=every_row(workload)).rows["Y"].right[0]
    off = np.linalg.norm(out - right) / np.linalg.norm(right)
    assert 5e-3 < off < called.rel_l2


def _tensor(torch, x):
    bits = torch.from_numpy(x.view(np.int16) if x.dtype == np.uint16 else x)
    return bits.view(getattr(torch, TORCH_TYPES[x.dtype.type]))


@pytest.mark.parametrize(
    ("name", "workload", "reason"),
    [
        ("flashinfer_block", LinearWorkload(4, 256, 384), "use dtype=fp8b128"),
        ("flashinfer_block", LinearWorkload(4, 256, 384, "fp8b128", bias=True), "adds nothing"),
        ("flashinfer_block", LinearWorkload(4, 256, 384, "fp8b128", x="e4m3"), "flashinfer_block_fp8x"),
        ("scaled_mm", LinearWorkload(4, 256, 384, "fp8t", bias=True), "adds nothing"),
        ("cublaslt", LinearWorkload(4, 256, 384, residual=True), "adds nothing"),
    ],
)
def test_a_library_says_what_it_does_not_do(monkeypatch, name, workload, reason):
    monkeypatch.setattr(flashinfer, "import_library", lambda *_: types.SimpleNamespace())
    for file in (flashinfer, pytorch):
        monkeypatch.setattr(file, "torch", types.SimpleNamespace)
    file = flashinfer if name.startswith("flashinfer") else pytorch

    with pytest.raises(BaselineAbsentError, match=reason):
        list(file.calls(name, bench_of(workload)))


def test_flashinfer_is_handed_x_as_vllm_does(monkeypatch):
    asked = []
    gemm = types.SimpleNamespace(
        fp8_blockscale_gemm_sm90=lambda *args, **options: asked.append((args, options))
    )
    monkeypatch.setattr(flashinfer, "import_library", lambda *_: gemm)
    monkeypatch.setattr(flashinfer, "torch", types.SimpleNamespace)
    (called,) = flashinfer.calls("flashinfer_block", bench_of(SHAPE))

    called.attend("x", "w", "scale")

    assert asked == [(("x", "w"), {"weight_scale": "scale"})]


@pytest.mark.parametrize("rows", [1, 5, 8])
def test_flashinfer_is_handed_scales_of_x_as_its_kernels_read_them(torch, monkeypatch, rows):
    """As fp8_blockscale_gemm_kernel.cuh writes them: scales[block * round_up(rows, 4) + row]."""
    monkeypatch.setattr(
        flashinfer, "import_library", lambda *_: types.SimpleNamespace(fp8_blockscale_gemm_sm90=None)
    )
    for x in ("bf16", "e4m3"):
        workload = LinearWorkload(rows, 256, 384, "fp8b128", x=x)
        inputs = draw("normal", workload, seed=1)
        (called,) = flashinfer.calls("flashinfer_block_fp8x", bench_of(workload))
        codes, scales, w, _ = called.together(*(_tensor(torch, tensor) for tensor in inputs.tensors.values()))
        flat, lead = scales.flatten(), -(-rows // 4) * 4
        each = torch.stack([flat[block * lead : block * lead + rows] for block in range(3)], dim=1)
        given = codes.float() * each.repeat_interleave(128, dim=1)
        right = expect(workload, inputs, where=every_row(workload)).rows["Y"].right[0]
        numbers = w.float().numpy() * inputs.w_scale.repeat(128, 0).repeat(128, 1)
        off = np.linalg.norm(given.numpy() @ numbers.T - right) / np.linalg.norm(right)
        assert off < (called.rel_l2 if x == "bf16" else 1e-5)
