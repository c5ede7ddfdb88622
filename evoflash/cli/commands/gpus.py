"""`evoflash gpus` lists the GPUs that evoflash knows and marks the one present. It measures nothing."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from evoflash.cli.options import Json
from evoflash.views.terminal import stdout_console

if TYPE_CHECKING:
    from evoflash.specs import GpuSpec


def gpus(as_json: Json = False) -> None:
    """The GPUs that evoflash knows, the one present marked.

    Example: evoflash gpus
    """
    from evoflash.specs import known_gpus, load_gpu

    specs, here = [load_gpu(name) for name in known_gpus()], _present()
    if as_json:
        rows = [{**asdict(spec), "present": spec.name == here} for spec in specs]
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print(specs, here)


def _present() -> str | None:
    """The name of this machine's GPU, where it has one that is known."""
    from evoflash.errors import EvoflashError
    from evoflash.gpu.launcher import present_gpu, spec_of

    try:
        return spec_of(present_gpu()).name
    except EvoflashError:
        return None


def _print(specs: "Sequence[GpuSpec]", here: str | None) -> None:
    from evoflash.views.tables import Column, print_table

    def figures(name: str, figure: "Callable[[GpuSpec], str]", rank: int) -> Column:
        return Column(name, tuple(map(figure, specs)), rank)

    columns = [
        Column("", tuple("*" if spec.name == here else "" for spec in specs), is_number=False),
        Column("name", tuple(spec.name for spec in specs), is_number=False),
        Column("arch", tuple(spec.arch for spec in specs), is_number=False),
        figures("SMs", lambda spec: str(spec.sm_count), 1),
        figures("MHz", lambda spec: str(spec.clock_mhz), 5),
        figures("smem/block", lambda spec: str(spec.smem_per_block), 4),
        figures("L2 MB", lambda spec: f"{spec.l2_bytes / 2**20:.0f}", 6),
        figures("GB/s", lambda spec: f"{spec.dram_gbps:.0f}", 3),
        figures("tensor TFLOPS", lambda spec: f"{_tensor_tflops(spec):.0f}", 2),
    ]
    print_table(columns if here else columns[1:], stdout_console())
    none = "none of them is present: searches run in the emulator, times are estimates."
    typer.echo("* present" if here else none)


def _tensor_tflops(spec: "GpuSpec") -> float:
    return spec.sm_count * spec.tensor_flops_per_clk * spec.clock_mhz / 1e6
