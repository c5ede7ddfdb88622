"""What becomes of TMA copies whose box begins at an odd place: negative, off 16 bytes, beyond the tensor.

    python scripts/tma_probe.py > tma-probe.jsonl

One JSON line for each copy: what the emulator says, and what the GPU did, in a process of its own, for a copy
that the GPU does not like costs the process its context. Bytes are compared with conformance's NumPy model.
Without a GPU the emulator's half is all there is. See docs/conformance.md.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.compilers import gxx as hostcompiler
from evoflash.conformance import on_emulator as emulated
from evoflash.conformance import on_gpu as silicon
from evoflash.conformance import tma, worker
from evoflash.conformance.cases import UNWRITTEN, Array, Map, Module, Pointer, Trial
from evoflash.conformance.run import arch_of
from evoflash.cuda.launcher import present_gpu
from evoflash.errors import DeviceError
from evoflash.evaluation import Launch

_LIMIT_S = 30.0  # of a process: CuPy's import and a context are most of it; the kernel has silicon.py's limit
_AT_ONCE = 4
_COPIES = ("load", "store", "reduce_f16", "prefetch_alone")
_PLACES = ((8, 1), (0, -1), (-8, 0), (-8, -1), (-24, 0), (0, -24), (0, 38), (56, 0), (1, 0), (4, 0))
_PREFETCH = """
extern "C" __global__ void __launch_bounds__(32)
prefetch_alone(EF_TMAP(map), u32x4* out, int bytes, int shift, int a, int b, int c, int d, int e) {
  if (threadIdx.x == 0) ef::tma_prefetch(&map, ef::at(a, b));
}
EF_EXPORT_KERNEL(prefetch_alone)
"""


def main(arguments: list[str]) -> int:
    """All lines; with arguments one copy's GPU half: its name, coordinates, the compiled kernels' path."""
    if arguments:
        name, x, y, cubin = arguments
        print(json.dumps(_done(name, (int(x), int(y)), cubin)), flush=True)
        os._exit(0)  # what is freed in a lost context complains
    library, cubin = hostcompiler.build(_module().source, name="probe"), _cubin()
    copies = [(name, at) for name in _COPIES for at in _PLACES]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = threads.map(lambda copy: _in_a_process(copy[0], copy[1], cubin), copies)
        for (name, at), gpu in zip(copies, found, strict=True):
            line = {"copy": name, "at": at, "emulator": _emulated(name, at, library), "gpu": gpu}
            print(json.dumps(line), flush=True)
    return 0


def _module() -> Module:
    return Module("tma_probe", tma.source(2) + _PREFETCH, (), lambda: iter(()))


def _cubin() -> str:
    """Empty without a GPU."""
    try:
        return worker.cubin_path(_module(), arch_of(present_gpu()))
    except DeviceError as error:
        print(f"the emulator alone: {error}", file=sys.stderr)
        return ""


def _in_a_process(name: str, at: tuple[int, int], cubin: str) -> Any:
    if not cubin:
        return None
    command = [sys.executable, str(Path(__file__).resolve()), name, *map(str, at), cubin]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"end": f"no answer within {_LIMIT_S:.0f} s"}
    lines = child.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {"end": f"died: {child.stderr[-300:]}"}


def _done(name: str, at: tuple[int, int], cubin: str) -> dict[str, Any]:
    trial = _trial(name, at)
    try:
        return _compared(trial, silicon.run(trial, cubin))
    except Exception as error:  # CUDA's, by whatever name CuPy gives it
        return {"end": f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"}


def _emulated(name: str, at: tuple[int, int], library: Path) -> dict[str, Any]:
    trial = _trial(name, at)
    try:
        return _compared(trial, emulated.run(trial, library))
    except emulated.ReportedError as error:
        return {"end": str(error)}


def _compared(trial: Trial, found: dict[str, Array]) -> dict[str, Any]:
    """Which words were written, and how many are not what NumPy's model says."""
    (result,) = trial.results
    words, before = found[result].reshape(-1), trial.results[result].reshape(-1)
    written = np.flatnonzero(words != before)
    wrong = int((words != trial.expected[result].reshape(-1)).sum())
    return {"end": "ok", "written": written.size, "ranges": _ranges(written.tolist())[:8], "wrong": wrong}


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """First and last of each run of consecutive numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _trial(name: str, at: tuple[int, int]) -> Trial:
    """A box of 24 x 24 f16 of a tensor of 51 x 38, its rows 128 bytes apart."""
    tensor = tma.box_map(2, 0, "f16", "tensor")
    if name in ("store", "reduce_f16"):
        return _out(name, tensor, at)
    values = np.random.default_rng(1).integers(0, 256, tma.tensor_bytes(tensor), dtype=np.uint8)
    offsets, places = tma.walk(tensor, at, tma.BASE)
    box = np.full(tma.box_bytes(tensor), UNWRITTEN & 0xFF, np.uint8)
    if name == "load":
        box[places] = np.where(offsets < 0, 0, values[offsets])
    return _made(name, tensor, at, {"tensor": values}, "out", np.full_like(box, UNWRITTEN & 0xFF), box)


def _out(name: str, tensor: Map, at: tuple[int, int]) -> Trial:
    """Small integers are added, or stored over zeros."""
    rng = np.random.default_rng(2)
    image = rng.integers(1, 9, tma.box_bytes(tensor) // 2).astype(np.float16)
    before = np.zeros(tma.tensor_bytes(tensor) // 2, np.float16)
    if name != "store":
        before += rng.integers(1, 9, before.size).astype(np.float16)
    offsets, places = tma.walk(tensor, at, tma.BASE, writes=True)
    inside, after = (offsets >= 0) & (offsets % 2 == 0), before.copy()
    after[offsets[inside] // 2] += image[places[inside] // 2]
    return _made(name, tensor, at, {"image": image.view(np.uint8)}, "tensor", before, after)


def _made(
    name: str, tensor: Map, at: tuple[int, int], inputs: dict[str, Array], result: str, *words: Array
) -> Trial:
    before, after = (each.view(np.uint32) for each in words)
    given = "image" if result == "tensor" else "out"
    smem = 2 * tma.BASE + -(-tma.box_bytes(tensor) // tma.BASE) * tma.BASE
    sizes = (np.int32(tma.box_bytes(tensor)), np.int32(0))
    return Trial(
        cases=(),
        launches=(Launch(name, (1, 1, 1), (tma.THREADS, 1, 1), smem),),
        arguments=(tensor, Pointer(given), *sizes, *(np.int32(x) for x in (*at, 0, 0, 0))),
        inputs=inputs,
        results={result: before},
        expected={result: after},
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
