"""Runs and judges one module's trials in this process, and writes a journal of what became of each.

The journal is a file of JSON lines, so that what came before a crash is known: {"begin": number, "labels":
[...]} before each trial, {"outcomes": [...]} after it, {"finished": true} at the end, each with the time "at"
which it was written, in seconds of the monotonic clock. run.py reads it.

Results are equal bit for bit, or, for approximations, near the exact values.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.blame import begin_kernel
from evoflash.emulator import launch as emulator
from evoflash.emulator.tensor_map import tensor_map
from evoflash.errors import EvoflashError
from evoflash.gpu.comparisons import cubin_of
from evoflash.gpu.driver import encode_map
from evoflash.gpu.launcher import LoadedKernel, beside_others, let_go, new_stream, wait
from evoflash.gpu.memory import on_device
from evoflash.kernels import gxx
from evoflash.trust.conformance import arithmetic, hopper, snippets
from evoflash.trust.conformance.cases import (
    NAMES,
    Argument,
    Array,
    Bound,
    CaseResult,
    Kind,
    Map,
    Module,
    Pointer,
    Trial,
)

Results = Mapping[str, Array]

# Exponents of all ones and a part of the mantissa: a NaN, by kind; both halves of a word for 16-bit floats.
_NAN = {"f16": (0x7C00, 0x03FF), "bf16": (0x7F80, 0x007F)}
_FLOAT_BITS = 24  # of a mantissa, the hidden one with it
_SMALLEST_NORMAL = 2.0**-126
_BEYOND = 2.0**32  # ulp: what is infinitely far


def compare(trial: Trial, *, emulated: Results, gpu: Results | None) -> list[CaseResult]:
    """One outcome for each case; without a GPU's results, the emulator's against NumPy's alone."""
    if trial.bound is not None:
        return [_approximate(trial, trial.bound, emulated=emulated, gpu=gpu)]
    pairs = [("the emulator", emulated, "NumPy", trial.expected)]
    if gpu is not None:
        pairs.insert(0, ("the GPU", gpu, "the emulator", emulated))
    details = [[_differences(trial, number, *pair) for pair in pairs] for number in range(len(trial.cases))]
    return [
        CaseResult(label, not any(found), "; ".join(filter(None, found)))
        for label, found in zip(trial.cases, details, strict=True)
    ]


def _differences(trial: Trial, number: int, who: str, found: Results, other: str, expected: Results) -> str:
    for name, values in expected.items():
        pair = (found[name], values) if len(trial.cases) == 1 else (found[name][number], values[number])
        got, wanted = (canonical(array, trial.kind).reshape(-1) for array in pair)
        wrong = np.flatnonzero(got != wanted)
        if wrong.size:
            at = int(wrong[0])
            return (
                f"{name}: {wrong.size} of {got.size} words differ, the first [{at}]: "
                f"{who} {got[at]:#010x}, {other} {wanted[at]:#010x}"
            )
    return ""


def canonical(words: Array, kind: Kind) -> Array:
    """The words with one bit pattern for all NaNs: PTX promises no payload."""
    bits = np.ascontiguousarray(words).view(np.uint32)
    if kind == "bits":
        return bits
    if kind == "f32":
        return np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FFFFFFF), bits)
    exponent, mantissa = _NAN[kind]
    halves = bits.view(np.uint16)
    is_nan = ((halves & exponent) == exponent) & ((halves & mantissa) != 0)
    return np.where(is_nan, np.uint16(0x7FFF), halves).view(np.uint32)


# ---- approximations


def _approximate(trial: Trial, bound: Bound, *, emulated: Results, gpu: Results | None) -> CaseResult:
    inputs = trial.inputs["a"].view(np.float32)
    with np.errstate(all="ignore"):
        exact = bound.exact(inputs.astype(np.float64))
    sides = {"emulator": emulated} | ({"gpu": gpu} if gpu is not None else {})
    worst, faults = {}, []
    for side, results in sides.items():
        errors = errors_ulp(results["out"].reshape(-1).view(np.float32), exact, inputs, bound)
        at = int(np.argmax(errors))
        worst[side] = round(min(float(errors[at]), _BEYOND), 4)
        if not errors[at] <= bound.ulp:
            got = results["out"].reshape(-1)[at]
            faults.append(
                f"{side}: {errors[at]:.3f} ulp at input {inputs[at]!r} "
                f"({np.uint32(got):#010x}, exact {exact[at]!r}); the bound is {bound.ulp}"
            )
    return CaseResult(trial.cases[0], not faults, "; ".join(faults), worst)


def errors_ulp(found: Array, exact: Array, inputs: Array, bound: Bound) -> Array:
    """Distances in the bound's units (see Bound); infinite where one value is infinite or NaN and the other
    is not. What would be subnormal must be zero.
    """
    with np.errstate(all="ignore"):
        wanted = exact if bound.flat else exact.astype(np.float32).astype(np.float64)
        error = np.abs(found.astype(np.float64) - wanted)
        # A value next to the smallest normal float may have been rounded down before it was flushed.
        lost = np.maximum(np.abs(exact) - _SMALLEST_NORMAL, 0.0)
        distance = np.where(found == 0, lost, error) / _units(exact, inputs, bound)
        same = (found == exact) & (np.signbit(found) == np.signbit(exact))
        same |= np.isnan(found) & np.isnan(exact)
        same |= np.isinf(found) & (found == exact.astype(np.float32))  # beyond the largest float
    wrong_zero = (found == 0) & (np.signbit(found) != np.signbit(exact))
    not_flushed = (found != 0) & (np.abs(found) < _SMALLEST_NORMAL)
    comparable = np.isfinite(found) & np.isfinite(exact) & ~wrong_zero
    return np.where(same & ~not_flushed, 0.0, np.where(comparable & ~not_flushed, distance, np.inf))


def _units(exact: Array, inputs: Array, bound: Bound) -> Array:
    if bound.flat is not None:
        low, high = bound.flat
        flat = (inputs > low) & (inputs < high)
        return np.where(flat, 1.0, np.maximum(np.abs(exact), _SMALLEST_NORMAL)) * 2.0**-23
    _, exponent = np.frexp(np.where(np.isfinite(exact), exact, 1.0))
    last_place: Array = np.ldexp(1.0, np.maximum(exponent - _FLOAT_BITS, -149))
    return last_place


class ReportedError(Exception):
    """The emulator found fault with a conformance kernel: its first report, in one line."""


def run_on_emulator(trial: Trial, library: Path) -> dict[str, Array]:
    """The results after the launches of a built module. Raises ReportedError."""
    with emulator.Memory() as memory:
        buffers = {
            name: memory.array(name, values.shape, values.dtype, writable=name in trial.results, fill=values)
            for name, values in (*trial.inputs.items(), *trial.results.items())
        }

        def encode(box: Map, address: int) -> Any:
            size = box.element_bytes
            return tensor_map(
                address, box.dims, box.strides, box.box, element_bytes=size, swizzle=box.swizzle
            )

        given = _arguments(trial, lambda name: buffers[name].ctypes.data, encode)
        for launch in trial.launches:
            reports = emulator.run_launch(library, launch, given, cpu_limit_s=60.0).reports
            if reports:
                first = reports[0]
                raise ReportedError(f"the emulator reports {first.kind}, line {first.line}: {first.message}")
        return {name: buffers[name].copy() for name in trial.results}


_LIMIT_S = 3.0  # a kernel here takes microseconds; other processes have their turns between


def run_on_gpu(trial: Trial, cubin_path: str) -> dict[str, Array]:
    """The results after the launches. Raises what launcher.wait does, and CuPy's own errors."""

    def encode(box: Map, address: int) -> Any:
        dtype = NAMES[box.dtype]
        return encode_map(address, box.dims, box.strides, box.box, dtype=dtype, swizzle=box.swizzle)

    with beside_others():
        kernel, stream = LoadedKernel(cubin_path, trial.launches), new_stream()
        buffers = {
            name: on_device(values) for name, values in (*trial.inputs.items(), *trial.results.items())
        }
        with stream:
            kernel.enqueue(_arguments(trial, lambda name: buffers[name].data.ptr, encode))
        wait(stream, limit_s=_LIMIT_S)
        return {
            name: buffers[name].get().view(values.dtype).reshape(values.shape)
            for name, values in trial.results.items()
        }


def _arguments(
    trial: Trial, address: Callable[[str], int], encode: Callable[[Map, int], Any]
) -> tuple[Any, ...]:
    """What a launch is given: addresses of buffers, maps as `encode` makes them, and numbers."""

    def argument(each: Argument) -> Any:
        if isinstance(each, Pointer):
            return np.uint64(address(each.buffer))
        return encode(each, address(each.buffer)) if isinstance(each, Map) else each

    return tuple(map(argument, trial.arguments))


@cache
def modules(arch: str) -> dict[str, Module]:
    """Every text for a GPU of that architecture, by name; those that take longest first."""
    slow_first = chain(
        reversed(list(hopper.wgmma_modules(arch))),
        hopper.tma_modules(arch),
        arithmetic.modules(arch),
        snippets.modules(arch),
    )
    return {module.name: module for module in slow_first}


def run_module(
    name: str, arch: str, journal: Path, first: int, on_gpu: bool, without: Collection[str] = ()
) -> None:
    """The trials from number `first` on, those of the primitives `without` left out. Where the GPU's context
    is lost, ends the process.
    """
    begin_kernel()  # what it dies of is read from the journal: it is not to be called again
    sys.unraisablehook = lambda _: None  # what is freed in a lost context complains; the journal has said why
    module = modules(arch)[name]
    with journal.open("a", encoding="utf-8") as file:

        def note(**line: Any) -> None:
            print(json.dumps({**line, "at": round(time.monotonic(), 3)}), file=file, flush=True)

        note()
        try:
            library, cubin = gxx.build(module.source, name="conformance"), ""
            if on_gpu:
                cubin = cubin_path(module, arch)
        except EvoflashError as error:
            note(begin=-1, labels=[asdict(label) for label in module.labels])
            lost = [CaseResult(label, False, str(error), end="not run") for label in module.labels]
            note(outcomes=[asdict(outcome) for outcome in lost])
            note(finished=True)
            return
        for number, trial in enumerate(module.make()):
            if number < first or trial.cases[0].primitive in without:
                continue
            note(begin=number, labels=[asdict(label) for label in trial.cases])
            outcomes, is_lost = run_trial(trial, library, cubin)
            note(outcomes=[asdict(outcome) for outcome in outcomes])
            if is_lost:
                os._exit(1)
        note(finished=True)


def run_trial(trial: Trial, library: Path, cubin: str) -> tuple[list[CaseResult], bool]:
    """What became of its cases, and whether the GPU's context is lost. No cubin: the emulator alone."""
    try:
        found = run_on_emulator(trial, library)
    except (ReportedError, EvoflashError) as error:
        return [CaseResult(label, False, str(error)) for label in trial.cases], False
    if not cubin:
        return compare(trial, emulated=found, gpu=None), False
    try:
        return compare(trial, emulated=found, gpu=run_on_gpu(trial, cubin)), False
    except EvoflashError as error:
        let_go()  # nothing of it is on the GPU
        return [CaseResult(label, False, str(error)) for label in trial.cases], False
    except Exception as error:  # CUDA's, by whatever name CuPy gives it
        reason = f"the GPU: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return [CaseResult(label, False, reason, end="crashed") for label in trial.cases], True


def cubin_path(module: Module, arch: str) -> str:
    """The compiled kernels, from the cache if they are there; needs no GPU. EvoflashError as NVRTC says."""
    return cubin_of(arch, f"conformance_{module.name}", module.source)


def read_journal(journal: Path) -> Iterator[dict[str, Any]]:
    """Its lines so far; one that a dying process left unfinished is left out."""
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.exists() else ():
        with contextlib.suppress(ValueError):
            yield json.loads(line)
