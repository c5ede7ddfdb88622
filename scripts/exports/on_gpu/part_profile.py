"""What a call puts on the GPU: one kernel and no copies, by PyTorch's profiler."""

import torch
from cases import TIMED
from torch.profiler import ProfilerActivity, profile

CALLS = 10


def run(cases):
    found = {"rows": [], "bad": []}
    if cases.rehearse:
        return found
    for name in TIMED:
        for layout in ("bhsd", "bshd"):
            tensors = cases.tensors(name, layout)
            for way, call in cases.ways(name, layout):
                found["rows"].append(_row(cases, found, f"{name} {layout} {way}", call, tensors))
            torch._dynamo.reset()
    return found


def _row(cases, found, what, call, tensors):
    for _ in range(3):
        call(*tensors)
    cases.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        for _ in range(CALLS):
            call(*tensors)
        cases.synchronize()
    counts = {}
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            counts[event.name] = counts.get(event.name, 0) + 1
    each = {name: number / CALLS for name, number in counts.items()}
    kernels = {name: number for name, number in each.items() if not name.startswith(("Memset", "Memcpy"))}
    if any("Memcpy" in name for name in each) or not kernels:
        found["bad"].append(f"{what}: {each}")
    return {"what": what, "a call": each}
