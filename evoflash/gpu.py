"""GpuSpec: what a GPU allows and how fast it is, read from gpus/<name>.toml; asks no driver."""

import hashlib
import tomllib
from dataclasses import dataclass, fields
from functools import cache

from evoflash.errors import UsageError, did_you_mean
from evoflash.paths import GPUS


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

    @property
    def compute_capability(self) -> int:
        """89 for sm_89, 90 for sm_90a."""
        return int(self.arch.removeprefix("sm_").rstrip("af"))

    @property
    def hash(self) -> str:
        """Twelve hex digits over every field: results keep the spec that they were made with."""
        text = repr([(f.name, getattr(self, f.name)) for f in fields(self)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def floor_us(self, flops: int, bytes_moved: int) -> float:
        """The physics floor: no kernel that does this work is faster than this many microseconds."""
        compute = flops / (self.sm_count * self.tensor_flops_per_clk * self.clock_mhz)
        return max(compute, bytes_moved / (self.dram_gbps * 1e3) if bytes_moved > self.l2_bytes else 0.0)


def known_gpus() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in GPUS.glob("*.toml")))


@cache
def load_gpu(name: str) -> GpuSpec:
    """The spec of a known GPU; UsageError lists the known ones and the nearest."""
    known = known_gpus()
    if name.lower() not in known:
        raise UsageError(
            f"no GPU is called '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}. "
            f"Add evoflash/gpus/{name}.toml to teach it a new one."
        )
    table = tomllib.loads((GPUS / f"{name.lower()}.toml").read_text())
    table.pop("sources", None)
    table["device_names"] = tuple(table["device_names"])
    return GpuSpec(name=name.lower(), **table)


def known_name(name: str | None) -> str | None:
    """The database's key of a known GPU; None, which asks for any GPU, stays None. UsageError as load_gpu."""
    return None if name is None else load_gpu(name).name
