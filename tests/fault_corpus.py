"""The corpus of planted faults, tests/faults/*.toml: right kernels, and patches that each make one wrong.

A file holds a kernel and its faults. The kernel is a family's genome on a problem:
    family, values, problem, gpu              rendered; judged by the validator on one trial's inputs
    crowded = true                            a persistent grid is one CTA, which takes all blocks
or tests/kernels/hopper.cu in one of the configurations of hopper_kernel.py, likewise judged:
    configuration, problem
or a text beside the tests (tests/kernels), with the arrays and numbers that it takes, in order:
    file, defines, entry, grid, block, smem_bytes, cluster, cpu_limit_s
    argument  array, shape, dtype, fill ("normal", "range", "poison" or a number), writable; or value, dtype
Its right output is what the text writes before it is patched. A fault:
    name
    patch           pairs of old text, which must occur once, and new text
    expect_kind     a report's kind; or wrong-result (no report at all), bank-conflict, uncoalesced (counters)
    expect_line     part of the line that the report, or the counters' site, gives; none for wrong-result
    expect_line2    part of the other line that the report names
    expect_message  part of what the report says
    problem, trial  others for this fault, of the same compile key
    deliveries      where the fault's face depends on when copies land: the policies that this one is for;
                    under the others it has another one
    o_swizzle       of the tensor map by which the Hopper kernel's O leaves, in bytes
    right = true    the output is right all the same, so that only the report tells
    note            which bug of a real kernel this is

Runs a kernel under a delivery policy and a schedule; judges nothing.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from hopper_kernel import ARCH, CONFIGURATIONS, run_hopper
from places import FAULTS, KERNELS

from evoflash.emulator import launch as emulator
from evoflash.emulator.preflight import emulate
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.launch import LaunchConfig
from evoflash.operation import Delivery, Schedule
from evoflash.operations.attention.workload import parse_workload
from evoflash.specs import GpuSpec, load_gpu

POISON = {np.dtype(np.float16): np.nan, np.dtype(np.float32): np.nan}


@dataclass(frozen=True, slots=True)
class Fault:
    """One patch of a kernel and the report that it must give."""

    kernel: str  # the file's name
    name: str
    patch: tuple[tuple[str, str], ...]
    expect_kind: str
    note: str
    expect_line: str = ""
    expect_line2: str = ""
    expect_message: str = ""
    problem: str = ""
    trial: str = ""
    deliveries: tuple[str, ...] = ("eager", "lazy", "random")
    o_swizzle: Literal[0, 128] = 128
    right: bool = False

    def apply(self, text: str) -> str:
        for old, new in self.patch:
            assert text.count(old) == 1, f"{self.kernel}: {text.count(old)} times in the kernel: {old}"
            text = text.replace(old, new)
        return text


@dataclass(frozen=True, slots=True)
class Found:
    """What a run of a text showed."""

    text: str
    reports: tuple[emulator.EmulatorReport, ...]
    sites: tuple[emulator.Site, ...]
    wrong: str  # what is wrong with the output; empty when it is right

    def line(self, number: int) -> str:
        return self.text.splitlines()[number - 1] if number else ""


def kernels() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FAULTS.glob("*.toml")))


@cache
def _read(kernel: str) -> dict[str, Any]:
    return tomllib.loads((FAULTS / f"{kernel}.toml").read_text(encoding="utf-8"))


def faults(kernel: str) -> list[Fault]:
    """The kernel's faults in the order of the file; a misspelt key is a TypeError."""
    return [
        Fault(kernel, **{**each, "patch": tuple(map(tuple, each["patch"]))})
        for each in _read(kernel)["fault"]
    ]


def run(
    kernel: str,
    fault: Fault | None,
    *,
    delivery: Delivery,
    schedule: Schedule = "fifo",
) -> Found:
    """The kernel with the fault, or as it is without one."""
    spec = _read(kernel)
    how = _run_family if "family" in spec else _run_hopper if "configuration" in spec else _run_file
    return how(spec, fault, delivery=delivery, schedule=schedule)


def _run_family(spec: dict[str, Any], fault: Fault | None, **choices: Any) -> Found:
    family, gpu = load_family(spec["family"]), load_gpu(spec["gpu"])
    workload = parse_workload(fault.problem if fault and fault.problem else spec["problem"])
    key = parse_workload(spec["problem"]).compile_key(gpu.arch)
    assert workload.compile_key(gpu.arch) == key, "the fault's problem has another compile key"
    space = family.space((key,), gpu)
    genome = space.genome(spec["values"])
    assert space.is_valid(genome), space.violations(genome)
    text = render(genome, key, gpu).source
    text = fault.apply(text) if fault else text
    launches = family.launches(genome, workload, _crowded(gpu) if spec.get("crowded") else gpu)
    library = gxx.build(text, name=family.name)
    trial = (fault.trial if fault else "") or "normal"
    emulations, verdict = emulate(library, launches, workload, trial, seed=1, **choices)
    reports = tuple(report for each in emulations for report in each.reports)
    return Found(text, reports, tuple(site for each in emulations for site in each.sites), verdict.reason)


def _crowded(gpu: GpuSpec) -> GpuSpec:
    return replace(gpu, sm_count=0)


def _run_hopper(spec: dict[str, Any], fault: Fault | None, **choices: Any) -> Found:
    configuration = CONFIGURATIONS[spec["configuration"]]
    workload = parse_workload(fault.problem if fault and fault.problem else spec["problem"])
    text = configuration.source(workload.compile_key(ARCH)).replace("#line 1\n", "")
    text = fault.apply(text) if fault else text
    trial = (fault.trial if fault else "") or "normal"
    swizzle = fault.o_swizzle if fault else 128
    outcome = run_hopper(text, configuration, workload, trial=trial, o_swizzle=swizzle, **choices)
    return Found(text, outcome.emulation.reports, outcome.emulation.sites, outcome.verdict.reason)


def _run_file(spec: dict[str, Any], fault: Fault | None, **choices: Any) -> Found:
    text = _text_of(spec)
    right = _output(spec, text, **choices)[1] if fault else {}
    text = fault.apply(text) if fault else text
    emulation, output = _output(spec, text, **choices)
    wrong = [name for name in right if not np.array_equal(right[name], output[name], equal_nan=True)]
    return Found(text, emulation.reports, emulation.sites, f"{', '.join(wrong)} differs" if wrong else "")


def _text_of(spec: dict[str, Any]) -> str:
    defines = "".join(f"#define {define}\n" for define in spec.get("defines", ()))
    file: str = spec["file"]
    return defines + (KERNELS / file).read_text(encoding="utf-8")


def _output(
    spec: dict[str, Any], text: str, **choices: Any
) -> tuple[emulator.Emulation, dict[str, np.ndarray[Any, Any]]]:
    launch = LaunchConfig(
        spec["entry"],
        tuple(spec["grid"]),
        tuple(spec["block"]),
        spec["smem_bytes"],
        cluster=tuple(spec.get("cluster", (1, 1, 1))),
    )
    library = gxx.build(text, name=spec["entry"])
    rng = np.random.default_rng(1)
    with emulator.Memory() as memory:
        given = [_argument(memory, each, rng) for each in spec["argument"]]
        numbers = [np.uint64(x.ctypes.data) if isinstance(x, np.ndarray) else x for x in given]
        limit = spec.get("cpu_limit_s", 10.0)
        emulation = emulator.run_launch(library, launch, numbers, seed=1, cpu_limit_s=limit, **choices)
        arrays = zip(spec["argument"], given, strict=True)
        output = {each["array"]: array.copy() for each, array in arrays if each.get("writable")}
    return emulation, output


def _argument(memory: emulator.Memory, spec: dict[str, Any], rng: np.random.Generator) -> Any:
    kind = np.dtype(spec["dtype"])
    if "value" in spec:
        return kind.type(spec["value"])
    shape, fill = spec["shape"], spec.get("fill", 0)
    values: dict[str, Callable[[], Any]] = {
        "normal": lambda: rng.standard_normal(shape).astype(kind),
        "range": lambda: np.arange(np.prod(shape)).reshape(shape).astype(kind),
        "poison": lambda: np.full(shape, POISON.get(kind, -1), kind),
    }
    data = values[fill]() if isinstance(fill, str) else fill
    return memory.array(spec["array"], shape, kind, writable=spec.get("writable", False), fill=data)
