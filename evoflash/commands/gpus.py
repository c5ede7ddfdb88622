"""The command `evoflash gpus`: the GPUs that evoflash knows, the one present marked. Measures nothing."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from evoflash.commands.options import Json

if TYPE_CHECKING:
    from evoflash.gpu import GpuSpec


def gpus(as_json: Json = False) -> None:
    """The GPUs that evoflash knows, and which of them is present.

    Example: evoflash gpus
    """
    from evoflash.gpu import known_gpus, load_gpu

    specs, here = [load_gpu(name) for name in known_gpus()], _present()
    if as_json:
        rows = [{**asdict(spec), "present": spec.name == here} for spec in specs]
        typer.echo(json.dumps(rows, indent=2))
    else:
        typer.echo(_table(specs, here))


def _present() -> str | None:
    """The name of this machine's GPU, where it has one that is known."""
    from evoflash.cuda.launcher import present_gpu, spec_of
    from evoflash.errors import EvoflashError

    try:
        return spec_of(present_gpu()).name
    except EvoflashError:
        return None


def _table(specs: "Sequence[GpuSpec]", here: str | None) -> str:
    lines = ["  name      arch     SMs   MHz smem/block  L2 MB   GB/s  tensor TFLOPS"]
    for spec in specs:
        peak = spec.sm_count * spec.tensor_flops_per_clk * spec.clock_mhz / 1e6
        lines.append(
            f"{'* ' if spec.name == here else '  '}{spec.name:9} {spec.arch:7} {spec.sm_count:4} "
            f"{spec.clock_mhz:5} {spec.smem_per_block:10} {spec.l2_bytes / 2**20:6.0f} "
            f"{spec.dram_gbps:6.0f}  {peak:.0f}"
        )
    lines.append(
        "* present" if here else "none of them is present: searches run in the emulator, times are estimates."
    )
    return "\n".join(lines)
