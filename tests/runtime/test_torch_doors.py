"""PyTorch's registry of flash attentions and Transformers' of attentions, without a GPU.

On the CPU the kernel refuses, so that what is tried here is where a call then goes; the door to PyTorch's
flash attention is tried under the dispatch key of the CPU, where PyTorch itself has no such operator: a test
registers one, which stands for the original.
"""

from functools import cache

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from exported_cases import exported  # noqa: E402

from evoflash.exports.launch_json import artefact  # noqa: E402
from evoflash.runtime.launch import Kernel, Refused  # noqa: E402
from evoflash.runtime.torch_doors import register_sdpa, register_transformers, replace_flash  # noqa: E402
from evoflash.runtime.torch_fallback import by_sdpa  # noqa: E402
from evoflash.runtime.torch_op import Attention  # noqa: E402

FLASH = "_scaled_dot_product_flash_attention"


@cache
def attention():
    made = artefact(exported("direct"))
    return Attention(Kernel(made.description, made.images))


# ---- scaled_dot_product_attention


@pytest.fixture
def original():
    """A flash attention for the CPU in the place of PyTorch's for the GPU; yields the calls that it got."""
    calls, library = [], torch.library.Library("aten", "IMPL")

    def flash(q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
        calls.append((dropout_p, is_causal))
        out, lse = by_sdpa(q, k, v, causal=is_causal, scale=scale, return_lse=True)
        nothing = torch.empty(0)
        return out, lse, nothing, nothing, q.shape[2], k.shape[2], nothing, nothing, nothing

    library.impl(FLASH, flash, "CPU")
    yield calls
    library._destroy()


def qkv(rows=16, keys=16):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(1, 8, n, 64, generator=generator, dtype=torch.float16) for n in (rows, keys, keys)]


def flash(*tensors, **how):
    return torch.ops.aten._scaled_dot_product_flash_attention(*tensors, **how)


def test_what_the_kernel_refuses_goes_to_the_original_once(original):
    given = qkv()
    registered = replace_flash(attention(), "CPU")
    try:
        out = flash(*given, 0.0, True, scale=0.25)[0]
    finally:
        registered.remove()

    assert original == [(0.0, True)]
    assert torch.equal(out, by_sdpa(*given, causal=True, scale=0.25)[0])


def test_what_the_kernel_computes_never_reaches_the_original(original):
    asked = []

    def kernel(q, k, v, **how):
        asked.append(how)
        return by_sdpa(q, k, v, causal=how["causal"], scale=how["scale"], return_lse=True)

    registered = replace_flash(kernel, "CPU")
    try:
        found = flash(*qkv(), scale=0.25)
    finally:
        registered.remove()

    assert original == []
    assert asked == [{"causal": False, "scale": 0.25, "return_lse": True}]
    assert [found[0].shape, found[1].shape, found[4], found[5]] == [(1, 8, 16, 64), (1, 8, 16), 16, 16]


def test_dropout_and_rows_that_see_no_key_go_to_the_original(original):
    def kernel(q, k, v, **how):
        raise AssertionError("the kernel was asked")

    registered = replace_flash(kernel, "CPU")
    try:
        flash(*qkv(), 0.1)
        flash(*qkv(rows=16, keys=8), 0.0, True)
    finally:
        registered.remove()

    assert original == [(0.1, False), (0.0, True)]


def test_a_fallback_that_asks_for_flash_attention_again_does_not_come_back_to_the_kernel(original):
    entered = []

    def kernel(q, k, v, **how):
        entered.append(1)
        raise Refused("not this one")

    registered = replace_flash(kernel, "CPU")
    try:
        flash(*qkv())
    finally:
        registered.remove()

    assert len(entered) == 1
    assert len(original) == 1


def test_after_remove_the_original_is_what_it_was(original):
    registered = replace_flash(attention(), "CPU")
    registered.remove()
    registered.remove()

    flash(*qkv())

    assert original == [(0.0, False)]


def test_registering_makes_a_name_known_and_activates_nothing():
    before = torch.nn.attention.current_flash_attention_impl()

    register_sdpa(attention(), "evoflash_of_a_test")

    assert "evoflash_of_a_test" in torch.nn.attention.list_flash_attention_impls()
    assert torch.nn.attention.current_flash_attention_impl() == before


def test_a_pytorch_without_the_registry_says_so_in_one_line(monkeypatch):
    monkeypatch.delattr(torch.nn.attention, "register_flash_attention_impl")

    with pytest.raises(RuntimeError, match=r"has no register_flash_attention_impl: use 2\.11") as refused:
        register_sdpa(attention(), "never")

    assert "\n" not in str(refused.value)


# ---- Transformers


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers", reason="Transformers is not installed")


@pytest.fixture(scope="module")
def forward(transformers):
    """The function that is registered with Transformers."""
    register_transformers(attention(), "attention_of_a_test")
    return transformers.AttentionInterface()["attention_of_a_test"]


def llama(transformers, **changes):
    torch.manual_seed(3)
    sizes = {"vocab_size": 500, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "initializer_range": 0.2}
    config = transformers.LlamaConfig(**sizes, **heads, eos_token_id=None, bos_token_id=1, **changes)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", [torch.float16, pytest.param(torch.bfloat16, marks=pytest.mark.full)], ids=["fp16", "bf16"]
)
def test_a_small_llama_with_a_cache_gives_64_equal_tokens_through_the_fallback(transformers, forward, dtype):
    model = llama(transformers).to(dtype)
    prompt = torch.randint(0, 500, (2, 30), generator=torch.Generator().manual_seed(4))
    made = {}
    for implementation in ("sdpa", "attention_of_a_test"):
        model.set_attn_implementation(implementation)
        made[implementation] = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=64, do_sample=False, pad_token_id=0
        )

    assert made["sdpa"].shape == (2, 94)
    assert torch.equal(made["sdpa"], made["attention_of_a_test"])


def test_padding_reaches_the_model_as_a_mask(transformers, forward):
    model = llama(transformers)
    prompt = torch.randint(1, 500, (2, 12), generator=torch.Generator().manual_seed(4))
    mask = torch.ones_like(prompt)
    mask[0, :5] = 0
    logits = {}
    for implementation in ("sdpa", "attention_of_a_test"):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            logits[implementation] = model(prompt, attention_mask=mask).logits

    assert torch.allclose(logits["sdpa"], logits["attention_of_a_test"], atol=1e-5)


def test_a_name_that_transformers_takes_for_the_flash_attn_package_is_refused(transformers):
    with pytest.raises(ValueError, match="takes a name with 'flash'"):
        register_transformers(attention(), "evoflash")


class Module(torch.nn.Module):
    """What Transformers hands to an attention function, as far as that reads it."""

    is_causal, num_key_value_groups = True, 4


def eager(q, k, v, *, cap=None, sinks=None, window=None):
    """Attention with softcap, sinks and a window by definition, causal."""
    keys, values = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1).double() for t in (k, v))
    scores = q.double() @ keys.transpose(2, 3) * q.shape[3] ** -0.5
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    seen = torch.ones(scores.shape[2:], dtype=torch.bool).tril()
    if window is not None:
        seen &= seen.new_ones(scores.shape[2:]).triu(1 - window)
    weights = scores.masked_fill(~seen, float("-inf")).exp()
    below = weights.sum(dim=3, keepdim=True)
    if sinks is not None:
        below = below + sinks.double().exp().reshape(1, -1, 1, 1)
    return (weights / below @ values).transpose(1, 2)


@pytest.mark.parametrize("has_sinks", [False, True], ids=["no sinks", "sinks"])
@pytest.mark.parametrize("cap", [None, 3.0], ids=["no cap", "cap"])
def test_softcap_and_sinks_are_computed_as_they_are_defined(forward, cap, has_sinks):
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(1, heads, 20, 64, generator=generator) for heads in (8, 2, 2))
    sinks = torch.randn(8, generator=generator) if has_sinks else None

    out, weights = forward(Module(), q, k, v, None, softcap=cap, s_aux=sinks)

    assert weights is None
    assert (out.double() - eager(q, k, v, cap=cap, sinks=sinks)).abs().max() < 1e-5


def test_a_window_that_arrives_as_a_mask_is_kept(forward):
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(1, heads, 20, 64, generator=generator) for heads in (8, 2, 2))
    mask = torch.ones(20, 20, dtype=torch.bool).tril().triu(-4)[None, None]

    out, _ = forward(Module(), q, k, v, mask, sliding_window=5)

    assert (out.double() - eager(q, k, v, window=5)).abs().max() < 1e-5


def test_a_prefill_into_a_longer_cache_sees_only_what_is_filled(forward):
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(1, heads, 20, 64, generator=generator) for heads in (8, 2, 2))
    room = torch.full((1, 2, 12, 64), 1e3)

    out, _ = forward(Module(), q, torch.cat((k, room), dim=2), torch.cat((v, room), dim=2), None)

    assert (out.double() - eager(q, k, v)).abs().max() < 1e-5
    assert out.is_contiguous()
