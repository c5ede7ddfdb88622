"""PyTorch's own door: scaled_dot_product_attention with the kernel in the place of its flash attention."""

import torch
from cases import distance, exact
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def run(cases):
    found = {"bad": []}
    if cases.rehearse:
        return found
    if not hasattr(torch.nn.attention, "activate_flash_attention_impl"):
        return {"bad": [], "skipped": f"PyTorch {torch.__version__} has no activate_flash_attention_impl"}
    module = cases.module("short")
    module.register_sdpa(module.attention, "exported")
    q, k, v = cases.tensors("short", "bhsd")
    right, _ = exact(q, k, v, False)
    torch.nn.attention.activate_flash_attention_impl("exported")
    try:
        found["ours"] = _kernels(q, k, v)
        found["not ours, causal"] = _kernels(q, k, v, is_causal=True)
        grown = q.clone().requires_grad_()
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = scaled_dot_product_attention(grown, k, v)
            out.sum().backward()
            off = distance(scaled_dot_product_attention(q, k, v), right)
        found["rel_l2"], found["gradient"] = off, float(grown.grad.float().norm())
    finally:
        restore = getattr(torch.nn.attention, "restore_flash_attention_impl", None)
        if restore:
            restore()
    found["restored"] = _kernels(q, k, v) if restore else "this PyTorch has no restore_flash_attention_impl"
    entry = module.KERNEL.description["kernel"]["family"]
    if not any(entry in name for name in found["ours"]):
        found["bad"].append(f"scaled_dot_product_attention did not use the kernel: {found['ours']}")
    if any(entry in name for name in (*found["not ours, causal"], *(found["restored"] if restore else ()))):
        found["bad"].append("the kernel ran where it should not")
    if not off < 2e-3:
        found["bad"].append(f"scaled_dot_product_attention is off by {off:.2e}")
    return found


def _kernels(q, k, v, **how):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            scaled_dot_product_attention(q, k, v, **how)
        torch.cuda.synchronize()
    return [e.name[:80] for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
