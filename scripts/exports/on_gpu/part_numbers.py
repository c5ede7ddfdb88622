"""Right numbers in two layouts, eager, compiled and in a graph; opcheck; what is refused."""

import torch
from cases import as_bhsd, distance, exact
from torch.nn.functional import scaled_dot_product_attention

# Of the error of PyTorch's own attention of the same tensors in the same precision.
FACTOR, FLOOR = 2.0, 1e-4


def run(cases):
    found = {"bad": [], "rows": []}
    for name in cases.names:
        *_, causal = cases.sizes(name)
        for layout in ("bhsd", "bshd"):
            tensors = cases.tensors(name, layout)
            q, k, v = as_bhsd(layout, *tensors)
            right, sums = exact(q, k, v, causal)
            honest = distance(_sdpa(q, k, v, causal), right)
            for way, call in cases.ways(name, layout):
                out = call(*tensors)
                out = call(*tensors)
                cases.synchronize()
                _note(found, f"{name} {layout} {way}", as_bhsd(layout, out)[0], right, honest)
            _more(cases, found, (name, layout), tensors, (right, sums, honest))
            torch._dynamo.reset()
    found["hub"] = _hub(cases, found)
    found["opcheck"] = _opcheck(cases, found)
    found["refused"] = _refused(cases, found)
    return found


def _sdpa(q, k, v, causal):
    square = causal and q.shape[2] == k.shape[2]
    return scaled_dot_product_attention(q, k, v, is_causal=square, enable_gqa=q.shape[1] != k.shape[1])


def _note(found, what, out, right, honest):
    off = distance(out, right)
    found["rows"].append({"what": what, "rel_l2": off, "sdpa_rel_l2": honest})
    if not off <= FACTOR * honest + FLOOR:
        found["bad"].append(f"{what}: relative error {off:.2e}, PyTorch's {honest:.2e}")


def _more(cases, found, what, tensors, expected):
    """out=, return_lse=, slices of one buffer, a non-default stream."""
    (name, layout), (right, sums, honest) = what, expected
    attention = cases.attention(name)
    q, k, v = tensors
    out = torch.full_like(q, float("nan"))
    given, lse = attention(q, k, v, layout=layout, out=out, return_lse=True)
    assert given is out
    cases.synchronize()
    _note(found, f"{name} {layout} out=", as_bhsd(layout, out)[0], right, honest)
    off = float((lse - sums).abs().max())
    if not off < 2e-3:
        found["bad"].append(f"{name} {layout}: LSE is off by {off:.2e}")
    wide = torch.cat((torch.zeros_like(q), q, torch.zeros_like(q)), dim=3)
    view = wide[..., q.shape[3] : 2 * q.shape[3]]
    _note(
        found,
        f"{name} {layout} slice",
        as_bhsd(layout, attention(view, k, v, layout=layout))[0],
        right,
        honest,
    )
    if cases.rehearse:
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other = attention(q, k, v, layout=layout)
    stream.synchronize()
    _note(found, f"{name} {layout} other stream", as_bhsd(layout, other)[0], right, honest)


def _hub(cases, found):
    """The hub folder as a package of its own, as `kernels` imports it."""
    import importlib.util
    import sys

    place = cases.folder / "hub" / "build" / "torch-cuda" / "__init__.py"
    spec = importlib.util.spec_from_file_location("hub_kernel", place)
    module = importlib.util.module_from_spec(spec)
    sys.modules["hub_kernel"] = module
    spec.loader.exec_module(module)
    q, k, v = cases.tensors("short", "bhsd")
    right, _ = exact(q, k, v, False)
    out = module.attention(q, k, v, fallback=cases.rehearse)
    _note(found, "hub", out, right, distance(_sdpa(q, k, v, False), right))
    return repr(module.attention)


def _opcheck(cases, found):
    if cases.rehearse:
        return "not in a rehearsal"
    done = {}
    for name in ("short", "decode"):
        q, k, v = cases.tensors(name, "bhsd")
        operators = cases.attention(name)._operators
        for operator in (operators.plain, operators.lse):
            done[str(operator)] = torch.library.opcheck(operator, (q, k, v, q.shape[3] ** -0.5, False))
        lse = torch.empty(q.shape[:3], device=q.device)
        arguments = (q, k, v, torch.empty_like(q), lse, q.shape[3] ** -0.5, False)
        done[str(operators.out)] = torch.library.opcheck(operators.out, arguments)
    return {name: dict(outcome) for name, outcome in done.items()}


def _refused(cases, found):
    """Bad calls: one line each, and with fallback=True an answer where there is one."""
    if cases.rehearse:
        return "not in a rehearsal"
    module = cases.module("short")
    q, k, v = cases.tensors("short", "bhsd")
    odd = torch.randn(q.numel() + 8, device="cuda", dtype=q.dtype)[1 : q.numel() + 1].view(q.shape)
    calls = {
        "bf16": (q.bfloat16(), k.bfloat16(), v.bfloat16()),
        "fp32": (q.float(), k.float(), v.float()),
        "head_dim": tuple(torch.cat((t, t), dim=3) for t in (q, k, v)),
        "gqa": (q, k[:, :1], v[:, :1]),
        "cpu": (q.cpu(), k.cpu(), v.cpu()),
        "grad": (q.clone().requires_grad_(), k, v),
        "address": (odd, k, v),
        "inner stride": (q.transpose(2, 3).contiguous().transpose(2, 3), k, v),
    }
    lines = {}
    for name, tensors in calls.items():
        try:
            module.attention(*tensors)
            found["bad"].append(f"refused {name}: it was not")
        except module.Refused as error:
            lines[name] = str(error)
        out = module.attention(*tensors, fallback=True)
        right, _ = exact(*(t.detach().cuda() for t in tensors), False)
        if distance(out.detach().cuda(), right) > 1e-2 or "\n" in lines.get(name, ""):
            found["bad"].append(f"refused {name}: the fallback is wrong, or the message is not one line")
    return lines
