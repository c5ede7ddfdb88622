"""What the Python side of an exported kernel's call costs the host, without a GPU. Times no kernel.

    python -m scripts.exports.host_cost
    python -m scripts.exports.host_cost --against ../another-checkout -o record.json

The driver is the recording one of tests/runtime, silent: a launch costs a call into C. Tensors are PyTorch's
on the CPU, for which the function takes the same path as for those of a GPU; the allocator is another one.
So what a GPU's machine adds is left out: the driver's own work, and PyTorch's allocator for the device.
With --against the launchers of two checkouts stand in one process and are timed in turns, in blocks of a few
milliseconds; the ratio is the median over the blocks side by side.
"""

import argparse
import ctypes
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "tests" / "runtime" / "recording_driver.cpp"
# Families, problems and genes: one kernel for each thing that a call may have to do besides launching.
KERNELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "one launch": ("flash_direct", "b=1,h=8,hkv=8,sq=128,skv=128,d=64,dtype=fp16", {}),
    "tensor maps": ("flash_wgmma", "b=1,h=32,hkv=8,sq=1000,skv=2000,d=128,dtype=bf16,causal", {}),
    "scratch": ("flash_mma", "b=2,h=8,hkv=2,sq=64,skv=999,d=128,dtype=fp16", {"kv_splits": 2}),
    "counters": (
        "flash_wgmma",
        "b=2,h=16,hkv=16,sq=1000,skv=1000,d=128,dtype=fp16,causal",
        {"producer": "warpgroup", "schedule": "dynamic"},
    ),
}
CALLS, BLOCKS = 200, 151
CONTEXT = 0x1000 + 70  # of the driver's first device
Call = Callable[[], object]


def compiled(name: str) -> Artefact:
    """The kernel of that name, for an H200."""
    family, text, values = KERNELS[name]
    problem, spec = parse_problem(text), load_gpu("h200")
    space = load_family(family).space(problem.compile_keys(spec.arch), spec)
    usual = {param.name: param.values[0] for param in space.params}
    seeds = [seed.as_dict() for seed in load_family(family).seeds_for(problem, space, spec)]
    genomes = (space.genome({**usual, **base, **values}) for base in [usual, *seeds])
    genome = next(g for g in genomes if space.is_valid(g) and values.items() <= g.as_dict().items())
    return artefact(ExportRequest(genome, problem, spec))


def launcher(checkout: Path, name: str) -> ModuleType:
    """torch_op of a checkout's evoflash/runtime, which imports nothing of evoflash, as the package `name`."""
    folder = checkout / "evoflash" / "runtime"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"{folder} holds no launcher: name a checkout of evoflash.")
    sys.modules[name] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return importlib.import_module(f"{name}.torch_op")


def attention_of(module: ModuleType, made: Artefact, driver: str) -> Any:
    """The kernel as a function that takes tensors of the CPU for those of device 0."""

    class OnDevice0(module.Kernel):  # type: ignore[misc, name-defined]  # of whichever checkout
        def plan(self, *what: Any, device: int, **more: Any) -> Any:
            return super().plan(*what, device=0, **more)

        def zeros(self, size: int, *, device: int) -> int:
            return int(super().zeros(size, device=0))

    class OfAnyTensor(module.Attention):  # type: ignore[misc, name-defined]
        def why_not(self, *call: Any) -> str:
            return ""

    module._is_capturing = bool  # type: ignore[attr-defined]  # a PyTorch without CUDA has none: False
    ctypes.CDLL(driver).cuCtxPushCurrent_v2(ctypes.c_void_p(CONTEXT))  # as PyTorch has it
    return OfAnyTensor(OnDevice0(made.description, made.images, driver=driver))


def ways(attention: Any, layout: str) -> dict[str, Call]:
    """The calls that are timed."""
    heads = 2 * attention.group, 2, 2
    q, k, v = (torch.zeros(1, n, 64, attention.head_dim, dtype=attention.dtype) for n in heads)
    if layout == "bshd":
        q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in (q, k, v))
    out = torch.empty_like(q)
    return {
        "attention(q, k, v)": lambda: attention(q, k, v, layout=layout),
        "out=": lambda: attention(q, k, v, layout=layout, out=out),
        "return_lse": lambda: attention(q, k, v, layout=layout, return_lse=True),
    }


def in_turns(calls: list[Call]) -> list[list[float]]:
    """Microseconds a call in each block, by call."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(BLOCKS):
        for call, own in zip(calls, times, strict=True):
            own.append(timeit.timeit(call, number=CALLS) / CALLS * 1e6)
    return times


def row_of(times: list[list[float]]) -> dict[str, float]:
    """The lower quartile, which other processes disturb less than the median; the ratio of each pair."""
    row = {"us": statistics.quantiles(times[0], n=4)[0]}
    if len(times) > 1:
        ratios = sorted(a / b for a, b in zip(*times, strict=True))
        row["us against"] = statistics.quantiles(times[1], n=4)[0]
        row |= {"ratio": statistics.median(ratios), "ratio p10": ratios[len(ratios) // 10]}
        row["ratio p90"] = ratios[-1 - len(ratios) // 10]
    return row


def measured(driver: str, against: Path | None) -> dict[str, dict[str, float]]:
    """A row for each kernel, layout and way."""
    checkouts = [ROOT, *([against] if against else [])]
    modules = [launcher(checkout, f"launcher_{n}") for n, checkout in enumerate(checkouts)]
    rows = {}
    for name in KERNELS:
        made = compiled(name)
        attentions = [attention_of(module, made, driver) for module in modules]
        for layout in ("bhsd", "bshd"):
            calls = [ways(attention, layout) for attention in attentions]
            for way in calls[0]:
                rows[f"{name}, {layout}, {way}"] = row_of(in_turns([each[way] for each in calls]))
    q = torch.zeros(1, 8, 64, 64)
    return rows | {"torch.empty_like alone": row_of(in_turns([lambda: torch.empty_like(q)]))}


def built(folder: Path) -> str:
    """The recording driver, which here takes launches silently."""
    library = folder / "libdriver.so"
    text = DRIVER.read_text(encoding="utf-8").replace("bool is_silent = false;", "bool is_silent = true;")
    (folder / "driver.cpp").write_text(text, encoding="utf-8")
    words = ["g++", "-shared", "-fPIC", "-O2", "-std=c++17", "-pthread", "-o", str(library)]
    subprocess.run([*words, str(folder / "driver.cpp")], check=True)
    return str(library)


def main() -> int:
    """Build the driver, time in turns, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(built(Path(folder)), given.against)
    for name, row in rows.items():
        print(f"{name:40s}", "  ".join(f"{what} {number:.3f}" for what, number in row.items()))
    if given.output:
        command = " ".join(["python -m scripts.exports.host_cost", *sys.argv[1:]])
        record = {"command": command, "torch": torch.__version__, "python": sys.version.split()[0]}
        record |= {"calls": CALLS, "blocks": BLOCKS, "rows": rows}
        given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
