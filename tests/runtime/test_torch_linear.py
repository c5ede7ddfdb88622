"""Kernels of the linear layer as a function of tensors, without a GPU: refusals, fallback, operator."""

from functools import cache

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from exported_cases import exported  # noqa: E402
from tables import table_of_cases  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from evoflash.exports.launch_json import artefact  # noqa: E402
from evoflash.runtime.launch import Kernel, Refused  # noqa: E402
from evoflash.runtime.linear_portfolio import LinearPortfolio, by_pytorch  # noqa: E402
from evoflash.runtime.torch_linear import Linear, _overlap  # noqa: E402

N, K = 1280, 1024


@cache
def linear(name="rows of W"):
    made = artefact(exported(name))
    return Linear(Kernel(made.description, made.images))


def tensors(*, m=2, n=N, k=K, dtype="float8_e4m3fn", scale=(10, 8)):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn((m, k), generator=generator).bfloat16()
    w = torch.randn((n, k), generator=generator).to(getattr(torch, dtype))
    return x, w, None if scale is None else torch.rand(tuple(scale), generator=generator)


@table_of_cases()
def test_what_no_kernel_computes_is_refused_in_one_line(changes, added, complaint):
    given = tensors(**changes)
    shapes = {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in (added or {}).items()}

    with pytest.raises(Refused, match=complaint) as refused:
        linear()(*given, **shapes)
    assert "\n" not in str(refused.value)


def test_an_output_overlaps_what_its_memory_reaches_into():
    memory = torch.zeros(64, dtype=torch.bfloat16)
    x, beside, inside = memory[:32].view(2, 16), memory[32:].view(2, 16), memory[24:40].view(1, 16)

    assert [_overlap(out, x) for out in (x, beside, inside, memory[:0])] == [True, False, True, False]
    assert not _overlap(x, None)


def test_a_compiler_is_told_the_shape_of_the_output():
    with FakeTensorMode():
        x = torch.empty(2, 1, K, dtype=torch.bfloat16, device="cuda")
        w = torch.empty(N, K, dtype=torch.float8_e4m3fn, device="cuda")
        scale = torch.empty(10, 8, device="cuda")

        y = linear()(x, w, scale)

    assert y.shape == (2, 1, N)
    assert (y.dtype, y.device.type) == (torch.bfloat16, "cuda")


def test_equal_kernels_have_one_operator_and_others_another():
    made = artefact(exported("rows of W"))
    again = Linear(Kernel(made.description, made.images))

    assert again.name == linear().name
    assert linear("rows of W and a workspace").name != linear().name


@pytest.mark.parametrize("scale", [(10, 8), (1, 1), None])
def test_what_has_no_kernel_pytorch_computes(scale):
    x, w, given = tensors(scale=scale, dtype="bfloat16" if scale is None else "float8_e4m3fn")
    bias, residual = torch.randn(N).bfloat16(), torch.randn(2, N).bfloat16()
    whole = torch.ones(1, 1) if given is None else given
    if whole.numel() > 1:
        whole = whole.repeat_interleave(128, 0).repeat_interleave(128, 1)
    right = x.double() @ (w.double() * whole.double()).T + bias.double() + residual.double()

    y = by_pytorch(x, w, given, bias, residual)

    assert y.dtype == torch.bfloat16
    assert (y.double() - right).norm() < 4e-3 * right.norm()


def test_a_portfolio_finds_the_kernel_by_the_rows_and_falls_back_otherwise():
    rule = {
        "version": 1,
        "reach": 2.0,
        "keys": [
            {"weights": "fp8b128", "rows": 2, "bias": False, "residual": False, "points": [[2, N, K, 0]]}
        ],
    }
    described = {"format": "evoflash portfolio", "version": 1, "gpu": "h200", "rule": rule}
    portfolio = LinearPortfolio(described, [linear()])
    x, w, scale = tensors()

    assert portfolio.member(x, w, scale) is linear()
    assert portfolio.member(x[:1], w, scale) is linear(), "a kernel for two rows takes one"
    assert portfolio.member(torch.cat([x, x]), w, scale) is None
    assert portfolio.member(x, w, scale, bias=torch.zeros(N)) is None
    assert torch.equal(portfolio(torch.cat([x, x]), w, scale)[:2], by_pytorch(x, w, scale, None, None))
    with pytest.raises(Refused, match="no kernel was chosen"):
        portfolio(torch.cat([x, x]), w, scale, fallback=False)
    with pytest.raises(Refused, match="export it again"):
        LinearPortfolio({**described, "version": 2}, [linear()])
