"""The host's time for a call beyond an empty launch, PyTorch's attention in turns; and the GPU's time.

Many short rounds, in each of which every way is called in turn: the machine's speed drifts, so that a way is
compared with the empty launches of its own round, and the medians are over the rounds' differences.
"""

import ctypes
import statistics
import time

import torch
from cases import TIMED, as_bhsd
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

CALLS, ROUNDS, WARM = 50, 61, 10
EMPTY = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n\0"


def run(cases):
    found = {"calls": CALLS, "rounds": ROUNDS, "rows": [], "bad": []}
    for name in TIMED:
        for layout in ("bhsd", "bshd"):
            found["rows"].append(_row(cases, found, name, layout))
            torch._dynamo.reset()
    return found


def _row(cases, found, name, layout):
    tensors = cases.tensors(name, layout)
    ways = {way: _bound(call, tensors) for way, call in cases.ways(name, layout)}
    attention, out = cases.attention(name), torch.empty_like(tensors[0])
    ways["eager, out="] = lambda: attention(*tensors, layout=layout, out=out)
    if not cases.rehearse:
        ways["empty launch"] = _empty_launch()
        ways |= _libraries(cases, name, layout, tensors)
    times = _times(cases, found, f"{name} {layout}", ways)
    row = {"what": f"{name} {layout}", "host_us": {way: statistics.median(us) for way, us in times.items()}}
    row["gpu_us"] = _gpu_times(cases, {way: ways[way] for way in times})
    if not cases.rehearse:
        empty = times["empty launch"]
        row["beyond_empty_us"] = {
            way: _spread([a - b for a, b in zip(us, empty, strict=True)]) for way, us in times.items()
        }
        beyond = row["beyond_empty_us"]["eager"]["median"]
        if beyond > 10:
            found["bad"].append(f"{name} {layout}: a call costs {beyond:.1f} us beyond an empty launch")
        print(row["what"], {way: round(us, 2) for way, us in row["host_us"].items()}, flush=True)
    return row


def _times(cases, found, what, ways):
    """Microseconds a call in each round, by way."""
    for way in list(ways):
        try:
            for _ in range(WARM):
                ways[way]()
        except RuntimeError as error:
            found.setdefault("left out", []).append(f"{what} {way}: {str(error).splitlines()[0]}")
            del ways[way]
    times = {way: [] for way in ways}
    for _ in range(3 if cases.rehearse else ROUNDS):
        for way, call in ways.items():
            cases.synchronize()
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[way].append((time.perf_counter() - started) / CALLS * 1e6)
    cases.synchronize()
    return times


def _spread(values):
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p10": ordered[len(ordered) // 10],
        "p90": ordered[-1 - len(ordered) // 10],
    }


def _bound(call, tensors):
    q, k, v = tensors
    return lambda: call(q, k, v)


def _gpu_times(cases, ways):
    """Microseconds a call between two events around twenty, which the host may limit."""
    if cases.rehearse:
        return {}
    found = {}
    for way, call in ways.items():
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(20):
            call()
        end.record()
        end.synchronize()
        found[way] = begin.elapsed_time(end) * 1e3 / 20
    return found


def _libraries(cases, name, layout, tensors):
    """PyTorch's attention: as it chooses, compiled, and by cuDNN and flash attention."""
    q, k, v = as_bhsd(layout, *tensors)
    causal = cases.sizes(name)[-1] and q.shape[2] == k.shape[2]
    how = {"is_causal": causal, "enable_gqa": q.shape[1] != k.shape[1]}

    def default():
        return scaled_dot_product_attention(q, k, v, **how)

    def under(backend):
        def call():
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, **how)

        return call

    compiled = torch.compile(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, **how), fullgraph=True, dynamic=False
    )
    identity = torch.compile(lambda q, k, v: q + 1, fullgraph=True, dynamic=False)
    small = q[:1, :1, :1]
    return {
        "sdpa": default,
        "sdpa compiled": lambda: compiled(q, k, v),
        "an addition compiled": lambda: identity(small, k, v),
        "sdpa cuDNN, context included": under(SDPBackend.CUDNN_ATTENTION),
        "sdpa flash, context included": under(SDPBackend.FLASH_ATTENTION),
    }


def _empty_launch():
    """A kernel that does nothing, launched through the driver from Python as the exported ones are."""
    torch.zeros(1, device="cuda")
    driver, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    for status in (
        driver.cuModuleLoadData(ctypes.byref(module), EMPTY),
        driver.cuModuleGetFunction(ctypes.byref(function), module, b"empty"),
    ):
        if status:
            raise RuntimeError(f"the empty kernel does not load: error {status}")
    launch = driver.cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    handle, stream = function.value, torch.cuda.current_stream().cuda_stream
    return lambda: launch(handle, 1, 1, 1, 32, 1, 1, 0, stream, None, None)
