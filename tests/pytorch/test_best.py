"""Which kernel evoflash.torch takes for a call, without a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from exported_cases import exported  # noqa: E402

import evoflash.torch as drop_in  # noqa: E402
from evoflash.errors import UsageError  # noqa: E402
from evoflash.exports.kinds import kind_of  # noqa: E402
from evoflash.operations.attention.workload import AttentionWorkload  # noqa: E402
from evoflash.specs import load_gpu  # noqa: E402
from evoflash.torch import best  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_stored(monkeypatch, tmp_path):
    monkeypatch.setenv("EVOFLASH_DB", str(tmp_path / "none.db"))
    best.known_kernels.cache_clear()
    yield
    best.known_kernels.cache_clear()


def test_the_kernel_timed_on_the_nearest_shape_is_taken():
    wanted = AttentionWorkload(4, 32, 8, 4000, 4000, 128, "fp16", causal=True)

    known = best.nearest(wanted, load_gpu("h200"))

    assert str(known.workload) == "b=4,h=32,hkv=8,sq=4096,skv=4096,d=128,dtype=fp16,causal"
    assert known.workload.compile_key("sm_90a") == wanted.compile_key("sm_90a")


def test_a_kernel_of_another_dtype_mask_head_size_or_ratio_is_never_taken():
    with pytest.raises(UsageError, match="no measured kernel is known for d=128,dtype=bf16,causal,gqa=16"):
        best.nearest(AttentionWorkload(1, 16, 1, 512, 512, 128, "bf16", causal=True), load_gpu("h200"))


def test_an_unknown_gpu_is_told_what_to_do():
    with pytest.raises(UsageError, match="no kernel was measured on a 'GeForce 8800': run `evoflash search`"):
        best.gpu_of("GeForce 8800")


def test_a_gpu_without_an_archive_has_no_kernels():
    with pytest.raises(UsageError, match="evoflash search"):
        best.nearest(AttentionWorkload(1, 8, 8, 512, 512, 64), load_gpu("l4"))


def test_a_call_on_the_cpu_is_refused_or_falls_back():
    q, k, v = (torch.randn(1, 4, 20, 64, dtype=torch.bfloat16) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    with pytest.raises(drop_in.Refused, match="on cpu"):
        drop_in.attention(q, k, v, causal=True)

    assert torch.equal(drop_in.attention(q, k, v, causal=True, fallback=True), expected)


@pytest.mark.slow
def test_a_compiled_call_is_one_graph():
    q, k, v = (torch.randn(1, 4, 20, 64, dtype=torch.float16) for _ in range(3))
    compiled = torch.compile(lambda q, k, v: drop_in.attention(q, k, v, fallback=True), fullgraph=True)

    assert torch.equal(compiled(q, k, v), drop_in.attention(q, k, v, fallback=True))


def test_an_exported_folder_is_a_kernel_too(tmp_path):
    kind_of("hub", "").write(exported("direct"), tmp_path / "mine")

    kernel = drop_in.load(tmp_path / "mine")

    assert kernel.serves == "float16, head_dim 64, one query head for each key/value head, no mask"
    with pytest.raises(drop_in.Refused, match="cannot be read"):
        drop_in.load(tmp_path / "nothing")


def test_registering_activates_nothing():
    before = torch.nn.attention.current_flash_attention_impl()

    drop_in.register("evoflash_of_this_test")

    assert "evoflash_of_this_test" in torch.nn.attention.list_flash_attention_impls()
    assert torch.nn.attention.current_flash_attention_impl() == before


def test_the_package_does_not_stand_in_the_way_of_pytorch():
    assert drop_in.torch is torch
    assert torch.__file__ != drop_in.__file__
