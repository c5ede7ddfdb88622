"""How far apart two copies of one kernel seem to be on this machine, its noise floor. Judges no kernel.

Where code and data happen to lie makes copies differ a little, however long one measures. `evoflash doctor
--noise` finds out how much and keeps it, by GPU and driver; comparisons call nothing below it faster. The
versions of the machine's software, which are stored beside every run, are read here too.
"""

import importlib.metadata
import json
import platform
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.errors import DeviceError, EvoflashError
from evoflash.extensions import made_with
from evoflash.gpu import launcher
from evoflash.gpu.launcher import LoadedKernel, PresentGpu
from evoflash.gpu.timing.benchmark import Bench, KernelContender
from evoflash.gpu.timing.paired import MINIMAL_EFFECT, run_sequential_test
from evoflash.gpu.timing.protocols import Pace, TimingProtocol
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import families_for, load_family
from evoflash.kernels.nvrtc import compile_candidate, first_error, nvrtc_version
from evoflash.kernels.renderer import render
from evoflash.launch import LaunchConfig
from evoflash.paths import MUTATIONS, cache_dir, writing_to_cache
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.version import __version__
from evoflash.workload import Workload
from evoflash.written_files import is_dry_run


def versions() -> str:
    """evoflash, CuPy, NVRTC and driver, for --version and for bug reports."""
    parts = [f"evoflash {__version__}", f"CuPy {cupy_version() or 'none'}"]
    for name, check in (("NVRTC", nvrtc_version), ("driver", driver_version)):
        try:
            parts.append(f"{name} {check()}")
        except (EvoflashError, OSError, ImportError):
            parts.append(f"{name} none")
    return ", ".join(parts)


def environment() -> dict[str, str]:
    found = {"versions": versions(), "python": platform.python_version(), "machine": platform.machine()}
    found |= made_with(MUTATIONS)
    if kept := describe():
        found["noise"] = kept
    return found


def cupy_version() -> str | None:
    """CuPy's version from its package's metadata; None when no package of it is installed."""
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def driver_version() -> str:
    """The NVIDIA driver's version, by NVML. OSError when there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        raise OSError(f"no NVIDIA driver ({error})") from None


ROWS = ("mission", "s2k_d64")  # a short one and a long one
PAIRS = {Pace.STEADY: 20, Pace.SUSTAINED: 8, Pace.BOOST: 3}
_SIGMAS = 3.0
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class NoiseEstimate:
    """What copies of one kernel, loaded apart, came to under one protocol."""

    problem: str
    protocol: str
    pairs: int
    relative: float  # three standard deviations of their ratios from 1
    called: int  # how many were called faster or slower: none should be


@dataclass(frozen=True, slots=True)
class _Copies:
    """One kernel on one workload, in the GPU process."""

    cubin_path: str
    workload: Workload
    launches: tuple[LaunchConfig, ...]
    spec: GpuSpec


def measure(spec: GpuSpec, *, said: Callable[[str], None]) -> list[NoiseEstimate]:
    """Time copies against each other in a GPU process, and keep what came out for this GPU and driver."""
    floors = []
    with IsolatedPool(1, initializer=launcher.warm_up) as pool:
        for problem in ROWS:
            said(f"a kernel against copies of itself on {problem}")
            ending = pool.submit(_floors, _copies(problem, spec), timeout_s=_LIMIT_S).result()
            if ending.value is None:
                raise EvoflashError(
                    f"the noise could not be measured: {ending.reason}; see `evoflash doctor`."
                )
            floors += ending.value
    keep(floors, launcher.present_gpu())
    return floors


def _copies(problem: str, spec: GpuSpec) -> _Copies:
    what = parse_problem(problem)
    genome = _any_genome(what, spec)
    (workload,), (key,) = what.workloads, what.compile_keys(spec.arch)
    build = compile_candidate(render(genome, key, spec))
    if not build.ok:
        raise EvoflashError(f"{genome.id} does not compile: {first_error(build.log)}")
    launches = load_family(genome.family).launches(genome, workload, spec)
    return _Copies(build.cubin_path, workload, launches, spec)


def _any_genome(problem: Problem, spec: GpuSpec) -> Genome:
    """The first seed of a family that has one for this GPU: flash_mma's where it runs."""
    families = sorted(families_for(spec, problem.operation), key=lambda family: family.name != "flash_mma")
    for family in families:
        space = family.space(problem.compile_keys(spec.arch), spec)
        if seeds := family.seeds_for(problem, space, spec):
            return seeds[0]
    raise DeviceError(f"no kernel family has a kernel for {problem} on {spec.name}: see `evoflash families`.")


def _floors(copies: _Copies) -> list[NoiseEstimate]:
    bench, rng = Bench(copies.workload, spec=copies.spec, seed=0), np.random.default_rng()
    with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
        return [_floor(copies, bench, protocol, Path(folder), rng=rng) for protocol in bench.protocols]


def _floor(
    copies: _Copies, bench: Bench, protocol: TimingProtocol, folder: Path, *, rng: np.random.Generator
) -> NoiseEstimate:
    found = [
        run_sequential_test(
            _load(copies, folder, "one"), _load(copies, folder, "other"), bench, protocol, rng=rng
        ).comparison
        for _ in range(PAIRS[protocol.pace])
    ]
    return NoiseEstimate(
        str(copies.workload),
        protocol.name,
        len(found),
        relative=floor_of([each.ratio for each in found]),
        called=sum(each.answer != "unclear" for each in found),
    )


def _load(copies: _Copies, folder: Path, name: str) -> KernelContender:
    """A copy from a file of its own: for a path that it knows, CuPy would return the loaded module."""
    path = folder / f"{sum(1 for _ in folder.iterdir())}.cubin"
    shutil.copyfile(copies.cubin_path, path)
    return KernelContender(name, LoadedKernel(str(path), copies.launches))


def floor_of(ratios: list[float]) -> float:
    """Three standard deviations of the ratios' logarithms, about the 1 that all of them should be."""
    return float(_SIGMAS * np.sqrt(np.mean(np.log(ratios) ** 2)))


def floor() -> float:
    """What comparisons take for noise on this machine: what was measured here, and never less than 0.3 %."""
    return max([MINIMAL_EFFECT, *(float(each["relative"]) for each in load_noise_floor().get("floors", []))])


def load_noise_floor() -> dict[str, Any]:
    """What is kept for the GPU and driver of this machine; empty where nothing was measured."""
    try:
        return dict(_read_cache().get(_machine(launcher.present_gpu()), {}))
    except DeviceError:
        return {}


def keep(floors: list[NoiseEstimate], gpu: PresentGpu) -> None:
    """Write the floors down for this GPU and driver, in the cache folder; not in a dry run."""
    if is_dry_run():
        return
    kept = _read_cache()
    rows = [
        {"problem": f.problem, "protocol": f.protocol, "pairs": f.pairs, "relative": f.relative}
        for f in floors
    ]
    kept[_machine(gpu)] = {"date": date.today().isoformat(), "floors": rows}
    with writing_to_cache():
        _path().parent.mkdir(parents=True, exist_ok=True)
        _path().write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _read_cache() -> dict[str, Any]:
    try:
        return dict(json.loads(_path().read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _path() -> Path:
    return cache_dir() / "noise.json"


def _machine(gpu: PresentGpu) -> str:
    return f"{gpu.device_name}, CUDA {gpu.driver}"


def describe() -> str:
    """The kept floor in one line; empty where nothing was measured."""
    found = load_noise_floor()
    rows = [f"{row['protocol']} {row['relative']:.2%}" for row in found.get("floors", [])]
    return f"{', '.join(rows)} ({found['date']}); {floor():.1%} counts as equal" if rows else ""
