"""What each GPU allows and how fast it is, read from specs/<name>.toml. Asks no driver."""

import difflib
import hashlib
import math
import re
import tomllib
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError, did_you_mean
from evoflash.extensions import with_extensions
from evoflash.paths import GPUS

_ARCH = re.compile(r"sm_[1-9]\d{1,2}[af]?")


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One GPU. Rates are per clock and SM unless the name says otherwise; sources are in its TOML file."""

    name: str
    arch: str  # what the kernels are compiled for: "sm_89", "sm_90a"
    device_names: tuple[str, ...]  # as the driver reports it
    sm_count: int
    clock_mhz: int  # boost
    smem_per_block: int  # bytes, after opt-in
    smem_per_sm: int
    regs_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    l2_bytes: int
    dram_gbps: float
    l2_bytes_per_clk: int  # whole GPU
    smem_bytes_per_clk: int
    tensor_flops_per_clk: int  # fp16/bf16 dense, fp32 accumulate: the best instruction of the GPU
    mma_flops_per_clk: int  # the same through mma.sync
    ex2_per_clk: int
    fp32_per_clk: int
    memory_gb: int = 0  # as data sheets state it; 0: not known, and nothing is refused for its size

    @property
    def compute_capability(self) -> int:
        """89 for sm_89, 90 for sm_90a."""
        return int(self.arch.removeprefix("sm_").rstrip("af"))

    @property
    def memory_bytes(self) -> int:
        """At least what the GPU has: data sheets count some in powers of ten, some in powers of two."""
        return self.memory_gb << 30

    @property
    def hash(self) -> str:
        """Twelve hex digits over every field that times depend on: results keep the spec that they were made
        with.
        """
        text = repr([(f.name, getattr(self, f.name)) for f in fields(self) if f.name != "memory_gb"])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def floor_us(self, flops: int, bytes_moved: int) -> float:
        """The physics floor: no kernel that does this work is faster than this many microseconds."""
        compute = flops / (self.sm_count * self.tensor_flops_per_clk * self.clock_mhz)
        return max(compute, bytes_moved / (self.dram_gbps * 1e3) if bytes_moved > self.l2_bytes else 0.0)


def known_gpus() -> tuple[str, ...]:
    """Names of all GPUs, the user's own included, in alphabetical order."""
    return tuple(sorted(_files()))


def _files() -> dict[str, Path]:
    return with_extensions("gpus", {path.stem: path for path in GPUS.glob("*.toml")})


@cache
def load_gpu(name: str) -> GpuSpec:
    """The spec of a known GPU, by its name here or by the driver's, as `NVIDIA H200`.

    UsageError lists the known ones, or says what the file lacks.
    """
    files = _files()
    if name.lower() in files:
        return read_gpu(files[name.lower()])
    for spec in map(read_gpu, files.values()):
        if name.lower() in map(str.lower, spec.device_names):
            return spec
    hint = did_you_mean(name, files)
    word = re.sub(r"\W+", "_", name.lower()).strip("_") or "mine"
    raise UsageError(
        f"no GPU is called '{name}'.{hint} Known: {', '.join(sorted(files))}. "
        f"`evoflash new gpu {word}` writes the file of a new one."
    )


def read_gpu(path: Path) -> GpuSpec:
    """The spec in a file. UsageError names the file, and the figure that is missing, wrong or unknown."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}; correct that line.") from None
    table.pop("sources", None)
    wanted = {field.name: field for field in fields(GpuSpec) if field.name != "name"}
    required = [name for name, field in wanted.items() if field.default is MISSING]
    if missing := [name for name in required if name not in table]:
        raise UsageError(f"{path} lacks {', '.join(missing)}: add it, as in the shipped {GPUS / 'l4.toml'}.")
    for name, figure in table.items():
        if name not in wanted:
            near = difflib.get_close_matches(name, wanted, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(wanted)}, sources."
            raise UsageError(f"{path}: no figure is called '{name}': {hint}")
        if says := _wrong(wanted[name], figure):
            raise UsageError(f"{path}: {name} = {figure!r}: write {says}.")
    table["device_names"] = tuple(table["device_names"])
    return GpuSpec(name=path.stem, **table)


def _wrong(field: Field[Any], figure: object) -> str:
    """What should be written in the place of a figure; empty where it is right."""
    if field.name == "device_names":
        good = isinstance(figure, list) and figure and all(isinstance(x, str) and x for x in figure)
        return "" if good else 'a list of names in quotes, as the driver reports them: ["NVIDIA L4"]'
    if field.name == "arch":
        is_arch = isinstance(figure, str) and _ARCH.fullmatch(figure)
        return "" if is_arch else '"sm_" and the compute capability without its point, as in "sm_89"'
    is_whole = isinstance(figure, int) and not isinstance(figure, bool)
    if field.type is float:
        is_number = is_whole or isinstance(figure, float)
        return "" if is_number and 0 < figure < math.inf else "a number above 0"  # type: ignore[operator]
    return "" if is_whole and 0 < figure < 2**63 else "a whole number above 0"  # type: ignore[operator]


def canonical_gpu(name: str | None) -> str | None:
    """The database's key of a known GPU; None, which asks for any GPU, stays None. UsageError as load_gpu."""
    return None if name is None else load_gpu(name).name
